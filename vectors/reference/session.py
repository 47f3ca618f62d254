"""The arithmetic of spec/session.md, wires 1 and 2, straight from its text.

It seals whatever it is told to, sensible or not: the scenarios need a builder that can lie.
"""

import base64
import hashlib
import struct
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NOW = 1_750_000_000_000
WINDOW = 300_000
UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
HEX_NONCE = "00112233445566778899aabbccddeeff"


def fixed(label: str, length: int = 32) -> bytes:
    """Bytes that never change and look like nothing in particular."""
    return hashlib.shake_256(b"sealway vectors: " + label.encode()).digest(length)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def private_key(scalar: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(scalar, "big"), ec.SECP256R1())


def public(scalar: bytes, form: str = "raw") -> bytes:
    key = private_key(scalar).public_key()
    encoding, kind = {
        "raw": (serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint),
        "compressed": (serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint),
        "spki": (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
    }[form]
    return key.public_bytes(encoding, kind)


def agree(scalar: bytes, peer: bytes) -> bytes:
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), peer)
    return private_key(scalar).exchange(ec.ECDH(), point)


def derive(z: bytes, session_id: str, info: str) -> bytes:
    return HKDF(hashes.SHA256(), 32, session_id.encode(), info.encode()).derive(z)


def key_info(wire: int, anonymous: bool, client_id: str | None) -> str:
    tail = ("ANON" if anonymous else "AUTH") if wire == 1 else client_id
    return f"SESSION|A256GCM|{tail}"


def claim_key(tag: int, scope: str, nonce: str) -> bytes:
    head = struct.pack(">BH", tag, len(scope))
    return hashlib.sha256(head + scope.encode() + nonce.encode()).digest()[:16]


def claim(tag: int, scope: str, stamp: str, nonce: str, now: int, window: int = WINDOW) -> dict:
    """The nonce lifetime of the vectors is twice the window, the least allowed."""
    return {
        "key_hex": claim_key(tag, scope, nonce).hex(),
        "sealed": tag == 3,
        "stamp_ms": int(stamp),
        "expires_ms": now + 2 * window + 1,
    }


def aad1(subject: str, path: str, stamp: str, nonce: str, kid: str) -> str:
    return f"{subject}|{path}|{stamp}|{nonce}|{kid}"


def aad2(stamp: str, nonce: str, kid: str, client_id: str) -> str:
    return f"{stamp}|{nonce}|{kid}|{client_id}"


def encrypt(key: bytes, iv: bytes, aad: str, plaintext: bytes) -> tuple[bytes, bytes]:
    sealed = AESGCM(key).encrypt(iv, plaintext, aad.encode())
    return sealed[:-16], sealed[-16:]


def text_or_hex(data: bytes) -> dict:
    """Bytes as a vector holds them: readable where they are plain ASCII."""
    if data and all(0x20 <= b < 0x7F or b in b"\t\r\n" for b in data):
        return {"text": data.decode()}
    return {"hex": data.hex()}


@dataclass(frozen=True)
class Session:
    """An agreed session, seen by both sides at once."""

    wire: int
    family: str
    client_id: str | None
    client_scalar: bytes
    server_scalar: bytes
    random: bytes
    created: int = NOW - 60_000
    ttl: int = 1800

    @property
    def anonymous(self) -> bool:
        return self.family == "anonymous"

    @property
    def id(self) -> str:
        return ("A-" if self.anonymous else "S-") + self.random.hex()

    @property
    def kid(self) -> str:
        return "session:" + self.id

    @property
    def z(self) -> bytes:
        return agree(self.server_scalar, public(self.client_scalar))

    @property
    def info(self) -> str:
        return key_info(self.wire, self.anonymous, self.client_id)

    @property
    def key(self) -> bytes:
        return derive(self.z, self.id, self.info)

    @property
    def expires(self) -> int:
        return self.created + self.ttl * 1000

    @property
    def answer(self) -> str:
        """The init answer: four members, in this order, without white space."""
        alg = "aes-256-gcm" if self.family == "v1" else "A256GCM"
        share = b64(public(self.server_scalar))
        return (
            f'{{"sessionId":"{self.id}","serverPublicKey":"{share}",'
            f'"encAlg":"{alg}","expiresInSec":{self.ttl}}}'
        )

    def with_(self, **changes) -> "Session":
        return replace(self, **changes)

    def server_view(self) -> dict:
        return {
            "id": self.id,
            "wire": self.wire,
            "client_id": self.client_id,
            "key_hex": self.key.hex(),
            "created_ms": self.created,
            "expires_ms": self.expires,
        }

    def client_view(self) -> dict:
        return {
            "wire": self.wire,
            "anonymous": self.anonymous,
            "client_id": self.client_id,
            "scalar_hex": self.client_scalar.hex(),
            "init_answer": self.answer,
        }


def make_session(wire: int, family: str, client_id: str | None, label: str = "") -> Session:
    name = f"{wire}/{family}/{client_id}/{label}"
    ttl = {"session": 1800, "v1": 3600, "anonymous": 120}[family]
    return Session(
        wire,
        family,
        client_id,
        fixed(name + "/client scalar"),
        fixed(name + "/server scalar"),
        fixed(name + "/session id", 16),
        ttl=ttl,
    )


@dataclass(frozen=True)
class Message:
    """One sealed request or answer, and every part that a liar may want to change."""

    session: Session
    plaintext: bytes
    answer: bool = False
    status: int = 200
    path: str = "/transaction/purchase"
    stamp: str = str(NOW)
    nonce: str = UUID
    iv: bytes = fixed("iv", 12)
    key: bytes | None = None  # another key than the session's
    aad: str | None = None  # another AAD than the one the headers give
    sent_aad: str | None = None  # wire 1: another X-AAD than the one sealed under

    def with_(self, **changes) -> "Message":
        return replace(self, **changes)

    @property
    def true_aad(self) -> str:
        s = self.session
        if s.wire == 1:
            subject = str(self.status) if self.answer else "POST"
            return aad1(subject, self.path, self.stamp, self.nonce, s.kid)
        return aad2(self.stamp, self.nonce, s.kid, s.client_id)

    def parts(self) -> tuple[bytes, bytes]:
        return encrypt(self.key or self.session.key, self.iv, self.aad or self.true_aad, self.plaintext)

    def headers(self) -> list[list[str]]:
        s = self.session
        if s.wire == 1:
            sent = self.sent_aad or self.aad or self.true_aad
            return [
                ["X-Kid", s.kid],
                ["X-Enc-Alg", "A256GCM"],
                ["X-IV", b64(self.iv)],
                ["X-Tag", b64(self.parts()[1])],
                ["X-AAD", b64(sent.encode())],
                ["X-Nonce", self.nonce],
                ["X-Timestamp", self.stamp],
            ]
        headers = [["X-Kid", s.kid], ["X-Idempotency-Key", f"{self.stamp}.{self.nonce}"]]
        return headers if self.answer else headers + [["X-ClientId", s.client_id]]

    def body(self) -> bytes:
        ciphertext, tag = self.parts()
        if self.session.wire == 1:
            return b64(ciphertext).encode()
        return self.iv + ciphertext + tag

    def wire_form(self) -> dict:
        return {"headers": self.headers(), "body": text_or_hex(self.body())}
