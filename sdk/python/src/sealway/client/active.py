"""A session in use, with its clock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from ..session.compat.call import ClientSession
from ..session.native.client import Session
from .clock import Moment

if TYPE_CHECKING:
    from .one_shot import OneShotKey

#: A session is renewed in the last tenth of its life, or in the last minute if that is shorter.
RENEW_BEFORE_MAX_SEC: Final = 60.0


class ActiveSession:
    """A session and the clock of its timestamps: the server's time on wire 3, the client's own on wires 1 and 2, read once
    and advanced by the monotonic clock. The larger of two ages counts, by the monotonic clock and by the clock of the day:
    a machine may have slept.

    Its keys are wiped when it is retired and the last call in it has ended.
    """

    def __init__(
        self,
        session: Session | ClientSession | OneShotKey,
        life_sec: float,
        sent: Moment,
        clock_ms: int,
        arrived: Moment,
    ) -> None:
        """The life counts from when the init was sent, `clock_ms` from when its answer arrived."""
        self.session: Final = session
        self._life_sec = life_sec
        self._sent = sent
        self._lock = threading.Lock()
        self._clock = (clock_ms, arrived.monotonic_sec)
        self._holders = 0
        self._is_retired = False

    @property
    def id(self) -> str:
        """The session id."""
        return self.session.id

    def stamp_ms(self, at_sec: float) -> int:
        """Returns the timestamp of a request at a monotonic time."""
        with self._lock:
            clock_ms, since_sec = self._clock
        return clock_ms + int((at_sec - since_sec) * 1000)

    def set_clock(self, clock_ms: int, at_sec: float) -> None:
        """Takes the server's time, which its mac has proven."""
        with self._lock:
            self._clock = (clock_ms, at_sec)

    def left_sec(self) -> float:
        """Returns the seconds until its end."""
        return self._life_sec - self._sent.elapsed_sec()

    def is_usable(self) -> bool:
        """Returns True if it need not be renewed yet."""
        return self.left_sec() > min(self._life_sec / 10, RENEW_BEFORE_MAX_SEC)

    def hold(self) -> None:
        """Keeps the keys until `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Ends one `hold`."""
        with self._lock:
            self._holders -= 1
            if self._is_retired and self._holders == 0:
                self.session.wipe()

    def retire(self) -> None:
        """No call begins in it from here on."""
        with self._lock:
            self._is_retired = True
            if self._holders == 0:
                self.session.wipe()

    def __repr__(self) -> str:
        return f"ActiveSession({self.session!r})"
