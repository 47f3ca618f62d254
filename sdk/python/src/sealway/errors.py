"""Errors of this package. No message holds a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .remedies import REMEDIES

#: The party that causes each error of `spec/registry.toml`, and its meaning.
CODES: Final[Mapping[str, tuple[str, str]]] = {
    "header_missing": ("peer", "a header that the wire needs is absent or empty"),
    "header_invalid": ("peer", "a header is repeated, holds bytes beyond ASCII, or breaks its own form"),
    "idempotency_key_shape": ("peer", "X-Idempotency-Key is not timestamp.nonce"),
    "nonce_invalid": ("peer", "a nonce has a wrong length or alphabet"),
    "nonce_reserved": ("peer", "a request carries a nonce of the kind that only answers carry"),
    "timestamp_invalid": ("peer", "a timestamp is not 1 to 15 decimal digits"),
    "timestamp_outside_window": ("expiry", "a timestamp is too far from the reader's clock"),
    "kid_prefix": ("peer", "X-Kid does not begin with session:"),
    "session_unknown": ("peer", "X-Kid names no session that is known"),
    "session_expired": ("expiry", "the session's time is over"),
    "client_mismatch": ("peer", "the session belongs to another client id"),
    "wire_mismatch": ("peer", "the session was agreed on another wire"),
    "body_too_short": ("peer", "a sealed body is shorter than an empty message"),
    "body_too_large": ("limit", "a body or a path is over its bound"),
    "base64_invalid": ("peer", "a sealed body is not the base64 that the wire asks for"),
    "aad_mismatch": ("peer", "X-AAD is not what the message itself gives"),
    "unsealable": ("crypto", "the tag does not verify: wrong key, changed bytes or changed context"),
    "replayed": ("peer", "the nonce was seen before"),
    "json_invalid": ("peer", "a body is not JSON, or is nested too deep"),
    "field_invalid": ("peer", "a member of a JSON body is absent or of a wrong type"),
    "public_key_invalid": ("crypto", "a public key is not one of its suite"),
    "answer_mismatch": ("peer", "an answer is of another session, or carries the nonce of a request"),
    "reservation_mismatch": ("caller", "a reservation was presented for another nonce than its own"),
    "suite_required": ("peer", "the suite of the share is not the first of the client's list that the server takes"),
    "suite_downgraded": (
        "crypto",
        "the suite of an answer is not the first of the client's list that is in the server's",
    ),
    "key_retired": ("expiry", "none of the identity keys that the client pinned is live"),
    "key_untrusted": ("crypto", "an answer is signed by a key that the client does not trust"),
    "signature_invalid": ("crypto", "a signature is not of the key that it should be of"),
    "unconfirmed": ("crypto", "the server's confirmation is not what the agreed keys give"),
    "stream_truncated": ("peer", "a sealed stream ends without its last frame"),
    "frame_invalid": ("peer", "a frame has a wrong length, is empty and not the last, or stands behind the last one"),
    "inner_headers_invalid": ("peer", "the headers within a seal are malformed, too many, or may not be there"),
    "unsealed": ("peer", "an answer to a sealed request is not sealed"),
    "policy": ("peer", "the client's policy does not allow it"),
    "unauthenticated": ("peer", "the client did not prove who it is"),
    "provider": ("crypto", "the crypto module failed"),
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
        return REMEDIES.get(self.code, "")


class ProtocolError(SealwayError):
    """A message that breaks the rules of its wire, by a code of `spec/registry.toml`.

    Attributes:
        field: the header or the member at fault, if it is one.
        proof: members that prove the rejection to its client, in a problem.
    """

    def __init__(self, code: str, field: str | None = None, proof: Mapping[str, Any] | None = None) -> None:
        self.blame, meaning = CODES[code]
        self.code, self.field, self.proof = code, field, proof or {}
        super().__init__(f"{code}: {meaning}" if field is None else f"{code}: {meaning} ({field})")


class UsageError(SealwayError):
    """An option is wrong, or the request cannot be sealed; nothing was sent."""

    code, blame = "usage", "caller"


class ProblemError(SealwayError):
    """The service rejects the request on wire 3 or 4: `spec/session-3.md#problems`, `spec/one-shot.md#problems`. Any
    machine on the path can write such an answer, unless it came sealed on wire 4.

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


class KeyRetiredError(ProblemError):
    """The service does not accept the key that a request of wire 4 was sealed to.

    Attributes:
        kids: the keys that the service's document names now. Unless a pinned root signed it, anybody on the path can have
            written them.
    """

    def __init__(self, status: int, more: Mapping[str, Any], kids: tuple[str, ...]) -> None:
        super().__init__(status, "key_retired", more)
        self.kids = kids
        if kids:
            self.args = (f"{self.args[0]}; its keys are now {', '.join(kids)}",)


class PlainAnswerError(SealwayError):
    """An answer without a seal to a sealed request: a rejection of wires 1 and 2, or the answer of a machine on the path.
    `code` is the public error of `spec/registry.toml`, such as `RATE_LIMITED`, if the answer has one; else `unsealed`.

    Attributes:
        status: the HTTP status.
        error: the member `error` of the answer, if it has one.
    """

    code, blame = "unsealed", "service"

    def __init__(self, status: int, error: str | None, content_type: str = "") -> None:
        self.status, self.error = status, error
        if error in REMEDIES and error.isupper():
            self.code = error
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
