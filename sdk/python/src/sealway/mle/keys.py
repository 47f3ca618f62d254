"""Keys that open and that seal: `spec/mle.md#keys`. A key has one algorithm, so that a token cannot choose another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Literal, NamedTuple, NoReturn, TypeVar

from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from cryptography.x509 import Certificate, load_pem_x509_certificate
from cryptography.x509.oid import NameOID

from .. import check
from ..errors import UsageError
from ..wire.encoding import decode_base64, encode_base64, encode_base64url
from .content import ENCS
from .profile import ALGS
from .token import is_kid

#: Derivations of a key's name.
KidSource = Literal[
    "spki_sha256_hex",
    "certificate_sha256_hex",
    "certificate_sha256_base64",
    "x5t_s256",
    "subject_serial_number",
    "jwk_thumbprint",
]

_PEM_LEN_MAX: Final = 65_536
_LABEL: Final = re.compile("-----BEGIN ([A-Z0-9 ]+)-----", re.ASCII)
#: The object identifier of RSASSA-PSS, 1.2.840.113549.1.1.10, in DER. It stands at the beginning of a key.
_PSS: Final = bytes.fromhex("06092a864886f70d01010a")
#: Moduli of CVE-2017-15361 are powers of 65537 modulo each of these.
_ROCA_PRIMES: Final = tuple(n for n in range(3, 168, 2) if all(n % d for d in range(3, n, 2)))

T = TypeVar("T")


class _Public(NamedTuple):
    key: RSAPublicKey
    certificate: Certificate | None

    def hash(self) -> bytes:
        """The SHA-256 of the certificate."""
        return sha256(self._certificate().public_bytes(Encoding.DER)).digest()

    def _certificate(self) -> Certificate:
        if self.certificate is None:
            raise UsageError("kid_from: this name derives from a certificate, and there is none")
        return self.certificate

    def spki_sha256_hex(self) -> str:
        """The SHA-256 of the SubjectPublicKeyInfo."""
        return sha256(self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()

    def subject_serial_number(self) -> str:
        """The attribute serialNumber of the subject, which must occur once."""
        found = self._certificate().subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)
        if len(found) != 1:
            raise UsageError("kid_from: the certificate's subject has no serialNumber attribute, or more than one")
        return str(found[0].value)

    def jwk_thumbprint(self) -> str:
        """The thumbprint of RFC 7638 section 3.3: the members in their order, without white space."""
        numbers = self.key.public_numbers()
        e, n = (encode_base64url(each.to_bytes(-(-each.bit_length() // 8), "big")) for each in (numbers.e, numbers.n))
        return encode_base64url(sha256(f'{{"e":"{e}","kty":"RSA","n":"{n}"}}'.encode()).digest())


# SPEC mle.md#kid
_KID_SOURCES: Final[Mapping[str, Callable[[_Public], str]]] = {
    "spki_sha256_hex": _Public.spki_sha256_hex,
    "certificate_sha256_hex": lambda public: public.hash().hex(),
    "certificate_sha256_base64": lambda public: encode_base64(public.hash()),
    "x5t_s256": lambda public: encode_base64url(public.hash()),
    "subject_serial_number": _Public.subject_serial_number,
    "jwk_thumbprint": _Public.jwk_thumbprint,
}


class OpeningKey:
    """A private key that opens tokens. Nothing prints it.

    Attributes:
        modulus_len: the length of an encrypted key, in bytes.
        certificate_sha256: None without a certificate.
    """

    __slots__ = ("_key", "alg", "certificate_sha256", "kid", "modulus_len")

    def __init__(
        self,
        private_key: str | bytes,
        *,
        certificate: str | bytes | None = None,
        alg: str = ALGS[0],
        kid: str | None = None,
        kid_from: KidSource | None = None,
    ) -> None:
        """Loads a key.

        Args:
            private_key: PEM of an RSA key of 2,048 to 8,192 bits, PKCS#8 or PKCS#1, not encrypted.
            certificate: PEM of its certificate, for names that derive from it and for tokens with `x5t#S256`.
            kid: the name; or `kid_from`, its derivation.

        Raises:
            UsageError: it holds nothing of the key.
        """
        self._key: Final = _private(private_key)
        public = _Public(self._key.public_key(), None)
        if certificate is not None:
            public = _public(certificate, "certificate")
            if public.certificate is None:
                raise UsageError("certificate: give a certificate, not a public key")
            if public.key.public_numbers() != self._key.public_key().public_numbers():
                raise UsageError("certificate: it is not that of the private key")
        self.modulus_len: Final = _check_rsa(public.key, "private_key")
        self.alg: Final = _alg(alg)
        self.kid: Final = _kid(kid, kid_from, public)
        self.certificate_sha256: Final = None if public.certificate is None else public.hash()

    def unwrap(self, encrypted_key: bytes) -> bytes | None:
        """Decrypts an encrypted key of the right length: some 700 µs for 2,048 bits. Returns None if that fails."""
        try:
            return self._key.decrypt(encrypted_key, _oaep(self.alg))
        except ValueError:
            return None

    def __repr__(self) -> str:
        return f"OpeningKey(kid={self.kid!r}, alg={self.alg!r}, redacted)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be pickled")


class SealingKey:
    """A public key that seals tokens for one recipient, with one pair of algorithms."""

    __slots__ = ("_public", "alg", "enc", "kid")

    def __init__(
        self,
        public_key: str | bytes,
        *,
        alg: str = ALGS[0],
        enc: str = "A256GCM",
        kid: str | None = None,
        kid_from: KidSource | None = None,
    ) -> None:
        """Loads the PEM of the recipient's certificate, or of its public key (SubjectPublicKeyInfo).

        Raises:
            UsageError
        """
        self._public: Final = _public(public_key, "public_key")
        _check_rsa(self._public.key, "public_key")
        check.wants(enc in ENCS, "enc", enc, f"one of {', '.join(ENCS)}")
        self.alg: Final = _alg(alg)
        self.enc: Final = enc
        self.kid: Final = _kid(kid, kid_from, self._public)

    def wrap(self, content_key: bytes) -> bytes:
        """Encrypts a content key."""
        return self._public.key.encrypt(content_key, _oaep(self.alg))

    def is_valid(self, now_ms: int) -> bool:
        """Returns True if the key came without a certificate, or in one that is valid at this time."""
        certificate = self._public.certificate
        if certificate is None:
            return True
        now = datetime.fromtimestamp(now_ms // 1000, UTC)
        return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc

    def __repr__(self) -> str:
        return f"SealingKey(kid={self.kid!r}, alg={self.alg!r}, enc={self.enc!r})"


def _oaep(alg: str) -> OAEP:
    # RFC 7518 section 4.3 names SHA-1, whose collisions do not matter there.
    hash = SHA1() if alg == "RSA-OAEP" else SHA256()  # noqa: S303
    return OAEP(MGF1(hash), hash, None)


def _alg(alg: str) -> str:
    check.wants(alg in ALGS, "alg", alg, f"one of {', '.join(ALGS)}")
    return alg


def _kid(kid: str | None, kid_from: str | None, public: _Public) -> str:
    if (kid is None) == (kid_from is None):
        raise UsageError("kid: give either kid or kid_from")
    if kid_from is not None:
        check.wants(kid_from in _KID_SOURCES, "kid_from", kid_from, f"one of {', '.join(_KID_SOURCES)}")
        kid = _KID_SOURCES[kid_from](public)
    if not isinstance(kid, str) or not is_kid(kid):
        raise UsageError("kid: give a text of 1 to 256 bytes")
    return kid


def _private(pem: str | bytes) -> RSAPrivateKey:
    text, labels = _labels(pem, "private_key")
    if "ENCRYPTED PRIVATE KEY" in labels or "Proc-Type:" in text:
        raise UsageError("private_key: it is encrypted: decrypt it first")
    own = [label for label in labels if label.endswith("PRIVATE KEY")]
    if len(own) != 1:
        raise UsageError(f"private_key: the PEM text holds {len(own)} private keys: give one")
    block = _block(text, own[0])
    key = _parsed(lambda: load_pem_private_key(block.encode(), None), "private_key")
    if not isinstance(key, RSAPrivateKey) or _is_pss(block):
        raise UsageError("private_key: an RSA key is due; RSASSA-PSS keys sign")
    return key


def _public(pem: str | bytes, option: str) -> _Public:
    text, labels = _labels(pem, option)
    if any(label.endswith("PRIVATE KEY") for label in labels):
        raise UsageError(f"{option}: it holds a private key: give a certificate or a public key")
    own = [label for label in labels if label in ("CERTIFICATE", "PUBLIC KEY")]
    if len(own) != 1:
        raise UsageError(f"{option}: the PEM text holds {len(own)} certificates and public keys: give one")
    block = _block(text, own[0])
    certificate = None
    if own[0] == "CERTIFICATE":
        certificate = _parsed(lambda: load_pem_x509_certificate(block.encode()), option)
        is_pss = certificate.public_key_algorithm_oid.dotted_string == "1.2.840.113549.1.1.10"
        key = _rsa(_parsed(certificate.public_key, option))
    else:
        key, is_pss = _rsa(_parsed(lambda: load_pem_public_key(block.encode()), option)), _is_pss(block)
    if key is None or is_pss:
        raise UsageError(f"{option}: an RSA key is due; RSASSA-PSS keys sign")
    return _Public(key, certificate)


def _rsa(key: object) -> RSAPublicKey | None:
    return key if isinstance(key, RSAPublicKey) else None


def _labels(pem: str | bytes, option: str) -> tuple[str, list[str]]:
    text = pem.decode("latin-1") if isinstance(pem, bytes) else pem
    is_text = isinstance(text, str) and len(text) <= _PEM_LEN_MAX
    check.wants(is_text, option, pem, "a PEM text of at most 65,536 bytes")
    return text, _LABEL.findall(text)


def _block(text: str, label: str) -> str:
    """The block of a label: what stands beside it is not the library's to choose from."""
    begin, end = f"-----BEGIN {label}-----", f"-----END {label}-----"
    _, _, rest = text.partition(begin)
    content, found, _ = rest.partition(end)
    return f"{begin}{content}{found}\n"


def _is_pss(block: str) -> bool:
    content = "".join(line.strip() for line in block.splitlines() if not line.startswith("-----"))
    return _PSS in decode_base64(content[:64])


def _parsed(parse: Callable[[], T], option: str) -> T:
    try:
        return parse()
    except Exception:
        # The library's error may quote its input.
        raise UsageError(f"{option}: the PEM text cannot be read") from None


# SPEC mle.md#keys
def _check_rsa(key: RSAPublicKey, option: str) -> int:
    """Checks an RSA key, and returns the length of its modulus in bytes."""
    bits, numbers = key.key_size, key.public_numbers()
    if not 2048 <= bits <= 8192:
        raise UsageError(f"{option}: an RSA key of {bits} bits; 2048 to 8192 are due")
    if numbers.e % 2 == 0 or not 3 <= numbers.e < 2**32:
        raise UsageError(f"{option}: the public exponent is even, 1, or longer than 32 bits")
    if is_roca(numbers.n):
        raise UsageError(f"{option}: the RSA key has the structure of CVE-2017-15361 (ROCA)")
    return -(-bits // 8)


def is_roca(modulus: int) -> bool:
    """Returns True for the fingerprint of CVE-2017-15361; an honest modulus has it with a probability below 2⁻²⁷."""
    return all(modulus % prime in {pow(65537, step, prime) for step in range(prime)} for prime in _ROCA_PRIMES)
