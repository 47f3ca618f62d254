"""`Server-Timing`: `spec/session.md#http`."""

from __future__ import annotations

import time


class Timing:
    """The steps of one call."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self._steps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Ends a step; it began at the last lap."""
        now = time.perf_counter()
        self._steps[name] = self._steps.get(name, 0.0) + now - self._last
        self._last = now

    def skip(self) -> None:
        """Forgets what happened since the last lap: it belongs to no step."""
        self._last = time.perf_counter()

    def header(self) -> tuple[bytes, bytes]:
        """The header so far."""
        steps = {**self._steps, "total": time.perf_counter() - self._began}
        value = ", ".join(f"{name};dur={seconds * 1000:.3f}" for name, seconds in steps.items())
        return b"server-timing", value.encode("ascii")
