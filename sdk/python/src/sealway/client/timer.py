"""The timeouts of a call."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import httpx

from ..errors import SealwayError
from .failure import TimeoutError, UnreachableError

CONNECT: Final = "connect_timeout_sec"
HEAD: Final = "head_timeout_sec"
TOTAL: Final = "total_timeout_sec"
IDLE: Final = "idle_timeout_sec"
#: The timeouts of `Options`, by name.
TIMEOUTS: Final = (CONNECT, HEAD, TOTAL, IDLE)
#: The timeouts of httpx that stand for a client without any.
_HTTPX_DEFAULT: Final = httpx.Timeout(5.0).as_dict()
#: A timeout that never passes, in seconds: sockets take no infinite one.
_FOREVER_SEC: Final = 1e6
#: Timers of the system are not exact.
_TOLERANCE_SEC: Final = 0.001


class Phase(NamedTuple):
    """A part of an exchange. `step` is the name of its timeout in httpx, `option` in `Options`; a joint timeout bounds all
    of the phase, another one each wait in it."""

    step: str
    option: str
    is_joint: bool = False


WAIT: Final = Phase("pool", CONNECT)
CONNECTING: Final = Phase("connect", CONNECT, True)
SENDING: Final = Phase("write", IDLE)
AWAITING_HEAD: Final = Phase("read", HEAD, True)
READING: Final = Phase("read", IDLE)
#: The phases that the events of httpx's extension `trace` begin.
_EVENTS: Final = {
    "connect_tcp.started": CONNECTING,
    "connect_unix_socket.started": CONNECTING,
    "send_request_headers.started": SENDING,
    "receive_response_headers.started": AWAITING_HEAD,
}


class Timer:
    """Bounds one call as a whole, and each phase of its exchanges."""

    def __init__(self, limits: Mapping[str, float | None], extensions: Mapping[str, Any]) -> None:
        """`limits` are seconds by the names of `TIMEOUTS`, None for no bound. The timeouts of httpx in `extensions` count
        as well, unless they are httpx's default."""
        own = extensions.get("timeout")
        self._httpx: Mapping[str, float | None] = own if isinstance(own, Mapping) and own != _HTTPX_DEFAULT else {}
        self._limits = limits
        self._began = time.monotonic()
        self.enter(WAIT)

    def enter(self, phase: Phase) -> None:
        """Begins a phase."""
        self.phase, self._since = phase, time.monotonic()

    @property
    def is_connecting(self) -> bool:
        """True while a connection comes about: nothing of the exchange was sent."""
        return self.phase is CONNECTING

    def note(self, event: str) -> None:
        """Begins the phase that an event of httpx's extension `trace` stands for, if it is one."""
        phase = _EVENTS.get(event.partition(".")[2])
        if phase is not None:
            self.enter(phase)

    def _of(self, limits: Mapping[str, float | None], name: str) -> float:
        limit = limits.get(name)
        return math.inf if limit is None else limit

    def joint_left_sec(self) -> float:
        """Seconds left of the call, and of its phase where that has a joint timeout; infinite without a bound."""
        left = self._total_left_sec()
        if self.phase.is_joint:
            left = min(left, self._since + self._of(self._limits, self.phase.option) - time.monotonic())
        return max(0.0, left)

    def _total_left_sec(self) -> float:
        return max(0.0, self._began + self._of(self._limits, TOTAL) - time.monotonic())

    def left_sec(self) -> float:
        """Seconds that the next wait of this phase may take; infinite without a bound."""
        each = math.inf if self.phase.is_joint else self._of(self._limits, self.phase.option)
        return min(self.joint_left_sec(), each, self._of(self._httpx, self.phase.step))

    def check(self) -> None:
        """Checks that the call has time.

        Raises:
            TimeoutError
        """
        if self.joint_left_sec() <= 0:
            raise self.error()

    def error(self, step: str | None = None) -> SealwayError:
        """The error of the timeout that passed; `step` is httpx's name of it, where httpx says."""
        phase, now = self.phase, time.monotonic()
        if step is not None and phase.step != step:
            phase = {each.step: each for each in (WAIT, CONNECTING, SENDING, AWAITING_HEAD)}[step]
        name, limit = phase.option, self._of(self._limits, phase.option)
        if now >= self._began + self._of(self._limits, TOTAL) - _TOLERANCE_SEC:
            name, limit = TOTAL, self._of(self._limits, TOTAL)
        elif self._of(self._httpx, phase.step) < limit and not (
            phase.is_joint and now >= self._since + limit - _TOLERANCE_SEC
        ):
            name, limit = "timeout", self._of(self._httpx, phase.step)
        kind = UnreachableError if phase is CONNECTING and name != TOTAL else TimeoutError
        due = {
            WAIT: "no connection of the pool is free",
            CONNECTING: "no connection",
            SENDING: "the request is not sent",
        }
        awaited = "no whole answer" if name == TOTAL else due.get(phase, "no answer")
        return kind(f"{awaited} within {limit:g} s (option `{name}`)")

    def steps(self) -> dict[str, float]:
        """The timeouts of one exchange in the form of httpx."""
        # What httpx calls `read` is the wait for the head, and each wait behind it.
        options = {"pool": (CONNECT,), "connect": (CONNECT,), "write": (IDLE,), "read": (HEAD, IDLE)}
        return {step: StepTimeout(self, step, names) for step, names in options.items()}


class StepTimeout(float):
    """The timeout of one step in seconds, as httpx takes it. httpx counts it anew for every read; `left_sec` is what is
    left of the call and of its phase."""

    __slots__ = ("_timer",)

    _timer: Timer

    def __new__(cls, timer: Timer, step: str, options: tuple[str, ...]) -> StepTimeout:
        own = max(timer._of(timer._limits, name) for name in options)
        made = super().__new__(cls, min(own, timer._of(timer._httpx, step), timer._total_left_sec(), _FOREVER_SEC))
        made._timer = timer
        return made

    def left_sec(self) -> float:
        """Seconds for the next read or write; 0 when the time is over."""
        return min(self._timer.left_sec(), _FOREVER_SEC)
