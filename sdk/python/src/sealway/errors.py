"""Errors: what is refused, by which code of `spec/registry.toml`, and who is to blame. No message holds a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Who is to blame for each code of `spec/registry.toml`, and the sentence it stands for.
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
    "provider": ("crypto", "the crypto module refused to work"),
}


class SealwayError(Exception):
    """The root of all errors of this package.

    Attributes:
        code: the stable name of what went wrong; a code of `spec/registry.toml` where there is one.
        blame: `peer`, `crypto`, `expiry`, `limit`, `caller` or `service`.
        origin: the service that a client's error is about, as `https://host:port`.
    """

    code: str = "sealway"
    blame: str = "peer"
    origin: str | None = None


class ProtocolError(SealwayError):
    """A message that the wire's rules refuse, by a code of `spec/registry.toml`.

    Attributes:
        field: the header or the member at fault, if it is one.
        proof: members that prove the refusal to its client, in a problem.
    """

    def __init__(self, code: str, field: str | None = None, proof: Mapping[str, Any] | None = None) -> None:
        self.blame, meaning = CODES[code]
        self.code, self.field, self.proof = code, field, proof or {}
        super().__init__(f"{code}: {meaning}" if field is None else f"{code}: {meaning} ({field})")


class UsageError(SealwayError):
    """The caller asked for what cannot be done; nothing was sent."""

    code, blame = "usage", "caller"


class ProblemError(SealwayError):
    """The service refused on wire 3, in the clear: `spec/session-3.md#problems`. Anybody on the path can make one.

    Attributes:
        status: the HTTP status.
        more: the members of the problem beside its code; they prove nothing by themselves.
    """

    blame = "service"

    def __init__(self, status: int, code: str, more: Mapping[str, Any], host: str = "the service") -> None:
        self.status, self.code, self.more = status, code, dict(more)
        super().__init__(f"{host} refused: {status} {code}")

    def note_unknown(self) -> None:
        """Says that somebody in between may have had the refused request served before."""
        unknown = "whether the request was served is unknown: it was not sent again"
        self.args = (f"{self.args[0]}; {unknown}",)


class PlainAnswerError(SealwayError):
    """An answer in the clear where a sealed one was due: a refusal of wires 1 and 2, or of somebody on the path.

    Attributes:
        status: the HTTP status.
        error: the public string of `spec/registry.toml`, if it is one.
    """

    code, blame = "unsealed", "service"

    def __init__(self, status: int, error: str | None, host: str = "the service", content_type: str = "") -> None:
        self.status, self.error = status, error
        guess = "neither sealed nor a refusal: a captive portal, a proxy or another service?"
        answered = f"{host} answered {status}, {content_type or 'no type'}, {guess}"
        super().__init__(answered if error is None else f"{host} refused: {status} {error}")


class RedirectError(PlainAnswerError):
    """An unsealed redirect. It is not followed: whoever is on the path could send a sealed call anywhere."""

    def __init__(self, status: int) -> None:
        super().__init__(status, None)
        self.args = (f"the service redirects ({status}), and a sealed call does not follow",)


class DeadlineExceeded(SealwayError):
    """The call's deadline passed.

    Attributes:
        deadline_sec: how long the call was allowed to take, in seconds.
    """

    code, blame = "deadline_exceeded", "limit"

    def __init__(self, deadline_sec: float) -> None:
        self.deadline_sec = deadline_sec
        super().__init__(f"no whole answer within {deadline_sec:g} s")


class StoreUnavailable(SealwayError):
    """Nobody can say whether a session or a claim is good: refuse, and try later."""

    code, blame = "store_unavailable", "service"


class StoreFull(SealwayError):
    """The store of claims or of sessions holds as many as it may."""

    code, blame = "store_full", "limit"
