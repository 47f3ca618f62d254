"""Sessions that were asked for less than a second ago."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

from ..session.claim import SessionRecord

#: How long a session is used without asking again: with the pace at which streams look at theirs, less than a second.
CACHE_SEC: Final = 0.5
CACHE_MAX: Final = 10_000


class BriefCache:
    """Bounded: the oldest goes first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, SessionRecord]] = OrderedDict()

    def get(self, id: str) -> SessionRecord | None:
        """The session, if it was asked for just now."""
        known = self._known.get(id)
        if known is None:
            return None
        if time.monotonic() - known[0] < CACHE_SEC:
            return known[1]
        del self._known[id]
        return None

    def put(self, record: SessionRecord, asked_sec: float) -> None:
        """Keeps a session that was asked for at a monotonic time."""
        self._known[record.id] = (asked_sec, record)
        while len(self._known) > CACHE_MAX:
            self._known.popitem(last=False)

    def clear(self) -> None:
        """Forgets all."""
        self._known.clear()
