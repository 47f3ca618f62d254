"""Keys with certificates, and tokens that may be wrong in one place each."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from sealway.mle import MleRefusal
from sealway.mle.content import ENCS
from sealway.wire.encoding import encode_base64url


@dataclass(frozen=True)
class Pair:
    """A key pair in PEM, with a certificate."""

    key: rsa.RSAPrivateKey
    private_key: bytes
    certificate: bytes
    public_key: bytes


def make_pair(serial_numbers: tuple[str, ...] = ("1718",), bits: int = 2048) -> Pair:
    key = rsa.generate_private_key(65537, bits)
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, "shop")]
    attributes += [x509.NameAttribute(NameOID.SERIAL_NUMBER, number) for number in serial_numbers]
    name = x509.Name(attributes)
    now = datetime.datetime.now(datetime.UTC)
    certificate = _certificate(key, name, now)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Pair(key, private, certificate, public)


def _certificate(key: rsa.RSAPrivateKey, name: x509.Name, now: datetime.datetime) -> bytes:
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    return (
        builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    )


def forge(
    pair: Pair,
    kid: str,
    *,
    header: dict[str, Any] | str | None = None,
    alg: str = "RSA-OAEP-256",
    enc: str = "A256GCM",
    content_key: bytes | None = None,
    iv: bytes | None = None,
    aad: str | None = None,
    plaintext: bytes = b'{"pan":"4111"}',
    parts: Callable[[list[str]], list[str]] = list,
) -> bytes:
    """Makes a token for the holder of a key. `parts` changes the five encoded parts."""
    algorithm = ENCS[enc]
    header = {"alg": alg, "enc": enc, "kid": kid} if header is None else header
    text = header if isinstance(header, str) else json.dumps(header)
    encoded = encode_base64url(text.encode("utf-8", "surrogatepass"))
    content_key = os.urandom(algorithm.key_len) if content_key is None else content_key
    right = content_key if len(content_key) == algorithm.key_len else bytes(algorithm.key_len)
    iv = os.urandom(algorithm.iv_len) if iv is None else iv
    ciphertext, tag = algorithm.seal(right, iv, (encoded if aad is None else aad).encode(), plaintext)
    hash = hashes.SHA1() if alg == "RSA-OAEP" else hashes.SHA256()
    wrapped = pair.key.public_key().encrypt(content_key, OAEP(MGF1(hash), hash, None))
    return ".".join(parts([encoded, *map(encode_base64url, (wrapped, iv, ciphertext, tag))])).encode()


def reason_of(run: Callable[[], object]) -> str:
    """The class of a refusal, or `opened`."""
    try:
        run()
    except MleRefusal as refusal:
        return refusal.reason
    return "opened"
