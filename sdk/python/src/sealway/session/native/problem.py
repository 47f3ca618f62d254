"""Problems, and the proofs that two of them carry: `spec/session-3.md#problems`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...crypto.digest import expand, hmac_sha256, is_equal
from ...errors import ProtocolError
from ...wire.encoding import encode_base64, field, number
from ...wire.members import base64_bytes, parse_json, time_ms
from .call import WINDOW_MS_MAX
from .message import dump

CONTENT_TYPE: Final = "application/problem+json"
PROBLEM_MAX: Final = 65_536
#: Those of RFC 9110 section 9.2.1 that are sealed.
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})

#: Status and title of each problem of `spec/registry.toml`.
PROBLEMS: Final[Mapping[str, tuple[int, str]]] = {
    "session_expired": (401, "The session is over or unknown: agree a new one."),
    "unsealable": (400, "The request does not open."),
    "replayed": (409, "The request was received before."),
    "clock_skew": (400, "The request's time is too far from the server's."),
    "suite_required": (409, "Begin anew with another suite."),
    "key_retired": (409, "No key that the client pinned or sealed to is live any more."),
    "unauthenticated": (401, "The client did not prove who it is."),
    "policy": (403, "The client may not do this."),
    "wire_disabled": (403, "This wire is not served here."),
    "too_large": (413, "The message is over its bound."),
    "malformed": (400, "The message is not what it should be."),
    "not_found": (404, "There is no such thing here."),
    "method_not_allowed": (405, "Another method is needed."),
    "rate_limited": (429, "Too many requests: wait."),
    "store_unavailable": (503, "Try again later."),
    "upstream_unreachable": (502, "The service behind did not answer."),
    "upstream_timeout": (504, "The service behind did not answer in time."),
}


def encode_problem(code: str, **more: Any) -> tuple[int, bytes]:
    """Status and body of a problem."""
    status, title = PROBLEMS[code]
    head = {"type": f"urn:sealway:problem:{code}", "title": title, "status": status, "code": code}
    return status, dump(head | more)


def parse_problem(body: bytes) -> dict[str, Any] | None:
    """The members of a problem; None for what is none."""
    try:
        value = parse_json(body, is_server=False)
    except ProtocolError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("code"), str) or len(value["code"]) > 64:
        return None
    return value


def clock_mac(s2c: bytes | bytearray, nonce: str, stamp: str, server_time_ms: int) -> bytes:
    """Returns the proof of a server's time for the owner of a session."""
    return hmac_sha256(expand(s2c, b"sealway/3 clock"), field(nonce) + field(stamp) + number(server_time_ms))


def clock_members(s2c: bytes | bytearray, nonce: str, stamp: str, server_time_ms: int) -> dict[str, Any]:
    """The members of `clock_skew` beside its head."""
    return {
        "server_time_ms": server_time_ms,
        "mac": encode_base64(clock_mac(s2c, nonce, stamp, server_time_ms)),
    }


def proven_clock(problem: Mapping[str, Any], s2c: bytes, nonce: str, stamp: str) -> int | None:
    """The server's time of a `clock_skew`, where its mac verifies."""
    time, mac = time_ms(problem.get("server_time_ms")), base64_bytes(problem.get("mac"))
    if problem.get("code") != "clock_skew" or time is None or mac is None:
        return None
    return time if is_equal(mac, clock_mac(s2c, nonce, stamp, time)) else None


def sends_again(code: str, proven_ms: int | None, method: str, stamp_ms: int, elapsed_ms: int) -> bool:
    """Returns True if a client sends a rejected request once more: `spec/session-3.md#problems`, "What is sent again".

    A machine in the middle may have delivered the request, held its answer back, and sent the same bytes until they were
    rejected. So after `session_expired` only a safe request is sent again. After a `clock_skew` with proof it is any
    request that was too old for every server when it left; the clocks of servers may be a window apart.

    Args:
        code: of the problem.
        proven_ms: the server's time, where `proven_clock` gave one.
        method: of the refused request.
        stamp_ms: its timestamp.
        elapsed_ms: milliseconds since it was sent, rounded up.
    """
    is_safe = method in SAFE_METHODS
    if code != "clock_skew":
        return code == "session_expired" and is_safe
    return proven_ms is not None and (is_safe or is_too_old(stamp_ms, proven_ms, elapsed_ms))


def is_too_old(stamp_ms: int, server_time_ms: int, elapsed_ms: int) -> bool:
    """Returns True if a stamp was outside the window of every server when its request left, `elapsed_ms` ago."""
    return stamp_ms + 2 * WINDOW_MS_MAX < server_time_ms - elapsed_ms
