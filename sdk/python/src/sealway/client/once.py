"""Clients of httpx that seal each request by itself."""

from __future__ import annotations

from typing import Any

import httpx

from .async_transport import AsyncTransport
from .options import Options
from .transport import Transport
from .trust import KeyPins, Psk, Root


class OneShot(httpx.Client):
    """An `httpx.Client` for one service, whose requests are sealed to a key of the service, each by itself: `wire=4`.

        with sealway.OneShot("https://api.example", sealway.KeyPins(["AQBk…"])) as client:
            client.post("/pay", json={…})

    A service that is called more than once in a minute is better served by a session: `Transport`.
    """

    def __init__(self, url: str, trust: KeyPins | Root, *, psk: Psk | None = None, **options: Any) -> None:
        """Seals for the service at `url`; `options` are those of `Options`.

        Raises:
            UsageError: as `Transport` and `Options`.
        """
        transport = Transport(url, Options(wire=4, trust=trust, psk=psk, **options))
        super().__init__(base_url=url, transport=transport)


class AsyncOneShot(httpx.AsyncClient):
    """An `httpx.AsyncClient` for one service, as `OneShot`."""

    def __init__(self, url: str, trust: KeyPins | Root, *, psk: Psk | None = None, **options: Any) -> None:
        """Seals for the service at `url`; `options` are those of `Options`.

        Raises:
            UsageError: as `AsyncTransport` and `Options`.
        """
        transport = AsyncTransport(url, Options(wire=4, trust=trust, psk=psk, **options))
        super().__init__(base_url=url, transport=transport)
