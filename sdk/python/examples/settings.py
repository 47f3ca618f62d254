"""The environment of the example clients."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import sealway

LANGUAGE = "python"
PATH = "/transaction/purchase"
PURCHASE = {"schemeCode": "AEF", "amount": 5000}


def refuse(message: str) -> NoReturn:
    """Ends with exit code 2: an argument or a variable is wrong."""
    print(message, file=sys.stderr)
    sys.exit(2)


def variable(name: str, default: str) -> str:
    """A variable of the environment; an empty one is as if unset."""
    return os.environ.get(name) or default


def whole(name: str, default: int, least: int, most: int) -> int:
    """A number of the environment."""
    text = variable(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not least <= int(text) <= most:
        refuse(f"{name} is a number from {least} to {most}")
    return int(text)


class Settings:
    """`SESSION_URL`, `SERVER_URL`, `SEALWAY_PINS`, `SEALWAY_WIRE`, `SEALWAY_CLIENT_ID`."""

    def __init__(self) -> None:
        self.authority_url = variable("SESSION_URL", "http://localhost:3000").rstrip("/")
        self.url = variable("SERVER_URL", self.authority_url).rstrip("/")
        wire = whole("SEALWAY_WIRE", 3, 1, 3)
        pins = variable("SEALWAY_PINS", "")
        trust: sealway.Trust | None = None
        if wire == 3 and pins:
            try:
                trust = sealway.Pins(pins.split(","))
            except sealway.UsageError as error:
                refuse(f"SEALWAY_PINS: {error}")
        elif wire == 3:
            print(
                "WARNING: SEALWAY_PINS is not set: the service that answers first is trusted, and may be an impostor.",
                file=sys.stderr,
            )
            trust = sealway.FirstUse()
        client_id = variable("SEALWAY_CLIENT_ID", f"sealway-{LANGUAGE}")
        try:
            self.options = sealway.Options(
                trust=trust, wire=wire, client_id=client_id, authority_url=self.authority_url
            )
            sealway.Transport(self.url, self.options).close()
        except sealway.UsageError as error:
            refuse(f"SESSION_URL, SERVER_URL or SEALWAY_CLIENT_ID: {error}")
