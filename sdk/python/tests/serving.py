"""An ASGI application behind real sockets, with sessions of a store in memory that tests agree themselves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as StarletteRoute

from sealway import entropy
from sealway.asgi import Route, SealedApp
from sealway.crypto.curve import KeyPair
from sealway.crypto.suite import Suite
from sealway.server import MemoryStore
from sealway.session.claim import Admission
from sealway.session.compat.call import ClientSession
from sealway.session.compat.init import PATHS, Family, parse_init
from sealway.session.compat.init import ClientInit as CompatInit
from sealway.session.identity import key_id
from sealway.session.native import server
from sealway.session.native.client import ClientInit, Session
from sealway.wire.header import Headers

IDENTITY = KeyPair(bytes(31) + b"\7")


@contextmanager
def served(app: Any, store: Any = None) -> Iterator[str]:
    """The application under uvicorn, on a free port. A store is closed where it was used, in the server's loop."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))

    async def closing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if store is not None:
            await store.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    config = uvicorn.Config(closing, log_level="critical", lifespan="on", timeout_graceful_shutdown=2)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not running.started:
        assert time.monotonic() < until, "uvicorn did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(10)
        listener.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def agree_native(store: MemoryStore, *, ttl_sec: int = 600, who: server.Caller | None = None) -> Session:
    """A session of wire 3, as an authority would have put it into the store."""
    init = ClientInit(entropy.private_keys(Suite.P256), ("P256",), "tests")
    identity = server.Identity(IDENTITY, 0, 2**53)
    body, record = server.accept(
        init.request, b"", [Suite.P256], [identity], entropy.server_draws(), now_ms(), ttl_sec, who or server.Caller()
    )
    store.put(record)
    unverified = init.unverified(201, body)
    assert unverified.answer.key_id == key_id(IDENTITY.public)
    return init.finish(unverified, IDENTITY.public)


def agree_compat(store: MemoryStore, wire: int, *, is_anonymous: bool = False) -> ClientSession:
    """A session of wire 1 or 2."""
    family = Family.ANONYMOUS if is_anonymous else Family.SESSION
    init = CompatInit(wire, PATHS[family], "tests", None, entropy.key_pair(), now_ms(), entropy.nonce())
    pending = parse_init(family, Headers(init.headers), init.body, now_ms(), 300_000)
    call = pending.release(Admission(pending.claim))
    body, record = call.accept(entropy.key_pair(), entropy.nonce_random(), now_ms())
    store.put(record)
    return init.finish(body, now_ms())


class Seen:
    """What the handlers were asked."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets all."""
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.broke_off = 0
        #: The pieces that came to `/stream`, as they came.
        self.pieces: list[bytes] = []
        #: The paths of `/wait` and `/endless` that were asked for.
        self.begun: list[str] = []
        #: How often a handler heard that its peer is gone.
        self.left = 0
        #: What the second piece of `/ticks` waits for.
        self.go = threading.Event()


class Louder:
    """An ASGI endpoint that answers each piece as it comes. Starlette's own streams read the request to its end to
    hear of a disconnect."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        is_more = True
        while is_more:
            got = await receive()
            if got["type"] == "http.disconnect":
                self.seen.left += 1
                return
            is_more = got.get("more_body", False)
            if got.get("body"):
                self.seen.pieces.append(got["body"])
            await send({"type": "http.response.body", "body": got.get("body", b"").upper(), "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})


class Waiting:
    """An ASGI endpoint that says nothing, or one thing, and waits until its peer is gone."""

    def __init__(self, seen: Seen, said: bytes) -> None:
        self.seen, self.said = seen, said

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.said:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": self.said, "more_body": True})
        self.seen.begun.append(scope["path"])
        while (await receive())["type"] != "http.disconnect":
            pass
        self.seen.left += 1


def application(seen: Seen) -> Starlette:
    """Ordinary handlers of Starlette."""

    async def echo(request: Request) -> Response:
        try:
            body = await request.body()
        except ClientDisconnect:
            seen.broke_off += 1
            return PlainTextResponse("nobody hears this", 500)
        seen.requests.append((request.method, str(request.url.query), dict(request.headers), body))
        return Response(body, media_type="application/x-echo", headers={"x-inside": "1", "set-cookie": "a=b"})

    async def status(request: Request) -> Response:
        code = int(request.path_params["code"])
        seen.requests.append((request.method, "", {}, b""))
        return Response(status_code=code) if code in (204, 304) else JSONResponse({"code": code}, code)

    async def broken(request: Request) -> Response:
        raise RuntimeError("a handler's own fault")

    async def many(request: Request) -> Response:
        return Response(b"0", headers={f"x-{n}": "1" for n in range(80)})

    async def ticks(request: Request) -> Response:
        async def parts() -> Any:
            yield b"one"
            while not seen.go.is_set():
                await anyio.sleep(0.01)
            yield b"two"

        return StreamingResponse(parts(), media_type="text/event-stream")

    async def end(request: Request) -> Response:
        return Response(status_code=204)

    async def large(request: Request) -> Response:
        return Response(bytes(2_000_000))

    methods = ["GET", "POST", "PUT", "DELETE", "HEAD"]
    return Starlette(
        routes=[
            StarletteRoute("/echo", echo, methods=methods),
            StarletteRoute("/open", echo, methods=methods),
            StarletteRoute("/transaction/purchase", echo, methods=methods),
            StarletteRoute("/either", echo, methods=methods),
            StarletteRoute("/stream", Louder(seen), methods=methods),
            StarletteRoute("/wait", Waiting(seen, b"")),
            StarletteRoute("/endless", Waiting(seen, b"tick")),
            StarletteRoute("/ticks", ticks),
            StarletteRoute("/v3/sessions/{id}", end, methods=["DELETE"]),
            StarletteRoute("/status/{code}", status, methods=methods),
            StarletteRoute("/broken", broken, methods=methods),
            StarletteRoute("/many", many, methods=methods),
            StarletteRoute("/large", large, methods=methods),
        ]
    )


def sealed_application(seen: Seen, store: Any, **more: Any) -> SealedApp:
    """The same behind a seal."""
    routes = [Route("/open", "off"), Route("/either", "optional"), Route("/echo", body_max_bytes=200_000)]
    return SealedApp(application(seen), store=store, routes=routes, anonymous_paths=["/echo"], **more)
