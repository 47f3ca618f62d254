"""The suites of wire 3: shares and secrets. `spec/session-3.md#suites`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519

from ..errors import ProtocolError
from .p256 import POINT_LEN, KeyPair

KEM_KEY_LEN: Final = 1184
KEM_CIPHERTEXT_LEN: Final = 1088
KEM_SEED_LEN: Final = 64
X25519_LEN: Final = 32


class Suite(StrEnum):
    """A key agreement, with HKDF-SHA256 and AES-256-GCM."""

    X25519MLKEM768 = "X25519MLKEM768"
    SECP256R1MLKEM768 = "SecP256r1MLKEM768"
    P256 = "P256"


#: The suites of a client by default, in order of preference.
DEFAULT_SUITES: Final = (Suite.X25519MLKEM768, Suite.SECP256R1MLKEM768, Suite.P256)

#: Makes ciphertext and secret for an encapsulation key that was checked; it draws, so its owner is outside of here.
Encapsulate = Callable[[bytes], tuple[bytes, bytes]]


class KemKey(Protocol):
    """The client's decapsulation key of ML-KEM-768."""

    @property
    def public(self) -> bytes:
        """The encapsulation key, 1184 bytes."""

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """The secret, 32 bytes; of a wrong ciphertext a wrong one."""


class SeedKemKey:
    """A decapsulation key that comes of a seed of 64 bytes, `d ‖ z` of FIPS 203."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: bytes) -> None:
        self._private = mlkem.MLKEM768PrivateKey.from_seed_bytes(seed)
        self.public: Final = self._private.public_key().public_bytes_raw()

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """The secret, 32 bytes."""
        return self._private.decapsulate(ciphertext)

    def __repr__(self) -> str:
        return "SeedKemKey(redacted)"


def is_supported(suite: Suite) -> bool:
    """Returns True if `cryptography` has the suite; builds on an older OpenSSL have no ML-KEM."""
    if suite is Suite.P256:
        return True
    try:
        mlkem.MLKEM768PrivateKey.from_seed_bytes(bytes(KEM_SEED_LEN))
    except UnsupportedAlgorithm:
        return False
    return True


def choose(client: Iterable[str], server: Sequence[str]) -> str | None:
    """The suite of a session: the first of the client's list that is in the server's."""
    return next((name for name in client if name in server), None)


def _split(data: bytes, *lengths: int) -> list[bytes]:
    if len(data) != sum(lengths):
        raise ProtocolError("public_key_invalid", "share")
    parts, at = [], 0
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    return parts


class X25519KeyPair:
    """A key pair on X25519 for one agreement. Printing shows nothing of the private half."""

    __slots__ = ("_private", "public")

    def __init__(self, private: bytes) -> None:
        self._private = x25519.X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, peer: bytes) -> bytes:
        """The shared secret, 32 bytes.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        try:
            return self._private.exchange(x25519.X25519PublicKey.from_public_bytes(peer))
        except ValueError:  # the all-zero secret
            raise ProtocolError("public_key_invalid", "share") from None

    def __repr__(self) -> str:
        return "X25519KeyPair(redacted)"


class PrivateKeys:
    """One side's private keys of one init: those that the suite needs. Printing shows none."""

    __slots__ = ("_kem", "_p256", "_x25519", "suite")

    def __init__(
        self, suite: Suite, p256_scalar: bytes = b"", x25519_private: bytes = b"", kem: KemKey | None = None
    ) -> None:
        self.suite: Final = suite
        self._p256 = None if suite is Suite.X25519MLKEM768 else KeyPair(p256_scalar)
        self._x25519 = X25519KeyPair(x25519_private) if suite is Suite.X25519MLKEM768 else None
        self._kem = None if suite is Suite.P256 else kem

    def client_share(self) -> bytes:
        """The share of the client."""
        if self._kem is not None and self._x25519 is not None:
            return self._kem.public + self._x25519.public
        if self._p256 is None:
            raise ValueError("the keys are not of the suite")
        return self._p256.public + (b"" if self._kem is None else self._kem.public)

    def client_secret(self, share: bytes) -> bytes:
        """The secret, of the server's share.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        if self._kem is not None and self._x25519 is not None:
            ciphertext, point = _split(share, KEM_CIPHERTEXT_LEN, X25519_LEN)
            return self._kem.decapsulate(ciphertext) + self._x25519.agree(point)
        if self._p256 is None:
            raise ValueError("the keys are not of the suite")
        if self._kem is None:
            return self._p256.agree(*_split(share, POINT_LEN))
        point, ciphertext = _split(share, POINT_LEN, KEM_CIPHERTEXT_LEN)
        return self._p256.agree(point) + self._kem.decapsulate(ciphertext)

    def server_agree(self, share: bytes, encapsulate: Encapsulate) -> tuple[bytes, bytes]:
        """The server's share and the secret, of the client's share.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        if self._x25519 is not None:
            key, point = _split(share, KEM_KEY_LEN, X25519_LEN)
            check_kem_key(key)
            classical = self._x25519.agree(point)
            ciphertext, secret = encapsulate(key)
            return ciphertext + self._x25519.public, secret + classical
        if self._p256 is None:
            raise ValueError("the keys are not of the suite")
        if self.suite is Suite.P256:
            return self._p256.public, self._p256.agree(*_split(share, POINT_LEN))
        point, key = _split(share, POINT_LEN, KEM_KEY_LEN)
        classical = self._p256.agree(point)
        check_kem_key(key)
        ciphertext, secret = encapsulate(key)
        return self._p256.public + ciphertext, classical + secret

    def __repr__(self) -> str:
        return f"PrivateKeys({self.suite}, redacted)"


def check_kem_key(key: bytes) -> None:
    """Checks an encapsulation key by FIPS 203 section 7.2: the library takes none with a coefficient of q or more.

    Raises:
        ProtocolError: `public_key_invalid`.
    """
    try:
        mlkem.MLKEM768PublicKey.from_public_bytes(key)
    except ValueError:
        raise ProtocolError("public_key_invalid", "share") from None
