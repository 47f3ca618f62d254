"""Content encryption: the closed list of `enc` (RFC 7518 section 5)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7


@dataclass(frozen=True, slots=True)
class Enc:
    """A content encryption algorithm. Lengths are in bytes.

    Attributes:
        iv_len: the length of IVs that are sent.
        hash: the hash of the MAC of AES-CBC; None for AES-GCM.
    """

    key_len: int
    iv_len: int
    tag_len: int
    hash: str | None = None

    def seal(self, key: bytes, iv: bytes, aad: bytes, plaintext: bytes) -> tuple[bytes, bytes]:
        """Returns ciphertext and tag. Key and IV are new, and used once."""
        if self.hash is None:
            sealed = AESGCM(key).encrypt(iv, plaintext, aad)
            return sealed[:-16], sealed[-16:]
        padder = PKCS7(128).padder()
        encryptor = Cipher(AES(key[len(key) // 2 :]), CBC(iv)).encryptor()
        ciphertext = encryptor.update(padder.update(plaintext) + padder.finalize()) + encryptor.finalize()
        return ciphertext, self._mac(self.hash, key, iv, aad, ciphertext)

    def open(self, key: bytes, iv: bytes, aad: bytes, ciphertext: bytes, tag: bytes) -> bytes | None:
        """Verifies the tag and decrypts; the lengths were checked. Returns None if it does not verify."""
        if self.hash is None:
            try:
                return AESGCM(key).decrypt(iv, ciphertext + tag, aad)
            except InvalidTag:
                return None
        # The MAC decides before any byte is decrypted, so that the padding is never an oracle.
        if not hmac.compare_digest(self._mac(self.hash, key, iv, aad, ciphertext), tag):
            return None
        decryptor, unpadder = Cipher(AES(key[len(key) // 2 :]), CBC(iv)).decryptor(), PKCS7(128).unpadder()
        try:
            return unpadder.update(decryptor.update(ciphertext) + decryptor.finalize()) + unpadder.finalize()
        except ValueError:
            return None

    def _mac(self, hash: str, key: bytes, iv: bytes, aad: bytes, ciphertext: bytes) -> bytes:
        """The tag of AES-CBC with HMAC (RFC 7518 section 5.2.2.1): the first half of the key authenticates."""
        bits = (8 * len(aad)).to_bytes(8, "big")
        return hmac.digest(key[: len(key) // 2], aad + iv + ciphertext + bits, hash)[: self.tag_len]


#: All algorithms, by name. A name that is not here does not exist.
ENCS: Final[Mapping[str, Enc]] = MappingProxyType(
    {
        "A128GCM": Enc(16, 12, 16),
        "A192GCM": Enc(24, 12, 16),
        "A256GCM": Enc(32, 12, 16),
        "A128CBC-HS256": Enc(32, 16, 16, "sha256"),
        "A192CBC-HS384": Enc(48, 16, 24, "sha384"),
        "A256CBC-HS512": Enc(64, 16, 32, "sha512"),
    }
)
