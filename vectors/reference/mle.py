"""The arithmetic of spec/mle.md, straight from its text: tokens of RSA keys, as profiles seal them and as no profile would.

The content key, the IV and the seed of OAEP are arguments, so that a token comes out the same each time.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, padding, serialization
from cryptography.hazmat.primitives.asymmetric import padding as rsa_padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from session import fixed

PUBLISHED = json.loads((Path(__file__).parent / "published_mle.json").read_text())
NOW_MS = 1_790_000_000_123
WINDOW_MS = 300_000
KID = "2c2ac2da-386a-4743-b48f-6a98e549636d"
# Length of the content key, of the IV and of the tag, and the hash of the MAC.
ENCS = {"A128GCM": (16, 12, 16, None), "A192GCM": (24, 12, 16, None), "A256GCM": (32, 12, 16, None),
        "A128CBC-HS256": (32, 16, 16, "sha256"), "A192CBC-HS384": (48, 16, 24, "sha384"), "A256CBC-HS512": (64, 16, 32, "sha512")}
OAEP_HASHES = {"RSA-OAEP-256": "sha256", "RSA-OAEP": "sha1"}


@dataclass(frozen=True)
class Side:
    """What a profile allows in one direction; `member` is None for the bare token."""
    encs: tuple[str, ...]
    member: str | None
    algs: tuple[str, ...] = ("RSA-OAEP-256",)


@dataclass(frozen=True)
class Profile:
    name: str
    request: Side
    answer: Side
    iat: str | None = None
    cty: str | None = None
    is_mixed: bool = False

    def side(self, message: str) -> Side:
        return self.request if message == "request" else self.answer

    def iat_at(self, ms: int) -> int:
        return ms // 1000 if self.iat == "seconds" else ms


MASTERCARD_ENCS = ("A256GCM", "A128GCM", "A192GCM", "A128CBC-HS256")
MASTERCARD = Profile("mastercard-jwe", Side(MASTERCARD_ENCS, "encryptedData"), Side(MASTERCARD_ENCS, "encryptedData"),
                     cty="application/json", is_mixed=True)
VISA = Profile("visa", Side(("A128GCM", "A256GCM"), "encData"), Side(("A128GCM", "A256GCM"), "encData"), iat="milliseconds")
ACCEPTANCE = Profile("visa-acceptance", Side(("A256GCM",), "encryptedRequest"),
                     Side(("A256GCM", "A128GCM"), "encryptedResponse", ("RSA-OAEP-256", "RSA-OAEP")), iat="seconds")
EVERY = Side(tuple(ENCS), None, ("RSA-OAEP-256", "RSA-OAEP"))
GENERIC = Profile("generic-jwe", EVERY, EVERY)
GENERIC_SECONDS = replace(GENERIC, iat="seconds")


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def private_key(pem: str):
    return serialization.load_pem_private_key(pem.encode(), None)


@cache
def public_numbers(pem: str):
    """The modulus and the exponent of a private or a public key."""
    key = private_key(pem).public_key() if "PRIVATE" in pem else serialization.load_pem_public_key(pem.encode())
    return key.public_numbers()


OWN = PUBLISHED["rfc7516_a1"]["private_key_pem"]
CERTIFICATE = PUBLISHED["rfc7516_a1"]["certificate_pem"]
OTHER = PUBLISHED["rfc7638"]["public_key_pem"]


def x5t_s256(certificate_pem: str) -> str:
    certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
    return b64url(certificate.fingerprint(hashes.SHA256()))


def mgf1(seed: bytes, length: int, name: str) -> bytes:
    out, count = b"", 0
    while len(out) < length:
        out += hashlib.new(name, seed + count.to_bytes(4, "big")).digest()
        count += 1
    return out[:length]


def xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def oaep(message: bytes, length: int, name: str, seed: bytes) -> bytes:
    """EME-OAEP of RFC 8017 section 7.1.1, with an empty label."""
    digest = hashlib.new(name).digest()
    block = digest + bytes(length - len(message) - 2 * len(digest) - 2) + b"\1" + message
    masked = xor(block, mgf1(seed, len(block), name))
    return b"\0" + xor(seed, mgf1(masked, len(seed), name)) + masked


def pkcs1(message: bytes, length: int, seed: bytes) -> bytes:
    """EME-PKCS1-v1_5 of RFC 8017 section 7.2.1, which no profile takes."""
    filler = bytes(byte or 1 for byte in (seed * length)[:length - len(message) - 3])
    return b"\0\2" + filler + b"\0" + message


def rsa(encoded: bytes, pem: str) -> bytes:
    numbers = public_numbers(pem)
    return pow(int.from_bytes(encoded, "big"), numbers.e, numbers.n).to_bytes(len(encoded), "big")


def cbc_mac(enc: str, key: bytes, aad: bytes, iv: bytes, ciphertext: bytes) -> bytes:
    """The tag of RFC 7518 section 5.2.2.1."""
    mac = hmac.new(key, aad + iv + ciphertext + (8 * len(aad)).to_bytes(8, "big"), ENCS[enc][3]).digest()
    return mac[:ENCS[enc][2]]


def seal_content(enc: str, cek: bytes, iv: bytes, aad: bytes, plaintext: bytes) -> tuple[bytes, bytes]:
    if ENCS[enc][3] is None:
        sealed = AESGCM(cek).encrypt(iv, plaintext, aad)
        return sealed[:-16], sealed[-16:]
    half = len(cek) // 2
    padder = padding.PKCS7(128).padder()
    padded = padder.update(plaintext) + padder.finalize()
    encryptor = Cipher(algorithms.AES(cek[half:]), modes.CBC(iv)).encryptor()
    ciphertext = encryptor.update(padded) + encryptor.finalize()
    return ciphertext, cbc_mac(enc, cek[:half], aad, iv, ciphertext)


@dataclass(frozen=True)
class Token:
    """A token in the making. Each part can be made wrong while the others stay right."""
    label: str
    header: str
    enc: str
    alg: str = "RSA-OAEP-256"
    plaintext: bytes = b'{"pan":"4111111111111111","amount":12345678901234567890.10}'
    recipient: str = OWN
    iv: bytes | None = None
    cek: bytes | None = None
    wrapping: str | None = None
    # Bytes of the header as they are encoded, and the additional data, where they are not those of `header`.
    header_bytes: bytes | None = None
    header_text: str | None = None
    aad: bytes | None = None

    def with_(self, **change) -> "Token":
        return replace(self, **change)

    def adding(self, members: str) -> "Token":
        return self.with_(header=f"{self.header[:-1]},{members}}}")

    def replacing(self, old: str, new: str) -> "Token":
        assert old in self.header, f"{self.label}: {old}"
        return self.with_(header=self.header.replace(old, new))

    def parts(self) -> list[str]:
        """The five parts, encoded."""
        head = b64url(self.header.encode() if self.header_bytes is None else self.header_bytes)
        head = head if self.header_text is None else self.header_text
        cek_len, iv_len, *_ = ENCS[self.enc]
        cek = fixed(f"mle/{self.label}/cek", cek_len) if self.cek is None else self.cek
        iv = fixed(f"mle/{self.label}/iv", iv_len) if self.iv is None else self.iv
        # The content of a token with a wrong key or IV is that of the right length.
        content_iv = iv if len(iv) in (iv_len, 16) else (iv + bytes(iv_len))[:iv_len]
        content_key = cek if len(cek) == cek_len else (cek + bytes(cek_len))[:cek_len]
        aad = head.encode() if self.aad is None else self.aad
        ciphertext, tag = seal_content(self.enc, content_key, content_iv, aad, self.plaintext)
        return [head, *map(b64url, (self.encrypted_key(cek), iv, ciphertext, tag))]

    def encrypted_key(self, cek: bytes) -> bytes:
        length = (public_numbers(self.recipient).n.bit_length() + 7) // 8
        wrapping = self.wrapping or self.alg
        if wrapping == "RSA1_5":
            return rsa(pkcs1(cek, length, fixed(f"mle/{self.label}/seed")), self.recipient)
        name = OAEP_HASHES[wrapping]
        seed = fixed(f"mle/{self.label}/seed", hashlib.new(name).digest_size)
        return rsa(oaep(cek, length, name, seed), self.recipient)

    def text(self) -> str:
        return ".".join(self.parts())

    def with_part(self, number: int, change) -> str:
        """The token with the bytes of one part changed."""
        parts = self.parts()
        raw = base64.urlsafe_b64decode(parts[number] + "==")
        return ".".join([*parts[:number], b64url(change(raw)), *parts[number + 1:]])

    def with_text(self, number: int, change) -> str:
        """The token with the text of one part changed."""
        parts = self.parts()
        return ".".join([*parts[:number], change(parts[number]), *parts[number + 1:]])


def token(label: str, profile: Profile, message: str, enc: str, alg: str = "RSA-OAEP-256", now_ms: int = NOW_MS, **change) -> Token:
    """A token as the profile seals it."""
    header = {"alg": alg, "enc": enc, "kid": KID}
    if profile.cty:
        header["cty"] = profile.cty
    if profile.iat:
        header["iat"] = profile.iat_at(now_ms)
    return Token(label, json.dumps(header, separators=(",", ":")), enc, alg, **change)


def wrap(text: str, member: str | None) -> str:
    return text if member is None else f'{{"{member}":"{text}"}}'


def open_rightly(token_text: str, pem: str, alg: str, enc: str) -> bytes:
    """The plaintext of a right token, opened by the library, as a check of what this file computes."""
    head, *rest = token_text.replace("+", "-").replace("/", "_").split(".")
    head = token_text.split(".")[0]
    encrypted_key, iv, ciphertext, tag = (base64.urlsafe_b64decode(part + "==") for part in rest)
    name = {"sha1": hashes.SHA1, "sha256": hashes.SHA256}[OAEP_HASHES[alg]]()
    cek = private_key(pem).decrypt(encrypted_key, rsa_padding.OAEP(rsa_padding.MGF1(name), name, None))
    if ENCS[enc][3] is None:
        return AESGCM(cek).decrypt(iv, ciphertext + tag, head.encode())
    half = len(cek) // 2
    assert cbc_mac(enc, cek[:half], head.encode(), iv, ciphertext) == tag
    decryptor = Cipher(algorithms.AES(cek[half:]), modes.CBC(iv)).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    return unpadder.update(decryptor.update(ciphertext) + decryptor.finalize()) + unpadder.finalize()
