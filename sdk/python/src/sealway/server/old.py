"""A sealed call of wire 1 or 2 around a handler: `spec/session.md#open`, `#answer`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import entropy
from ..errors import Refused, SealwayError
from ..session.claim import SessionRecord
from ..session.old.call import BODY_MAX_ANONYMOUS, Opened, ParsedCall, Reply, content_type_of, parse_call
from ..wire.header import X_IDEMPOTENCY_KEY, X_NONCE, Headers
from ..wire.identifier import check_window
from . import header
from .body import App, Body, Disconnected, Message, Receive, Scope, Send, send_whole
from .refusal import Answer, old_refusal, plain, report, unavailable
from .room import Holding
from .settings import Settings
from .timing import Timing


class _TooLong(Exception):
    """A handler's answer over its bound."""


async def serve_old(
    app: App, settings: Settings, target: str, headers: Headers, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answers a sealed call, or one that should have been."""
    timing = Timing()
    wire = 1 if X_NONCE in headers and X_IDEMPOTENCY_KEY not in headers else 2
    holding = Holding(settings.room, settings.remote)
    body = Body(receive, headers, min(settings.route.body_max, holding.max), holding)
    if scope["method"] != "POST":
        await body.discard()
        await _send(send, plain("METHOD_NOT_ALLOWED"), Timing())
        return
    try:
        with holding:
            record, opened = await _open(settings, target, headers, body, timing)
    except Disconnected:
        return
    except SealwayError as error:
        report(wire, error)
        await body.discard()
        # How far it came is the class of its refusal, which is the log's to know.
        await _send(send, old_refusal(error), Timing())
        return
    inner = header.old_request(
        scope["headers"], record, settings.route.content_type, len(opened.plaintext), settings.trusts_origin
    )
    collected = _Collected(settings.route.answer_max)
    failure: Exception | None = None
    try:
        await app({**scope, "headers": inner, "extensions": {}}, _given(opened.plaintext, receive), collected.send)
    except Exception as failed:
        failure = failed
    timing.lap("upstream")
    await _answer(opened.reply, collected, timing, settings, send)
    if failure is not None and not isinstance(failure, _TooLong):
        raise failure


async def _open(
    settings: Settings, target: str, headers: Headers, body: Body, timing: Timing
) -> tuple[SessionRecord, Opened]:
    call = parse_call(target, headers, settings.now_ms(), settings.window_ms)
    timing.lap("replay-protection")
    record = await _session(settings, call)
    is_anonymous = record.id.startswith("A-")
    if is_anonymous and settings.path not in settings.anonymous_paths:
        raise Refused("policy")
    if settings.allow is not None and not settings.allow(record, settings.path):
        raise Refused("policy")
    timing.lap("session-get")
    most = min(settings.route.body_max, BODY_MAX_ANONYMOUS) if is_anonymous else settings.route.body_max
    body.check_declared()
    data = await body.whole()
    # A body that came slowly may come after the end of its session, or after its nonce was forgotten.
    check_window(int(call.stamp), settings.now_ms(), settings.window_ms)
    await _session(settings, call)
    timing.lap("read-body")
    pending = call.open(record, data, settings.window_ms, most)
    timing.lap("aes-gcm-decrypt")
    fresh = await settings.store.admit(pending.claim)
    timing.lap("replay-protection")
    return record, pending.release(fresh)


async def _session(settings: Settings, call: ParsedCall) -> SessionRecord:
    """The session that a call is of, as the store has it now."""
    record = await settings.store.session(call.session_id)
    if record is None:
        raise Refused("session_unknown")
    call.check_session(record, settings.now_ms())
    return record


def _given(plaintext: bytes, receive: Receive) -> Receive:
    """What a handler reads: the plaintext, then what the server says of the connection."""
    given = [plaintext]

    async def read() -> Message:
        if given:
            return {"type": "http.request", "body": given.pop(), "more_body": False}
        return await receive()

    return read


class _Collected:
    """A handler's whole answer."""

    def __init__(self, most: int) -> None:
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_done = False
        self._parts: list[bytes] = []
        self._left = most

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise _TooLong
            self._parts.append(bytes(message.get("body", b"")))
            self.is_done = not message.get("more_body", False)

    def body(self) -> bytes:
        return b"".join(self._parts)


async def _answer(reply: Reply, collected: _Collected, timing: Timing, settings: Settings, send: Send) -> None:
    status = collected.status
    if status is None or not collected.is_done or status == 304:
        # Without a body there is nothing to seal, and an unsealed answer proves nothing.
        await _send(send, unavailable(502), timing)
        return
    if status in (400, 422):
        await _send(send, plain("CRYPTO_ERROR"), timing)
        return
    if 200 <= status < 300:
        status = 200
    headers, sealed = reply.seal(status, collected.body(), settings.now_ms(), entropy.nonce_random(), entropy.iv())
    timing.lap("aes-gcm-encrypt")
    outer: Any = header.old_answer(collected.headers)
    outer += [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers]
    outer += [
        (b"content-type", content_type_of(reply.wire).encode("ascii")),
        (b"content-length", b"%d" % len(sealed)),
        timing.header(),
    ]
    await send_whole(send, status, outer, sealed)


async def _send(send: Send, answer: Answer, timing: Timing) -> None:
    whole = replace(answer, headers=[*answer.headers, timing.header()])
    await send_whole(send, whole.status, whole.headers, whole.body)
