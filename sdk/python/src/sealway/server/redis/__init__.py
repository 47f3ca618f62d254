"""Sessions and claims in the Redis of an authority: `spec/redis-store.md`. Needs `sealway[redis]` and asyncio."""

from .kek import KeyRing
from .store import RedisStore

__all__ = ["KeyRing", "RedisStore"]
