"""ECDH and ES256 on P-256: `spec/session.md#encodings`, `spec/session-3.md#encodings`."""

from __future__ import annotations

from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from ..errors import ProtocolError
from .digest import sha256

POINT_LEN: Final = 65
SIGNATURE_LEN: Final = 64
#: Random bytes that a scalar is made of: 128 bits more than the order has, so that reducing them favours none.
SCALAR_RANDOM_LEN: Final = 48

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_FIELD = 2**256 - 2**224 + 2**192 + 2**96 - 1
_CURVE = ec.SECP256R1()
_ECDH = ec.ECDH()
_ES256 = ec.ECDSA(hashes.SHA256())
# RFC 6979: the number that signs comes of key and message, so that no caller has to draw it.
_ES256_DETERMINISTIC = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)


def scalar_of(random: bytes) -> bytes:
    """The private scalar, 32 bytes, that 48 random bytes give."""
    if len(random) != SCALAR_RANDOM_LEN:
        raise ValueError("a scalar is made of 48 bytes")
    return (int.from_bytes(random, "big") % (_ORDER - 1) + 1).to_bytes(32, "big")


def _point(data: bytes) -> ec.EllipticCurvePublicKey:
    # The library takes compressed points too. What is no point in this form is refused before any arithmetic.
    if (
        len(data) != POINT_LEN
        or data[0] != 4
        or int.from_bytes(data[1:33], "big") >= _FIELD
        or int.from_bytes(data[33:], "big") >= _FIELD
    ):
        raise ProtocolError("public_key_invalid")
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, data)
    except ValueError:
        raise ProtocolError("public_key_invalid") from None


def is_point(data: bytes) -> bool:
    """Returns True for the 65 bytes of a point on the curve."""
    try:
        _point(data)
    except ProtocolError:
        return False
    return True


class KeyPair:
    """A key pair for one agreement, or an identity's. Printing shows nothing of the private half."""

    __slots__ = ("_private", "public")

    def __init__(self, scalar: bytes) -> None:
        try:
            self._private = ec.derive_private_key(int.from_bytes(scalar, "big"), _CURVE)
        except ValueError:
            raise ValueError("not a private key of P-256") from None
        self.public: Final = self._private.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )

    def agree(self, peer: bytes) -> bytes:
        """The shared x-coordinate, 32 bytes.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        return self._private.exchange(_ECDH, _point(peer))

    def sign(self, message: bytes) -> bytes:
        """ES256: `r ‖ s`, 64 bytes."""
        r, s = decode_dss_signature(self._private.sign(message, _ES256_DETERMINISTIC))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()}, private=redacted)"


class Signer(Protocol):
    """The signer of an identity; the private key may be elsewhere."""

    @property
    def public(self) -> bytes:
        """The 65 bytes of the public key."""

    def sign(self, message: bytes) -> bytes:
        """ES256 of the message: `r ‖ s`, 64 bytes."""


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Returns True for the key's ES256 signature of the message."""
    if len(signature) != SIGNATURE_LEN:
        return False
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    try:
        _point(public).verify(encode_dss_signature(r, s), message, _ES256)
    except (InvalidSignature, ProtocolError):
        return False
    return True


def key_id(public: bytes) -> str:
    """An identity key's id: half the SHA-256 of its public key."""
    return sha256(public)[:16].hex()
