"""Sessions as a store keeps them, and claims of nonces: `spec/session.md#nonces`."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ..crypto.digest import sha256
from ..crypto.secret import Secret
from ..errors import ProtocolError

WINDOW_MS: Final = 300_000

TAG_INIT_2: Final = 1
TAG_INIT_1: Final = 2
TAG_SEALED: Final = 3
TAG_PROOF: Final = 4


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as server and store know it.

    Attributes:
        id: the session id.
        wire: 1, 2 or 3.
        client_id: whom it was agreed with; None on wire 1.
        key: 32 bytes: the session key, on wire 3 the `prk`.
        created_ms, expires_ms: milliseconds of the epoch.
        subject, tenant: who the client proved to be, if anybody said.
        auth: `none`, `bearer`, `dpop` or `certificate`.
    """

    id: str
    wire: int
    client_id: str | None
    key: Secret
    created_ms: int
    expires_ms: int
    subject: str | None = None
    tenant: str | None = None
    auth: str = "none"

    @property
    def is_anonymous(self) -> bool:
        """True if anybody may have agreed it; it is good for a list of paths."""
        return self.id.startswith("A-")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a nonce, to be admitted once.

    Attributes:
        key: the claim key, 16 bytes.
        is_sealed: whether a tag verified before.
        stamp_ms: the request's timestamp.
        window_ms: the window that it was held against.
    """

    key: bytes
    is_sealed: bool
    stamp_ms: int
    window_ms: int

    def expires_ms(self, now_ms: int, lifetime_ms: int = 0) -> int:
        """Returns the time from which a store may forget it. A lifetime below twice the window is raised to it."""
        return now_ms + max(lifetime_ms, 2 * self.window_ms) + 1


def make_claim(tag: int, scope: str, nonce: str, stamp_ms: int, window_ms: int) -> Claim:
    """The claim of a nonce in its scope."""
    scope_bytes = scope.encode("utf-8")
    head = struct.pack(">BH", tag, len(scope_bytes))
    key = sha256(head + scope_bytes + nonce.encode("ascii"))[:16]
    return Claim(key, tag == TAG_SEALED, stamp_ms, window_ms)


class Admission:
    """The admission of a claim, which was not admitted before. Only stores make one."""

    __slots__ = ("key",)

    def __init__(self, claim: Claim) -> None:
        self.key: Final = claim.key


T = TypeVar("T")


class ReplayGuard(Generic[T]):
    """The content of a message, released when a store has admitted its claim."""

    __slots__ = ("_value", "claim")

    def __init__(self, claim: Claim, value: T) -> None:
        self.claim: Final = claim
        self._value = value

    def release(self, fresh: Admission) -> T:
        """Returns the content.

        Raises:
            ProtocolError: `reservation_mismatch` for the admission of another claim.
        """
        if fresh.key != self.claim.key:
            raise ProtocolError("reservation_mismatch")
        return self._value
