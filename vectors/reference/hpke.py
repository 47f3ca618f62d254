"""HPKE of RFC 9180 with the hybrids of draft-ietf-hpke-pq, as far as spec/one-shot.md needs it: modes base and psk, HKDF-SHA256,
export. Randomness is an argument. For vectors alone: its time depends on its secrets."""

import hashlib
import struct
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import mlkem

import kem
import session3 as s3
from session3 import Refused, expand, extract

KDF, AEAD = 1, 2
KEM_SEED, GROUP_LABELS = 64, {"X-Wing": bytes.fromhex("5c2e2f2f5e5c"), "MLKEM768-P256": b"MLKEM768-P256"}
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True)
class Kem:
    name: str
    id: int
    enc_length: int
    public_length: int
    group: str  # x25519 or p256
    hybrid: bool


KEMS = {kem.name: kem for kem in (
    Kem("X-Wing", 0x647A, 1120, 1216, "x25519", True), Kem("MLKEM768-P256", 0x0050, 1153, 1249, "p256", True),
    Kem("X25519", 0x0020, 32, 32, "x25519", False), Kem("P-256", 0x0010, 65, 65, "p256", False))}


def i2(value: int) -> bytes:
    return struct.pack(">H", value)


# --- Groups ---

def group_public(group: str, private: bytes) -> bytes:
    return s3.x25519_public(private) if group == "x25519" else s3.p256_public(private)


def group_agree(group: str, private: bytes, peer: bytes) -> bytes:
    if group == "x25519":
        if len(peer) != 32:
            raise Refused("public_key_invalid")
        return s3.x25519_agree(private, peer)
    return s3.agree(s3.P256, private, peer)


def first_scalar(stream: bytes) -> bytes:
    """The first of four candidates that is a scalar of P-256 (draft-ietf-hpke-pq)."""
    for at in range(0, len(stream), 32):
        if 0 < int.from_bytes(stream[at:at + 32], "big") < P256_ORDER:
            return stream[at:at + 32]
    raise AssertionError("no candidate is in range: one seed in 2^128")


# --- KEMs ---

def split_seed(one: Kem, seed: bytes) -> tuple[bytes, bytes]:
    """A hybrid's ML-KEM seed and the private key of its group."""
    length = 32 if one.group == "x25519" else 128
    stream = hashlib.shake_256(seed).digest(KEM_SEED + length)
    rest = stream[KEM_SEED:]
    return stream[:KEM_SEED], rest if one.group == "x25519" else first_scalar(rest)


def public_key(one: Kem, private: bytes) -> bytes:
    if not one.hybrid:
        return group_public(one.group, private)
    seed, group_private = split_seed(one, private)
    return kem.keys(seed[:32], seed[32:])[0] + group_public(one.group, group_private)


def combine(one: Kem, pq_secret: bytes, group_secret: bytes, group_enc: bytes, group_public_key: bytes) -> bytes:
    return hashlib.sha3_256(pq_secret + group_secret + group_enc + group_public_key + GROUP_LABELS[one.name]).digest()


def dh_secret(one: Kem, shared: bytes, enc: bytes, public: bytes) -> bytes:
    suite = b"KEM" + i2(one.id)
    prk = extract(b"", b"HPKE-v1" + suite + b"eae_prk" + shared)
    return expand(prk, i2(32) + b"HPKE-v1" + suite + b"shared_secret" + enc + public, 32)


def encapsulate(one: Kem, public: bytes, randomness: bytes) -> tuple[bytes, bytes]:
    """enc and the shared secret. `randomness` is the message of ML-KEM (32 bytes; hybrids alone), then the group's ephemeral
    private key (32 bytes)."""
    if len(public) != one.public_length:
        raise Refused("public_key_invalid")
    ephemeral = randomness[-32:]
    group_enc = group_public(one.group, ephemeral)
    if not one.hybrid:
        return group_enc, dh_secret(one, group_agree(one.group, ephemeral, public), group_enc, public)
    pq, group = public[:s3.KEM_KEY], public[s3.KEM_KEY:]
    if not s3.kem_key_valid(pq):
        raise Refused("public_key_invalid")
    ciphertext, pq_secret = kem.encapsulate(pq, randomness[:32])
    secret = combine(one, pq_secret, group_agree(one.group, ephemeral, group), group_enc, group)
    return ciphertext + group_enc, secret


def decapsulate(one: Kem, private: bytes, enc: bytes) -> bytes:
    if len(enc) != one.enc_length:
        raise Refused("public_key_invalid")
    if not one.hybrid:
        return dh_secret(one, group_agree(one.group, private, enc), enc, group_public(one.group, private))
    seed, group_private = split_seed(one, private)
    pq_secret = mlkem.MLKEM768PrivateKey.from_seed_bytes(seed).decapsulate(enc[:s3.KEM_CIPHERTEXT])
    group_enc = enc[s3.KEM_CIPHERTEXT:]
    return combine(one, pq_secret, group_agree(one.group, group_private, group_enc), group_enc, group_public(one.group, group_private))


# --- Key schedule ---

def exporter(one: Kem, shared: bytes, info: bytes, psk: bytes, psk_id: bytes) -> "Exporter":
    """Base mode without a psk, psk mode with one."""
    mode = 1 if psk else 0
    suite = b"HPKE" + i2(one.id) + i2(KDF) + i2(AEAD)
    labeled = lambda salt, label, ikm: extract(salt, b"HPKE-v1" + suite + label + ikm)
    context = bytes([mode]) + labeled(b"", b"psk_id_hash", psk_id) + labeled(b"", b"info_hash", info)
    secret = labeled(shared, b"secret", psk)
    return Exporter(suite, expand(secret, i2(32) + b"HPKE-v1" + suite + b"exp" + context, 32))


@dataclass(frozen=True)
class Exporter:
    suite: bytes
    secret: bytes

    def export(self, context: bytes, length: int = 32) -> bytes:
        return expand(self.secret, i2(length) + b"HPKE-v1" + self.suite + b"sec" + context, length)
