"""Keys of messages of card schemes: their names, their forms, and what is wrong with them."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

import processes
from forging import Pair, forge, make_pair, reason_of
from sealway import UsageError
from sealway.mle import MleCodec, OpeningKey, SealingKey, generic_jwe
from sealway.mle.keys import is_roca

OWN, OTHER = make_pair(), make_pair(())
KID = "shop-2030"
KEY = OpeningKey(OWN.private_key, kid=KID)


def codec(profile: str = "mastercard-jwe", **more: Any) -> MleCodec:
    return MleCodec(profile, **more)


def test_names_derive_as_the_command_line_derives_them(tmp_path: Path) -> None:
    (tmp_path / "certificate.pem").write_bytes(OWN.certificate)
    said = subprocess.run(
        [processes.binary(), "mle", "keys", str(tmp_path / "certificate.pem")], capture_output=True, check=True
    ).stdout.decode()
    sources: list[Any] = [
        *("spki_sha256_hex", "certificate_sha256_hex", "certificate_sha256_base64"),
        *("x5t_s256", "subject_serial_number", "jwk_thumbprint"),
    ]
    for source in sources:
        kid = SealingKey(OWN.certificate, kid_from=source).kid
        assert kid == OpeningKey(OWN.private_key, certificate=OWN.certificate, kid_from=source).kid
        line = next(line for line in said.splitlines() if source in line)
        assert line.split()[-1] == kid, source


WEAK, TWICE = make_pair(bits=1024), make_pair(("1", "2"))
CERTIFICATE = OWN.certificate


def pss() -> tuple[bytes, bytes]:
    """A private key and a public key of RSASSA-PSS, which openssl makes."""
    made = ["openssl", "genpkey", "-algorithm", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048"]
    private = subprocess.run(made, capture_output=True, check=True).stdout
    public = subprocess.run(["openssl", "pkey", "-pubout"], input=private, capture_output=True, check=True).stdout
    return private, public


PSS = pss()
BAD_KEYS: list[tuple[str, Callable[[], object]]] = [
    ("1024 bits", lambda: OpeningKey(WEAK.private_key, kid="k")),
    ("1024 bits", lambda: SealingKey(WEAK.public_key, kid="k")),
    ("RSASSA-PSS", lambda: OpeningKey(PSS[0], kid="k")),
    ("RSASSA-PSS", lambda: SealingKey(PSS[1], kid="k")),
    ("holds a private key", lambda: SealingKey(OWN.private_key, kid="k")),
    ("0 private keys", lambda: OpeningKey(CERTIFICATE, kid="k")),
    ("2 private keys", lambda: OpeningKey(OWN.private_key * 2, kid="k")),
    ("2 certificates", lambda: SealingKey(CERTIFICATE + OWN.public_key, kid="k")),
    ("cannot be read", lambda: OpeningKey(OWN.private_key[:200] + OWN.private_key[300:], kid="k")),
    ("PEM text", lambda: OpeningKey(7, kid="k")),  # type: ignore[arg-type]
    ("not that of the private key", lambda: OpeningKey(OWN.private_key, certificate=OTHER.certificate, kid="k")),
    ("give a certificate", lambda: OpeningKey(OWN.private_key, certificate=OWN.public_key, kid="k")),
    ("either kid or kid_from", lambda: OpeningKey(OWN.private_key)),
    ("1 to 256 bytes", lambda: OpeningKey(OWN.private_key, kid="")),
    ("1 to 256 bytes", lambda: OpeningKey(OWN.private_key, kid="\ud83d")),
    ("derives from a certificate", lambda: SealingKey(OWN.public_key, kid_from="x5t_s256")),
    ("no serialNumber", lambda: SealingKey(OTHER.certificate, kid_from="subject_serial_number")),
    ("more than one", lambda: SealingKey(TWICE.certificate, kid_from="subject_serial_number")),
    ("kid_from", lambda: SealingKey(OWN.public_key, kid_from="md5")),  # type: ignore[arg-type]
    ("alg", lambda: SealingKey(OWN.public_key, kid="k", alg="RSA1_5")),
    ("enc", lambda: SealingKey(OWN.public_key, kid="k", enc="A256CBC")),
    ("two keys have the kid 'shop-2030'", lambda: codec(open=[KEY, KEY])),
    ("open", lambda: codec(open=["key"])),
    ("seal", lambda: codec(seal="key")),
    ("profile", lambda: codec("master")),
    ("window_ms", lambda: codec(window_ms=0)),
    ("algs", lambda: generic_jwe(algs=["dir"])),
]


@pytest.mark.parametrize(("named", "make"), BAD_KEYS, ids=[f"{i}: {case[0]}" for i, case in enumerate(BAD_KEYS)])
def test_a_wrong_key_or_option_is_named(named: str, make: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match=named):
        make()


def test_other_forms_of_a_private_key_are_told_apart() -> None:
    pkcs1 = OWN.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    spki = SealingKey(OWN.public_key, kid_from="spki_sha256_hex").kid
    assert OpeningKey(pkcs1.decode(), kid_from="spki_sha256_hex").kid == spki
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        encrypted = OWN.key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"p"))
        with pytest.raises(UsageError, match="it is encrypted"):
            OpeningKey(encrypted, kid="k")


def test_a_modulus_with_the_structure_of_roca_is_known() -> None:
    product = 2
    for prime in (n for n in range(3, 168) if all(n % d for d in range(2, n))):
        product *= prime
    assert is_roca(65537**5 + 12345 * product)
    assert not is_roca(65537**5 + 12345 * product + 2)


def test_nothing_printed_or_pickled_holds_a_key() -> None:
    assert "BEGIN" not in repr(KEY) and "redacted" in repr(KEY)
    with pytest.raises(TypeError):
        pickle.dumps(KEY)


def test_two_keys_are_live_at_once() -> None:
    both = codec("mastercard-jwe", open=[KEY, OpeningKey(OTHER.private_key, kid="shop-2031")])

    def found(pair: Pair, kid: str) -> str:
        return reason_of(lambda: both.open("request", b'{"encryptedData":"%s"}' % forge(pair, kid)))

    assert [found(OWN, KID), found(OTHER, "shop-2031"), found(OTHER, KID)] == ["opened", "opened", "unwrap"]
