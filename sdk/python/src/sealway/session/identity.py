"""Identity keys and roots of every algorithm, and their signatures: `spec/session-3.md#algorithms`."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import mldsa

from ..crypto.curve import P256, P384, Curve, KeyPair
from ..crypto.digest import sha256
from ..wire.encoding import field
from ..wire.members import base64_bytes

#: The longest public key and signature of an algorithm, also of an unknown one.
PUBLIC_MAX: Final = 8_192
SIGNATURE_MAX: Final = 8_192
#: Bytes of a seed of ML-DSA.
SEED_LEN: Final = 32


class SignatureAlgorithm(StrEnum):
    """An algorithm of identity keys and roots. One of two names is composite: both parts must verify."""

    ES256 = "ES256"
    ES384 = "ES384"
    ML_DSA_65 = "ML-DSA-65"
    ML_DSA_87 = "ML-DSA-87"
    ES256_ML_DSA_65 = "ES256+ML-DSA-65"
    ES384_ML_DSA_87 = "ES384+ML-DSA-87"

    @property
    def public_len(self) -> int:
        """Bytes of a public key. No two algorithms have the same."""
        return sum(part.public_len for part in _PARTS[self])

    @property
    def signature_len(self) -> int:
        """Bytes of a signature."""
        return sum(part.signature_len for part in _PARTS[self])

    @property
    def has_point(self) -> bool:
        """True if a public key begins with an uncompressed point."""
        return isinstance(_PARTS[self][0], Curve)

    @property
    def is_supported(self) -> bool:
        """True if `cryptography` has the algorithm; builds on an older OpenSSL have no ML-DSA."""
        return all(part.is_supported for part in _PARTS[self] if isinstance(part, _Lattice))


class _Lattice:
    """ML-DSA of FIPS 204 with an empty context."""

    def __init__(
        self,
        public: type[mldsa.MLDSA65PublicKey] | type[mldsa.MLDSA87PublicKey],
        private: type[mldsa.MLDSA65PrivateKey] | type[mldsa.MLDSA87PrivateKey],
        public_len: int,
        signature_len: int,
    ) -> None:
        self.private: Final = private
        self.public_len: Final = public_len
        self.signature_len: Final = signature_len
        self._public = public

    @cached_property
    def is_supported(self) -> bool:
        """True if the library has the parameter set."""
        try:
            self.private.from_seed_bytes(bytes(SEED_LEN))
        except UnsupportedAlgorithm:
            return False
        return True

    def is_public(self, data: bytes) -> bool:
        """Returns True for a public key: any bytes of its length are one."""
        return len(data) == self.public_len

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        """Returns True for the key's signature of the message."""
        try:
            self._public.from_public_bytes(public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


_ML_DSA_65 = _Lattice(mldsa.MLDSA65PublicKey, mldsa.MLDSA65PrivateKey, 1952, 3309)
_ML_DSA_87 = _Lattice(mldsa.MLDSA87PublicKey, mldsa.MLDSA87PrivateKey, 2592, 4627)
_PARTS: Final[dict[SignatureAlgorithm, tuple[Curve | _Lattice, ...]]] = {
    SignatureAlgorithm.ES256: (P256,),
    SignatureAlgorithm.ES384: (P384,),
    SignatureAlgorithm.ML_DSA_65: (_ML_DSA_65,),
    SignatureAlgorithm.ML_DSA_87: (_ML_DSA_87,),
    SignatureAlgorithm.ES256_ML_DSA_65: (P256, _ML_DSA_65),
    SignatureAlgorithm.ES384_ML_DSA_87: (P384, _ML_DSA_87),
}
_BY_LENGTH: Final = {algorithm.public_len: algorithm for algorithm in SignatureAlgorithm}


def root_signature(value: Any) -> bytes | None:
    """Returns the signature of a root in a member; `None` for another value."""
    found = base64_bytes(value)
    return found if found is not None and len(found) <= SIGNATURE_MAX else None


def key_id(public: bytes) -> str:
    """An identity key's id: half the SHA-256 of its public key."""
    return sha256(public)[:16].hex()


def algorithm_of(public: bytes) -> SignatureAlgorithm | None:
    """The algorithm of a public key, which its length names; None for an unknown one."""
    return _BY_LENGTH.get(len(public))


def is_public_key(public: bytes) -> bool:
    """Returns True for a public key of a known algorithm, with its point on the curve."""
    algorithm = algorithm_of(public)
    if algorithm is None:
        return False
    is_valid = True
    for part in _PARTS[algorithm]:
        is_valid &= part.is_public(public[: part.public_len])
        public = public[part.public_len :]
    return is_valid


def accepts(algorithms: Collection[str] | None, public: bytes, is_pinned: bool) -> bool:
    """Returns True if a client that accepts these algorithms may trust the key. None restricts nothing: then ES256 is
    accepted, and any known algorithm of a key that is pinned."""
    algorithm = algorithm_of(public)
    if algorithm is None or not algorithm.is_supported:
        return False
    if algorithms is None:
        return is_pinned or algorithm is SignatureAlgorithm.ES256
    return algorithm.value in algorithms


def _message_of(algorithm: SignatureAlgorithm, message: bytes) -> bytes:
    """Returns the message that the parts sign: those of a composite key sign none that a single key signs."""
    return message if len(_PARTS[algorithm]) == 1 else field(algorithm.value) + message


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Returns True for the key's signature of the message; of a composite key both parts must verify."""
    algorithm = algorithm_of(public)
    if algorithm is None or len(signature) != algorithm.signature_len:
        return False
    message, is_signed = _message_of(algorithm, message), True
    for part in _PARTS[algorithm]:
        is_signed &= part.verify(public[: part.public_len], message, signature[: part.signature_len])
        public, signature = public[part.public_len :], signature[part.signature_len :]
    return is_signed


class Signer(Protocol):
    """The signer of an identity; the private key may be elsewhere."""

    @property
    def public(self) -> bytes:
        """The bytes of the public key, whose length names the algorithm."""

    def sign(self, message: bytes) -> bytes:
        """The signature of the message by the key's algorithm."""


class IdentityKey:
    """A key pair of any algorithm: the scalar of its elliptic part, the seed of its ML-DSA (32 bytes), each empty where the
    algorithm has none. The library draws the random value of ML-DSA. Printing shows nothing of the private half."""

    __slots__ = ("_parts", "algorithm", "public")

    def __init__(self, algorithm: SignatureAlgorithm, scalar: bytes = b"", seed: bytes = b"") -> None:
        self.algorithm: Final = algorithm
        self._parts: list[KeyPair | mldsa.MLDSA65PrivateKey | mldsa.MLDSA87PrivateKey] = []
        public = b""
        for part in _PARTS[algorithm]:
            if isinstance(part, Curve):
                pair = KeyPair(scalar, part)
                self._parts.append(pair)
                public += pair.public
            else:
                key = part.private.from_seed_bytes(seed)
                self._parts.append(key)
                public += key.public_key().public_bytes_raw()
        self.public: Final = public

    def sign(self, message: bytes) -> bytes:
        """The signature of the message; of a composite key those of both parts."""
        message = _message_of(self.algorithm, message)
        return b"".join(part.sign(message) for part in self._parts)

    def __repr__(self) -> str:
        return f"IdentityKey({self.algorithm}, id={key_id(self.public)}, private=redacted)"
