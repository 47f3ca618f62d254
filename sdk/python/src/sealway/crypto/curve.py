"""ECDH and ECDSA on P-256 and P-384: `spec/session.md#encodings`, `spec/session-3.md#encodings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from ..errors import ProtocolError


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A curve of NIST SP 800-186, with the hash of its ECDSA."""

    name: str
    group: ec.EllipticCurve
    prime: int
    order: int
    hash: hashes.HashAlgorithm

    @property
    def coordinate_len(self) -> int:
        """Bytes of a coordinate, of a scalar and of a shared secret."""
        return self.group.key_size // 8

    @property
    def public_len(self) -> int:
        """Bytes of a public key: an uncompressed point."""
        return 1 + 2 * self.coordinate_len

    @property
    def signature_len(self) -> int:
        """Bytes of a signature `r ‖ s`."""
        return 2 * self.coordinate_len

    @property
    def scalar_random_len(self) -> int:
        """Random bytes that a scalar is made of: 128 bits more than the order has, so that reducing them favours none."""
        return self.coordinate_len + 16

    def scalar_of(self, random: bytes) -> bytes:
        """The private scalar that `scalar_random_len` random bytes give."""
        if len(random) != self.scalar_random_len:
            raise ValueError(f"a scalar of {self.name} is made of {self.scalar_random_len} bytes")
        return (int.from_bytes(random, "big") % (self.order - 1) + 1).to_bytes(self.coordinate_len, "big")

    def point(self, data: bytes) -> ec.EllipticCurvePublicKey:
        """The point of an uncompressed encoding.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        # The library takes compressed points too. What is no point in this form is refused before any arithmetic.
        middle = 1 + self.coordinate_len
        if (
            len(data) != self.public_len
            or data[0] != 4
            or int.from_bytes(data[1:middle], "big") >= self.prime
            or int.from_bytes(data[middle:], "big") >= self.prime
        ):
            raise ProtocolError("public_key_invalid")
        try:
            return ec.EllipticCurvePublicKey.from_encoded_point(self.group, data)
        except ValueError:
            raise ProtocolError("public_key_invalid") from None

    def is_public(self, data: bytes) -> bool:
        """Returns True for the encoding of a point on the curve."""
        try:
            self.point(data)
        except ProtocolError:
            return False
        return True

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        """Returns True for the key's ECDSA signature `r ‖ s` of the message."""
        if len(signature) != self.signature_len:
            return False
        half = self.coordinate_len
        r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
        try:
            self.point(public).verify(encode_dss_signature(r, s), message, ec.ECDSA(self.hash))
        except (InvalidSignature, ProtocolError):
            return False
        return True


P256: Final = Curve(
    "P-256",
    ec.SECP256R1(),
    2**256 - 2**224 + 2**192 + 2**96 - 1,
    0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    hashes.SHA256(),
)
P384: Final = Curve(
    "P-384",
    ec.SECP384R1(),
    2**384 - 2**128 - 2**96 + 2**32 - 1,
    0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
    hashes.SHA384(),
)


class KeyPair:
    """A key pair for one agreement, or of a signer. Printing shows nothing of the private half."""

    __slots__ = ("_private", "curve", "public")

    def __init__(self, scalar: bytes, curve: Curve = P256) -> None:
        self.curve: Final = curve
        try:
            self._private = ec.derive_private_key(int.from_bytes(scalar, "big"), curve.group)
        except ValueError:
            raise ValueError(f"not a private key of {curve.name}") from None
        self.public: Final = self._private.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )

    def agree(self, peer: bytes) -> bytes:
        """The shared x-coordinate, as long as the curve's coordinates.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        return self._private.exchange(ec.ECDH(), self.curve.point(peer))

    def sign(self, message: bytes) -> bytes:
        """ECDSA of the message: `r ‖ s`."""
        # RFC 6979: the number that signs comes of key and message, so that no caller has to draw it.
        der = self._private.sign(message, ec.ECDSA(self.curve.hash, deterministic_signing=True))
        return b"".join(part.to_bytes(self.curve.coordinate_len, "big") for part in decode_dss_signature(der))

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()}, private=redacted)"
