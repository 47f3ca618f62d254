"""Measurements of calls."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_ENTRY = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)((?:\s*;\s*[^;,]*)*)\s*")
_DUR = re.compile(r";\s*dur=([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(?:;|$)")


def parse_server_timing(value: str | None) -> dict[str, float]:
    """Names and milliseconds of a `Server-Timing` header; what is not of that form is passed over."""
    found: dict[str, float] = {}
    for part in (value or "")[:8192].split(","):
        entry = _ENTRY.fullmatch(part)
        duration = _DUR.search(entry[2]) if entry else None
        if entry and duration:
            found[entry[1]] = float(duration[1])
    return found


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _all_ms(steps: dict[str, float]) -> dict[str, float]:
    return {step: _ms(seconds) for step, seconds in steps.items()}


@dataclass(slots=True)
class SessionMetrics:
    """Measurements of agreeing or renewing a session.

    Attributes:
        round_trip_sec: all of it, in seconds.
        http_sec: of that, waiting for the service.
        crypto_sec: of that, the rest: `agree`.
        server_ms: what the service says in `Server-Timing`, in milliseconds.
    """

    round_trip_sec: float = 0.0
    http_sec: float = 0.0
    crypto_sec: dict[str, float] = field(default_factory=dict)
    server_ms: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For a report: milliseconds, rounded to a microsecond."""
        return {
            "round_trip_ms": _ms(self.round_trip_sec),
            "http_ms": _ms(self.http_sec),
            "crypto_ms": _all_ms(self.crypto_sec),
            "server_ms": self.server_ms,
        }


@dataclass(slots=True)
class CallMetrics:
    """Measurements of one call: `response.extensions["sealway"]`.

    Attributes:
        wire, suite, session_id: of the session that it went in.
        round_trip_sec: from the request to the head of its answer, set-up and repeats included, in seconds.
        http_sec: of that, waiting for the service.
        session_sec: of that, agreeing or renewing a session; 0 when there was one.
        session: what that was, if it was.
        crypto_sec: seconds of each step: `seal`, `open` (which goes on as a body flows).
        server_ms: what the service says in `Server-Timing`, in milliseconds; anybody on the path could have written it.
        attempts: how often it was sent.
        headers: those outside the seal, which nobody vouches for.
    """

    wire: int
    suite: str | None = None
    session_id: str = ""
    round_trip_sec: float = 0.0
    http_sec: float = 0.0
    session_sec: float = 0.0
    session: SessionMetrics | None = None
    crypto_sec: dict[str, float] = field(default_factory=dict)
    server_ms: dict[str, float] = field(default_factory=dict)
    attempts: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)

    def add_crypto(self, step: str, seconds: float) -> None:
        """Adds to a step."""
        self.crypto_sec[step] = self.crypto_sec.get(step, 0.0) + seconds

    def as_json(self) -> dict[str, Any]:
        """For a report: milliseconds, rounded to a microsecond."""
        return {
            "round_trip_ms": _ms(self.round_trip_sec),
            "http_ms": _ms(self.http_sec),
            "session_ms": _ms(self.session_sec),
            "crypto_ms": _all_ms(self.crypto_sec),
            "server_ms": self.server_ms,
            "attempts": self.attempts,
        }
