"""AES-256-GCM with tags of 16 bytes."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..errors import ProtocolError

KEY_LEN: Final = 32
IV_LEN: Final = 12
TAG_LEN: Final = 16

Bytes = bytes | bytearray | memoryview


class Aes256Gcm:
    """A key. Printing shows none of it."""

    __slots__ = ("_gcm",)

    def __init__(self, key: bytes | bytearray) -> None:
        if len(key) != KEY_LEN:
            raise ValueError("a key of AES-256 has 32 bytes")
        self._gcm = AESGCM(key)

    def seal(self, iv: bytes, plaintext: Bytes, aad: bytes) -> bytes:
        """Ciphertext and tag."""
        return self._gcm.encrypt(iv, plaintext, aad)

    def open(self, iv: Bytes, sealed: Bytes, aad: bytes) -> bytes:
        """The plaintext.

        Raises:
            ProtocolError: `unsealable`.
        """
        try:
            return self._gcm.decrypt(iv, sealed, aad)
        except InvalidTag:
            raise ProtocolError("unsealable") from None

    def __repr__(self) -> str:
        return "Aes256Gcm(redacted)"
