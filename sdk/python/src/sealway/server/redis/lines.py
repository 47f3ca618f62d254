"""Connections to Redis, each of which knows what it was joined to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from redis.asyncio.connection import Connection, ConnectionPool
from redis.exceptions import RedisError, ResponseError

from ...session.epoch import Epoch

LINES_MAX: Final = 64
#: What a connection fails with.
FAILURES: Final = (RedisError, OSError)


class Line:
    """One connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        #: The epoch that was found in force, and when, as a monotonic time.
        self.epoch: Epoch | None = None
        self.joined_sec = 0.0
        #: Whether nothing more is asked on it.
        self.is_broken = False

    async def ask(self, *commands: tuple[Any, ...]) -> list[Any]:
        """The replies, in order; an error that Redis tells is one of them.

        Raises:
            RedisError, OSError: the connection is gone.
        """
        connection = self._connection
        replies: list[Any] = []
        # Not in order until all replies are here: a later question would be answered with what is left of these.
        is_broken, self.is_broken = self.is_broken, True
        await connection.send_packed_command(connection.pack_commands(commands))
        for _ in commands:
            try:
                replies.append(await connection.read_response(disable_decoding=True))
            except ResponseError as error:
                replies.append(error)
        self.is_broken = is_broken
        return replies

    async def open(self) -> None:
        """Connects."""
        await self._connection.connect()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Ends it, without waiting for the other side."""
        with anyio.CancelScope(shield=True), suppress(*FAILURES):
            await self._connection.disconnect(nowait=True)


class Lines:
    """Connections that wait for use, and how many there may be."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._free: list[Line] = []
        self._room = asyncio.Semaphore(LINES_MAX)
        self._is_closed = False

    @asynccontextmanager
    async def line(self, is_new: bool) -> AsyncIterator[Line]:
        """A connection for oneself: one that waits, unless it has to be a new one.

        Raises:
            RedisError, OSError
        """
        async with self._room:
            line = self._free.pop() if self._free and not is_new else await self._open()
            try:
                yield line
            finally:
                # What a cancelled question is answered with would be taken for the next one's answer.
                if line.is_broken or self._is_closed:
                    await line.close()
                else:
                    self._free.append(line)

    async def _open(self) -> Line:
        if self._is_closed:
            raise ConnectionError("the store was closed")
        line = Line(self._pool.make_connection())  # type: ignore[no-untyped-call]
        try:
            await line.open()
        except BaseException:
            await line.close()
            raise
        return line

    async def aclose(self) -> None:
        """Closes those that wait; those in use are closed by their users, and none is opened any more."""
        self._is_closed = True
        while self._free:
            await self._free.pop().close()
