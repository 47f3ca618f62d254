"""Sealed requests and answers of wire 3, both sides: `spec/session-3.md#sealed-requests`, `#sealed-answers`. Wire 4 shares
the client's side: its key name stands where wire 3 has the session id."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ...crypto.digest import sha256
from ...crypto.secret import Secret
from ...errors import ProtocolError
from ...wire.encoding import decode_base64, field, number, short_fields
from ...wire.header import X_IDEMPOTENCY_KEY, X_KID, X_SEAL, X_SEALED, Headers
from ...wire.identifier import (
    ANSWER_PREFIX,
    KID_PREFIX,
    check_nonce,
    check_request_nonce,
    check_window,
    id_of_kid,
    is_session_id,
    parse_stamp,
    split_idempotency_key,
)
from ..claim import TAG_SEALED, Claim, SessionRecord, make_claim
from .schedule import c2s_of, s2c_of
from .stream import FrameOpener, FrameSealer, StreamKeys

#: Characters of base64.
SEALED_MAX: Final = 8_192
TARGET_MAX: Final = 8_192
NONCE_LEN_MIN: Final = 16
#: The widest window that a server may keep, either way: what a client sends again rests on it.
WINDOW_MS_MAX: Final = 300_000
OCTETS: Final = "application/octet-stream"
#: Methods whose requests without a body travel in `X-Sealed`, as proxies drop or reject their body.
BODILESS_METHODS: Final = frozenset({"GET", "HEAD", "DELETE"})
UNSEALED_METHODS: Final = frozenset({"CONNECT", "TRACE", "OPTIONS"})


class Labels:
    """The labels of a wire, as the fields that they are, and the prefixes of its kids and of its answers' nonces."""

    __slots__ = ("answer", "answer_context", "answer_prefixes", "kid_prefix", "request", "request_context", "wire")

    def __init__(self, wire: int, kid_prefix: str, *answer_prefixes: str) -> None:
        self.wire: Final = str(wire)
        self.kid_prefix: Final = kid_prefix
        self.answer_prefixes: Final = answer_prefixes
        self.request: Final = field(f"sealway/{wire} request")
        self.answer: Final = field(f"sealway/{wire} answer")
        self.request_context: Final = field(f"sealway/{wire} request context")
        self.answer_context: Final = field(f"sealway/{wire} answer context")


WIRE_3: Final = Labels(3, KID_PREFIX, ANSWER_PREFIX)

Pairs = list[tuple[str, str]]


def is_bodiless(method: str, status: int) -> bool:
    """Returns True for an answer that cannot have a body, so that its stream is in `X-Sealed`."""
    return method == "HEAD" or status in (204, 205, 304)


@lru_cache(maxsize=256)
def _of_request(method: str, target: str, content_type: str) -> bytes:
    return field(method) + field(target.encode("latin-1")) + field(content_type.encode("latin-1"))


def _request_context(
    labels: Labels, method: str, target: str, content_type: str, stamp: str, nonce: str, id: str
) -> bytes:
    return sha256(labels.request_context + _of_request(method, target, content_type) + short_fields(stamp, nonce, id))


def _answer_context(
    labels: Labels, status: int, method: str, target: str, content_type: str, stamp: str, nonce: str, id: str
) -> bytes:
    return sha256(
        labels.answer_context
        + number(status)
        + _of_request(method, target, content_type)
        + short_fields(stamp, nonce, id)
    )


def sealed_header(headers: Headers) -> bytes | None:
    """The stream in `X-Sealed`; None where it is in the body. Neither is a stream of no bytes.

    Raises:
        ProtocolError: `header_invalid`.
    """
    value = headers.optional(X_SEALED)
    if value is None:
        return None
    if len(value) > SEALED_MAX:
        raise ProtocolError("header_invalid", X_SEALED)
    try:
        return decode_base64(value)
    except ValueError:
        raise ProtocolError("header_invalid", X_SEALED) from None


def _check_seal(headers: Headers, labels: Labels) -> None:
    if headers.single(X_SEAL) != labels.wire:
        raise ProtocolError("header_invalid", X_SEAL)


# --- The client


@dataclass(slots=True, repr=False, eq=False)
class PendingAnswer:
    """A request that was sealed, and what opens the answer to it, and to no other.

    Attributes:
        headers: `X-Seal`, `X-Kid`, `X-Idempotency-Key`; `Content-Type` and `X-Sealed` are the sender's.
        sealer: seals the request's frames.
        stamp, nonce: the request's.
    """

    headers: Pairs
    sealer: FrameSealer
    stamp: str
    nonce: str
    _labels: Labels
    _s2c: Secret
    _id: str
    _method: str
    _target: str

    def open(self, status: int, headers: Headers) -> tuple[FrameOpener, bytes | None]:
        """Returns the opener of the answer with these headers, and its stream if that is not the body.

        Raises:
            ProtocolError: as `spec/session-3.md#sealed-answers` has it; `unsealed` for one that is none.
        """
        if X_SEAL not in headers:
            raise ProtocolError("unsealed")
        labels = self._labels
        _check_seal(headers, labels)
        if id_of_kid(headers.single(X_KID), labels.kid_prefix) != self._id:
            raise ProtocolError("answer_mismatch")
        stamp, nonce = split_idempotency_key(headers.single(X_IDEMPOTENCY_KEY))
        check_nonce(nonce, NONCE_LEN_MIN)
        if not nonce.startswith(labels.answer_prefixes):
            raise ProtocolError("answer_mismatch")
        parse_stamp(stamp)
        sealed = sealed_header(headers)
        content_type = headers.optional("Content-Type") or ""
        context = _answer_context(labels, status, self._method, self._target, content_type, stamp, nonce, self._id)
        keys = StreamKeys(self._s2c.reveal(), labels.answer, self.nonce, nonce)
        return FrameOpener(keys, context, is_single=sealed is not None), sealed


def seal_request(
    c2s: Secret,
    s2c: Secret,
    id: str,
    method: str,
    target: str,
    content_type: str,
    stamp: str,
    nonce: str,
    labels: Labels = WIRE_3,
    prefix: bytes = b"",
) -> PendingAnswer:
    """Begins a request. `content_type` is the outer header's, empty without one; `nonce` holds 128 random bits; `prefix`
    stands before the stream."""
    check_request_nonce(nonce, NONCE_LEN_MIN)
    context = _request_context(labels, method, target, content_type, stamp, nonce, id)
    sealer = FrameSealer(StreamKeys(c2s.reveal(), labels.request, nonce, stamp), context, prefix)
    headers = [(X_SEAL, labels.wire), (X_KID, labels.kid_prefix + id), (X_IDEMPOTENCY_KEY, f"{stamp}.{nonce}")]
    return PendingAnswer(headers, sealer, stamp, nonce, labels, s2c, id, method, target)


# --- The server


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request whose headers are good: check 3 of `spec/session-3.md#a-request-at-the-server`."""

    method: str
    target: str
    session_id: str
    stamp: str
    nonce: str
    _content_type: str
    _is_in_header: bool

    def check_session(self, record: SessionRecord, now_ms: int, window_ms: int) -> None:
        """Checks 2 to 4. `window_ms` is as configured; one over `WINDOW_MS_MAX` counts as that.

        Raises:
            ProtocolError: `session_expired`, `wire_mismatch`, `timestamp_outside_window`.
        """
        if now_ms >= record.expires_ms:
            raise ProtocolError("session_expired")
        if record.wire != 3:
            raise ProtocolError("wire_mismatch")
        check_window(int(self.stamp), now_ms, min(window_ms, WINDOW_MS_MAX))

    def opener(self, record: SessionRecord) -> FrameOpener:
        """Returns the opener of the request's stream, in a session that was checked."""
        context = _request_context(
            WIRE_3, self.method, self.target, self._content_type, self.stamp, self.nonce, self.session_id
        )
        keys = StreamKeys(record.key.made(c2s_of), WIRE_3.request, self.nonce, self.stamp)
        return FrameOpener(keys, context, is_single=self._is_in_header)

    def claim(self, window_ms: int) -> Claim:
        """The claim that a store has to admit when the first frame has opened, before anybody sees what it holds."""
        return make_claim(TAG_SEALED, self.session_id, self.nonce, int(self.stamp), min(window_ms, WINDOW_MS_MAX))

    def seal_answer(
        self, record: SessionRecord, status: int, content_type: str, stamp: str, nonce: str
    ) -> tuple[Pairs, FrameSealer]:
        """Headers of the answer, and what seals its frames."""
        context = _answer_context(WIRE_3, status, self.method, self.target, content_type, stamp, nonce, self.session_id)
        headers = [
            (X_SEAL, WIRE_3.wire),
            (X_KID, KID_PREFIX + self.session_id),
            (X_IDEMPOTENCY_KEY, f"{stamp}.{nonce}"),
        ]
        return headers, FrameSealer(StreamKeys(record.key.made(s2c_of), WIRE_3.answer, self.nonce, nonce), context)


def parse_request(method: str, target: str, headers: Headers) -> ParsedRequest:
    """Check 3, and the form of the session's id.

    Raises:
        ProtocolError: as the table has it; `session_unknown` for what is no session id.
    """
    kid, key = headers.single(X_KID), headers.single(X_IDEMPOTENCY_KEY)
    _check_seal(headers, WIRE_3)
    if len(target) > TARGET_MAX:
        raise ProtocolError("header_invalid", "target")
    stamp, nonce = split_idempotency_key(key)
    check_request_nonce(nonce, NONCE_LEN_MIN)
    parse_stamp(stamp)
    id = id_of_kid(kid, KID_PREFIX)
    content_type = headers.optional("Content-Type") or ""
    is_in_header = sealed_header(headers) is not None
    if not is_session_id(id):
        raise ProtocolError("session_unknown")
    return ParsedRequest(method, target, id, stamp, nonce, content_type, is_in_header)
