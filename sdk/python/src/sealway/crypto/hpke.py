"""HPKE, the sender's side: RFC 9180 in modes base and psk with HKDF-SHA256, for its export alone; the hybrids are those of
draft-ietf-hpke-pq. `spec/one-shot.md#keys`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..errors import ProtocolError
from .curve import KeyPair
from .digest import expand, extract
from .suite import KEM_CIPHERTEXT_LEN, KEM_KEY_LEN, Suite, X25519KeyPair, check_kem_key, is_supported

#: HKDF-SHA256 and AES-256-GCM, in a key configuration.
SUITE: Final = bytes.fromhex("00010002")
PRIVATE_LEN: Final = 32
_VERSION = b"HPKE-v1"


class Kem(StrEnum):
    """A key encapsulation mechanism of wire 4."""

    X_WING = "X-Wing"
    MLKEM768_P256 = "MLKEM768-P256"
    X25519 = "X25519"
    P256 = "P-256"

    @property
    def id(self) -> int:
        """Its number in the registry of HPKE."""
        return _FORMS[self].id

    @property
    def public_len(self) -> int:
        """Bytes of a public key."""
        return _FORMS[self].public_len

    @property
    def enc_len(self) -> int:
        """Bytes of an encapsulated secret."""
        return _FORMS[self].public_len - KEM_KEY_LEN + KEM_CIPHERTEXT_LEN if self.is_hybrid else self.public_len

    @property
    def is_hybrid(self) -> bool:
        """True for ML-KEM-768 beside a curve."""
        return bool(_FORMS[self].label)

    @property
    def is_supported(self) -> bool:
        """True if the `cryptography` package has it; builds on an older OpenSSL have no ML-KEM."""
        return not self.is_hybrid or is_supported(Suite.X25519MLKEM768)

    @classmethod
    def of_id(cls, id: int) -> Kem | None:
        """Returns the mechanism of a number; None for one that wire 4 does not have."""
        return next((kem for kem in cls if kem.id == id), None)


@dataclass(frozen=True, slots=True)
class _Form:
    id: int
    public_len: int
    is_p256: bool
    label: bytes = b""


_FORMS: Final = {
    Kem.X_WING: _Form(0x647A, 1216, False, bytes.fromhex("5c2e2f2f5e5c")),
    Kem.MLKEM768_P256: _Form(0x0050, 1249, True, b"MLKEM768-P256"),
    Kem.X25519: _Form(0x0020, 32, False),
    Kem.P256: _Form(0x0010, 65, True),
}


@dataclass(frozen=True, slots=True, repr=False)
class Draws:
    """The random inputs of one encapsulation: the private key of the curve, 32 bytes, and ML-KEM's ciphertext and secret
    for a public key, which only a hybrid asks for."""

    private: bytes
    ml_kem: Callable[[bytes], tuple[bytes, bytes]]


def encap(kem: Kem, public: bytes, draws: Draws) -> tuple[bytes, bytes]:
    """Returns `enc` and the shared secret, 32 bytes.

    Raises:
        ProtocolError: `public_key_invalid`.
    """
    form = _FORMS[kem]
    if len(public) != form.public_len:
        raise ProtocolError("public_key_invalid")
    pair = KeyPair(draws.private) if form.is_p256 else X25519KeyPair(draws.private)
    point = public[KEM_KEY_LEN:] if kem.is_hybrid else public
    shared = pair.agree(point)
    if not kem.is_hybrid:
        return pair.public, _dh_secret(form.id, shared, pair.public + point)
    key = public[:KEM_KEY_LEN]
    check_kem_key(key)
    ciphertext, secret = draws.ml_kem(key)
    combined = hashlib.sha3_256(secret + shared + pair.public + point + form.label).digest()
    return ciphertext + pair.public, combined


def _dh_secret(id: int, shared: bytes, context: bytes) -> bytes:
    suite = b"KEM" + id.to_bytes(2, "big")
    prk = extract(b"", _VERSION + suite + b"eae_prk" + shared)
    return expand(prk, b"\0\x20" + _VERSION + suite + b"shared_secret" + context)


class Exporter:
    """The context of a sender, as far as it exports. Printing shows nothing."""

    __slots__ = ("_secret", "_suite")

    def __init__(self, kem: Kem, shared: bytes, info: bytes, psk: bytes = b"", psk_id: bytes = b"") -> None:
        """Base mode without a PSK, psk mode with one: RFC 9180 section 5.1."""
        self._suite = b"HPKE" + kem.id.to_bytes(2, "big") + SUITE
        context = (
            (b"\1" if psk else b"\0")
            + self._extract(b"", b"psk_id_hash", psk_id)
            + self._extract(b"", b"info_hash", info)
        )
        secret = self._extract(shared, b"secret", psk)
        self._secret = expand(secret, b"\0\x20" + _VERSION + self._suite + b"exp" + context)

    def _extract(self, salt: bytes, label: bytes, ikm: bytes) -> bytes:
        return extract(salt, _VERSION + self._suite + label + ikm)

    def export(self, context: bytes) -> bytes:
        """Returns 32 bytes: RFC 9180 section 5.3."""
        return expand(self._secret, b"\0\x20" + _VERSION + self._suite + b"sec" + context)

    def __repr__(self) -> str:
        return "Exporter(redacted)"
