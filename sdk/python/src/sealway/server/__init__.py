"""The API side: stores of sessions and claims, and what the ASGI middleware is made of."""

from .authority import AuthorityStore
from .route import Route
from .store import MemoryStore, SessionStore

__all__ = ["AuthorityStore", "MemoryStore", "Route", "SessionStore"]
