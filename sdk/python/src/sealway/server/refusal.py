"""What a refusal looks like over HTTP: coarse to the peer, precise to the log."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from ..errors import Refused, SealwayError, StoreFull, StoreUnavailable
from ..session.three import problem
from .header import RawHeaders
from .room import NoRoom

log = logging.getLogger("sealway")

_PUBLIC = {
    "METHOD_NOT_ALLOWED": 405,
    "PAYLOAD_TOO_LARGE": 413,
    "SESSION_EXPIRED": 401,
    "SESSION_FORBIDDEN": 403,
    "CRYPTO_ERROR": 400,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer in the clear."""

    status: int
    headers: RawHeaders
    body: bytes


@dataclass(eq=False)
class RefusedCall(Exception):
    """A refusal on its way to its peer. `more` are members of a problem."""

    error: SealwayError
    more: dict[str, Any] = field(default_factory=dict)


def _json(status: int, content_type: str, body: bytes, more: RawHeaders) -> Answer:
    headers = [
        (b"content-type", content_type.encode("ascii")),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        *more,
    ]
    return Answer(status, headers, body)


def plain(error: str, status: int | None = None) -> Answer:
    """`{"error": …}`, as wires 1 and 2 have it."""
    status = status or _PUBLIC[error]
    more: RawHeaders = [(b"retry-after", b"1")] if status == 503 else []
    if status == 405:
        more.append((b"allow", b"POST, OPTIONS"))
    return _json(status, "application/json", json.dumps({"error": error}, separators=(",", ":")).encode(), more)


def nothing() -> Answer:
    """What `OPTIONS` is told."""
    return Answer(204, [(b"allow", b"POST, OPTIONS")], b"")


def unavailable(status: int) -> Answer:
    """The service behind or a store gives no answer: 502, 503 or 504."""
    return plain("SERVICE_UNAVAILABLE", status)


def told_problem(code: str, **more: Any) -> Answer:
    """A problem of wire 3."""
    status, body = problem.encode_problem(code, **more)
    headers: RawHeaders = [(b"retry-after", b"1")] if code == "store_unavailable" else []
    return _json(status, problem.CONTENT_TYPE, body, headers)


def old_refusal(error: SealwayError) -> Answer:
    """What a peer of wire 1 or 2 is told."""
    if isinstance(error, NoRoom | StoreUnavailable):
        return unavailable(503)
    code = error.code if isinstance(error, Refused) else ""
    if code in ("session_unknown", "session_expired"):
        return plain("SESSION_EXPIRED")
    if code == "body_too_large":
        return plain("PAYLOAD_TOO_LARGE")
    if code == "policy":
        return plain("SESSION_FORBIDDEN")
    if code in ("provider", "reservation_mismatch"):
        return unavailable(503)
    return plain("CRYPTO_ERROR")


def three_refusal(refused: RefusedCall) -> Answer:
    """What a peer of wire 3 is told."""
    error = refused.error
    if isinstance(error, Refused):
        return told_problem(problem.problem_of(error.code), **refused.more)
    if isinstance(error, NoRoom | StoreFull | StoreUnavailable):
        return told_problem("store_unavailable")
    return told_problem("unsealable")


def report(wire: int, error: SealwayError) -> None:
    """Logs the class of a refusal; no value of the request."""
    log.info("refused a call of wire %d: %s", wire, error.code)
