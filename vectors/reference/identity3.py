"""Identity keys and roots of every algorithm of spec/session-3.md: keys, signatures, and what a client accepts."""

from dataclasses import dataclass, field as member

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import mldsa as library

import mldsa
import session3 as s3

# The parts of each algorithm, the classical one first.
PARTS = {"ES256": ("ES256",), "ES384": ("ES384",), "ML-DSA-65": ("ML-DSA-65",), "ML-DSA-87": ("ML-DSA-87",),
         "ES256+ML-DSA-65": ("ES256", "ML-DSA-65"), "ES384+ML-DSA-87": ("ES384", "ML-DSA-87")}
ECDSA = {"ES256": (s3.P256, hashes.SHA256), "ES384": (s3.P384, hashes.SHA384)}
LIBRARY = {"ML-DSA-65": library.MLDSA65PublicKey, "ML-DSA-87": library.MLDSA87PublicKey}
PUBLIC = {"ES256": 65, "ES384": 97, "ML-DSA-65": 1952, "ML-DSA-87": 2592}
SIGNATURE = {"ES256": 64, "ES384": 96, "ML-DSA-65": 3309, "ML-DSA-87": 4627}


def public_length(alg: str) -> int:
    return sum(PUBLIC[part] for part in PARTS[alg])


def alg_of(public: bytes) -> str | None:
    """The algorithm of a public key, which its length names."""
    return next((alg for alg in PARTS if public_length(alg) == len(public)), None)


def starts_with_point(alg: str, public: bytes) -> bool:
    """The form of a public key: the first byte of a point is 4. The point may be off the curve."""
    return PARTS[alg][0] not in ECDSA or public[:1] == b"\4"


def message_of(alg: str, message: bytes) -> bytes:
    """The message that the parts sign."""
    return message if len(PARTS[alg]) == 1 else s3.field(alg) + message


@dataclass(frozen=True)
class Identity:
    """A private key and its times, which a root has not: the scalar of its classical part and the seed of its ML-DSA, each empty
    where it has none."""

    scalar: bytes
    not_before_ms: int = 0
    not_after_ms: int = 0
    # Session ids are made of how a case is printed: what came later is left out where it says nothing.
    alg: str = member(default="ES256", repr=False)
    seed: bytes = member(default=b"", repr=False)

    def _parts(self, classical, ml_dsa) -> bytes:
        return b"".join(classical(*ECDSA[part]) if part in ECDSA else ml_dsa(part) for part in PARTS[self.alg])

    @property
    def public(self) -> bytes:
        return self._parts(lambda curve, _: s3.public(curve, self.scalar), lambda part: mldsa.public(part, self.seed))

    @property
    def id(self) -> str:
        return s3.key_id(self.public)

    def live(self, now_ms: int) -> bool:
        return self.not_before_ms <= now_ms < self.not_after_ms

    def sign(self, message: bytes) -> bytes:
        signature = self.sign_parts(message_of(self.alg, message))
        assert verify(self.public, message, signature)
        return signature

    def sign_parts(self, message: bytes) -> bytes:
        """What the parts sign of `message` itself."""
        return self._parts(lambda curve, hash: s3.sign(self.scalar, message, curve, hash),
                           lambda part: mldsa.sign(part, self.seed, message))


def _verify_mldsa(part: str, public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        LIBRARY[part].from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    alg = alg_of(public)
    if alg is None or len(signature) != sum(SIGNATURE[part] for part in PARTS[alg]):
        return False
    message, verified = message_of(alg, message), []
    for part in PARTS[alg]:
        key, public = public[:PUBLIC[part]], public[PUBLIC[part]:]
        mine, signature = signature[:SIGNATURE[part]], signature[SIGNATURE[part]:]
        verified.append(s3.verify(key, message, mine, *ECDSA[part]) if part in ECDSA else _verify_mldsa(part, key, message, mine))
    return all(verified)


def accepted(alg: str | None, algorithms: list[str] | None, pinned: bool) -> bool:
    """Whether a client with this restriction trusts a key of this algorithm at all."""
    if algorithms is None:
        return alg == "ES256" or (pinned and alg is not None)
    return alg in algorithms
