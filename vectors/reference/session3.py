"""The arithmetic of spec/session-3.md, straight from its text: fields, suites, the transcript of an init, its keys, identity
keys and what they sign, the proofs of problems.

It computes whatever it is told to, sensible or not: the scenarios need a builder that can lie. Who checks what, and in which
order, is in checks3.py; streams and inner headers are in stream3.py.
"""

import base64
import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass, field as member, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

KEM_KEY, KEM_CIPHERTEXT, KEM_Q = 1184, 1088, 3329
KEM1024_LENGTH = 1568  # of an encapsulation key, and of a ciphertext


class Refused(Exception):
    """What is refused, by its code, and the member of a body that is at fault if it is one."""

    def __init__(self, code: str, field: str | None = None):
        super().__init__(code if field is None else f"{code}: {field}")
        self.code, self.field = code, field


# --- Encodings ---

def field(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(data)) + data


def number(value: int) -> bytes:
    return field(struct.pack(">Q", value))


def fields(values) -> bytes:
    """`list(a, b…)`, of parts that are no fields yet."""
    return field(b"".join(field(value) for value in values))


def optional(value) -> bytes:
    if value is None:
        return field(b"")
    return number(value) if isinstance(value, int) else field(value)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def unb64(text: str) -> bytes:
    """The one form: padded, standard alphabet, unused bits zero. `ValueError` for any other."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("no base64") from error
    if b64(data) != text:
        raise ValueError("no base64")
    return data


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def hmac256(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def extract(salt: bytes, ikm: bytes) -> bytes:
    return hmac256(salt, ikm)


def expand(prk: bytes, info: bytes | str, length: int = 32) -> bytes:
    info = info.encode() if isinstance(info, str) else info
    out = block = b""
    count = 0
    while len(out) < length:
        count += 1
        block = hmac256(prk, block + info + bytes([count]))
        out += block
    return out[:length]


# --- P-256, P-384 and identity keys ---

P256, P384 = ec.SECP256R1(), ec.SECP384R1()


def private(curve, scalar: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(scalar, "big"), curve)


def public(curve, scalar: bytes) -> bytes:
    key = private(curve, scalar).public_key()
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def point(curve, data: bytes) -> ec.EllipticCurvePublicKey:
    """A point in full; the library also takes compressed ones, which are refused here."""
    if len(data) != 1 + 2 * (curve.key_size // 8) or data[0] != 4:
        raise Refused("public_key_invalid")
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(curve, data)
    except ValueError as error:
        raise Refused("public_key_invalid") from error


def agree(curve, scalar: bytes, peer: bytes) -> bytes:
    return private(curve, scalar).exchange(ec.ECDH(), point(curve, peer))


def p256_public(scalar: bytes) -> bytes:
    return public(P256, scalar)


def key_id(public: bytes) -> str:
    return sha256(public)[:16].hex()


def sign(scalar: bytes, message: bytes, curve=P256, hash=hashes.SHA256) -> bytes:
    """ECDSA. The random number is RFC 6979's, so that vectors never change; any other is as good."""
    der = private(curve, scalar).sign(message, ec.ECDSA(hash(), deterministic_signing=True))
    return b"".join(part.to_bytes(curve.key_size // 8, "big") for part in decode_dss_signature(der))


def verify(key: bytes, message: bytes, signature: bytes, curve=P256, hash=hashes.SHA256) -> bool:
    half = curve.key_size // 8
    if len(signature) != 2 * half:
        return False
    r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
    try:
        point(curve, key).verify(encode_dss_signature(r, s), message, ec.ECDSA(hash()))
    except (InvalidSignature, Refused):
        return False
    return True


def key_set_message(issued_ms: int, expires_ms: int, keys) -> bytes:
    """What a root signs. `keys` are (key id, public key, not before, not after)."""
    listed = [field(id) + field(public) + number(begin) + number(end) for id, public, begin, end in keys]
    return b"sealway/3 keys" + sha256(number(issued_ms) + number(expires_ms) + fields(listed))


# --- Suites ---

PARTS = {"X25519MLKEM768": ("kem", "x25519"), "SecP256r1MLKEM768": ("p256", "kem"), "P256": ("p256",),
         "SecP384r1MLKEM1024": ("p384", "kem1024"), "MLKEM1024": ("kem1024",)}
CLIENT_LENGTHS = {"kem": KEM_KEY, "x25519": 32, "p256": 65, "p384": 97, "kem1024": KEM1024_LENGTH}
SERVER_LENGTHS = CLIENT_LENGTHS | {"kem": KEM_CIPHERTEXT}
CURVES = {"p256": P256, "p384": P384}
KEMS = {"kem": mlkem.MLKEM768PrivateKey, "kem1024": mlkem.MLKEM1024PrivateKey}


@dataclass(frozen=True)
class ClientKeys:
    """One init's private keys, of every kind; a suite uses its own. `kem_seeds` is d and z of FIPS 203."""

    p256: bytes
    x25519: bytes
    kem_seeds: bytes
    p384: bytes


@dataclass(frozen=True)
class ServerKeys:
    """The server's. `kem` and `kem1024` are encapsulations that were made before: ciphertext and secret."""

    p256: bytes
    x25519: bytes
    kem: tuple[bytes, bytes]
    p384: bytes
    kem1024: tuple[bytes, bytes]


def split(suite: str, share: bytes, lengths) -> dict[str, bytes]:
    kinds = PARTS[suite]
    if len(share) != sum(lengths[kind] for kind in kinds):
        raise Refused("public_key_invalid")
    out, at = {}, 0
    for kind in kinds:
        out[kind] = share[at:at + lengths[kind]]
        at += lengths[kind]
    return out


def x25519_public(private: bytes) -> bytes:
    key = x25519.X25519PrivateKey.from_private_bytes(private).public_key()
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def x25519_agree(private: bytes, peer: bytes) -> bytes:
    try:
        return x25519.X25519PrivateKey.from_private_bytes(private).exchange(x25519.X25519PublicKey.from_public_bytes(peer))
    except ValueError as error:  # the all-zero secret
        raise Refused("public_key_invalid") from error


def kem_key_valid(key: bytes) -> bool:
    """FIPS 203 section 7.2: every coefficient is below q."""
    packed = key[:-32]
    for at in range(0, len(packed), 3):
        a, b, c = packed[at:at + 3]
        if a + 256 * (b % 16) >= KEM_Q or b // 16 + 16 * c >= KEM_Q:
            return False
    return True


def client_share(suite: str, keys: ClientKeys) -> bytes:
    def make(kind):
        if kind in KEMS:
            return KEMS[kind].from_seed_bytes(keys.kem_seeds).public_key().public_bytes_raw()
        return x25519_public(keys.x25519) if kind == "x25519" else public(CURVES[kind], getattr(keys, kind))

    return b"".join(make(kind) for kind in PARTS[suite])


def server_agree(suite: str, share: bytes, keys: ServerKeys) -> tuple[bytes, bytes]:
    """The server's share and the secret, from a client's share."""
    parts, answer, secret = split(suite, share, CLIENT_LENGTHS), b"", b""
    if any(not kem_key_valid(parts[kind]) for kind in KEMS if kind in parts):
        raise Refused("public_key_invalid")
    for kind in PARTS[suite]:
        own = getattr(keys, kind)
        if kind in KEMS:
            answer, secret = answer + own[0], secret + own[1]
        elif kind == "x25519":
            answer, secret = answer + x25519_public(own), secret + x25519_agree(own, parts[kind])
        else:
            answer, secret = answer + public(CURVES[kind], own), secret + agree(CURVES[kind], own, parts[kind])
    return answer, secret


def client_agree(suite: str, share: bytes, keys: ClientKeys) -> bytes:
    """The secret, from the server's share."""
    parts, secret = split(suite, share, SERVER_LENGTHS), b""
    for kind in PARTS[suite]:
        if kind in KEMS:
            secret += KEMS[kind].from_seed_bytes(keys.kem_seeds).decapsulate(parts[kind])
        elif kind == "x25519":
            secret += x25519_agree(keys.x25519, parts[kind])
        else:
            secret += agree(CURVES[kind], getattr(keys, kind), parts[kind])
    return secret


def chosen_suite(client: list[str], server: list[str]) -> str | None:
    """The first of the client's list that is in the server's."""
    return next((suite for suite in client if suite in server), None)


# --- Init ---

@dataclass(frozen=True)
class InitRequest:
    suite: str
    suites: list[str]
    share: bytes
    client_id: str
    ttl_sec: int | None = None
    proof: str | None = None
    pinned_key_ids: list[str] = member(default_factory=list)
    signature_algorithms: list[str] | None = None

    def with_(self, **changes) -> "InitRequest":
        return replace(self, **changes)

    def members(self) -> dict:
        out = {"suite": self.suite, "suites": self.suites, "share": b64(self.share), "client_id": self.client_id}
        if self.ttl_sec is not None:
            out["ttl_sec"] = self.ttl_sec
        if self.proof is not None:
            out["proof"] = self.proof
        if self.pinned_key_ids:
            out["pinned_key_ids"] = self.pinned_key_ids
        if self.signature_algorithms is not None:
            out["signature_algorithms"] = self.signature_algorithms
        return out


@dataclass(frozen=True)
class InitAnswer:
    session_id: str
    suite: str
    suites: list[str]
    share: bytes
    expires_in_sec: int
    server_time_ms: int
    key_id: str
    key_ids: list[str]
    auth: str = "none"
    subject: str | None = None
    tenant: str | None = None

    def with_(self, **changes) -> "InitAnswer":
        return replace(self, **changes)

    def members(self, signature: bytes, confirm: bytes) -> dict:
        out = {name: getattr(self, name) for name in self.__dataclass_fields__}
        out |= {"share": b64(self.share), "signature": b64(signature), "confirm": b64(confirm)}
        return {name: value for name, value in out.items() if value is not None}


def algorithms(request: InitRequest) -> bytes:
    return b"" if request.signature_algorithms is None else fields(request.signature_algorithms)


def transcript(request: InitRequest, credential: bytes, answer: InitAnswer, renewed: str | None = None) -> bytes:
    """`credential` is empty or a SHA-256; `renewed` the id of the session that a renewal is about."""
    head = field("sealway/3 init") if renewed is None else field("sealway/3 renew") + field(renewed)
    return (head
            + field(request.suite) + fields(request.suites) + field(request.share) + field(request.client_id)
            + optional(request.ttl_sec) + optional(request.proof) + fields(request.pinned_key_ids)
            + algorithms(request) + field(credential)
            + field(answer.session_id) + field(answer.suite) + fields(answer.suites) + field(answer.share)
            + number(answer.expires_in_sec) + number(answer.server_time_ms) + field(answer.key_id) + fields(answer.key_ids)
            + field(answer.auth) + optional(answer.subject) + optional(answer.tenant))


def credential(authorization: str | None) -> bytes:
    return b"" if authorization is None else sha256(authorization.encode("latin-1"))


def signed(th: bytes) -> bytes:
    """What the identity key signs."""
    return b"sealway/3 signature" + th


def init_hash(request: InitRequest) -> bytes:
    """What a DPoP proof is bound to; its claim is the base64url of it."""
    return sha256(fields(request.suites) + field(request.suite) + field(request.share) + field(request.client_id)
                  + optional(request.ttl_sec) + fields(request.pinned_key_ids) + algorithms(request))


@dataclass(frozen=True)
class Keys:
    """All that comes of one `prk`."""

    prk: bytes

    @property
    def c2s(self) -> bytes:
        return expand(self.prk, "sealway/3 c2s")

    @property
    def s2c(self) -> bytes:
        return expand(self.prk, "sealway/3 s2c")

    @property
    def exporter(self) -> bytes:
        return expand(self.prk, "sealway/3 exporter")

    @property
    def confirm_key(self) -> bytes:
        return expand(self.prk, "sealway/3 confirm")


def schedule(th: bytes, secret: bytes, old_exporter: bytes = b"") -> Keys:
    return Keys(extract(th, old_exporter + secret))


# --- Problems ---

def clock_mac(s2c: bytes, nonce: str, timestamp: str, server_time_ms: int) -> bytes:
    return hmac256(expand(s2c, "sealway/3 clock"), field(nonce) + field(timestamp) + number(server_time_ms))
