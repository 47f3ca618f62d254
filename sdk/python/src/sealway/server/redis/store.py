"""Sessions and claims in Redis."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import NoneType
from typing import Any, Final, Never

import anyio
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import NoScriptError, ResponseError

from ... import check, entropy
from ...errors import StoreUnavailable, UsageError
from ...session.claim import WINDOW_MS, Admission, Claim, SessionRecord
from ...session.epoch import AHEAD_MS, WAIT_MS_MAX, Answer, Epoch, claim_arguments, epoch_of
from ...session.stored import REVOKED, decode_stored
from ...wire.identifier import is_session_id
from ..cache import BriefCache
from .kek import KeyRing
from .lines import FAILURES, Line, Lines

TIMEOUT_SEC: Final = 0.5
_JOINED_SEC = 1.0
_QUERY = re.compile(r"db=[0-9]{1,5}", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)


def _pool(url: str, more: dict[str, Any]) -> ConnectionPool:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("redis", "rediss", "redis+unix"):
        raise UsageError("Redis is named by redis://, rediss:// or redis+unix://; a cluster is for gateways alone")
    query = rest.partition("?")[2]
    if query and _QUERY.fullmatch(query) is None:
        # The library would take any of its options from there: that a certificate is not verified, or to ask again.
        raise UsageError("after the ? of a URL of Redis only db=number may stand")
    if scheme == "redis+unix":
        url = f"unix://{rest}"
    tls = {"ssl_cert_reqs": "required", "ssl_check_hostname": True} if scheme == "rediss" else {}
    try:
        # No CLIENT SETINFO and no HELLO: the rights of the user may not cover them.
        return ConnectionPool.from_url(url, protocol=2, driver_info=None, **tls, **more)
    except (ValueError, TypeError):
        raise UsageError("the URL of Redis is not understood") from None


class RedisStore:
    """Sessions and claims in the Redis that an authority keeps them in. Claims are of use to all that share it: what
    was served at a gateway is refused here, and the other way round. Printing shows no secret.

    It never begins an epoch: where no gateway has, or Redis lost its memory, everything is refused. For one event loop of
    asyncio.
    """

    def __init__(
        self,
        url: str,
        keys: KeyRing,
        *,
        prefix: str = "sealway",
        username: str | None = None,
        password: str | None = None,
        ca_file: Path | None = None,
        client_cert_file: Path | None = None,
        client_key_file: Path | None = None,
        window_ms: int = WINDOW_MS,
        nonce_lifetime_ms: int = 0,
        postgres_behind: bool = False,
        accept_unauthenticated_rows_until: datetime | None = None,
        timeout_sec: float = TIMEOUT_SEC,
        **unknown: Never,
    ) -> None:
        """Uses the Redis at `url`: `redis://`, `rediss://` (the certificate is verified), `redis+unix://`.

        Args:
            keys: the authority's key-encryption keys.
            prefix: `sessions.redis.prefix` of the authority.
            ca_file, client_cert_file, client_key_file: PEM, for `rediss://`.
            window_ms, nonce_lifetime_ms: `replay.window_ms` and `replay.nonce_ttl_ms` of the authority; a lifetime below
                twice the window is raised to it.
            postgres_behind: the authority's store is PostgreSQL and Redis, so that a new epoch knows of what was lost.
            accept_unauthenticated_rows_until: until when sessions of wires 1 and 2 are served whose rows a gateway of an
                earlier release wrote: with write access to Redis their clients can be changed. None serves none.
            timeout_sec: seconds for a question to Redis, connecting included.

        Raises:
            UsageError: for a URL or a prefix of another form, and for certificates without TLS.
        """
        check.unknown("RedisStore", unknown, {"deadline_sec": "timeout_sec"})
        check.text("url", url, "redis://, rediss:// or redis+unix://")
        check.wants(isinstance(keys, KeyRing), "keys", keys, "a KeyRing")
        if not isinstance(prefix, str) or _PREFIX.fullmatch(prefix) is None:
            raise UsageError("prefix: give 1 to 64 letters, digits, - _ . or :")
        for name, file in (
            ("ca_file", ca_file),
            ("client_cert_file", client_cert_file),
            ("client_key_file", client_key_file),
        ):
            check.file(name, file)
        check.text("username", username, "a name, or None", is_optional=True)
        check.text("password", password, "a password, or None", is_optional=True)
        check.number("window_ms", window_ms, 1, "milliseconds", is_whole=True)
        check.number("nonce_lifetime_ms", nonce_lifetime_ms, 0, "milliseconds", is_whole=True)
        check.number("timeout_sec", timeout_sec, 0.001, "seconds above 0")
        is_until = isinstance(accept_unauthenticated_rows_until, (datetime, NoneType))
        what = "a datetime, or None"
        check.wants(is_until, "accept_unauthenticated_rows_until", accept_unauthenticated_rows_until, what)
        files = {"ssl_ca_certs": ca_file, "ssl_certfile": client_cert_file, "ssl_keyfile": client_key_file}
        given = {name: str(file) for name, file in files.items() if file is not None}
        if given and not url.startswith("rediss://"):
            raise UsageError("certificates are for rediss://")
        if username is not None:
            given["username"] = username
        if password is not None:
            given["password"] = password
        self._lines = Lines(_pool(url, given))
        self._keys = keys
        self._prefix: Final = prefix
        self._window_ms, self._lifetime_ms = window_ms, max(nonce_lifetime_ms, 2 * window_ms)
        self._postgres_behind = postgres_behind
        until = accept_unauthenticated_rows_until
        self._accept_until_ms = 0 if until is None else int(until.timestamp() * 1000)
        self._timeout_sec = timeout_sec
        self._cache = BriefCache()
        #: Of the epoch that was joined last.
        self._generation: str | None = None
        #: Stamps up to this one may have been claimed in a memory that is lost.
        self._lost_ms = -1

    async def session(self, id: str) -> SessionRecord | None:
        """Returns the session with this id, as of less than a second ago."""
        if not is_session_id(id):
            return None
        known = self._cache.get(id)
        if known is not None:
            return known
        asked_sec = time.monotonic()
        value = await self._get(f"{self._prefix}:s:{id}")
        if value is None:
            return None
        try:
            row = decode_stored(id, value, self._keys.find, self._accept_until_ms)
        except ValueError as error:
            raise StoreUnavailable(f"Redis: a session cannot be read: {error}") from None
        if row is None:
            return None
        # A chain of renewals ends as a whole: its first session says so, also when that is over itself.
        if row.lineage is not None and await self._get(f"{self._prefix}:s:{row.lineage}") == REVOKED:
            return None
        self._cache.put(row.record, asked_sec)
        return row.record

    async def _get(self, key: str) -> bytes | None:
        async with self._in_time():
            for is_new in (False, True):
                try:
                    async with self._lines.line(is_new) as line:
                        [value] = await line.ask(("GET", key))
                        if value is None or isinstance(value, bytes):
                            return value
                        raise StoreUnavailable("Redis: a session cannot be read")
                except FAILURES:
                    # One that waited for use may have been closed meanwhile.
                    if is_new:
                        raise
        raise StoreUnavailable("Redis: it cannot be asked")

    async def admit(self, claim: Claim) -> Admission:
        """Makes a claim, once. When its answer is lost it may have been made, so it is refused."""
        arguments = claim_arguments(claim, entropy.nonce_random()[:8], self._lifetime_ms)
        nonce = f"{{{self._prefix}:0}}:n:".encode("ascii") + claim.key
        epoch, answer = await self._run(nonce, arguments, claim.stamp_ms, None)
        wait_ms = answer.wait_ms(claim)
        left_ms = WAIT_MS_MAX
        while wait_ms > 0:
            # The clock of Redis may be set back meanwhile.
            if wait_ms > left_ms:
                raise StoreUnavailable("Redis: the stamp is too far ahead of its clock")
            left_ms -= wait_ms
            await anyio.sleep(wait_ms / 1000)
            _, again = await self._run(self._key("epoch"), (b"", 0, 0, 0), claim.stamp_ms, epoch)
            if again.state != "OK":
                raise StoreUnavailable("Redis: the epoch is not in force any more")
            wait_ms = claim.stamp_ms - AHEAD_MS - again.time_ms
        return Admission(claim)

    def _key(self, name: str) -> bytes:
        return f"{{{self._prefix}:0}}:{name}".encode("ascii")

    async def _run(
        self, third: bytes, arguments: tuple[bytes, int, int, int], stamp_ms: int, wanted: Epoch | None
    ) -> tuple[Epoch, Answer]:
        """Runs the script of the epoch that is in force; of `wanted` alone, if there is one."""
        async with self._in_time(), self._joined() as (line, epoch):
            if wanted is not None and epoch.generation != wanted.generation:
                raise StoreUnavailable("Redis: another epoch is in force")
            if stamp_ms <= self._lost_ms:
                raise StoreUnavailable("Redis: it may have forgotten claims of that time")
            keys = (self._key("epoch"), self._key("canary"), third)
            [reply] = await line.ask(("EVALSHA", epoch.script_sha1(), 3, *keys, *arguments))
            if isinstance(reply, NoScriptError):
                line.epoch = None
                raise StoreUnavailable("Redis: it lost its memory")
            if isinstance(reply, ResponseError):
                raise StoreUnavailable("Redis: it refused the script")
            answer = Answer.of(reply)
            if answer.is_lost():
                line.epoch = None
                raise StoreUnavailable("Redis: its memory is another one")
            return epoch, answer

    @asynccontextmanager
    async def _joined(self) -> AsyncIterator[tuple[Line, Epoch]]:
        for is_new in (False, True):
            async with self._lines.line(is_new) as line:
                try:
                    epoch = await self._join(line)
                except FAILURES:
                    line.is_broken = True
                    if is_new:
                        raise
                    continue
                yield line, epoch
                return

    async def _join(self, line: Line) -> Epoch:
        now = time.monotonic()
        if line.epoch is not None and now - line.joined_sec < _JOINED_SEC:
            return line.epoch
        line.epoch = None
        replies = await line.ask(
            ("HMGET", self._key("epoch"), "gen", "floor", "made", "node"), ("INFO", "server", "replication")
        )
        if any(isinstance(reply, Exception) for reply in replies):
            raise StoreUnavailable("Redis: the epoch cannot be read")
        epoch = epoch_of(*replies)
        if self._generation not in (None, epoch.generation) and not self._postgres_behind:
            # The gateway that began it may not have known of the loss, nor of the claims before.
            self._lost_ms = max(self._lost_ms, epoch.made_ms + self._window_ms)
        self._generation = epoch.generation
        line.epoch, line.joined_sec = epoch, now
        return epoch

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            with anyio.fail_after(self._timeout_sec):
                yield
        except (*FAILURES, TimeoutError) as error:
            raise StoreUnavailable(f"Redis: it cannot be asked: {type(error).__name__}") from None

    async def aclose(self) -> None:
        """Closes connections and forgets sessions."""
        self._cache.clear()
        await self._lines.aclose()

    def __repr__(self) -> str:
        return f"RedisStore(prefix={self._prefix!r}, redacted)"
