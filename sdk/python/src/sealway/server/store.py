"""Stores of sessions and claims: `spec/session.md#nonces`, `#nonce-lifetime`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from .. import check
from ..errors import ProtocolError, StoreFull
from ..session.claim import WINDOW_MS, Admission, Claim, SessionRecord
from ..wire.identifier import check_window


def wall_clock_ms() -> int:
    """Returns the time of day in milliseconds of the epoch."""
    return time.time_ns() // 1_000_000


class SessionStore(Protocol):
    """Sessions and claims for the middleware. An implementation answers within a timeout of its own, or raises
    `StoreUnavailable`. The middleware takes any exception that is not of this package for that."""

    async def session(self, id: str) -> SessionRecord | None:
        """Returns the session with this id, even one that has ended; None if there is none.

        Raises:
            StoreUnavailable
        """

    async def admit(self, claim: Claim) -> Admission:
        """Admits a claim once, among all processes that share the store.

        Raises:
            ProtocolError: `replayed`, `timestamp_outside_window`.
            StoreFull: it holds as many claims as it may; it never evicts one.
            StoreUnavailable
        """


class MemoryStore:
    """Sessions and claims in this process, for tests. A full store rejects. Safe to use from several threads."""

    def __init__(
        self,
        *,
        sessions_max: int = 100_000,
        claims_max: int = 1_000_000,
        window_ms: int = WINDOW_MS,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        check.number("sessions_max", sessions_max, 1, "how many", is_whole=True)
        check.number("claims_max", claims_max, 1, "how many", is_whole=True)
        check.number("window_ms", window_ms, 1, "milliseconds", is_whole=True)
        check.callback("now_ms", now_ms, "a function")
        self._sessions: dict[str, SessionRecord] = {}
        # In the order of their ends: each is held for the same time.
        self._claims: dict[bytes, int] = {}
        self._sessions_max, self._claims_max = sessions_max, claims_max
        self._window_ms, self._now_ms = window_ms, now_ms
        #: The latest time that claims were forgotten by: the clock may be set back.
        self._latest_ms = 0
        self._lock = threading.Lock()

    def put(self, record: SessionRecord) -> None:
        """Keeps a session.

        Raises:
            StoreFull
        """
        with self._lock:
            now_ms = self._now_ms()
            if len(self._sessions) >= self._sessions_max:
                for id in [id for id, known in self._sessions.items() if known.expires_ms <= now_ms]:
                    del self._sessions[id]
            if len(self._sessions) >= self._sessions_max:
                raise StoreFull("the store holds as many sessions as it may")
            self._sessions[record.id] = record

    def delete(self, id: str) -> bool:
        """Removes a session. Returns True if it was there."""
        with self._lock:
            return self._sessions.pop(id, None) is not None

    async def session(self, id: str) -> SessionRecord | None:
        """Returns the session with this id."""
        with self._lock:
            return self._sessions.get(id)

    async def admit(self, claim: Claim) -> Admission:
        """Admits a claim once."""
        with self._lock:
            now_ms = self._now_ms()
            self._latest_ms = max(self._latest_ms, now_ms)
            # By the very reading of the clock that claims are forgotten by, before or now.
            check_window(claim.stamp_ms, now_ms, self._window_ms)
            if claim.stamp_ms < self._latest_ms - self._window_ms:
                raise ProtocolError("timestamp_outside_window")
            while self._claims and next(iter(self._claims.values())) <= now_ms:
                del self._claims[next(iter(self._claims))]
            if claim.key in self._claims:
                raise ProtocolError("replayed")
            if len(self._claims) >= self._claims_max:
                raise StoreFull("the store holds as many claims as it may")
            self._claims[claim.key] = now_ms + 2 * self._window_ms + 1
            return Admission(claim)
