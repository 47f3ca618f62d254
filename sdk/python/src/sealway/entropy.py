"""Random values from the system's generator. The pure parts take them as arguments."""

from __future__ import annotations

import os

from .crypto.curve import P256, P384, Curve, KeyPair
from .crypto.hpke import PRIVATE_LEN, Draws, Kem
from .crypto.suite import KEM_SEED_LEN, PARTS, X25519_LEN, MlKem, PrivateKeys, SeedKemKey, Suite, kem_of_key
from .session.native import server


def nonce() -> str:
    """A nonce of 128 random bits: 32 hexadecimal digits."""
    return os.urandom(16).hex()


def iv() -> bytes:
    """12 random bytes."""
    return os.urandom(12)


def nonce_random() -> bytes:
    """16 random bytes, of which an answer's nonce or a session id is made."""
    return os.urandom(16)


def _scalar(curve: Curve) -> bytes:
    return curve.scalar_of(os.urandom(curve.scalar_random_len))


def key_pair() -> KeyPair:
    """A key pair on P-256."""
    return KeyPair(_scalar(P256))


def private_keys(suite: Suite) -> PrivateKeys:
    """A client's private keys for one init."""
    parts = PARTS[suite]
    kem = next((SeedKemKey(os.urandom(KEM_SEED_LEN), part) for part in parts if isinstance(part, MlKem)), None)
    return PrivateKeys(
        suite,
        _scalar(P256) if P256 in parts else b"",
        os.urandom(X25519_LEN),
        kem,
        _scalar(P384) if P384 in parts else b"",
    )


def encapsulate(key: bytes) -> tuple[bytes, bytes]:
    """Ciphertext and secret for an encapsulation key of ML-KEM, whose parameter set its length names."""
    secret, ciphertext = kem_of_key(key).public.from_public_bytes(key).encapsulate()
    return ciphertext, secret


def hpke_draws(kem: Kem) -> Draws:
    """Returns the random inputs of one encapsulation."""
    is_p256 = kem in (Kem.P256, Kem.MLKEM768_P256)
    private = _scalar(P256) if is_p256 else os.urandom(PRIVATE_LEN)
    return Draws(private, encapsulate)


def server_draws() -> server.Draws:
    """Returns the random values of a server for one init."""
    return server.Draws(_scalar(P256), _scalar(P384), os.urandom(X25519_LEN), os.urandom(16), encapsulate)
