"""Messages encrypted as card schemes do (`spec/mle.md`): JWE in the bodies of requests and answers."""

from .asgi import MleApp
from .codec import MleCodec
from .keys import KidSource, OpeningKey, SealingKey
from .profile import PROFILES, Profile, Side, generic_jwe
from .refusal import MleClass, MleRefusal
from .transport import AsyncMleTransport, MleOptions, MleTransport

__all__ = [
    "PROFILES",
    "AsyncMleTransport",
    "KidSource",
    "MleApp",
    "MleClass",
    "MleCodec",
    "MleOptions",
    "MleRefusal",
    "MleTransport",
    "OpeningKey",
    "Profile",
    "SealingKey",
    "Side",
    "generic_jwe",
]
