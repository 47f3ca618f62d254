"""Refusals as HTTP answers: coarse to the client, in the form that its protocol reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ..errors import ProtocolError, SealwayError
from ..session.native.problem import CONTENT_TYPE, encode_problem

#: The methods that wires 1 and 2 allow.
METHODS: Final = b"POST, OPTIONS"

#: Headers of some statuses.
_MORE: Final = {405: [(b"allow", METHODS)], 503: [(b"retry-after", b"1")]}
_BUSY: Final = (503, "SERVICE_UNAVAILABLE", "store_unavailable")
_OVER: Final = (401, "SESSION_EXPIRED", "session_expired")
_FORBIDDEN: Final = (403, "SESSION_FORBIDDEN", "policy")
_UNSEALABLE: Final = (400, "CRYPTO_ERROR", "unsealable")

#: Status and error of the plain form, and the problem, by the code of a refusal; all others are `_UNSEALABLE`.
_TOLD: Final[Mapping[str, tuple[int, str, str]]] = {
    "session_unknown": _OVER,
    "session_expired": _OVER,
    "policy": _FORBIDDEN,
    "anonymous_path": _FORBIDDEN,
    "provider": _BUSY,
    "store_unavailable": _BUSY,
    "body_no_room": _BUSY,
    "reservation_mismatch": (503, "SERVICE_UNAVAILABLE", "unsealable"),
    "store_full": (400, "CRYPTO_ERROR", "store_unavailable"),
    "timestamp_outside_window": (400, "CRYPTO_ERROR", "clock_skew"),
    "replayed": (400, "CRYPTO_ERROR", "replayed"),
    "body_too_large": (413, "PAYLOAD_TOO_LARGE", "too_large"),
    "method": (405, "METHOD_NOT_ALLOWED", "method_not_allowed"),
    "unanswered": (502, "SERVICE_UNAVAILABLE", "upstream_unreachable"),
}


class Form(Enum):
    """The form of an error's body: `{"error": CODE}` on wires 1 and 2, a problem (RFC 9457) on wire 3."""

    PLAIN = "application/json"
    PROBLEM = CONTENT_TYPE

    @classmethod
    def of(cls, wire: int) -> Form:
        """The form that clients of a wire read."""
        return cls.PROBLEM if wire == 3 else cls.PLAIN


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An answer that tells of an error: all that is sent, `Server-Timing` aside. Names of headers are in lower case."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal, and the answer to the client."""

    refusal: SealwayError

    def answer(self, form: Form) -> ErrorAnswer:
        """The answer to the client."""
        status, error, problem = _TOLD.get(self.refusal.code, _UNSEALABLE)
        if form is Form.PLAIN:
            body = json.dumps({"error": error}, separators=(",", ":")).encode("ascii")
        else:
            more = self.refusal.proof if isinstance(self.refusal, ProtocolError) else {}
            status, body = encode_problem(problem, **more)
        headers = [
            (b"content-type", form.value.encode("ascii")),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        return ErrorAnswer(status, headers + _MORE.get(status, []), body)
