"""The clocks of a client."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The clock of the day."""
    return time.time_ns() // 1_000_000


class Sent:
    """When a request was sent, by two clocks: the one that never jumps may stand still while a machine sleeps, that of
    the day may be set."""

    __slots__ = ("_day_ns", "_monotonic_ns")

    def __init__(self) -> None:
        self._monotonic_ns, self._day_ns = time.monotonic_ns(), time.time_ns()

    def elapsed_ms(self) -> int:
        """Milliseconds since then by the clock that says more, rounded up."""
        elapsed_ns = max(time.monotonic_ns() - self._monotonic_ns, time.time_ns() - self._day_ns)
        return -(-elapsed_ns // 1_000_000)
