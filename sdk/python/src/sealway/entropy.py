"""Random values from the system's generator. The pure parts take them as arguments."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.asymmetric import mlkem

from .crypto.hpke import PRIVATE_LEN, Draws, Kem
from .crypto.p256 import SCALAR_RANDOM_LEN, KeyPair, scalar_of
from .crypto.suite import KEM_SEED_LEN, X25519_LEN, PrivateKeys, SeedKemKey, Suite
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


def key_pair() -> KeyPair:
    """A key pair on P-256."""
    return KeyPair(scalar_of(os.urandom(SCALAR_RANDOM_LEN)))


def private_keys(suite: Suite) -> PrivateKeys:
    """A client's private keys for one init."""
    if suite is Suite.X25519MLKEM768:
        return PrivateKeys(suite, x25519_private=os.urandom(X25519_LEN), kem=SeedKemKey(os.urandom(KEM_SEED_LEN)))
    scalar = scalar_of(os.urandom(SCALAR_RANDOM_LEN))
    if suite is Suite.P256:
        return PrivateKeys(suite, scalar)
    return PrivateKeys(suite, scalar, kem=SeedKemKey(os.urandom(KEM_SEED_LEN)))


def encapsulate(key: bytes) -> tuple[bytes, bytes]:
    """Ciphertext and secret for an encapsulation key of ML-KEM-768."""
    secret, ciphertext = mlkem.MLKEM768PublicKey.from_public_bytes(key).encapsulate()
    return ciphertext, secret


def hpke_draws(kem: Kem) -> Draws:
    """Returns the random inputs of one encapsulation."""
    is_p256 = kem in (Kem.P256, Kem.MLKEM768_P256)
    private = scalar_of(os.urandom(SCALAR_RANDOM_LEN)) if is_p256 else os.urandom(PRIVATE_LEN)
    return Draws(private, encapsulate)


def server_draws() -> server.Draws:
    """Returns the random values of a server for one init."""
    return server.Draws(scalar_of(os.urandom(SCALAR_RANDOM_LEN)), os.urandom(X25519_LEN), os.urandom(16), encapsulate)
