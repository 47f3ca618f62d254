#!/usr/bin/env python3
"""The peer of the tests of ML-DSA certificates: the OpenSSL inside of the package `cryptography`, which knows ML-DSA.

    ml_dsa.py make FOLDER       writes a key, a CSR and a CA certificate of each parameter set
    ml_dsa.py verify CA FILE…   verifies certificates that the CA has signed; all are PEM
    ml_dsa.py ca SPKI FILE      writes a CA certificate of a public key in DER, which a new P-256 key signs
    ml_dsa.py check SPKI MESSAGE SIGNATURE
                                verifies a signature of the files' content
"""

import base64
import hashlib
import pathlib
import sys
import textwrap

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, mldsa, padding, rsa

SETS = {44: mldsa.MLDSA44PrivateKey, 65: mldsa.MLDSA65PrivateKey, 87: mldsa.MLDSA87PrivateKey}
LAST = {44: 17, 65: 18, 87: 19}


def element(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    size = (len(body).bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + len(body).to_bytes(size, "big") + body


def pem(label: str, der: bytes) -> str:
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def name(common: str) -> bytes:
    return element(0x30, element(0x31, element(0x30, b"\x06\x03\x55\x04\x03", element(0x0C, common.encode()))))


def extension(oid: bytes, critical: bool, value: bytes) -> bytes:
    flag = b"\x01\x01\xff" if critical else b""
    return element(0x30, element(0x06, oid), flag, element(0x04, value))


def to_be_signed(algorithm: bytes, issuer: bytes, subject: bytes, spki: bytes) -> bytes:
    """A CA certificate without its signature. The key's identifier is of its raw bytes, which end the SubjectPublicKeyInfo."""
    identifier = hashlib.sha256(spki[22:]).digest()[:20]
    extensions = element(
        0x30,
        extension(b"\x55\x1d\x13", True, element(0x30, b"\x01\x01\xff")),
        extension(b"\x55\x1d\x0f", True, b"\x03\x02\x01\x06"),
        extension(b"\x55\x1d\x0e", False, element(0x04, identifier)),
    )
    validity = element(0x30, element(0x17, b"260101000000Z"), element(0x17, b"460101000000Z"))
    return element(
        0x30, b"\xa0\x03\x02\x01\x02", b"\x02\x01\x01", algorithm, issuer, validity, subject, spki, element(0xA3, extensions)
    )


def make(folder: pathlib.Path) -> None:
    for number, kind in SETS.items():
        key = kind.generate()
        raw = key.public_key().public_bytes_raw()
        algorithm = element(0x30, element(0x06, bytes.fromhex("6086480165030403") + bytes([LAST[number]])))
        spki = element(0x30, algorithm, element(0x03, b"\0" + raw))
        sealed = lambda signed: element(0x30, signed, algorithm, element(0x03, b"\0" + key.sign(signed)))
        request = element(0x30, b"\x02\x01\x00", name(f"subject-{number}"), spki, element(0xA0))
        subject = name(f"ca-{number}")
        certificate = to_be_signed(algorithm, subject, subject, spki)
        pkcs8 = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{number}-key.pem").write_bytes(pkcs8)
        (folder / f"{number}-csr.pem").write_text(pem("CERTIFICATE REQUEST", sealed(request)))
        (folder / f"{number}-ca.pem").write_text(pem("CERTIFICATE", sealed(certificate)))


def ca(spki: pathlib.Path, file: pathlib.Path) -> None:
    root = ec.generate_private_key(ec.SECP256R1())
    algorithm = element(0x30, element(0x06, bytes.fromhex("2a8648ce3d040302")))
    signed = to_be_signed(algorithm, name("root"), name("ca"), spki.read_bytes())
    signature = root.sign(signed, ec.ECDSA(hashes.SHA256()))
    file.write_text(pem("CERTIFICATE", element(0x30, signed, algorithm, element(0x03, b"\0" + signature))))


def check(spki: pathlib.Path, message: pathlib.Path, signature: pathlib.Path) -> None:
    key = serialization.load_der_public_key(spki.read_bytes())
    key.verify(signature.read_bytes(), message.read_bytes())
    print(type(key).__name__)


def verify(ca: str, files: list[str]) -> None:
    issuer = x509.load_pem_x509_certificate(pathlib.Path(ca).read_bytes())
    for file in files:
        certificate = x509.load_pem_x509_certificate(pathlib.Path(file).read_bytes())
        assert certificate.issuer == issuer.subject
        key, signed = issuer.public_key(), certificate.tbs_certificate_bytes
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(certificate.signature, signed, ec.ECDSA(certificate.signature_hash_algorithm))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(certificate.signature, signed, padding.PKCS1v15(), certificate.signature_hash_algorithm)
        else:
            key.verify(certificate.signature, signed)
        subject = type(certificate.public_key()).__name__
        print(f"{certificate.signature_algorithm_oid.dotted_string} {subject} {certificate.version.name}")


if sys.argv[1] in ("make", "ca", "check"):
    {"make": make, "ca": ca, "check": check}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
else:
    verify(sys.argv[2], sys.argv[3:])
