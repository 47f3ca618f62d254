"""A call's deadline as the timeouts that `httpx` knows."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Final

from ..errors import DeadlineExceeded

#: Seconds for each step of a request that nobody gave a timeout.
STEP_SEC: Final = 30.0
_STEPS = ("connect", "read", "write", "pool")


class StepTimeout(float):
    """The timeout of a step, in seconds, which ends no later than the call. A library below takes it for a number and
    counts it anew for every read; `left_sec` says what is left by now."""

    __slots__ = ("_deadline", "_own_sec")

    _own_sec: float | None
    _deadline: float

    def __new__(cls, own_sec: float | None, deadline: float, now: float) -> StepTimeout:
        left = deadline - now
        made = super().__new__(cls, left if own_sec is None else min(own_sec, left))
        made._own_sec, made._deadline = own_sec, deadline
        return made

    def left_sec(self) -> float:
        """Seconds for the next read or write; 0 or less when the call's time is over."""
        left = self._deadline - time.monotonic()
        return left if self._own_sec is None else min(self._own_sec, left)


def timeouts(extensions: Mapping[str, Any], deadline: float | None, deadline_sec: float) -> dict[str, float | None]:
    """Timeouts of each step, none of which reaches beyond the deadline, a monotonic time.

    Raises:
        DeadlineExceeded: if it has passed.
    """
    given = extensions.get("timeout")
    known = given if isinstance(given, Mapping) else {}
    steps: dict[str, float | None] = {step: known.get(step, STEP_SEC) for step in _STEPS}
    if deadline is None:
        return steps
    now = time.monotonic()
    check_left(deadline, deadline_sec)
    return {step: StepTimeout(own, deadline, now) for step, own in steps.items()}


def check_left(deadline: float | None, deadline_sec: float) -> None:
    """Checks that the call has time.

    Raises:
        DeadlineExceeded: if it has none.
    """
    if deadline is not None and time.monotonic() >= deadline:
        raise DeadlineExceeded(deadline_sec)


def is_over(deadline: float | None) -> bool:
    """Whether the deadline passed, or so nearly that a timeout is its doing."""
    return deadline is not None and time.monotonic() >= deadline - 0.001


def left_sec(deadline: float | None) -> float:
    """Seconds that are left; infinite without a deadline."""
    return math.inf if deadline is None else max(0.0, deadline - time.monotonic())
