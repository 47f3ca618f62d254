#!/usr/bin/env python3
"""The demo purchase service behind a seal.

PORT (3100; 0 takes a free one), AUTHORITY_URL (http://localhost:3000), AUTHORITY_SECRET_FILE. Needs uvicorn.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import uvicorn

import sealway
from sealway.asgi import Route, SealedApp
from sealway.server import AuthorityStore
from sealway.server.body import Receive, Scope, Send


def purchase(data: bytes) -> dict[str, Any] | None:
    """Returns the answer to a purchase; None for a malformed one."""
    try:
        asked = json.loads(data)
        scheme, amount = asked["schemeCode"], asked["amount"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(scheme, str) or isinstance(amount, bool) or not isinstance(amount, int | float):
        return None
    if isinstance(amount, float) and not math.isfinite(amount):
        return None
    now = datetime.datetime.now(datetime.UTC)
    return {
        "status": "SUCCESS",
        "transactionId": f"TXN-{secrets.token_hex(8).upper()}",
        "schemeCode": scheme,
        "amount": amount,
        "timestamp": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z",
        "message": f"Purchase of {json.dumps(amount)} in scheme {scheme} completed successfully",
    }


async def service(scope: Scope, receive: Receive, send: Send) -> None:
    """An ordinary ASGI application, which knows nothing of sealing."""
    if scope["type"] != "http":
        return
    status, answer = 404, {"error": "NOT_FOUND"}
    if (scope["method"], scope["path"]) == ("GET", "/health"):
        status, answer = 200, {"status": "ok"}
    elif (scope["method"], scope["path"]) == ("POST", "/transaction/purchase"):
        data, is_more = b"", True
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            data, is_more = data + message.get("body", b""), message.get("more_body", False)
        made = purchase(data)
        status, answer = (200, made) if made else (400, {"error": "INVALID_REQUEST"})
    body = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)


def main() -> None:
    port = os.environ.get("PORT") or "3100"
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65_535:
        refuse("PORT is a number from 0 to 65535")
    secret_file = os.environ.get("AUTHORITY_SECRET_FILE")
    if not secret_file:
        refuse("AUTHORITY_SECRET_FILE names the file with the authority's secret, and is not set")
    try:
        secret = Path(secret_file).read_text("ascii")
    except (OSError, ValueError) as error:
        refuse(f"AUTHORITY_SECRET_FILE cannot be read: {type(error).__name__}")
    try:
        store = AuthorityStore(os.environ.get("AUTHORITY_URL") or "http://localhost:3000", secret)
    except sealway.UsageError as error:
        refuse(f"AUTHORITY_URL or AUTHORITY_SECRET_FILE: {error}")
    app = SealedApp(service, store=store, routes=[Route("/health", "off"), Route("/transaction/", "required")])
    # Said to be TCP, or asyncio leaves Nagle's algorithm on: each answer on a kept connection would wait 40 ms for its
    # peer's delayed acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", int(port)))
    except OSError as error:
        refuse(f"PORT {port} cannot be taken: {error.strerror}")
    listener.listen(128)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=10)
    # The socket listens already: a request that comes before uvicorn does waits in its queue.
    print(f"listening http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
