"""The clocks of a client."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The clock of the day."""
    return time.time_ns() // 1_000_000


class Moment:
    """The moment it is made in, by two clocks: the one that never jumps may stand still while a machine sleeps, that of
    the day may be set."""

    __slots__ = ("_day_ns", "_monotonic_ns")

    def __init__(self) -> None:
        self._monotonic_ns, self._day_ns = time.monotonic_ns(), time.time_ns()

    def elapsed_ms(self) -> int:
        """Milliseconds since then by the clock that says more, rounded up."""
        return -(-self._elapsed_ns() // 1_000_000)

    def elapsed_sec(self) -> float:
        """Seconds since then by the clock that says more."""
        return self._elapsed_ns() / 1e9

    @property
    def monotonic_sec(self) -> float:
        """It by the clock that never jumps, as `time.monotonic` has it."""
        return self._monotonic_ns / 1e9

    def _elapsed_ns(self) -> int:
        return max(time.monotonic_ns() - self._monotonic_ns, time.time_ns() - self._day_ns)
