"""A sealed request of wire 3 around a handler: `spec/session-3.md#sealed-requests`, `#sealed-answers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio

from .. import entropy
from ..errors import Refused, SealwayError
from ..session.claim import SessionRecord
from ..session.three.call import (
    OCTETS,
    SEALED_MAX,
    ParsedRequest,
    is_bodiless,
    parse_request,
    sealed_header,
)
from ..session.three.problem import clock_members
from ..session.three.schedule import s2c_of
from ..session.three.stream import FRAME_MAX, FrameOpener, FrameSealer, stream_len
from ..wire.encoding import encode_base64
from ..wire.header import X_SEALED, Headers
from ..wire.inner import InnerHeaders, decode_inner, encode_inner
from . import header
from .body import App, Body, Disconnected, Message, Receive, Scope, Send, in_time, send_whole
from .refusal import RefusedCall, report, three_refusal, told_problem
from .room import Holding
from .settings import Settings
from .timing import Timing

#: Together with the time that a store may keep a session without asking, less than a second.
LOOK_AGAIN_SEC: Final = 0.4


async def serve_three(
    app: App, settings: Settings, target: str, headers: Headers, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answers a sealed request."""
    with Holding(settings.room, settings.remote) as holding:
        body = Body(receive, headers, settings.route.body_max, holding)
        await _serve(app, settings, target, headers, scope, body, send)


async def _serve(
    app: App, settings: Settings, target: str, headers: Headers, scope: Scope, body: Body, send: Send
) -> None:
    timing = Timing()
    try:
        opened = await _open(settings, scope["method"], target, headers, body, timing)
    except Disconnected:
        return
    except RefusedCall as refused:
        report(3, refused.error)
        await body.discard()
        answer = three_refusal(refused)
        await send_whole(send, answer.status, [*answer.headers, Timing().header()], answer.body)
        return
    inner = header.three_request(
        scope["headers"], opened.inner, opened.record, opened.source.length(), settings.trusts_origin
    )
    sealing = _Sealing(opened, settings, timing, send)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_cut_when_over, settings, opened, sealing, group.cancel_scope)
        try:
            await app({**scope, "headers": inner, "extensions": {}}, opened.source.receive, sealing.send)
        except Exception as failed:
            failure = failed
        group.cancel_scope.cancel()
    await sealing.finish()
    if failure is not None and opened.source.fault is None:
        raise failure


async def _cut_when_over(
    settings: Settings, opened: _OpenedRequest, sealing: _Sealing, handling: anyio.CancelScope
) -> None:
    """Ends a call whose session ends before its answer has ended."""
    while True:
        await anyio.sleep(LOOK_AGAIN_SEC)
        if sealing.is_done:
            continue
        try:
            record = await settings.store.session(opened.record.id)
        except SealwayError:
            # While nobody can tell, it goes on.
            continue
        if record is None or settings.now_ms() >= record.expires_ms:
            opened.source.fault = opened.source.fault or Refused("session_expired")
            report(3, opened.source.fault)
            handling.cancel()
            return


@dataclass(slots=True)
class _OpenedRequest:
    request: ParsedRequest
    record: SessionRecord
    inner: InnerHeaders
    source: _Source


async def _open(
    settings: Settings, method: str, target: str, headers: Headers, body: Body, timing: Timing
) -> _OpenedRequest:
    """The checks of `spec/session-3.md#sealed-requests`, in their order."""
    try:
        request = parse_request(method, target, headers)
        record = await _session(settings, request)
        timing.lap("session-get")
        if settings.allow is not None and not settings.allow(record, settings.path):
            raise Refused("policy")
        body.check_declared()
        sealed = sealed_header(headers, has_body=False)
        source = _Source(request.opener(record), body)
        # A peer that drips has no more time for a first frame than for a whole body.
        async with in_time():
            inner = await source.begin(sealed)
        # A first frame that came slowly may come after the end of its session, or after its nonce was forgotten.
        await _session(settings, request)
        timing.lap("aes-gcm-decrypt")
        fresh = await settings.store.admit(request.claim(settings.window_ms))
        if fresh.key != request.claim(settings.window_ms).key:
            raise Refused("reservation_mismatch")
        timing.lap("replay-protection")
        return _OpenedRequest(request, record, inner, source)
    except SealwayError as error:
        raise RefusedCall(error) from None


async def _session(settings: Settings, request: ParsedRequest) -> SessionRecord:
    """The session that a request is of, as the store has it now: checks 2 to 4."""
    record = await settings.store.session(request.session_id)
    if record is None:
        raise Refused("session_unknown")
    now_ms = settings.now_ms()
    try:
        request.check_session(record, now_ms, settings.window_ms)
    except Refused as refused:
        if refused.code != "timestamp_outside_window":
            raise
        # Only who has the session's keys can say what time it is here.
        proof = clock_members(record.key.made(s2c_of), request.nonce, request.stamp, now_ms)
        raise RefusedCall(refused, proof) from None
    return record


class _Source:
    """The plaintext of a request, as its frames come and open. The last frame is held back until the body has ended, for
    a byte behind it makes the whole a forgery."""

    def __init__(self, opener: FrameOpener, body: Body) -> None:
        self._opener, self._body = opener, body
        self._ready: list[bytes] = []
        self._is_given = False
        #: Why the stream broke off, if it did.
        self.fault: SealwayError | None = None

    async def begin(self, sealed: bytes | None) -> InnerHeaders:
        """Opens the first frame."""
        frames: list[bytes] = []
        if sealed is not None:
            # Neither may there be a body: which of two streams was meant is nobody's to choose.
            while not self._body.is_done:
                if await self._body.next():
                    raise Refused("header_invalid", X_SEALED)
            frames = self._opener.feed(sealed)
        while not frames and not self._body.is_done:
            frames = await self._feed()
        if not frames:
            raise Refused("stream_truncated")
        inner, at = decode_inner(frames[0])
        frames[0] = frames[0][at:]
        self._ready = frames
        if self._opener.is_done or self._body.is_done:
            await self._end()
        return inner

    async def _feed(self) -> list[bytes]:
        frames = self._opener.feed(await self._body.next())
        if frames:
            self._body.opened(self._opener.waiting)
        return frames

    async def _end(self) -> None:
        while not self._body.is_done:
            await self._feed()
        self._opener.finish()

    def length(self) -> int | None:
        """The length of the plaintext, if it is all there."""
        return sum(map(len, self._ready)) if self._opener.is_done else None

    async def receive(self) -> Message:
        """What a handler reads."""
        if self._is_given or self.fault is not None:
            return await self._gone()
        try:
            while not self._opener.is_done and not any(self._ready):
                if self._body.is_done:
                    self._opener.finish()
                self._ready += await self._feed()
            if self._opener.is_done:
                await self._end()
        except Disconnected:
            self._is_given = True
            return {"type": "http.disconnect"}
        except SealwayError as error:
            self.fault = error
            report(3, error)
            return {"type": "http.disconnect"}
        data, self._ready = b"".join(self._ready), []
        self._is_given = self._opener.is_done
        return {"type": "http.request", "body": data, "more_body": not self._is_given}

    async def _gone(self) -> Message:
        if self.fault is not None:
            return {"type": "http.disconnect"}
        # Until the peer goes away, as a server has it.
        while True:
            message = await self._body._receive()
            if message["type"] == "http.disconnect":
                return message


class _Sealing:
    """A handler's answer, sealed as it comes."""

    def __init__(self, opened: _OpenedRequest, settings: Settings, timing: Timing, send: Send) -> None:
        self._opened, self._settings, self._timing, self._send = opened, settings, timing, send
        self._status = 0
        self._headers: header.RawHeaders = []
        self._sealer: FrameSealer | None = None
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """Whether the answer has ended."""
        return self._is_done

    async def send(self, message: Message) -> None:
        """Takes what a handler sends."""
        if self._is_done or self._opened.source.fault is not None:
            return
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body" and self._status:
            body, is_last = bytes(message.get("body", b"")), not message.get("more_body", False)
            if self._sealer is None:
                await self._begin(body, is_last)
            else:
                await self._go_on(self._sealer, body, is_last)

    async def _begin(self, body: bytes, is_last: bool) -> None:
        opened, timing = self._opened, self._timing
        timing.lap("upstream")
        bodiless = is_bodiless(opened.request.method, self._status)
        content_type = "" if bodiless else OCTETS
        try:
            inner = encode_inner(header.inner_answer(self._headers))
        except Refused:
            inner = b""
        if not inner or (bodiless and -(-stream_len(len(inner)) // 3) * 4 > SEALED_MAX):
            self._is_done = True
            answer = told_problem("upstream_unreachable")
            await send_whole(self._send, answer.status, answer.headers, answer.body)
            return
        pairs, sealer = opened.request.seal_answer(
            opened.record, self._status, content_type, self._settings.now_ms(), entropy.nonce_random()
        )
        if bodiless:
            pairs.append((X_SEALED, encode_base64(sealer.seal(inner, True))))
            self._is_done = True
            stream = b""
        else:
            pairs.append(("content-type", content_type))
            stream = sealer.seal_all(inner, body, is_last)
            self._is_done = is_last
        timing.lap("aes-gcm-encrypt")
        headers = header.outer_answer(self._headers)
        headers += [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in pairs]
        headers.append(timing.header())
        if self._is_done and self._status not in (204, 304) and not bodiless:
            headers.append((b"content-length", b"%d" % len(stream)))
        self._sealer = sealer
        await self._send({"type": "http.response.start", "status": self._status, "headers": headers})
        await self._send({"type": "http.response.body", "body": stream, "more_body": not self._is_done})

    async def _go_on(self, sealer: FrameSealer, body: bytes, is_last: bool) -> None:
        if not body and not is_last:
            return
        self._is_done = is_last
        stream = sealer.seal_all(b"", body, is_last) if len(body) > FRAME_MAX else sealer.seal(body, is_last)
        await self._send({"type": "http.response.body", "body": stream, "more_body": not is_last})

    async def finish(self) -> None:
        """Tells the peer what a handler left untold. A stream that broke off within is left without its last frame."""
        if self._is_done or self._sealer is not None:
            return
        fault, self._is_done = self._opened.source.fault, True
        answer = three_refusal(RefusedCall(fault)) if fault else told_problem("upstream_unreachable")
        await send_whole(self._send, answer.status, answer.headers, answer.body)
