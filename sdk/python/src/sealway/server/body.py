"""Reading request bodies within bounds of length, time and memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from ..errors import ProtocolError, SealwayError
from ..exchange.refusal import Refusal
from ..wire.header import Headers
from .room import Holding

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Seconds for the first piece of a body as a whole, and for each chunk behind it.
BODY_SEC: Final = 30.0
_DISCARD_MAX, _DISCARD_SEC = 1_048_576, 2.0


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """Bounds how long a peer may take to send something.

    Raises:
        Refusal: `body_too_slow`.
    """
    try:
        with anyio.fail_after(BODY_SEC):
            yield
    except TimeoutError:
        raise Refusal("body_too_slow") from None


class Disconnect(Exception):
    """The peer is gone: nobody hears an answer."""


class Body:
    """The bytes of a request as they come. None may be read before `limit`."""

    def __init__(self, receive: Receive, headers: Headers, holding: Holding) -> None:
        self._receive, self.holding = receive, holding
        self._left = 0
        length = headers.first("Content-Length")
        self._declared = int(length) if length is not None and length.isdecimal() and len(length) < 16 else 0
        #: Whether all of it was read.
        self.is_done = False

    def limit(self, most: int) -> None:
        """Bounds the body, before a byte of it is read.

        Raises:
            ProtocolError: `body_too_large` for one that says that it is longer.
        """
        self._left = most
        if self._declared > most:
            raise ProtocolError("body_too_large")

    async def next(self) -> bytes:
        """The next chunk; empty at the end, and where a chunk is.

        Raises:
            ProtocolError: `body_too_large`.
            Refusal: `body_too_slow`, `body_no_room`.
            Disconnected
        """
        if self.is_done:
            return b""
        async with in_time():
            message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_done = True
            raise Disconnect
        self.is_done = not message.get("more_body", False)
        data = bytes(message.get("body", b""))
        self._left -= len(data)
        if self._left < 0:
            raise ProtocolError("body_too_large")
        self.holding.grow(len(data))
        return data

    async def discard(self) -> None:
        """Lets a peer that is still sending come to read its answer; not for long."""
        self._left = _DISCARD_MAX
        self.holding.close()
        with anyio.move_on_after(_DISCARD_SEC):
            try:
                while not self.is_done:
                    await self.next()
            except (SealwayError, Disconnect):
                return

    async def gone(self) -> Message:
        """Waits until the peer goes away."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return message
