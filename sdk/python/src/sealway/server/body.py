"""Reading request bodies within bounds of length and time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from ..errors import Refused
from ..wire.header import Headers
from .room import Holding

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Seconds for a body that is read whole, and for each piece of one that streams.
BODY_SEC: Final = 30.0
_DISCARD_MAX, _DISCARD_SEC = 1_048_576, 2.0


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """Bounds how long a peer may take to send something.

    Raises:
        Refused: `stream_truncated`.
    """
    try:
        with anyio.fail_after(BODY_SEC):
            yield
    except TimeoutError:
        raise Refused("stream_truncated") from None


class Disconnected(Exception):
    """The peer is gone: nobody hears an answer."""


class Body:
    """The bytes of a request, piece by piece."""

    def __init__(self, receive: Receive, headers: Headers, most: int, holding: Holding | None = None) -> None:
        self._receive = receive
        self._left = most
        self._holding = holding
        length = headers.first("Content-Length")
        self._declared = int(length) if length is not None and length.isdecimal() and len(length) < 16 else 0
        #: Whether all of it was read.
        self.is_done = False

    def check_declared(self) -> None:
        """Refuses before a byte is read what says that it is over the bound.

        Raises:
            Refused: `body_too_large`.
        """
        if self._declared > self._left:
            raise Refused("body_too_large")

    async def next(self) -> bytes:
        """The next piece; empty at the end, and where a piece is.

        Raises:
            Refused: `body_too_large`, `stream_truncated` for one that does not come in time.
            NoRoom
            Disconnected
        """
        if self.is_done:
            return b""
        async with in_time():
            message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_done = True
            raise Disconnected
        self.is_done = not message.get("more_body", False)
        data = bytes(message.get("body", b""))
        self._left -= len(data)
        if self._left < 0:
            raise Refused("body_too_large")
        if self._holding is not None:
            self._holding.grow(len(data))
        return data

    async def whole(self) -> bytes:
        """All that is left.

        Raises:
            Refused: as `next`.
            NoRoom
            Disconnected
        """
        # No list of pieces: one of single bytes would take many times their length.
        whole = bytearray()
        async with in_time():
            while not self.is_done:
                whole += await self.next()
        return bytes(whole)

    async def discard(self) -> None:
        """Lets a peer that is still sending come to read its answer; not for long."""
        self._left = _DISCARD_MAX
        if self._holding is not None:
            self._holding.release()
        with anyio.move_on_after(_DISCARD_SEC):
            try:
                while not self.is_done:
                    await self.next()
            except (Refused, Disconnected):
                return

    def opened(self, left: int) -> None:
        """Says that all has opened of what came, but so many bytes."""
        if self._holding is not None:
            self._holding.keep(left)


async def send_whole(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """A whole answer."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
