"""One sealed request around an application, from its headers to its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote

import anyio

from ..errors import ProtocolError, SealwayError, StoreUnavailable
from ..exchange.refusal import Refusal
from ..exchange.reply import Reply
from ..exchange.request import Exchange, wire_of
from ..session.claim import SessionRecord
from ..wire.header import Headers
from ..wire.inner import InnerHeaders
from .body import App, Body, Disconnect, Receive, Scope, Send
from .headers import identity_headers, unseal_inner, unseal_outer
from .open import Reader
from .reject import OnRefusal, log, reject
from .room import Holding, Room
from .route import Route, sent_path
from .seal import Sealing
from .store import SessionStore
from .timing import Timing

#: Together with the time that a store may keep a session without asking, less than a second.
LOOK_AGAIN_SEC: Final = 0.4

Question = TypeVar("Question")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all requests share.

    Attributes:
        allow: returns True where a session's client may use a path; None allows all.
        trust_forwarded: True if the peer in front is a trusted proxy, whose headers name the origin of a request.
        room: for sealed bodies that still arrive.
    """

    store: SessionStore
    window_ms: int
    anonymous_paths: frozenset[str]
    allow: Callable[[SessionRecord, str], bool] | None
    trust_forwarded: bool
    now_ms: Callable[[], int]
    room: Room
    body_max: int
    on_refusal: OnRefusal | None

    def body_max_of(self, route: Route) -> int:
        """Returns the longest body of a sealed request on a route, in bytes."""
        return self.body_max if route.body_max_bytes is None else route.body_max_bytes


async def serve(
    app: App, settings: Settings, route: Route, headers: Headers, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answers a sealed request: opens it, asks the application once at most, seals what that answers."""
    timing, wire = Timing(), wire_of(headers)
    # A trusted proxy's address is everybody's.
    remote = None if settings.trust_forwarded else (scope.get("client") or (None,))[0]
    with closing(Holding(settings.room, remote)) as holding:
        body = Body(receive, headers, holding)
        try:
            reader, inner, reply = await _open(settings, route, headers, scope, body, timing)
        except Disconnect:
            return
        except SealwayError as error:
            await body.discard()
            await reject(settings.on_refusal, send, wire, error)
            return
        if inner is None:
            seen = unseal_outer(scope["headers"], route.content_type, settings.trust_forwarded)
        else:
            seen = unseal_inner(scope["headers"], inner, settings.trust_forwarded)
        if (length := reader.length()) is not None:
            seen.append((b"content-length", b"%d" % length))
        seen += identity_headers(reply.record)
        most = route.answer_max_bytes
        sealing = Sealing(reply, reader, most, settings.now_ms, timing, send, settings.on_refusal)

        async def ask() -> Exception | None:
            try:
                await app({**scope, "headers": seen, "extensions": {}}, reader.receive, sealing.send)
            except Exception as failure:
                return failure
            return None

        if inner is None:
            # Not cut: clients of wires 1 and 2 send again what is refused for its session's end, and would be served twice.
            failure = await ask()
        else:
            failure = await _unless_over(ask, settings, reply.record, reader, sealing)
        await sealing.finish()
    if failure is not None and reader.fault is None and not isinstance(failure, Refusal):
        raise failure


# SPEC session.md#open session-3.md#sealed-requests
async def _open(
    settings: Settings, route: Route, headers: Headers, scope: Scope, body: Body, timing: Timing
) -> tuple[Reader, InnerHeaders | None, Reply]:
    """The checks of the specs, in their order. Nothing that is returned but the reader keeps the plaintext."""
    exchange = Exchange.begin(scope["method"], _target(scope), headers, settings.now_ms(), settings.window_ms)
    timing.lap("replay-protection")
    opening, stream = exchange.session(await _asked(settings.store.session, exchange.session_id))
    if opening.record.is_anonymous:
        path = sent_path(scope["path"], scope.get("raw_path"))
        if path.decode("latin-1") not in settings.anonymous_paths:
            raise Refusal("anonymous_path")
    # A coroutine, which is what `allow` returns where it is an async function, allows nothing.
    if settings.allow is not None and settings.allow(opening.record, scope["path"]) is not True:
        raise ProtocolError("policy")
    timing.lap("session-get")
    most = settings.body_max_of(route)
    body.limit(opening.body_max(min(most, settings.room.max), most))
    reader = Reader(body, stream)
    first = await reader.first()
    if opening.is_whole:
        # It is opened from here on: the wait for it is no cryptography.
        timing.skip()
    pending = opening.open(first)
    timing.lap("aes-gcm-decrypt")
    opening.readmit(await _asked(settings.store.session, exchange.session_id), settings.now_ms())
    plain = pending.release(await _asked(settings.store.admit, pending.claim))
    timing.lap("replay-protection")
    reader.begin(plain.first)
    return reader, plain.inner, plain.reply


async def _asked(ask: Callable[[Question], Awaitable[Answer]], question: Question) -> Answer:
    """Returns the answer of a store.

    Raises:
        StoreUnavailable: for any exception that is not of this package.
    """
    try:
        return await ask(question)
    except SealwayError:
        raise
    except Exception as failure:
        log.warning("the store cannot be asked", exc_info=failure)
        raise StoreUnavailable(f"the store cannot be asked: {type(failure).__name__}") from None


def _target(scope: Scope) -> str:
    """Path and query as they were sent."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else quote(scope["path"])
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


async def _unless_over(
    ask: Callable[[], Awaitable[Exception | None]],
    settings: Settings,
    record: SessionRecord,
    reader: Reader,
    sealing: Sealing,
) -> Exception | None:
    """Has the application answer, until the session ends while the request or the answer is under way."""

    async def is_over() -> bool:
        left_ms = record.expires_ms - settings.now_ms()
        if left_ms <= 0:
            return True
        found: SessionRecord | None = record
        # While nobody can tell, it goes on, up to its own end.
        with anyio.move_on_after(left_ms / 1000), suppress(Exception):
            found = await settings.store.session(record.id)
        return found is None or settings.now_ms() >= found.expires_ms

    async def cut(asking: anyio.CancelScope) -> None:
        while True:
            await anyio.sleep(LOOK_AGAIN_SEC)
            if not (sealing.is_done and reader.stream.is_done) and await is_over():
                reader.fault = reader.fault or ProtocolError("session_expired")
                asking.cancel()
                return

    failure = None
    async with anyio.create_task_group() as group:
        group.start_soon(cut, group.cancel_scope)
        failure = await ask()
        group.cancel_scope.cancel()
    return failure
