"""The body of a sealed request as its application reads it: pieces are opened as they come."""

from __future__ import annotations

from ..errors import SealwayError
from ..exchange.stream import Stream
from .body import Body, Disconnect, Message, in_time


class Reader:
    """A sealed body that is being read."""

    def __init__(self, body: Body, stream: Stream) -> None:
        self._body, self.stream = body, stream
        #: Plaintext that the application has not read yet.
        self._ready: list[bytes] = []
        self._is_given = False
        #: Why the stream broke off, if it did.
        self.fault: SealwayError | None = None

    async def first(self) -> bytes:
        """The first piece; raises as `Body.next` and `Stream` do. A peer that drips has no more time than a silent one."""
        pieces: list[bytes] = []
        async with in_time():
            while not pieces:
                pieces = await self._next()
        first, *self._ready = pieces
        return first

    def begin(self, first: bytes) -> None:
        """Gives the application what the first piece held."""
        self._ready.insert(0, first)
        self._body.holding.keep(self.stream.waiting)

    def length(self) -> int | None:
        """The length of the plaintext, if it is all there."""
        return sum(map(len, self._ready)) if self.stream.is_done else None

    async def receive(self) -> Message:
        """Gives the application the next part of the plaintext."""
        if self.fault is not None:
            return {"type": "http.disconnect"}
        if self._is_given:
            return await self._body.gone()
        try:
            while not (self.stream.is_done or any(self._ready)):
                pieces = await self._next()
                if pieces:
                    self._body.holding.keep(self.stream.waiting)
                self._ready += pieces
        except Disconnect:
            self._is_given = True
            return {"type": "http.disconnect"}
        except SealwayError as error:
            self.fault = error
            return {"type": "http.disconnect"}
        data, self._ready = b"".join(self._ready), []
        self._is_given = self.stream.is_done
        return {"type": "http.request", "body": data, "more_body": not self._is_given}

    async def _next(self) -> list[bytes]:
        pieces = self.stream.read(await self._body.next())
        return pieces + self.stream.end() if self._body.is_done else pieces
