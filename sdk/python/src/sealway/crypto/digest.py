"""SHA-256, HMAC and HKDF (RFC 5869) with SHA-256."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HASH_LEN: Final = 32
_SHA256 = hashes.SHA256()

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
    if length <= HASH_LEN:
        # One block is one HMAC; of more the library below is quicker.
        return hmac.digest(prk, info + b"\x01", "sha256")[:length]
    return HKDFExpand(_SHA256, length, info).derive(prk)


def is_equal(one: Bytes, other: Bytes) -> bool:
    """Compares in time that does not depend on the place of a difference."""
    return hmac.compare_digest(one, other)
