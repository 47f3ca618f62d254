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


def timeouts(extensions: Mapping[str, Any], deadline: float | None, deadline_sec: float) -> dict[str, float | None]:
    """Timeouts of each step, none of which reaches beyond the deadline. The inner transport keeps this very dict, so
    that `tighten` works on a body that is on its way.

    Raises:
        DeadlineExceeded: if it has passed.
    """
    given = extensions.get("timeout")
    known = given if isinstance(given, Mapping) else {}
    steps: dict[str, float | None] = {step: known.get(step, STEP_SEC) for step in _STEPS}
    tighten(steps, deadline, deadline_sec)
    return steps


def tighten(steps: dict[str, float | None], deadline: float | None, deadline_sec: float) -> None:
    """Shortens each step to what is left.

    Raises:
        DeadlineExceeded: if nothing is.
    """
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceeded(deadline_sec)
    for step in _STEPS:
        own = steps[step]
        steps[step] = left if own is None else min(own, left)


def is_over(deadline: float | None) -> bool:
    """Whether the deadline passed, or so nearly that a timeout is its doing."""
    return deadline is not None and time.monotonic() >= deadline - 0.001


def left_sec(deadline: float | None) -> float:
    """Seconds that are left; infinite without a deadline."""
    return math.inf if deadline is None else max(0.0, deadline - time.monotonic())
