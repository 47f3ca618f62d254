"""One sealed call without its I/O: the request, the answer, and the decision to send it once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from .. import entropy
from ..errors import PlainAnswerError, ProblemError, ProtocolError, RedirectError, SealwayError, UsageError
from ..session.compat.call import ClientSession, SealedCall
from ..session.native.call import (
    BODILESS_METHODS,
    OCTETS,
    SEALED_MAX,
    UNSEALED_METHODS,
    PendingAnswer,
    is_bodiless,
)
from ..session.native.client import Session
from ..session.native.problem import SAFE_METHODS, proven_clock, sends_again
from ..session.native.stream import FRAME_MAX, FrameOpener, FrameSealer, stream_len
from ..wire.encoding import encode_base64
from ..wire.header import OF_HOP, SEALING, X_KID, X_SEAL, X_SEALED, Headers
from ..wire.inner import InnerHeaders, decode_inner, encode_inner
from .active import ActiveSession
from .clock import Moment
from .establish import Response, rejection
from .metrics import CallMetrics, parse_server_timing
from .options import Options
from .timer import Timer

if TYPE_CHECKING:
    from .one_shot import OneShotKey

#: Headers of a plain body, and those that ask for what a sealed answer cannot be.
_OF_SEALED_BODY = frozenset({"content-type", "content-encoding", "accept-encoding", "accept", "range"})

Pairs = list[tuple[str, str]]


def headers_of(response: httpx.Response) -> Headers:
    """Returns the headers of a response as received."""
    return Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)


@dataclass(slots=True)
class Call:
    """One call of a caller.

    Attributes:
        method, target: the request line; the target is path and query as sent.
        raw_headers: the caller's.
        body: the whole body; None for a stream, which can be sent once.
        answer_max: the longest sealed body of an answer, in bytes.
        is_unproven: True once it was sent again without a proof that it was not executed before.
    """

    method: str
    target: str
    raw_headers: list[tuple[bytes, bytes]]
    body: bytes | None
    timer: Timer
    metrics: CallMetrics
    answer_max: int | None
    on_metrics: Callable[[CallMetrics], None] | None = None
    began: float = field(default_factory=time.monotonic)
    has_healed_clock: bool = False
    has_healed_session: bool = False
    is_unproven: bool = False

    def report(self) -> None:
        """Gives the measurements to `Options.on_metrics`, once."""
        report, self.on_metrics = self.on_metrics, None
        if report is not None:
            report(self.metrics)


def check_call(method: str, raw_headers: list[tuple[bytes, bytes]], wire: int, is_streamed: bool) -> None:
    """Rejects a request that cannot be sealed, before a session is agreed.

    Raises:
        UsageError
    """
    if method in UNSEALED_METHODS or (wire < 3 and method != "POST"):
        raise UsageError(f"method: {method} cannot be sealed on wire {wire}")
    if is_streamed and wire < 3:
        raise UsageError("content: bodies of wires 1 and 2 are sealed whole: give bytes, not a stream")
    for name, _ in raw_headers:
        text = name.decode("latin-1").lower()
        if text in SEALING or text.startswith("x-sealway-"):
            raise UsageError(f"headers: {text} is set by the transport alone: remove it")


def _inner_of(raw_headers: list[tuple[bytes, bytes]]) -> InnerHeaders:
    lowered = ((name.lower(), value) for name, value in raw_headers)
    return [
        (name, value)
        for name, value in lowered
        if name.decode("latin-1") not in OF_HOP and not name.startswith(b"proxy-")
    ]


def _host(raw_headers: list[tuple[bytes, bytes]]) -> Pairs:
    return [(n.decode("latin-1"), v.decode("latin-1")) for n, v in raw_headers if n.lower() == b"host"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about an answer without a seal.

    Attributes:
        error: the error of the call, unless it is sent again.
        is_again: True if the call is sent again, in the session that is then in use.
        is_session_over: True if the next call begins with another session. No proof is needed for that: a service without
            its identity key has none, and a client that only posts would be stuck.
    """

    error: SealwayError
    is_again: bool = False
    is_session_over: bool = False


class NativeAttempt:
    """A call sealed for wire 3.

    Attributes:
        headers, body: the sealed request; without a body the caller's stream goes through `sealed_chunks`.
    """

    def __init__(self, active: ActiveSession, session: Session | OneShotKey, call: Call) -> None:
        self.active = active
        self._session, self._call = session, call
        self._sent = Moment()
        began = time.perf_counter()
        self._inner = encode_inner(_inner_of(call.raw_headers))
        in_header = (
            call.body == b""
            and call.method in BODILESS_METHODS
            and -(-(session.prefix_len + stream_len(len(self._inner))) // 3) * 4 <= SEALED_MAX
        )
        content_type = "" if in_header else OCTETS
        self._stamp_ms = active.stamp_ms(time.monotonic())
        self._pending: PendingAnswer = session.seal(
            call.method, call.target, content_type, str(self._stamp_ms), entropy.nonce()
        )
        self.headers: Pairs = _host(call.raw_headers) + self._pending.headers
        self.body: bytes | None = None
        if call.body is not None:
            self.body = self._pending.sealer.seal_all(self._inner, call.body)
        if in_header and self.body is not None:
            self.headers.append((X_SEALED, encode_base64(self.body)))
            self.body = b""
        else:
            self.headers.append(("Content-Type", content_type))
        call.metrics.add_crypto("seal", time.perf_counter() - began)
        call.metrics.suite = session.suite

    def sealed_chunks(self) -> StreamSealer:
        """Returns the sealer of a caller's stream, chunk by chunk."""
        return StreamSealer(self._pending.sealer, self._inner)

    def is_sealed(self, headers: Headers) -> bool:
        """Returns True for the headers of a sealed answer."""
        return X_SEAL in headers

    def is_problem(self, headers: Headers) -> bool:
        """Returns True for the headers of a sealed problem, which wire 3 does not have."""
        return False

    def judge_sealed(self, status: int, plaintext: bytes) -> Verdict:
        """Decides about a sealed problem."""
        return Verdict(ProtocolError("answer_mismatch"))

    def open_whole(self, status: int, headers: Headers, body: bytes) -> bytes:
        """Returns the plaintext of an answer that is all there.

        Raises:
            ProtocolError: as `open`.
        """
        opener = self.open(status, headers)
        parts = [*opener.begin(), *opener.feed(body)]
        opener.finish()
        return b"".join(parts)

    def open(self, status: int, headers: Headers) -> StreamOpener:
        """Returns the opener of the answer.

        Raises:
            ProtocolError: as `spec/session-3.md#sealed-answers` has it.
        """
        opener, sealed = self._pending.open(status, headers)
        has_no_body = sealed is not None or is_bodiless(self._call.method, status)
        return StreamOpener(opener, sealed, has_no_body, self._call.answer_max, self._call.metrics)

    def judge(self, response: Response) -> Verdict:
        """Decides about an answer without a seal, which any machine on the path can write: `spec/session-3.md#problems`."""
        call, error = self._call, rejection(response)
        if not isinstance(error, ProblemError):
            # An answer to HEAD has no body for a problem: it counts as `session_expired`.
            is_over = response.status == 401 and call.method == "HEAD"
            is_again = is_over and not call.has_healed_session
            call.has_healed_session |= is_over
            call.is_unproven |= is_again
            return Verdict(error, is_again, is_over)
        stamp, nonce = self._pending.stamp, self._pending.nonce
        if error.code == "clock_skew" and isinstance(self._session, Session):
            proven_ms = proven_clock(error.more, self._session.s2c(), nonce, stamp)
            if proven_ms is not None:
                self.active.set_clock(proven_ms, time.monotonic())
            is_first, call.has_healed_clock = not call.has_healed_clock, True
        elif error.code == "session_expired":
            proven_ms = None
            is_first, call.has_healed_session = not call.has_healed_session, True
        else:
            return Verdict(error)
        is_again = sends_again(error.code, proven_ms, call.method, self._stamp_ms, self._sent.elapsed_ms())
        error.retryable = is_again and proven_ms is not None
        # The caller's stream is consumed.
        is_again = is_again and is_first and call.body is not None
        call.is_unproven |= is_again and proven_ms is None
        if not (is_again or error.retryable) and call.method not in SAFE_METHODS:
            error.note_unknown()
        return Verdict(error, is_again, error.code == "session_expired")


class CompatAttempt:
    """A call sealed for wire 1 or 2."""

    def __init__(self, active: ActiveSession, session: ClientSession, call: Call, options: Options) -> None:
        self.active = active
        self._call, self._options = call, options
        began = time.perf_counter()
        stamp = str(active.stamp_ms(time.monotonic()))
        self._sealed: SealedCall = session.seal(call.target, call.body or b"", stamp, entropy.nonce(), entropy.iv())
        call.metrics.add_crypto("seal", time.perf_counter() - began)
        kept = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in call.raw_headers)
        drop = (OF_HOP | _OF_SEALED_BODY) - {"host"}
        self.headers: Pairs = [(n, v) for n, v in kept if n.lower() not in drop]
        self.headers += [*self._sealed.headers, ("Content-Type", self._sealed.content_type)]
        self.body: bytes = self._sealed.body

    def is_sealed(self, headers: Headers) -> bool:
        """Returns True for the headers of a sealed answer."""
        return X_KID in headers

    def open_whole(self, status: int, headers: Headers, body: bytes) -> bytes:
        """Returns the plaintext of the answer.

        Raises:
            ProtocolError: as `spec/session.md#answer` has it.
        """
        began = time.perf_counter()
        plaintext = self._sealed.open(
            status, headers, body, self.active.stamp_ms(time.monotonic()), self._options.window_ms
        )
        self._call.metrics.add_crypto("open", time.perf_counter() - began)
        return plaintext

    def judge(self, response: Response) -> Verdict:
        """Decides about an answer without a seal: after `401 SESSION_EXPIRED` the call is sent again, once."""
        error = rejection(response)
        is_over = response.status == 401 and isinstance(error, PlainAnswerError) and error.error == "SESSION_EXPIRED"
        is_again = is_over and not self._call.has_healed_session
        self._call.has_healed_session |= is_over
        self._call.is_unproven |= is_again
        return Verdict(error, is_again, is_over)


def check_redirect(status: int) -> None:
    """Rejects a redirect without a seal.

    Raises:
        RedirectRefused
    """
    if 300 <= status < 400:
        raise RedirectError(status)


def note_answer(metrics: CallMetrics, call: Call, headers: Headers, raw: Iterable[tuple[bytes, bytes]]) -> None:
    """Fills in the measurements of the head of an answer."""
    metrics.round_trip_sec = time.monotonic() - call.began
    metrics.server_ms = parse_server_timing(headers.first("Server-Timing"))
    metrics.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]


class StreamSealer:
    """Seals a caller's stream. Each chunk becomes frames at once; the last frame is empty, as no chunk is known to be the
    last."""

    def __init__(self, sealer: FrameSealer, inner: bytes) -> None:
        self._sealer = sealer
        self._inner = inner

    def seal(self, chunk: bytes) -> Iterator[bytes]:
        """Yields the frames of a chunk."""
        view = memoryview(chunk)
        while view:
            room = FRAME_MAX - len(self._inner)
            yield self._sealer.seal(self._inner + view[:room] if self._inner else view[:room], False)
            self._inner, view = b"", view[room:]

    def last(self) -> bytes:
        """Returns the last frame."""
        return self._sealer.seal(self._inner, True)


class StreamOpener:
    """Opens the stream of an answer, chunk by chunk."""

    def __init__(
        self, opener: FrameOpener, sealed: bytes | None, has_no_body: bool, answer_max: int | None, metrics: CallMetrics
    ) -> None:
        self._opener, self._sealed, self._has_no_body = opener, sealed, has_no_body
        self._left = answer_max
        self._metrics = metrics
        self.inner: InnerHeaders | None = None

    def begin(self) -> list[bytes]:
        """Returns the parts of the body that the headers hold."""
        if self._sealed is None:
            return []
        parts = self._feed(self._sealed)
        self._opener.finish()
        return parts

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the parts of the body in a chunk of the sealed one. The first frame sets `inner`.

        Raises:
            ProtocolError: as the stream has it; `body_too_large` beyond the bound.
        """
        if not data:
            return []
        if self._has_no_body:
            raise ProtocolError("header_invalid", X_SEALED)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise ProtocolError("body_too_large")
        return self._feed(data)

    def _feed(self, data: bytes) -> list[bytes]:
        began = time.perf_counter()
        frames = self._opener.feed(data)
        if frames and self.inner is None:
            self.inner, at = decode_inner(frames[0])
            frames[0] = frames[0][at:]
        self._metrics.add_crypto("open", time.perf_counter() - began)
        return [frame for frame in frames if frame]

    def finish(self) -> None:
        """Ends the stream.

        Raises:
            ProtocolError: `stream_truncated`.
        """
        self._opener.finish()
