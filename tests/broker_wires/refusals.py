"""Every call with every request that is wrong: the code, the text, and a broker that serves on."""

from client import Refused, data, refused
from wires import OPEN, SIGN, W0

HASHING = "something went wrong while hashing data: "
SIGNING = "something went wrong while signing certificate: "
SHAPE = "rpc error: code = InvalidArgument desc = "
PEM_MAX = 64 * 1024
# The fields of a request that are wrong, the end of the text for it.
METADATA = [
    ({"id": "i" * 129}, "metadata.id: too large (max 128)"),
    ({"id": "\n"}, "metadata.id: must contain only printable ASCII characters"),
    ({"id": "\u00e9"}, "metadata.id: must contain only printable ASCII characters"),
]
CONTEXT = [
    ({"traceId": "0" * 33}, "metadata.traceContext.traceId: too large (max 32)"),
    ({"spanId": "0" * 17}, "metadata.traceContext.spanId: too large (max 16)"),
    ({"traceFlags": "000"}, "metadata.traceContext.traceFlags: too large (max 2)"),
    ({"traceState": "s" * 513}, "metadata.traceContext.traceState: too large (max 512)"),
    ({"correlationId": "c" * 129}, "metadata.traceContext.correlationId: too large (max 128)"),
    ({"correlationId": "\t"}, "metadata.traceContext.correlationId: must contain only printable ASCII characters"),
]
PROFILE = [
    ({"profile": ""}, "profile: required"),
    ({"profile": "p" * 65}, "profile: too large (max 64)"),
]
HASH = [*PROFILE, ({"input": b"x" * (1024 * 1024 + 1)}, "input: too large (max 1048576)")]
SIGN_SHAPE = [
    *PROFILE,
    *[({field: ""}, f"{field}: required") for field in ["csr", "caPrivateKey", "caCert"]],
    *[({field: "x" * (PEM_MAX + 1)}, f"{field}: too large (max 65536)") for field in ["csr", "caPrivateKey", "caCert"]],
    ({"subject": "s" * 1025}, "subject: too large (max 1024)"),
    ({"crlDistributionPoints": ["http://h"] * 17}, "crlDistributionPoints: too large (max 16)"),
    ({"crlDistributionPoints": ["http://h/" + "l" * 2048]}, "crlDistributionPoints[0]: too large (max 2048)"),
    *[
        ({"crlDistributionPoints": ["http://h", bad]}, "crlDistributionPoints[1]: is not valid URL")
        for bad in ["", "list.crl", "/list.crl", "ftp://h/l", "http://", "ldap://h", "http://h/ l", "http:h"]
    ],
]
UNKNOWN = "could not retrieve profile, err: there is no profile: default"
NO_HASH = "error while hashing data: unknown '' algorithm value, available values: [*"
# What is wrong with what is asked for, by the table of the original.
SIGN_CONTENT = [
    ({"profile": "default"}, UNKNOWN),
    ({"profile": "HashOnly"}, "error while signing data: profile does not contain key constraints for algorithm used in the CSR's "
     "public key, err: missing key constraints for 'ecdsa' algorithm"),
    ({"csr": "none"}, "error parsing request data: could not decode CSR as PEM file*"),
    ({"csr": "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"},
     "error parsing request data: could not parse certificate request, err: *"),
    ({"csr": data("csr/secp256k1.pem")}, "error parsing request data: could not parse certificate request, err: *"),
    ({"csr": data("csr/brainpool.pem")}, "error parsing request data: could not parse certificate request, err: *"),
    ({"csr": data("csr/ed25519.pem")},
     "error while signing data: invalid public key, err: unsupported signature algorithm (public key) of type *"),
    ({"csr": data("csr/p224.pem")},
     "error while signing data: invalid public key, err: expected public key to be at least 256 size, got: 224*"),
    ({"csr": data("csr/rsa1024.pem")},
     "error while signing data: invalid public key, err: expected public key to be at least 2048 size, got: 1024*"),
    ({"csr": data("csr/rsa8192.pem")}, "error while signing data: invalid public key, err: expected public key to be at most *"),
    ({"csr": data("csr/bad-p256.pem")}, "error while signing data: invalid certificate request signature, err: *"),
    ({"caPrivateKey": "none"}, "error parsing request data: could not parse private key, err: key must be PEM encoded*"),
    ({"caPrivateKey": "-----BEGIN EC PARAMETERS-----\nBgUrgQQAIg==\n-----END EC PARAMETERS-----\n"},
     "error parsing request data: could not parse private key, err: *"),
    ({"caPrivateKey": data("ca/rsa4096-key.pem")}, "error while signing data: *"),
    ({"caPrivateKey": data("ca/p256-key.pem"), "caCert": data("ca/p256.pem")},
     "error while signing data: *"),
    ({"caPrivateKey": data("ca/p521-key.pem")}, "error while signing data: *"),
    ({"caCert": "none"}, "error parsing request data: could not parse x.509 CA cert from request, err: failed to decode PEM block "
     "containing certificate*"),
    ({"caCert": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
     "error parsing request data: could not parse x.509 CA cert from request, err: *"),
    ({"subject": "CN"}, "error while signing data: *"),
    ({"subject": "CN=a,EMAIL=b"}, "error while signing data: *"),
]
ENDS = [
    ({"validNotBefore": 1}, "error while signing data: *"),
    ({"validNotAfter": 1 << 40}, "error while signing data: *"),
]
ENDS_W0 = [
    ({"validNotBeforeOffset": "-2h"}, "error while signing data: *"),
    ({"validNotAfterOffset": "8761h"}, "error while signing data: *"),
    ({"validNotAfterOffset": "soon"}, "error parsing request data: *"),
]


def with_context(cases):
    return [({"traceContext": fields}, text) for fields, text in cases]


def metadata_cases(has_context):
    cases = METADATA + (with_context(CONTEXT) if has_context else [])
    return [({"metadata": fields}, text) for fields, text in cases]


def of_hash(client):
    for path, code, doing, shape, has_context in [
        (W0 + "Hash", 2, "", "", False),
        (OPEN + "Hash", 3, HASHING, SHAPE, True),
        (OPEN + "HashData", 3, HASHING, SHAPE, True),
    ]:
        good = {"profile": "Default", "input": b"abc"}
        for fields, text in HASH + metadata_cases(has_context):
            refused(client, path, code, doing + shape + text, **{**good, **fields})
        unknown = UNKNOWN.replace("retrieve", "retireve") if code == 2 else UNKNOWN
        refused(client, path, code, doing + unknown, profile="default")
        refused(client, path, code, doing + NO_HASH, profile="Seal")
        serves(client)


def of_sign(client):
    for path, code, doing, shape, has_context, ends in [
        (W0 + "Sign", 2, "", "", False, ENDS_W0),
        (OPEN + "Sign", 3, SIGNING, SHAPE, True, ENDS),
        (OPEN + "SignCertificate", 3, SIGNING, SHAPE, True, ENDS),
    ]:
        for fields, text in SIGN_SHAPE + metadata_cases(has_context):
            refused(client, path, code, doing + shape + text, **{**SIGN, **fields})
        for fields, text in SIGN_CONTENT + ends:
            text = text.replace("retrieve", "retireve") if code == 2 else text
            refused(client, path, code, doing + text, **{**SIGN, **fields})
        serves(client)


def of_encryption(client):
    key, nonce = b"k" * 32, b"n" * 12
    doing = {"EncryptData": "something went wrong while encrypting data: ", "DecryptData": "something went wrong while decrypting data: "}
    for method, text in doing.items():
        given, data_field = ("encryptMetadata", "plaintext") if method == "EncryptData" else ("decryptMetadata", "ciphertext")
        good = {"profile": "Leaving", "keySource": {"rawKey": key}, data_field: b"x", given: {"nonce": nonce}}
        shapes = [
            *PROFILE,
            ({"keySource": None}, "keySource: required"),
            ({"keySource": {"rawKey": b""}}, "keySource.rawKey: required"),
            ({"keySource": {"rawKey": b"k" * 33}}, "keySource.rawKey: too large (max 32)"),
            ({"keySource": {"keyId": "k" * 1025}}, "keySource.keyId: too large (max 1024)"),
            ({data_field: b"x" * (1024 * 1024 + 1)}, f"{data_field}: too large (max 1048576)"),
            ({given: {"nonce": nonce, "aad": b"a" * 65537}}, f"{given}.aad: too large (max 65536)"),
            *metadata_cases(True),
        ]
        for fields, tail in shapes:
            refused(client, OPEN + method, 3, text + SHAPE + tail, **{**good, **fields})
        for fields in [
            {"profile": "default"},
            {"keySource": {"keyId": "none"}},
            {"keySource": {"rawKey": b"k" * 16}},
            {given: {"nonce": b"short"}},
        ]:
            refused(client, OPEN + method, 3, text + "*", **{**good, **fields})
        serves(client)
    refused(client, OPEN + "DecryptData", 3, doing["DecryptData"] + "*", profile="Leaving", keySource={"rawKey": key},
            ciphertext=b"x", decryptMetadata={"nonce": nonce, "tag": b"t" * 16})


def of_any(client):
    """What is no message, too long, or of no service, on every path."""
    for path, (_, is_stream) in client.methods.items():
        if is_stream:
            continue
        # A field that says that it is longer than what there is.
        refused(client, path, 3, "the message cannot be read: *", request=b"\x0a\xff\xff\xff\x7f")
        refused(client, path, 11, "*", request=b"\x0a\x81\x80\x80\x01" + b"x" * (2 * 1024 * 1024 + 1))
    serves(client)


def everything(client):
    """Calls each method once, with a mark in all that must not be told on; whatever comes of it."""
    mark = b"SECRET-INPUT"
    context = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"}
    for path, (_, is_stream) in client.methods.items():
        request = client.request(path)
        for field in request.DESCRIPTOR.fields:
            if field.name in ("profile", "csr", "caCert"):
                setattr(request, field.name, b"Default" if field.type == field.TYPE_BYTES else "Default")
            elif field.name in ("input", "plaintext", "material", "ciphertext"):
                setattr(request, field.name, mark)
            elif field.name == "caPrivateKey":
                request.caPrivateKey = mark.decode()
            elif field.name in ("inputs", "ciphertexts"):
                getattr(request, field.name).append(mark)
            elif field.name == "plains":
                request.plains.add(plaintext=mark, aad=mark)
            elif field.name == "signed":
                request.signed.add(input=mark, signature=mark)
            elif field.name == "metadata" and "traceContext" in field.message_type.fields_by_name:
                request.metadata.traceContext.traceId = context["traceId"]
                request.metadata.traceContext.spanId = context["spanId"]
        if is_stream:
            watched = client.watch(path)
            next(watched)
            watched.cancel()
            continue
        try:
            client.call(path, request=request)
        except Refused as error:
            assert error.code != 13 and mark.decode() not in error.text, f"{path}: {error}"


def serves(client):
    assert client.call(OPEN + "HashData", profile="Default", input=b"abc").hashAlgorithm == "sha3-512"
