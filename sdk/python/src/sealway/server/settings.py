"""What the middleware knows of one request before it looks into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..session.claim import SessionRecord
from .room import Room
from .route import Route
from .store import SessionStore


@dataclass(frozen=True, slots=True)
class Settings:
    """The middleware's settings, with the route and the path of a request.

    Attributes:
        allow: whether a session's client may use a path; None allows all.
        trusts_origin: whether `Forwarded`, `X-Forwarded-…` and client certificates in headers are somebody's who is
            trusted.
        room: for sealed bodies that still arrive.
        remote: the IP address that the request came from; None where it has no share of the room.
    """

    store: SessionStore
    route: Route
    path: str
    window_ms: int
    anonymous_paths: frozenset[str]
    allow: Callable[[SessionRecord, str], bool] | None
    trusts_origin: bool
    now_ms: Callable[[], int]
    room: Room
    remote: str | None
