"""The suites of wire 3: shares and secrets. `spec/session-3.md#suites`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519

from ..errors import ProtocolError
from .curve import P256, P384, Curve, KeyPair

KEM_KEY_LEN: Final = 1184
KEM_CIPHERTEXT_LEN: Final = 1088
KEM_SEED_LEN: Final = 64
X25519_LEN: Final = 32


class Suite(StrEnum):
    """A key agreement, with HKDF-SHA256 and AES-256-GCM."""

    X25519MLKEM768 = "X25519MLKEM768"
    SECP256R1MLKEM768 = "SecP256r1MLKEM768"
    P256 = "P256"
    SECP384R1MLKEM1024 = "SecP384r1MLKEM1024"
    MLKEM1024 = "MLKEM1024"


#: The suites of a client by default, in order of preference. Those with ML-KEM-1024 are for who asks for them.
DEFAULT_SUITES: Final = (Suite.X25519MLKEM768, Suite.SECP256R1MLKEM768, Suite.P256)

#: Makes ciphertext and secret for an encapsulation key that was checked; it draws, so its owner is outside of here.
Encapsulate = Callable[[bytes], tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class MlKem:
    """A parameter set of ML-KEM (FIPS 203), with its lengths in bytes."""

    private: type[mlkem.MLKEM768PrivateKey] | type[mlkem.MLKEM1024PrivateKey]
    public: type[mlkem.MLKEM768PublicKey] | type[mlkem.MLKEM1024PublicKey]
    public_len: int
    ciphertext_len: int


MLKEM768: Final = MlKem(mlkem.MLKEM768PrivateKey, mlkem.MLKEM768PublicKey, KEM_KEY_LEN, KEM_CIPHERTEXT_LEN)
MLKEM1024: Final = MlKem(mlkem.MLKEM1024PrivateKey, mlkem.MLKEM1024PublicKey, 1568, 1568)


class Montgomery:
    """X25519, which has one parameter set (RFC 7748)."""

    public_len: Final = X25519_LEN


X25519: Final = Montgomery()
Group = Curve | Montgomery
#: The parts of each suite, in the order of its shares and of its secret.
PARTS: Final[dict[Suite, tuple[MlKem | Group, ...]]] = {
    Suite.X25519MLKEM768: (MLKEM768, X25519),
    Suite.SECP256R1MLKEM768: (P256, MLKEM768),
    Suite.P256: (P256,),
    Suite.SECP384R1MLKEM1024: (P384, MLKEM1024),
    Suite.MLKEM1024: (MLKEM1024,),
}


def kem_of_key(key: bytes) -> MlKem:
    """The parameter set of an encapsulation key, which its length names.

    Raises:
        ProtocolError: `public_key_invalid`.
    """
    for kem in (MLKEM768, MLKEM1024):
        if len(key) == kem.public_len:
            return kem
    raise ProtocolError("public_key_invalid", "share")


class KemKey(Protocol):
    """The client's decapsulation key of ML-KEM."""

    @property
    def public(self) -> bytes:
        """The encapsulation key."""

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """The secret, 32 bytes; of a wrong ciphertext a wrong one."""


class SeedKemKey:
    """A decapsulation key that comes of a seed of 64 bytes, `d ‖ z` of FIPS 203."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: bytes, kem: MlKem = MLKEM768) -> None:
        self._private = kem.private.from_seed_bytes(seed)
        self.public: Final = self._private.public_key().public_bytes_raw()

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """The secret, 32 bytes."""
        return self._private.decapsulate(ciphertext)

    def __repr__(self) -> str:
        return "SeedKemKey(redacted)"


def is_supported(suite: Suite) -> bool:
    """Returns True if `cryptography` has the suite; builds on an older OpenSSL have no ML-KEM."""
    try:
        for part in PARTS[suite]:
            if isinstance(part, MlKem):
                part.private.from_seed_bytes(bytes(KEM_SEED_LEN))
    except UnsupportedAlgorithm:
        return False
    return True


def choose(client: Iterable[str], server: Sequence[str]) -> str | None:
    """The suite of a session: the first of the client's list that is in the server's."""
    return next((name for name in client if name in server), None)


def _split(suite: Suite, data: bytes, is_client: bool) -> list[tuple[MlKem | Group, bytes]]:
    """Splits a share, which is the client's or the server's, into its parts."""
    out: list[tuple[MlKem | Group, bytes]] = []
    at = 0
    for part in PARTS[suite]:
        length = part.ciphertext_len if isinstance(part, MlKem) and not is_client else part.public_len
        out.append((part, data[at : at + length]))
        at += length
    if at != len(data):
        raise ProtocolError("public_key_invalid", "share")
    return out


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
    """One side's private keys of one init: those that the suite needs, others may be absent. Printing shows none."""

    __slots__ = ("_kem", "_pairs", "suite")

    def __init__(
        self,
        suite: Suite,
        p256_scalar: bytes = b"",
        x25519_private: bytes = b"",
        kem: KemKey | None = None,
        p384_scalar: bytes = b"",
    ) -> None:
        self.suite: Final = suite
        self._kem = kem
        self._pairs: dict[Group, KeyPair | X25519KeyPair] = {}
        for part in PARTS[suite]:
            if isinstance(part, Curve):
                self._pairs[part] = KeyPair(p256_scalar if part is P256 else p384_scalar, part)
            elif isinstance(part, Montgomery):
                self._pairs[part] = X25519KeyPair(x25519_private)

    def _own_kem(self) -> KemKey:
        if self._kem is None:
            raise ValueError("the keys are not of the suite")
        return self._kem

    def client_share(self) -> bytes:
        """The share of the client."""
        return b"".join(
            self._own_kem().public if isinstance(part, MlKem) else self._pairs[part].public
            for part in PARTS[self.suite]
        )

    def client_secret(self, share: bytes) -> bytes:
        """The secret, of the server's share.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        secret = b""
        for part, data in _split(self.suite, share, is_client=False):
            secret += self._own_kem().decapsulate(data) if isinstance(part, MlKem) else self._pairs[part].agree(data)
        return secret

    def server_agree(self, share: bytes, encapsulate: Encapsulate) -> tuple[bytes, bytes]:
        """The server's share and the secret, of the client's share.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        answer = secret = b""
        for part, data in _split(self.suite, share, is_client=True):
            if isinstance(part, MlKem):
                check_kem_key(data)
                ciphertext, shared = encapsulate(data)
                answer, secret = answer + ciphertext, secret + shared
            else:
                pair = self._pairs[part]
                answer, secret = answer + pair.public, secret + pair.agree(data)
        return answer, secret

    def __repr__(self) -> str:
        return f"PrivateKeys({self.suite}, redacted)"


def check_kem_key(key: bytes) -> None:
    """Checks an encapsulation key by FIPS 203 section 7.2: the library takes none with a coefficient of q or more.

    Raises:
        ProtocolError: `public_key_invalid`.
    """
    try:
        kem_of_key(key).public.from_public_bytes(key)
    except ValueError:
        raise ProtocolError("public_key_invalid", "share") from None
