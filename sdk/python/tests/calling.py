"""Clients of a test, sync and async by the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio.from_thread
import httpx

import sealway
from sealway.session.identity import key_id
from serving import IDENTITY

PIN = key_id(IDENTITY.public)
CONTENT = b"amount=77"
KINDS = ["sync", "async"]


@dataclass(frozen=True)
class Send:
    """Makes calls from any thread: method, path and what `httpx` takes."""

    request: Callable[[str, str, dict[str, Any]], httpx.Response]
    end_session: Callable[[], None]

    def __call__(self, method: str = "POST", path: str = "/echo", **given: Any) -> httpx.Response:
        return self.request(method, path, given)


def options(**more: Any) -> sealway.Options:
    given: dict[str, Any] = {"trust": sealway.Pins([PIN]), "client_id": "tests", "total_timeout_sec": 5.0}
    return sealway.Options(**{**given, **more})


@contextmanager
def calling(kind: str, url: str, **more: Any) -> Iterator[tuple[Any, Send]]:
    """A transport, and what makes calls through it."""
    set_up = options(**more)
    if kind == "sync":
        transport = sealway.Transport(url, set_up)
        with httpx.Client(transport=transport) as client:
            yield transport, Send(lambda m, p, given: client.request(m, url + p, **given), transport.end_session)
        return

    async def send(method: str, path: str, given: dict[str, Any]) -> httpx.Response:
        return await async_client.request(method, url + path, **given)

    with anyio.from_thread.start_blocking_portal() as portal:
        async_transport = sealway.AsyncTransport(url, set_up)
        async_client = httpx.AsyncClient(transport=async_transport)
        try:
            yield (
                async_transport,
                Send(lambda *asked: portal.call(send, *asked), lambda: portal.call(async_transport.end_session)),
            )
        finally:
            portal.call(async_client.aclose)


def calls(
    kind: str, url: str, n: int = 1, method: str = "POST", path: str = "/echo", **more: Any
) -> list[httpx.Response]:
    """So many calls, one after the other, in one client; the first error is the caller's."""
    content = more.pop("content", CONTENT if method == "POST" else b"")
    with calling(kind, url, **more) as (_, send):
        return [send(method, path, content=content or None) for _ in range(n)]
