"""SHA-256, HMAC and HKDF (RFC 5869) with SHA-256."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

HASH_LEN: Final = 32

Bytes = bytes | bytearray


def sha256(data: Bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def hmac_sha256(key: Bytes, data: Bytes) -> bytes:
    """HMAC-SHA256."""
    return hmac.digest(key, data, "sha256")


def extract(salt: Bytes, ikm: Bytes) -> bytes:
    """HKDF-Extract."""
    return hmac.digest(salt, ikm, "sha256")


def expand(prk: Bytes, info: bytes, length: int = HASH_LEN) -> bytes:
    """HKDF-Expand; at most 255 blocks of 32 bytes."""
    block = out = hmac.digest(prk, info + b"\x01", "sha256")
    count = 1
    while len(out) < length:
        count += 1
        block = hmac.digest(prk, block + info + bytes((count,)), "sha256")
        out += block
    return out[:length]


class Expander:
    """HKDF-Expand under one key, whose HMAC is begun once for all. Printing shows nothing."""

    __slots__ = ("_begun",)

    def __init__(self, prk: Bytes) -> None:
        self._begun = hmac.new(prk, digestmod="sha256")

    def expand(self, info: bytes, length: int = HASH_LEN) -> bytes:
        """As `expand`."""
        out, block, count = b"", b"", 0
        while len(out) < length:
            count += 1
            begun = self._begun.copy()
            begun.update(block + info + bytes((count,)))
            block = begun.digest()
            out += block
        return out[:length]

    def __repr__(self) -> str:
        return "Expander(redacted)"


def is_equal(one: Bytes, other: Bytes) -> bool:
    """Whether both are the same, in time that does not depend on where they differ."""
    return hmac.compare_digest(one, other)
