"""The store over TLS: whose certificate is taken."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import processes
import sealway
from sealway.server.redis import KeyRing, RedisStore

NOBODY = "S-" + "0" * 32


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificate(folder: Path, file: str, issuer: Any, names: list[x509.GeneralName]) -> Any:
    """A certificate and its key as files; of an authority without an issuer. Gives name and key."""
    key, own = ec.generate_private_key(ec.SECP256R1()), name(file)
    signer_name, signer = issuer or (own, key)
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(own).issuer_name(signer_name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
    made = made.not_valid_after(now + datetime.timedelta(hours=1))
    made = made.add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = serialization.Encoding.PEM
    (folder / f"{file}.pem").write_bytes(made.sign(signer, hashes.SHA256()).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{file}.key").write_bytes(private)
    return own, key


# A handshake that fails leaves a socket of asyncio to the collector, on a slow machine.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_certificate_of_the_configured_authority_for_the_servers_name_is_required(tmp_path: Path) -> None:
    authority = certificate(tmp_path, "authority", None, [])
    certificate(tmp_path, "stranger", None, [])
    certificate(tmp_path, "server", authority, [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate(tmp_path, "client", authority, [])

    def of(kind: str, file: str) -> list[str]:
        return [f"--tls-{kind}-file", str(tmp_path / file)]

    keys = KeyRing(text="a " + base64.b64encode(bytes(32)).decode())
    settings = [*of("cert", "server.pem"), *of("key", "server.key"), *of("ca-cert", "authority.pem")]

    async def ask(url: str, ca: str | None, has_certificate: bool = True) -> Any:
        more: dict[str, Any] = {"ca_file": ca and tmp_path / ca, "timeout_sec": 3.0}
        if has_certificate:
            more |= {"client_cert_file": tmp_path / "client.pem", "client_key_file": tmp_path / "client.key"}
        store = RedisStore(url, keys, **more)
        try:
            return await store.session(NOBODY)
        finally:
            await store.aclose()

    with processes.redis(tmp_path, settings) as redis:
        url = f"rediss://127.0.0.1:{redis.port}/0"
        assert anyio.run(ask, url, "authority.pem") is None
        for wrong in (
            (url, "stranger.pem"),
            (url.replace("127.0.0.1", "localhost"), "authority.pem"),
            (url, "authority.pem", False),
            (url, None),
            (url.replace("rediss", "redis"), None, False),
        ):
            with pytest.raises(sealway.StoreUnavailable):
                anyio.run(ask, *wrong)
        with pytest.raises(sealway.UsageError):
            anyio.run(ask, url.replace("rediss", "redis"), "authority.pem")
