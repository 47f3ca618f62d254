"""The answer to a sealed request: `spec/session.md#answer`, `spec/session-3.md#sealed-answers`."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ProtocolError
from ..session.claim import SessionRecord
from ..session.compat.call import ParsedCall, content_type_of
from ..session.native.call import OCTETS, SEALED_MAX, Pairs, ParsedRequest, is_bodiless
from ..session.native.stream import FrameSealer
from ..wire.encoding import encode_base64
from ..wire.header import X_SEALED
from ..wire.identifier import ANSWER_PREFIX
from ..wire.inner import InnerHeaders, encode_inner
from .refusal import Refusal


class AnswerSeal:
    """Seals an answer.

    Attributes:
        status: the one that the answer is sent with.
        is_whole: True if the answer is sealed when all of its body is there, and its headers stay outside; else it is
            sealed frame by frame as its body comes, with its headers within.
        is_bodyless: True if it has no body; its frames are then in a header.
    """

    __slots__ = ("_call", "_record", "_sealer", "is_bodyless", "is_whole", "status")

    def __init__(self, call: ParsedCall | ParsedRequest, record: SessionRecord, status: int) -> None:
        self._call, self._record = call, record
        self._sealer: FrameSealer | None = None
        self.is_whole = isinstance(call, ParsedCall)
        self.status = 200 if self.is_whole and 200 <= status < 300 else status
        self.is_bodyless = isinstance(call, ParsedRequest) and is_bodiless(call.method, status)

    def begin(
        self, inner: InnerHeaders, body: bytes, is_last: bool, now_ms: int, nonce_random: bytes, iv: bytes
    ) -> tuple[Pairs, bytes]:
        """Begins the answer: the headers that sealing adds, and the sealed beginning of its body, which is all of it where
        the answer is sealed as a whole. `nonce_random` is 16 bytes, `iv` 12.

        Raises:
            Refusal: for what cannot be sealed: `plaintext_rejected`, `unanswered`.
        """
        stamp, nonce = str(now_ms), ANSWER_PREFIX + nonce_random.hex()
        if isinstance(self._call, ParsedCall):
            if self.status in (400, 422):
                raise Refusal("plaintext_rejected")
            if self.status == 304:
                # Without a body there is nothing to seal, and an unsealed answer proves nothing.
                raise Refusal("unanswered")
            headers, sealed = self._call.seal_answer(self._record, self.status, body, stamp, nonce, iv)
            return [*headers, ("Content-Type", content_type_of(self._call.wire))], sealed
        try:
            head = encode_inner(inner)
        except ProtocolError:
            raise Refusal("unanswered") from None
        content_type = "" if self.is_bodyless else OCTETS
        headers, self._sealer = self._call.seal_answer(self._record, self.status, content_type, stamp, nonce)
        if not self.is_bodyless:
            return [*headers, ("Content-Type", content_type)], self._sealer.seal_all(head, body, is_last)
        value = encode_base64(self._sealer.seal(head, True))
        if len(value) > SEALED_MAX:
            raise Refusal("unanswered")
        return [*headers, (X_SEALED, value)], b""

    def more(self, body: bytes, is_last: bool) -> bytes:
        """The frames of a further part of the body; none for an empty part that is not the last."""
        if self._sealer is None:
            raise ValueError("no frame stands before this part")
        return self._sealer.seal_all(b"", body, is_last) if body or is_last else b""


@dataclass(slots=True, repr=False)
class Reply:
    """The part of a request that sealing its answer needs.

    Attributes:
        record: the session.
    """

    record: SessionRecord
    _call: ParsedCall | ParsedRequest

    def answer(self, status: int) -> AnswerSeal:
        """The seal of an answer of this status."""
        return AnswerSeal(self._call, self.record, status)
