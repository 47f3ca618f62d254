"""Every wire's calls that go well, with what clients of that wire send and expect."""

import base64
import hashlib
import json
import queue
import time
from datetime import timedelta

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes as hashes_, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from client import Refused, data, refused

OPEN = "/CryptoBroker.CryptoGrpc/"
DEV = "/CryptoBroker.CryptoGrpcDev/"
W0 = "/protobuf.CryptoBroker/"
HEALTH = "/grpc.health.v1.Health/"
TRACE = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "traceFlags": "01",
    "traceState": "a=b",
    "correlationId": "order 7",
}
SIGN = {
    "profile": "Default",
    "csr": data("csr/p256.pem"),
    "caPrivateKey": data("ca/p384-key.pem"),
    "caCert": data("ca/p384.pem"),
}


def issued(der):
    """The certificate, whose signature is its authority's."""
    certificate = x509.load_der_x509_certificate(der)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(SIGN["caCert"].encode()))
    return certificate


def hashes(client):
    digest = hashlib.sha3_512(b"abc")
    old = {"id": "1", "createdAt": "2025-12-01"}
    got = client.call(W0 + "Hash", profile="Default", input=b"abc", metadata=old)
    assert got.hashValue == digest.hexdigest() and got.hashAlgorithm == "sha3-512", got
    assert (got.metadata.id, got.metadata.createdAt) == ("1", "2025-12-01"), got
    # W1, and W2 without createdAt.
    for metadata in [{**old, "traceContext": TRACE}, {"id": "2", "traceContext": TRACE}]:
        got = client.call(OPEN + "Hash", profile="Default", input=b"abc", metadata=metadata)
        assert got.hashValue == digest.hexdigest() and got.hashAlgorithm == "sha3-512", got
        want = client.request(OPEN + "Hash", metadata=metadata).metadata
        assert got.metadata == want, got
    metadata = {"id": "3", "traceContext": TRACE}
    for form in [0, 1, 77]:
        got = client.call(OPEN + "HashData", profile="Default", input=b"abc", metadata=metadata, outputFormat=form)
        value = (got.hashValueHex, got.hashValueRaw)
        assert value == (("", digest.digest()) if form == 1 else (digest.hexdigest(), b"")), got
        assert got.metadata == client.request(OPEN + "HashData", metadata=metadata).metadata, got
        descriptor = (got.descriptor.profile, got.descriptor.operation, got.descriptor.algorithm)
        assert (got.hashAlgorithm, descriptor) == ("sha3-512", ("Default", "HashData", "sha3-512")), got
    for inputs in [b"", b"x" * (1 << 20)]:
        got = client.call(OPEN + "HashData", profile="HashOnly", input=inputs)
        assert got.hashValueHex == hashlib.sha256(inputs).hexdigest() and not got.HasField("metadata"), got.hashAlgorithm
    got = client.call(OPEN + "HashData", profile="Leaving", input=b"abc", metadata={"id": "4"})
    leaving = got.metadata.deprecation
    assert got.hashValueHex == hashlib.shake_128(b"abc").hexdigest(16) and got.metadata.id == "4", got
    told = (leaving.profile, leaving.replacedBy, leaving.deprecatedSince, leaving.removeAfter, leaving.reason)
    assert told == ("Leaving", "HashOnly", "2026-01-01", "2027-01-01", "too short"), got


def certificates(client):
    now = int(time.time())
    got = client.call(W0 + "Sign", metadata={"id": "5"}, validNotAfterOffset="2h", subject="CN=zero", **SIGN)
    certificate = issued(base64.b64decode(got.signedCertificate, validate=True))
    assert certificate.subject.rfc4514_string() == "CN=zero" and got.metadata.id == "5", got
    assert abs(certificate.not_valid_after_utc.timestamp() - now - 7200) < 60, certificate.not_valid_after_utc
    ends = {"validNotBefore": now, "validNotAfter": now + 3600}
    got = client.call(OPEN + "Sign", metadata={"id": "6", "createdAt": "x", "traceContext": TRACE}, **ends, **SIGN)
    certificate = issued(base64.b64decode(got.signedCertificate, validate=True))
    assert certificate.not_valid_before_utc.timestamp() == now, certificate.not_valid_before_utc
    assert certificate.not_valid_after_utc.timestamp() == now + 3600, certificate.not_valid_after_utc
    assert got.metadata == client.request(OPEN + "Sign", metadata={"id": "6", "createdAt": "x", "traceContext": TRACE}).metadata
    points = ["http://example.com/crls/list1.crl", "http://example.com/crls/list2.crl"]
    for form in [0, 1, 77]:
        got = client.call(OPEN + "SignCertificate", outputFormat=form, crlDistributionPoints=points, metadata={"id": "7"}, **SIGN)
        if form == 1:
            assert got.pem.startswith("-----BEGIN CERTIFICATE-----\n") and got.pem.endswith("-----END CERTIFICATE-----\n")
            der = x509.load_pem_x509_certificate(got.pem.encode())
        else:
            der = issued(got.der)
        listed = der.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
        assert [point.full_name[0].value for point in listed] == points
        assert der.not_valid_after_utc - der.not_valid_before_utc == timedelta(hours=8761)
        assert (got.descriptor.operation, got.descriptor.algorithm) == ("SignCertificate", "ecdsa-with-SHA512"), got.descriptor
        assert got.metadata.id == "7", got.metadata


def encryption(client):
    key, nonce, plain = bytes(range(32)), b"n" * 12, b"a secret of 20 bytes"
    asked = {"profile": "Leaving", "keySource": {"rawKey": key}}
    got = client.call(OPEN + "EncryptData", plaintext=plain, encryptMetadata={"nonce": nonce, "aad": b"a"}, **asked)
    seal = AESGCM(key).encrypt(nonce, plain, b"a")
    cipher = got.cipherMetadata
    assert (got.ciphertext, cipher.tag, cipher.nonce, cipher.aad) == (seal[:-16], seal[-16:], nonce, b"a"), got
    assert not cipher.HasField("keyId") and got.descriptor.algorithm == "aes-gcm", got
    assert got.descriptor.operation == "EncryptData" and got.metadata.deprecation.replacedBy == "HashOnly", got
    opens = {"nonce": nonce, "aad": b"a", "tag": cipher.tag}
    got = client.call(OPEN + "DecryptData", ciphertext=got.ciphertext, decryptMetadata=opens, **asked)
    assert got.plaintext == plain and got.metadata.deprecation.profile == "Leaving", got
    # A key of the store.
    client.call("/sealway.broker.v1.Keys/Generate", key_id="w4", algorithm="aes-256-gcm")
    asked = {"profile": "Seal", "keySource": {"keyId": "w4"}}
    got = client.call(OPEN + "EncryptData", plaintext=plain, **asked)
    assert got.cipherMetadata.keyId == "w4" and len(got.cipherMetadata.tag) == 16 and len(got.cipherMetadata.nonce) == 12, got
    opens = {"nonce": got.cipherMetadata.nonce, "tag": got.cipherMetadata.tag}
    assert client.call(OPEN + "DecryptData", ciphertext=got.ciphertext, decryptMetadata=opens, **asked).plaintext == plain


def signatures(client):
    """W5: SignData and VerifyData."""
    client.call("/sealway.broker.v1.Keys/Generate", key_id="w5", algorithm="ecdsa-p384")
    public = serialization.load_der_public_key(client.call("/sealway.broker.v1.Keys/PublicKey", key_id="w5").der)
    asked = {"profile": "Sign", "keySource": {"single": {"keyId": "w5"}}, "metadata": {"id": "9", "traceContext": TRACE}}
    for form in [0, 1]:
        got = client.call(OPEN + "SignData", input=b"abc", signatureFormat=form, **asked)
        der = got.signature
        if form == 0:
            assert len(der) == 96, len(der)
            der = utils.encode_dss_signature(int.from_bytes(der[:48]), int.from_bytes(der[48:]))
        public.verify(der, b"abc", ec.ECDSA(hashes_.SHA384()))
        told = got.descriptor
        assert (told.profile, told.operation, told.algorithm) == ("Sign", "SignData", "ecdsa-with-sha-384"), told
        assert got.metadata == client.request(OPEN + "SignData", **asked).metadata, got.metadata
        for text, valid in [(b"abc", True), (b"abd", False)]:
            seen = client.call(OPEN + "VerifyData", input=text, signature=got.signature, signatureFormat=form, **asked)
            assert seen.valid == valid and seen.metadata.id == "9", seen
        # The wire does not say which version it was.
        client.call("/sealway.broker.v1.Keys/Rotate", key_id="w5")
        assert client.call(OPEN + "VerifyData", input=b"abc", signature=got.signature, signatureFormat=form, **asked).valid
        public = serialization.load_der_public_key(client.call("/sealway.broker.v1.Keys/PublicKey", key_id="w5").der)
    signing, verifying = ("something went wrong while " + what + " data: " for what in ["signing", "verifying"])
    shape = "rpc error: code = InvalidArgument desc = "
    for changed, text in [
        ({"profile": ""}, shape + "profile: required"),
        ({"keySource": None}, shape + "keySource: required"),
        ({"keySource": {"single": {}}}, shape + "keySource.single: required"),
        ({"keySource": {"single": {"keyId": "k" * 1025}}}, shape + "keySource.single.keyId: too large (max 1024)"),
        ({"keySource": {"single": {"rawKey": b"k" * 32}}}, shape + "keySource.single.rawKey: not accepted; *"),
        ({"keySource": {"componentKeys": {"keys": [{"keyId": "w5"}]}}}, shape + "keySource.componentKeys: composite *"),
        ({"keySource": {"single": {"keyId": "none"}}}, "key_id: there is no key: none"),
        ({"input": b"x" * ((1 << 20) + 1)}, shape + "input: too large (max 1048576)"),
        ({"metadata": {"id": "i" * 129}}, shape + "metadata.id: too large (max 128)"),
        # Numbers of PEM and CMS, of none, and the largest and smallest that the field can carry.
        *[
            ({"signatureFormat": form}, f"{shape}signatureFormat: {form} is not supported; expected 0 (RAW) or 1 (DER)")
            for form in [2, 3, 4, 77, 2**31 - 1, -1, -(2**31)]
        ],
    ]:
        request = {**asked, "input": b"abc", **changed}
        refused(client, OPEN + "SignData", 3, signing + text, **request)
        refused(client, OPEN + "VerifyData", 3, verifying + text, signature=b"s", **request)
    refused(client, OPEN + "VerifyData", 3, verifying + shape + "signature: required", input=b"abc", **asked)
    for length, text in [(16385, shape + "signature: too large (max 16384)")]:
        refused(client, OPEN + "VerifyData", 3, verifying + text, input=b"abc", signature=b"s" * length, **asked)
    request = {**asked, "profile": "HashOnly", "input": b"abc"}
    refused(client, OPEN + "SignData", 9, signing + "profile: HashOnly has no SignData", **request)


def health(client):
    assert client.call(HEALTH + "Check").status == 1
    for service in ["CryptoBroker.CryptoGrpc", "protobuf.CryptoBroker", "sealway.broker.v1.Keys"]:
        assert client.call(HEALTH + "Check", service=service).status == 1, service
    refused(client, HEALTH + "Check", 5, "unknown service", service="none")
    listed = client.call(HEALTH + "List").statuses
    assert listed[""].status == 1 and "CryptoBroker.CryptoGrpc" in listed, listed
    watched = client.watch(HEALTH + "Watch")
    assert next(watched).status == 1
    watched.cancel()
    assert next(client.watch(HEALTH + "Watch", service="none")).status == 3


def idle(client):
    """A connection that is opened ahead of its first call is closed in order, and the call goes over another one."""
    states = queue.Queue()
    tell = states.put
    client.channel.subscribe(tell, try_to_connect=True)
    try:
        while states.get(timeout=30) != grpc.ChannelConnectivity.READY:
            pass
        assert states.get(timeout=60) == grpc.ChannelConnectivity.IDLE
    finally:
        # Else the process does not end.
        client.channel.unsubscribe(tell)
    assert client.call(HEALTH + "Check").status == 1


def development(client):
    for service in [OPEN, DEV]:
        outcomes = []
        for _ in range(10):
            try:
                answer = client.call(service + "FakeEndpoint", metadata={"id": "8", "createdAt": "2026-04-01"})
                assert answer.message == "Fake endpoint called successfully", answer
                assert (answer.metadata.id, answer.metadata.createdAt) == ("8", "2026-04-01"), answer
                outcomes.append(True)
            except Refused as error:
                assert (error.code, error.text) == (14, "fake endpoint is temporarily down"), error
                outcomes.append(False)
        assert outcomes == [False, False, False, False, True] * 2, outcomes
    results = json.loads(client.call(DEV + "Benchmark").benchmarkResults)["results"]
    names = "HashSHA3_256 HashSHA3_384 HashSHA3_512 HashSHA_256 HashSHA_384 HashSHA_512 HashSHA_512_256"
    names += " SignCertificate_CSR_SECP256R1_CA_RSA4096 SignCertificate_CSR_SECP521R1_CA_SECP521R1"
    names += " SignCertificate_CSR_SECP256R1_CA_SECP384R1"
    assert [result["name"] for result in results] == ["BenchmarkLibraryNative_" + name for name in names.split()], results
    assert all(isinstance(result["avgTime"], int) and result["avgTime"] > 0 for result in results), results


def production(client):
    """Without development, and without the wires W0 to W2."""
    refused(client, DEV + "FakeEndpoint", 12, "unknown service CryptoBroker.CryptoGrpcDev")
    refused(client, DEV + "Benchmark", 12, "unknown service CryptoBroker.CryptoGrpcDev")
    refused(client, W0 + "Hash", 12, "unknown service protobuf.CryptoBroker")
    for method in ["Benchmark", "FakeEndpoint", "Hash", "Sign"]:
        refused(client, OPEN + method, 12, f"unknown method {method} for service CryptoBroker.CryptoGrpc")
    assert client.call(OPEN + "HashData", profile="HashOnly").hashAlgorithm == "sha-256"
