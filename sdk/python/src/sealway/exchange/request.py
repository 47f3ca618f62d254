"""A request from its headers to its plaintext: `spec/session.md#open`, `spec/session-3.md#sealed-requests`."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ProtocolError
from ..session.claim import ReplayGuard, SessionRecord
from ..session.compat.call import BODY_MAX_ANONYMOUS, ParsedCall, parse_call
from ..session.native.call import ParsedRequest, parse_request
from ..session.native.problem import clock_members
from ..session.native.schedule import s2c_of
from ..wire.header import X_IDEMPOTENCY_KEY, X_KID, X_SEAL, Headers, compat_wire_of
from ..wire.inner import InnerHeaders, decode_inner
from .refusal import Refusal
from .reply import Reply
from .stream import Stream


def looks_sealed(headers: Headers) -> bool:
    """True if one of the headers of a seal is there, of any protocol."""
    return any(name in headers for name in (X_KID, X_IDEMPOTENCY_KEY, X_SEAL))


def wire_of(headers: Headers) -> int:
    """The wire that a request's headers speak: 1, 2 or 3."""
    return 3 if X_SEAL in headers else compat_wire_of(headers)


@dataclass(slots=True, repr=False)
class PlainRequest:
    """A request that was opened, and is no replay.

    Attributes:
        inner: the headers within the seal, where the protocol seals headers; None where the ones outside count.
        first: the beginning of its body; all of it, if the piece was the last.
        reply: seals the answer.
    """

    inner: InnerHeaders | None
    first: bytes
    reply: Reply


@dataclass(slots=True, repr=False)
class Exchange:
    """A sealed request whose headers are in order; its session is to be looked up next."""

    _call: ParsedCall | ParsedRequest
    _headers: Headers
    _now_ms: int
    _window_ms: int

    @classmethod
    def begin(cls, method: str, target: str, headers: Headers, now_ms: int, window_ms: int) -> Exchange:
        """Reads the headers of a sealed request. `target` is path and query as sent; a stamp may be `window_ms` away from
        `now_ms`, on wire 3 at most five minutes.

        Raises:
            ProtocolError: as the tables have it; `session_unknown` for what is no session id.
            Refusal: `method`.
        """
        is_native = X_SEAL in headers
        if method in ("CONNECT", "TRACE") or not (is_native or method == "POST"):
            raise Refusal("method")
        if is_native:
            return cls(parse_request(method, target, headers), headers, now_ms, window_ms)
        return cls(parse_call(target, headers, now_ms, window_ms), headers, now_ms, window_ms)

    @property
    def session_id(self) -> str:
        """The id of the session to look up."""
        return self._call.session_id

    def session(self, found: SessionRecord | None) -> tuple[Opening, Stream]:
        """Takes the session that a store found, if the request may use it: its body is read next.

        Raises:
            ProtocolError: `session_unknown`, `session_expired`, `wire_mismatch`, `client_mismatch`,
                `timestamp_outside_window`.
        """
        record = _checked(self._call, found, self._now_ms, self._window_ms)
        opener = self._call.opener(record) if isinstance(self._call, ParsedRequest) else None
        return Opening(record, self._call, self._window_ms), Stream(opener, self._headers)


@dataclass(slots=True, repr=False)
class Opening:
    """A request whose session is known, and whose body is awaited.

    Attributes:
        record: the session.
    """

    record: SessionRecord
    _call: ParsedCall | ParsedRequest
    _window_ms: int

    @property
    def is_whole(self) -> bool:
        """True if the body is opened as a whole, by `open`; else its pieces are opened as they come."""
        return isinstance(self._call, ParsedCall)

    def body_max(self, whole: int, stream: int) -> int:
        """The longest sealed body that may follow, in bytes: one that is opened as a whole, or frame by frame."""
        if not self.is_whole:
            return stream
        return min(whole, BODY_MAX_ANONYMOUS) if self.record.is_anonymous else whole

    def open(self, first: bytes) -> ReplayGuard[PlainRequest]:
        """Opens the request by the first piece of its stream. It stays shut until its claim is admitted.

        Raises:
            ProtocolError: `body_too_short`, `aad_mismatch`, `base64_invalid`, `unsealable`; `inner_headers_invalid`.
        """
        inner: InnerHeaders | None = None
        if isinstance(self._call, ParsedCall):
            plaintext = self._call.open(self.record, first)
        else:
            inner, at = decode_inner(first)
            plaintext = first[at:]
        request = PlainRequest(inner, plaintext, Reply(self.record, self._call))
        return ReplayGuard(self._call.claim(self._window_ms), request)

    # SPEC session-3.md#sealed-requests
    def readmit(self, found: SessionRecord | None, now_ms: int) -> None:
        """Checks session and stamp again as the request is admitted. Its client decides how long its body takes; in between
        the session may have ended, and a store forgotten an earlier claim. `found` is the session as the store has it now.

        Raises:
            ProtocolError: as `Exchange.session`.
        """
        _checked(self._call, found, now_ms, self._window_ms)


def _checked(
    call: ParsedCall | ParsedRequest, found: SessionRecord | None, now_ms: int, window_ms: int
) -> SessionRecord:
    if found is None or found.id != call.session_id:
        raise ProtocolError("session_unknown")
    try:
        call.check_session(found, now_ms, window_ms)
    except ProtocolError as refused:
        if refused.code != "timestamp_outside_window" or found.wire != 3:
            raise
        # Only a server that has the session's keys can prove its time.
        proof = clock_members(found.key.made(s2c_of), call.nonce, call.stamp, now_ms)
        raise ProtocolError(refused.code, proof=proof) from None
    return found
