"""Errors of this package. No message holds a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .remedies import REMEDIES

#: The party that causes each error of `spec/registry.toml`.
BLAMES: Final[Mapping[str, str]] = {
    "header_missing": "peer",
    "header_invalid": "peer",
    "idempotency_key_shape": "peer",
    "nonce_invalid": "peer",
    "nonce_reserved": "peer",
    "timestamp_invalid": "peer",
    "timestamp_outside_window": "expiry",
    "kid_prefix": "peer",
    "session_unknown": "peer",
    "session_expired": "expiry",
    "client_mismatch": "peer",
    "wire_mismatch": "peer",
    "body_too_short": "peer",
    "body_too_large": "limit",
    "base64_invalid": "peer",
    "aad_mismatch": "peer",
    "unsealable": "crypto",
    "replayed": "peer",
    "json_invalid": "peer",
    "field_invalid": "peer",
    "public_key_invalid": "crypto",
    "answer_mismatch": "peer",
    "reservation_mismatch": "caller",
    "suite_required": "peer",
    "suite_downgraded": "crypto",
    "key_retired": "expiry",
    "key_untrusted": "crypto",
    "signature_invalid": "crypto",
    "unconfirmed": "crypto",
    "stream_truncated": "peer",
    "frame_invalid": "peer",
    "inner_headers_invalid": "peer",
    "unsealed": "peer",
    "policy": "peer",
    "unauthenticated": "peer",
    "provider": "crypto",
}


class SealwayError(Exception):
    """The base of all errors of this package.

    Attributes:
        code: a code of `spec/registry.toml`, or `usage`, `unreachable`, `timeout`, `redirected`, `network`.
        blame: the party that causes the error: `peer`, `crypto`, `expiry`, `limit`, `caller` or `service`.
        stage: the progress of a client's call. `configuration`: nothing was sent. `agreement`: a session was being agreed,
            renewed or ended, and the request was not sent. `call`: the sealed request may have been sent.
        retryable: True if the same request may be sent again without a second execution, and may succeed then.
        host: host and port of the peer of a client's call; empty if there is none.
    """

    code: str = "sealway"
    blame: str = "peer"
    stage: str = "configuration"
    retryable: bool = False
    host: str = ""

    @property
    def remedy(self) -> str:
        """A sentence that says what to do; empty if the code is not in the table of remedies."""
        return REMEDIES.get(self.code, ("", ""))[1]


class ProtocolError(SealwayError):
    """A message that breaks the rules of its wire, by a code of `spec/registry.toml`.

    Attributes:
        field: the header or the member at fault, if it is one.
        proof: members that prove the rejection to its client, in a problem.
    """

    def __init__(self, code: str, field: str | None = None, proof: Mapping[str, Any] | None = None) -> None:
        self.blame = BLAMES[code]
        self.code, self.field, self.proof = code, field, proof or {}
        meaning = REMEDIES[code][0].rstrip(".")
        super().__init__(f"{code}: {meaning}" if field is None else f"{code}: {meaning} ({field})")


class UsageError(SealwayError):
    """An option is wrong, or the request cannot be sealed; nothing was sent."""

    code, blame = "usage", "caller"


class ProblemError(SealwayError):
    """The service rejects the request on wire 3, without a seal: `spec/session-3.md#problems`. Any machine on the path can
    write such an answer.

    Attributes:
        status: the HTTP status.
        more: the members of the problem beside its code; they prove nothing by themselves.
    """

    blame = "service"

    def __init__(self, status: int, code: str, more: Mapping[str, Any]) -> None:
        self.status, self.code, self.more = status, code, dict(more)
        super().__init__(f"the service answers {status} {code}")

    def note_unknown(self) -> None:
        """Adds to the message that a machine on the path may have had the request executed."""
        unknown = "whether the request was served is unknown: it was not sent again"
        self.args = (f"{self.args[0]}; {unknown}",)


class PlainAnswerError(SealwayError):
    """An answer without a seal to a sealed request: a rejection of wires 1 and 2, or the answer of a machine on the path.
    `code` is `unsealed`, or the code of the public error where the registry has a problem of the same name.

    Attributes:
        status: the HTTP status.
        error: the public error of `spec/registry.toml`, if the answer has one.
    """

    code, blame = "unsealed", "service"

    def __init__(self, status: int, error: str | None, content_type: str = "") -> None:
        self.status, self.error = status, error
        if error is not None and error.lower() in REMEDIES:
            self.code = error.lower()
        super().__init__(f"the answer is not sealed: {status} {error or content_type or 'without a type'}")


class RedirectError(PlainAnswerError):
    """A redirect without a seal. It is not followed: a machine on the path could send a sealed request anywhere."""

    def __init__(self, status: int) -> None:
        super().__init__(status, None)
        self.code = "redirected"
        self.args = (f"the answer is a redirect ({status}), which a sealed request does not follow",)


class StoreUnavailable(SealwayError):
    """The store cannot say whether a session or a claim is valid: reject the request, and retry later."""

    code, blame = "store_unavailable", "service"


class StoreFull(SealwayError):
    """The store holds as many claims or sessions as it may."""

    code, blame = "store_full", "limit"
