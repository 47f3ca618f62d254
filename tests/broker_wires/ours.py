"""Our own wire: every operation on keys of the store that goes well, and what is refused."""

import hashlib
import hmac

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from client import data, refused

V1 = "/sealway.broker.v1.Broker/"
KEYS = "/sealway.broker.v1.Keys/"


def pem_key(path):
    key = serialization.load_pem_private_key(data(path).encode(), None)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.DER, form, serialization.NoEncryption())


def keys(client):
    made = client.call(KEYS + "Generate", key_id="seal", algorithm="aes-256-gcm").key
    assert (made.key_id, made.algorithm, made.is_imported) == ("seal", "aes-256-gcm", False), made
    assert [(version.version, version.state) for version in made.versions] == [(1, 1)], made
    refused(client, KEYS + "Generate", 6, "*", key_id="seal", algorithm="aes-256-gcm")
    refused(client, KEYS + "Generate", 3, "algorithm: expected one of *", key_id="x", algorithm="rot13")
    refused(client, KEYS + "Generate", 3, "key_id: required", algorithm="aes-256-gcm")
    refused(client, KEYS + "Generate", 3, "key_id: too large (max 64)", key_id="k" * 65, algorithm="aes-256-gcm")
    refused(client, KEYS + "Import", 3, "*", key_id="y", algorithm="aes-256-gcm", material=b"short")
    for method in ["Rotate", "Disable", "Enable", "PublicKey"]:
        refused(client, KEYS + method, 5, "*", key_id="none")
    assert client.call(KEYS + "Import", key_id="mac", algorithm="hmac-sha-256", material=b"m" * 32).key.is_imported
    client.call(KEYS + "Import", key_id="derive", algorithm="hkdf-sha-256", material=b"d" * 32)
    client.call(KEYS + "Import", key_id="ca", algorithm="ecdsa-p384", material=pem_key("ca/p384-key.pem"))
    client.call(KEYS + "Generate", key_id="sign", algorithm="ecdsa-p384")
    client.call(KEYS + "Generate", key_id="kem", algorithm="ml-kem-768")
    listed, after = [], ""
    while True:
        page = client.call(KEYS + "List", after=after, limit=2)
        listed += [key.key_id for key in page.keys]
        if not page.has_more:
            break
        after = page.keys[-1].key_id
    assert listed == ["ca", "derive", "kem", "mac", "seal", "sign"], listed


def sealing(client):
    asked = {"profile": "Seal", "key_id": "seal"}
    plains = [{"plaintext": b"one", "aad": b"a"}, {"plaintext": b""}]
    made = client.call(V1 + "Encrypt", plains=plains, **asked)
    assert (made.descriptor.key_id, made.descriptor.key_version, made.descriptor.algorithm) == ("seal", 1, "aes-256-gcm"), made
    ciphers = list(made.ciphers)
    ciphers[0].aad = b"a"
    assert len(client.call(KEYS + "Rotate", key_id="seal").key.versions) == 2
    opened = client.call(V1 + "Decrypt", ciphers=ciphers, **asked).opened
    assert [one.plaintext for one in opened] == [b"one", b""], opened
    wrapped = client.call(V1 + "Rewrap", ciphers=ciphers, **asked)
    assert wrapped.descriptor.key_version == 2 and all(one.cipher.key_version == 2 for one in wrapped.rewrapped), wrapped
    ciphers[0].tag = b"t" * 16
    opened = client.call(V1 + "Decrypt", ciphers=ciphers, **asked).opened
    assert opened[0].refusal.code == 3 and opened[1].plaintext == b"" and opened[1].HasField("plaintext"), opened
    client.call(KEYS + "Disable", key_id="seal")
    refused(client, V1 + "Encrypt", 9, "*", plains=plains, **asked)
    client.call(KEYS + "Enable", key_id="seal")
    refused(client, V1 + "Encrypt", 3, "*", plains=[], **asked)
    refused(client, V1 + "Encrypt", 5, "*", profile="Seal", key_id="none", plains=plains)
    refused(client, V1 + "Encrypt", 3, "key_id: required", profile="Seal", plains=plains)
    refused(client, V1 + "Encrypt", 3, "*", profile="Seal", key_id="mac", plains=plains)


def operations(client):
    inputs = [b"one", b"two"]
    made = client.call(V1 + "Hash", profile="Default", inputs=inputs)
    assert list(made.digests) == [hashlib.sha3_512(one).digest() for one in inputs], made
    leaving = client.call(V1 + "Hash", profile="Leaving", inputs=inputs).descriptor.deprecation
    told = (leaving.replaced_by, leaving.deprecated_since, leaving.remove_after, leaving.reason)
    assert told == ("HashOnly", "2026-01-01", "2027-01-01", "too short"), leaving
    refused(client, V1 + "Hash", 3, "inputs: expected 1 to 1024, got 0", profile="Default")
    refused(client, V1 + "Hash", 3, "inputs: expected 1 to 1024, got 1025", profile="Default", inputs=[b""] * 1025)
    refused(client, V1 + "Hash", 3, "inputs: too large (max 1048576 bytes in all)", profile="Default", inputs=[b"x" * 700000] * 2)
    refused(client, V1 + "Hash", 3, "could not retrieve profile, err: there is no profile: none", profile="none", inputs=inputs)
    refused(client, V1 + "Hash", 3, "profile: required", inputs=inputs)
    made = client.call(V1 + "Mac", profile="Mac", key_id="mac", inputs=inputs)
    tags = [hmac.digest(b"m" * 32, one, "sha256") for one in inputs]
    assert list(made.tags) == tags and made.descriptor.algorithm == "hmac-sha-256", made
    signed = [{"input": b"one", "signature": tags[0]}, {"input": b"one", "signature": tags[1], "key_version": 1}]
    assert list(client.call(V1 + "VerifyMac", profile="Mac", key_id="mac", signed=signed).valid) == [True, False]
    made = client.call(V1 + "Derive", profile="Derive", key_id="derive", derivations=[{"salt": b"s", "info": b"i", "length": 42}])
    assert list(made.outputs) == [HKDF(hashes.SHA256(), 42, b"s", b"i").derive(b"d" * 32)], made
    made = client.call(V1 + "Random", profile="Default", length=16, count=3).outputs
    assert len(set(made)) == 3 and all(len(one) == 16 for one in made), made
    assert len(client.call(V1 + "Random", profile="Default", length=1).outputs) == 1
    refused(client, V1 + "Random", 3, "*", profile="Default", length=65537)
    refused(client, V1 + "Random", 9, "*", profile="Seal", length=1)
    public = client.call(KEYS + "PublicKey", key_id="kem")
    for to in [{"key_id": "kem"}, {"public_key": public.der}]:
        sent = client.call(V1 + "Encapsulate", profile="Kem", count=2, **to).encapsulated
        ciphertexts = [one.ciphertext for one in sent]
        secrets = client.call(V1 + "Decapsulate", profile="Kem", key_id="kem", ciphertexts=ciphertexts).shared_secrets
        assert list(secrets) == [one.shared_secret for one in sent] and secrets[0] != secrets[1]
    refused(client, V1 + "Encapsulate", 3, "to: required", profile="Kem")
    client.call(KEYS + "Generate", key_id="unwrap", algorithm="rsa-unwrap-2048")
    public = serialization.load_der_public_key(client.call(KEYS + "PublicKey", key_id="unwrap").der)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    sent = [public.encrypt(bytes([length]) * length, oaep) for length in [16, 24, 32, 48, 64]]
    wrapped = [{"encrypted_key": one, "length": length} for one, length in zip(sent, [16, 24, 32, 48, 64])]
    wrapped.append({"encrypted_key": b"x" * 256, "length": 32})
    made = client.call(V1 + "Unwrap", profile="Unwrap", key_id="unwrap", wrapped=wrapped)
    assert made.descriptor.algorithm == "rsa-oaep-256" and made.descriptor.key_version == 1, made.descriptor
    assert [key == key[:1] * len(key) for key in made.content_keys] == [True] * 5 + [False]
    assert [len(key) for key in made.content_keys] == [16, 24, 32, 48, 64, 32]


def signatures(client):
    inputs = [b"one", b"two"]
    made = client.call(V1 + "Sign", profile="Sign", key_id="sign", inputs=inputs)
    assert made.descriptor.algorithm == "ecdsa-p384-sha-384" and made.descriptor.operation == "SignData", made.descriptor
    public = serialization.load_der_public_key(client.call(KEYS + "PublicKey", key_id="sign").der)
    for one, signature in zip(inputs, made.signatures):
        public.verify(signature, one, ec.ECDSA(hashes.SHA384()))
    try:
        public.verify(made.signatures[0], b"two", ec.ECDSA(hashes.SHA384()))
        raise AssertionError("a signature of another message holds")
    except InvalidSignature:
        pass
    signed = [{"input": b"one", "signature": made.signatures[0]}, {"input": b"two", "signature": made.signatures[0]}]
    assert list(client.call(V1 + "Verify", profile="Sign", key_id="sign", signed=signed).valid) == [True, False]
    asked = {"profile": "Default", "csr": data("csr/p256.pem").encode(), "ca_key_ref": "ca"}
    asked["ca_certificate"] = data("ca/p384.pem").encode()
    made = client.call(V1 + "SignCertificate", subject="CN=ours", **asked)
    certificate = x509.load_der_x509_certificate(made.der)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(asked["ca_certificate"]))
    assert certificate.subject.rfc4514_string() == "CN=ours", certificate.subject
    assert (made.descriptor.key_id, made.descriptor.key_version) == ("ca", 1), made.descriptor
    for fields, text in [
        ({"ca_key_ref": ""}, "ca_key_ref: required"),
        ({"csr": b""}, "csr: required"),
        ({"ca_certificate": b"x" * 65537}, "ca_certificate: too large (max 65536)"),
        ({"not_before": -1}, "not_before: before 1970"),
        ({"crl_distribution_points": ["ftp://h"]}, "crl_distribution_points[0]: is not valid URL"),
        ({"subject": "x" * 1025}, "subject: too large (max 1024)"),
        ({"ca_key_ref": "sign"}, "*"),
        ({"ca_key_ref": "mac"}, "*"),
    ]:
        refused(client, V1 + "SignCertificate", 3, text, **{**asked, **fields})
    refused(client, V1 + "SignCertificate", 5, "*", **{**asked, "ca_key_ref": "none"})


def information(client):
    trace = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    told = client.call(V1 + "Information", headers=trace)
    assert told.module == "AWS-LC" and told.module_version.startswith("AWS-LC") and told.version, told
    assert (told.certificate, told.is_fips) == ("none", False) and "Default" in told.profiles, told
