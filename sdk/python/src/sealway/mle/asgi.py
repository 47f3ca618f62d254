"""ASGI middleware: opens the messages of a scheme for an ordinary application, and seals its answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

import anyio.to_thread

from .. import check
from ..errors import SealwayError, StoreUnavailable, UsageError
from ..exchange.refusal import Refusal
from ..exchange.rejection import Form, Rejection
from ..server.body import App, Body, Disconnect, Message, Receive, Scope, Send, in_time
from ..server.headers import plain_request
from ..server.room import BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN, Holding, Room
from ..server.route import BODY_MAX, Route, Rules
from ..server.store import SessionStore, wall_clock_ms
from ..session.claim import WINDOW_MS, Admission
from ..wire.header import Headers
from .codec import TOKEN_MAX, MleCodec
from .form import (
    PlainAnswers,
    RawHeaders,
    check_coding,
    check_options,
    is_token,
    token_type,
    with_body,
    without_body,
)
from .keys import OpeningKey, SealingKey
from .profile import Profile
from .refusal import MleRefusal

log = logging.getLogger("sealway")

#: What waits for a private key counts as so many bytes more, so that a flood of small tokens is bounded too.
_OPERATION_ROOM: Final = 64 << 10
#: Headers of a request that ask for what the answer to a message cannot be, or belong to the way here.
_OF_REQUEST: Final = (b"accept-encoding", b"expect", b"if-range", b"range")


class MleApp:
    """ASGI middleware that opens the tokens of a scheme for an application, and seals its answers.

        app = MleApp(app, "mastercard-jwe", open=[own], seal=client, store=store)

    A handler receives the plaintext with `X-Sealway-Wire: mle:` and the profile's name. A request without a body (`GET`,
    `HEAD`, `DELETE`) passes, and its answer is sealed. A token says who can read it, never who wrote it: authenticate
    senders in front.
    """

    def __init__(
        self,
        app: App,
        profile: Profile | str,
        *,
        open: Sequence[OpeningKey],
        seal: SealingKey,
        store: SessionStore | None = None,
        routes: Sequence[Route] = (),
        plain_answers: PlainAnswers = "none",
        content_type: str = "application/json",
        trust_forwarded: bool = False,
        window_ms: int = WINDOW_MS,
        token_max_bytes: int = TOKEN_MAX,
        body_max_bytes: int = BODY_MAX,
        buffered_max_bytes: int = BUFFERED_BYTES_MAX,
        on_refusal: Callable[[SealwayError], None] | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Opens and seals around `app`.

        Args:
            profile, open, seal, window_ms, token_max_bytes, now_ms: as of `MleCodec`.
            store: admits each token once, as those of sealed sessions do. Without a store a token can be replayed: until
                its `iat` leaves the window, and for ever in a profile without a time.
            routes: the first one that names a path decides: `required` rejects requests in clear that have a body,
                `optional` passes them, `off` opens nothing. A path that no route names is `required`.
            plain_answers: `errors` leaves answers of 400 and more in clear.
            content_type: that of a plaintext for the application.
            trust_forwarded, buffered_max_bytes: as of `SealedApp`.
            body_max_bytes: the longest body, 1 MiB by default; a route may have its own, and its own `answer_max_bytes`.
            on_refusal: receives the error of each rejected request: an `MleRefusal` has its class as `reason`. It must not
                block.

        Raises:
            UsageError: for an option that is wrong, with its name.
        """
        check.callback("app", app, "an ASGI application")
        self._codec: Final = MleCodec(
            profile, open=open, seal=seal, window_ms=window_ms, token_max_bytes=token_max_bytes, now_ms=now_ms
        )
        check_options(self._codec, "answer", open, plain_answers, content_type)
        is_store = store is None or callable(getattr(store, "admit", None))
        check.wants(is_store, "store", store, "AuthorityStore, or another SessionStore")
        routes = check.listed("routes", routes, "a list of Route")
        check.wants(all(isinstance(each, Route) for each in routes), "routes", routes, "a list of Route")
        least = BUFFERED_BYTES_MIN
        check.number("buffered_max_bytes", buffered_max_bytes, least, f"bytes, {least} at least", is_whole=True)
        check.number("body_max_bytes", body_max_bytes, 0, "bytes", is_whole=True)
        check.callback("on_refusal", on_refusal, "a function, or None", is_optional=True)
        longest = max([body_max_bytes, *(each.body_max_bytes or 0 for each in routes)])
        self._room: Final = Room(buffered_max_bytes, longest + _OPERATION_ROOM)
        self._app, self._store, self._rules, self._body_max = app, store, Rules(routes), body_max_bytes
        self._plain_answers, self._content_type = plain_answers, content_type
        self._trust_forwarded, self._on_refusal = trust_forwarded, on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection of ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        route = self._rules.find(scope["path"], scope.get("raw_path"))
        if route is not None and route.mode == "off":
            await self._app({**scope, "headers": self._headers(scope)}, receive, send)
        elif scope["type"] == "http":
            await self._serve(route, scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, route: Route | None, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        # A trusted proxy's address is everybody's.
        remote = None if self._trust_forwarded else (scope.get("client") or (None,))[0]
        with closing(Holding(self._room, remote)) as holding:
            body = Body(receive, headers, holding)
            try:
                if route is None:
                    raise Refusal("disguised_path")
                # Before the application acts: an answer that cannot be sealed would be lost after it.
                self._check_seal()
                most = self._body_max if route.body_max_bytes is None else route.body_max_bytes
                body.limit(min(most, self._room.max - _OPERATION_ROOM))
                data = await _whole(body)
                is_plain = route.mode == "optional" and not await anyio.to_thread.run_sync(
                    is_token, self._codec.profile, "request", headers, data
                )
                if not is_plain:
                    holding.grow(_OPERATION_ROOM)
                    data, seen = await self._open(scope, headers, data)
            except Disconnect:
                return
            except SealwayError as error:
                await body.discard()
                await self._reject(error, send)
                return
        inner = _Given(data, body)
        if is_plain:
            await self._app({**scope, "headers": self._headers(scope)}, inner.receive, send)
            return
        answer = _Answer(self, scope["method"], route.answer_max_bytes, send)
        failure = None
        try:
            await self._app({**scope, "headers": seen, "extensions": {}}, inner.receive, answer.take)
        except Exception as error:
            failure = error
        if not answer.is_sent:
            await self._reject(Refusal("unanswered"), send)
        if failure is not None and not isinstance(failure, Refusal):
            raise failure

    async def _open(self, scope: Scope, headers: Headers, data: bytes) -> tuple[bytes, RawHeaders]:
        """The plaintext of a request, and the headers that its handler sees."""
        kept = without_body(self._headers(scope), *_OF_REQUEST)
        if not data and scope["method"] in ("GET", "HEAD", "DELETE"):
            return b"", kept
        check_coding(headers)
        pairs = [("keyid", value) for value in headers.all("keyId")]
        guard = await anyio.to_thread.run_sync(self._codec.guard, "request", data, pairs)
        plaintext = guard.release(await self._admit(guard.claim))
        wire = (b"x-sealway-wire", f"mle:{self._codec.profile.name}".encode("ascii"))
        return plaintext, [*with_body(kept, self._content_type, plaintext), wire]

    async def _admit(self, claim: Any) -> Admission:
        """Admits a token once, if there is a store."""
        if self._store is None:
            return Admission(claim)
        try:
            return await self._store.admit(claim)
        except SealwayError as error:
            if error.code == "replayed":
                raise MleRefusal("replayed", "the token was received before") from None
            if error.code == "timestamp_outside_window":
                raise MleRefusal("iat", "iat is outside of the store's window") from None
            raise
        except Exception as failure:
            log.warning("the store cannot be asked", exc_info=failure)
            raise StoreUnavailable(f"the store cannot be asked: {type(failure).__name__}") from None

    def _headers(self, scope: Scope) -> RawHeaders:
        return plain_request(scope["headers"], self._trust_forwarded)

    def _check_seal(self) -> None:
        try:
            self._codec.check_seal("answer")
        except UsageError as error:
            log.warning("answers cannot be sealed: %s", error)
            raise Refusal("unanswered") from None

    async def _reject(self, error: SealwayError, send: Send) -> None:
        """Reports a rejection, and answers the client. Whatever was wrong with a token, the answer is the same."""
        kind = error.reason if isinstance(error, MleRefusal) else error.code
        log.info("rejected a message of %s: %s", self._codec.profile.name, kind)
        if self._on_refusal is not None:
            try:
                self._on_refusal(error)
            except Exception as failure:
                log.warning("on_refusal failed", exc_info=failure)
        answer = Rejection(error).answer(Form.PLAIN)
        await _send(send, answer.status, answer.headers, answer.body)

    async def seal(self, method: str, status: int, headers: RawHeaders, body: bytes, send: Send) -> None:
        """Seals an answer of the application, and sends it."""
        is_bodiless = not body or method == "HEAD" or status in (204, 304)
        if is_bodiless or (self._plain_answers == "errors" and status >= 400):
            await _send(send, status, headers, b"" if is_bodiless else body)
            return
        try:
            check_coding(Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers))
            sealed = self._codec.seal("answer", body)
        except (MleRefusal, UsageError) as error:
            log.warning("the application's answer cannot be sealed: %s", error)
            await self._reject(Refusal("unanswered"), send)
            return
        type = token_type(self._codec.profile, "answer")
        await _send(send, status, with_body(without_body(headers), type, sealed), sealed)


class _Given:
    """A body that was read, for an application."""

    def __init__(self, data: bytes, body: Body) -> None:
        self._data, self._body = data, body
        self._is_given = False

    async def receive(self) -> Message:
        if self._is_given:
            return await self._body.gone()
        self._is_given = True
        return {"type": "http.request", "body": self._data, "more_body": False}


class _Answer:
    """The answer of an application, which is sealed when all of it is there."""

    def __init__(self, app: MleApp, method: str, most: int, send: Send) -> None:
        self._app, self._method, self._left, self._send = app, method, most, send
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self.is_sent = False

    async def take(self, message: Message) -> None:
        """Takes a message of the application.

        Raises:
            Refusal: `unanswered` for an answer that is over its bound, so that an endless one ends.
        """
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None and not self.is_sent:
            part = bytes(message.get("body", b""))
            self._left -= len(part)
            if self._left < 0:
                raise Refusal("unanswered")
            self._parts.append(part)
            if not message.get("more_body", False):
                self.is_sent = True
                headers = list(self._start.get("headers", ()))
                await self._app.seal(self._method, self._start["status"], headers, b"".join(self._parts), self._send)


async def _whole(body: Body) -> bytes:
    """All of a body. A peer that drips has no more time than a silent one."""
    parts = []
    async with in_time():
        while not body.is_done:
            parts.append(await body.next())
    return b"".join(parts)


async def _send(send: Send, status: int, headers: RawHeaders, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
