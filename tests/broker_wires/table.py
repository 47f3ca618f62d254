"""Our own wire, from the list of methods of its descriptor: each has a request that is answered, and for each of that request's
fields what it is refused with. A method without a row, and a field without one, fail."""

from client import Refused, data, refused
from ours import KEYS, V1, pem_key
from refusals import UNKNOWN
from wires import DEV, HEALTH, OPEN, W0

PEM_MAX = 64 * 1024
ID = "key_id: expected 1 to 64 letters, digits, '.', '_' or '-'"
NO_KEY = "key_id: there is no key: none"
OFF = "key_id: every version of the key is disabled"
NO_VERSION = "key_version: the key has no such version"
DISABLED = "key_version: it is disabled"
NOT_ALLOWED = "not allowed to this caller"
# What stands for one entry of a batch, so many bytes long.
ENTRY = {
    "inputs": lambda length: b"x" * length,
    "ciphertexts": lambda length: b"x" * length,
    "plains": lambda length: {"plaintext": b"x" * length},
    "ciphers": lambda length: {"ciphertext": b"x" * length},
    "signed": lambda length: {"input": b"x" * length},
    "derivations": lambda length: {"info": b"x" * length, "length": 1},
    "wrapped": lambda length: {"encrypted_key": b"x" * length, "length": 32},
}
CA = {"profile": "Default", "csr": data("csr/p256.pem").encode(), "ca_certificate": data("ca/p384.pem").encode()}
SIGNED = {"input": b"one", "signature": b"none"}
SEALED = {"nonce": b"n" * 12, "ciphertext": b"x", "tag": b"t" * 16}
# What is answered. Keys are those of `prepare`: version 1 of each is disabled, 2 is current.
GOOD = {
    V1 + "Hash": {"profile": "Default", "inputs": [b"one"]},
    V1 + "SignCertificate": {**CA, "ca_key_ref": "ca"},
    V1 + "Encrypt": {"profile": "Seal", "key_id": "seal", "plains": [{"plaintext": b"one"}]},
    V1 + "Decrypt": {"profile": "Seal", "key_id": "seal", "ciphers": [SEALED]},
    V1 + "Rewrap": {"profile": "Seal", "key_id": "seal", "ciphers": [SEALED]},
    V1 + "Sign": {"profile": "Sign", "key_id": "sign", "inputs": [b"one"]},
    V1 + "Verify": {"profile": "Sign", "key_id": "sign", "signed": [SIGNED]},
    V1 + "Mac": {"profile": "Mac", "key_id": "mac", "inputs": [b"one"]},
    V1 + "VerifyMac": {"profile": "Mac", "key_id": "mac", "signed": [SIGNED]},
    V1 + "Derive": {"profile": "Derive", "key_id": "derive", "derivations": [{"info": b"i", "length": 32}]},
    V1 + "Random": {"profile": "Default", "length": 16},
    V1 + "Encapsulate": {"profile": "Kem", "key_id": "kem"},
    V1 + "Decapsulate": {"profile": "Kem", "key_id": "kem", "ciphertexts": [b"x" * 1088]},
    V1 + "Unwrap": {"profile": "Unwrap", "key_id": "unwrap", "wrapped": [{"encrypted_key": b"x" * 256, "length": 32}]},
    V1 + "Information": {},
    KEYS + "Generate": {"key_id": "made", "algorithm": "aes-256-gcm"},
    KEYS + "Import": {"key_id": "brought", "algorithm": "aes-256-gcm", "material": b"k" * 32},
    KEYS + "List": {},
    KEYS + "Rotate": {"key_id": "rotated"},
    KEYS + "Disable": {"key_id": "rotated", "version": 1},
    KEYS + "Enable": {"key_id": "rotated", "version": 1},
    KEYS + "PublicKey": {"key_id": "sign"},
}
# The operation that a profile has not, where it is not told as the table of the original has it.
LACKS = {
    "Encrypt": "EncryptData", "Decrypt": "EncryptData", "Rewrap": "EncryptData", "Sign": "SignData", "Verify": "SignData",
    "Mac": "Mac", "VerifyMac": "Mac", "Derive": "Derive", "Random": "Random", "Encapsulate": "Encapsulate",
    "Decapsulate": "Encapsulate", "Unwrap": "Unwrap",
}
DIGEST = ({"prehashed": True}, 9, "profile: Sign: signs messages, not digests, which hide what is signed; SignData.Prehashed: true allows it")
BATCH = [([], 3, "got 0"), ([0] * 1025, 3, "got 1025")]
ALGORITHM = [
    ({"algorithm": ""}, 3, "algorithm: expected one of *"),
    ({"algorithm": "rot13"}, 3, "algorithm: expected one of *"),
    ({"algorithm": "AES-256-GCM"}, 3, "algorithm: expected one of *"),
    ({"algorithm": "rsa-1024"}, 3, "algorithm: expected one of *"),
]
MATERIAL = [
    ({"material": b"short"}, 3, "material: not a key of aes-256-gcm: expected 32 bytes"),
    ({"material": b"k" * 65537}, 3, "material: too large (max 65536)"),
]
PARSING = "error parsing request data: could not "
SIGNING = "error while signing data: "
SIZE = "invalid public key, err: expected public key to be at "


def pem(path):
    return data(path).encode()


def certificate_rows():
    """The table of the original's refusals, with the CA's key in the store."""
    many = "l" * 2048
    return [
        ({"profile": "HashOnly"}, 3, SIGNING + "profile does not contain key constraints for algorithm used in the CSR's public "
         "key, err: missing key constraints for 'ecdsa' algorithm"),
        ({"csr": b""}, 3, "csr: required"),
        ({"csr": b"x" * (PEM_MAX + 1)}, 3, "csr: too large (max 65536)"),
        ({"csr": b"none"}, 3, PARSING + "decode CSR as PEM file*"),
        ({"csr": pem("ca/p384.pem")}, 3, PARSING + "parse certificate request, err: *"),
        ({"csr": pem("csr/secp256k1.pem")}, 3, PARSING + "parse certificate request, err: *"),
        ({"csr": pem("csr/brainpool.pem")}, 3, PARSING + "parse certificate request, err: *"),
        ({"csr": pem("csr/ed25519.pem")}, 3,
         SIGNING + "invalid public key, err: unsupported signature algorithm (public key) of type *"),
        ({"csr": pem("csr/p224.pem")}, 3, SIGNING + SIZE + "least 256 size, got: 224*"),
        ({"csr": pem("csr/rsa1024.pem")}, 3, SIGNING + SIZE + "least 2048 size, got: 1024*"),
        ({"csr": pem("csr/rsa8192.pem")}, 3, SIGNING + SIZE + "most 4096 size, got: 8192*"),
        ({"csr": pem("csr/bad-p256.pem")}, 3, SIGNING + "invalid certificate request signature, err: *"),
        ({"ca_key_ref": ""}, 3, "ca_key_ref: required"),
        ({"ca_key_ref": "k" * 65}, 3, "ca_key_ref: too large (max 64)"),
        ({"ca_key_ref": "a/b"}, 3, ID),
        ({"ca_key_ref": "none"}, 5, NO_KEY),
        ({"ca_key_ref": "off-sign"}, 9, OFF),
        ({"ca_key_ref": "mac"}, 3, "ca_key_ref: a key of hmac-sha-256 issues no certificates"),
        ({"ca_key_ref": "small", "ca_certificate": pem("ca/p256.pem")}, 3,
         SIGNING + "invalid private key, err: expected private key to be at least 384 size, got: 256"),
        ({"ca_key_ref": "other", "ca_certificate": pem("ca/rsa4096.pem")}, 3,
         SIGNING + "profile does not contain key constraints for *"),
        ({"ca_key_ref": "sign"}, 3, SIGNING + "x509: provided PrivateKey doesn't match parent's PublicKey"),
        ({"ca_certificate": b""}, 3, "ca_certificate: required, as none is kept with the key"),
        ({"ca_certificate": b"x" * (PEM_MAX + 1)}, 3, "ca_certificate: too large (max 65536)"),
        ({"ca_certificate": b"none"}, 3,
         PARSING + "parse x.509 CA cert from request, err: failed to decode PEM block containing certificate*"),
        ({"ca_certificate": b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"}, 3,
         PARSING + "parse x.509 CA cert from request, err: x509: malformed certificate*"),
        ({"not_before": -1}, 3, "not_before: before 1970"),
        ({"not_before": 1}, 3, SIGNING + "certificate validity (valid not before) * is earlier than the allowed by the profile *"),
        ({"not_after": -1}, 3, "not_after: before 1970"),
        ({"not_after": 1 << 40}, 3, SIGNING + "certificate validity (valid not after) * is later than the allowed by the profile *"),
        ({"subject": "s" * 1025}, 3, "subject: too large (max 1024)"),
        ({"subject": "CN"}, 3, SIGNING + "error while building subject from string: subject component *"),
        ({"subject": "EMAIL=a"}, 3, SIGNING + 'error while building subject from string: unsupported subject attribute: "EMAIL"'),
        ({"crl_distribution_points": ["http://h"] * 17}, 3, "crl_distribution_points: too large (max 16)"),
        ({"crl_distribution_points": ["http://h/" + many]}, 3, "crl_distribution_points[0]: too large (max 2048)"),
        ({"crl_distribution_points": ["http://h", "ftp://h"]}, 3, "crl_distribution_points[1]: is not valid URL"),
    ]


def of_kind(kind, wants):
    return ({"key_id": kind[0]}, 3, f"key_id: a key of {kind[1]}, the profile wants {wants}")


MAC = ("mac", "hmac-sha-256")
SEAL = ("seal", "aes-256-gcm")
VERSIONS = [({"key_version": 3}, 3, NO_VERSION), ({"key_version": 1}, 9, DISABLED)]
SIGNED_VERSIONS = [
    ({"signed": [{**SIGNED, "key_version": 3}]}, 3, NO_VERSION),
    ({"signed": [{**SIGNED, "key_version": 1}]}, 9, DISABLED),
]
PUBLIC = "public_key: not an encapsulation key of ml-kem-768"
LENGTHS = "length: expected 1 to 65536 bytes in all, in 1 to 1024 outputs"
VERSION = [({"version": 4}, 3, "version: the key has no such version")]
# What is wrong with a method's own fields. Those that many have, `general` adds.
OWN = {
    V1 + "Hash": [({"profile": "Seal"}, 3, "error while hashing data: unknown '' algorithm value, available values: [*")],
    V1 + "SignCertificate": certificate_rows(),
    V1 + "Encrypt": [
        of_kind(MAC, "aes-256-gcm"),
        ({"plains": [{"nonce": b"n" * 12}]}, 3, "nonce: the profile does not leave it to the caller"),
        ({"profile": "Leaving"}, 3, "nonce: expected 12 bytes, got 0"),
    ],
    V1 + "Decrypt": [of_kind(MAC, "aes-256-gcm")],
    V1 + "Rewrap": [
        of_kind(MAC, "aes-256-gcm"),
        ({"profile": "Leaving"}, 9, "profile: Leaving leaves the nonce to the caller, so the broker has none to seal with"),
    ],
    V1 + "Sign": [of_kind(MAC, "ecdsa-p384"), DIGEST],
    V1 + "Verify": [of_kind(MAC, "ecdsa-p384"), DIGEST, *SIGNED_VERSIONS],
    V1 + "Mac": [of_kind(SEAL, "hmac-sha-256")],
    V1 + "VerifyMac": [of_kind(SEAL, "hmac-sha-256"), *SIGNED_VERSIONS],
    V1 + "Derive": [
        of_kind(MAC, "hkdf-sha-256"),
        *VERSIONS,
        *[({"derivations": [{"length": length}]}, 3, "length: expected 1 to 8160 bytes") for length in [0, 8161, (1 << 32) - 1]],
        ({"derivations": [{"length": 8160}] * 129}, 3, "length: too large (max 1048576 bytes in all)"),
    ],
    V1 + "Random": [({"length": length}, 3, LENGTHS) for length in [0, 65537, (1 << 32) - 1]]
    + [({"count": count, "length": 1}, 3, LENGTHS) for count in [1025, (1 << 32) - 1]],
    V1 + "Encapsulate": [
        of_kind(MAC, "ml-kem-768"),
        ({"key_id": None}, 3, "to: required"),
        *[({"key_id": None, "public_key": key}, 3, PUBLIC) for key in [b"", b"short", b"\xff" * 1184, b"x" * 1185]],
        ({"count": 1025}, 3, "count: expected 1 to 1024"),
    ],
    V1 + "Decapsulate": [
        of_kind(MAC, "ml-kem-768"),
        *VERSIONS,
        ({"ciphertexts": [b"x" * 1088, b"x" * 1087]}, 3, "ciphertexts: expected 1088 bytes each"),
    ],
    V1 + "Unwrap": [
        of_kind(MAC, "rsa-unwrap"),
        *VERSIONS,
        *[({"wrapped": [{"encrypted_key": b"x" * length, "length": 32}]}, 3, "wrapped.encrypted_key: expected 256 bytes each")
          for length in [0, 255, 257]],
        *[({"wrapped": [{"encrypted_key": b"x" * 256, "length": length}]}, 3, "wrapped.length: expected 16, 24, 32, 48 or 64")
          for length in [0, 15, 65, (1 << 32) - 1]],
    ],
    V1 + "Information": [],
    KEYS + "Generate": [
        ({"key_id": "seal"}, 6, "key_id: there is a key already: seal"),
        *ALGORITHM,
        ({"algorithm": "rsa-2056"}, 3, "algorithm: RSA keys are made of 2048, 3072, 4096 or 8192 bits"),
    ],
    KEYS + "Import": [
        ({"key_id": "seal"}, 6, "key_id: there is a key already: seal"),
        *ALGORITHM,
        ({"material": b""}, 3, "material: not a key of aes-256-gcm: expected 32 bytes"),
        *MATERIAL,
        *[({"algorithm": name, "material": b"k" * length}, 3, f"material: not a key of {name}: expected 16 to 1024 bytes")
          for name in ["hmac-sha-256", "hkdf-sha-512"] for length in [15, 1025]],
        *[({"algorithm": name}, 3, f"material: not a key of {name}: expected PKCS#8, unencrypted, as DER or PEM")
          for name in ["ecdsa-p256", "rsa-2048", "ed25519", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87"]],
        *[({"algorithm": name}, 3, f"material: not a key of {name}: it does not parse")
          for name in ["ml-kem-512", "ml-kem-768", "ml-kem-1024"]],
        ({"algorithm": "ecdsa-p256", "material": pem_key("ca/p384-key.pem")}, 3,
         "material: not a key of ecdsa-p256: it is on no curve, or on another one"),
        ({"algorithm": "rsa-2048", "material": pem_key("ca/rsa4096-key.pem")}, 3,
         "material: not a key of rsa-2048: its modulus has 4096 bits"),
    ],
    KEYS + "List": [({"after": "k" * 65}, 3, "after: too large (max 64)")],
    KEYS + "Rotate": [({"key_id": "none"}, 5, NO_KEY), *MATERIAL],
    KEYS + "Disable": [({"key_id": "none"}, 5, NO_KEY), *VERSION],
    KEYS + "Enable": [({"key_id": "none"}, 5, NO_KEY), *VERSION],
    KEYS + "PublicKey": [
        ({"key_id": "none"}, 5, NO_KEY),
        ({"key_id": "off-sign"}, 9, OFF),
        ({"key_id": "seal"}, 3, "key_id: a secret key has no public half"),
        ({"version": 4}, 3, NO_VERSION),
    ],
}
# No value of these is wrong.
FREE = {(KEYS + "List", "limit")}
# Rows of the other wires stand in refusals.py and wires.py.
ELSEWHERE = {
    *[W0 + name for name in ["Hash", "Sign"]],
    *[OPEN + name for name in ["Hash", "Sign", "HashData", "SignCertificate", "EncryptData", "DecryptData", "SignData", "VerifyData"]],
    *[service + name for service in [OPEN, DEV] for name in ["Benchmark", "FakeEndpoint"]],
    *[HEALTH + name for name in ["Check", "List", "Watch"]],
}


def prepare(client):
    """A key for each operation, each with a disabled version, and one more of which all are."""
    made = [(key_id, algorithm) for key_id, algorithm in [
        SEAL, MAC, ("derive", "hkdf-sha-256"), ("sign", "ecdsa-p384"), ("kem", "ml-kem-768"), ("rotated", "aes-256-gcm"),
        ("unwrap", "rsa-unwrap-2048"),
    ]]
    for key_id, algorithm in made:
        client.call(KEYS + "Generate", key_id=key_id, algorithm=algorithm)
        client.call(KEYS + "Rotate", key_id=key_id)
        client.call(KEYS + "Disable", key_id=key_id, version=1)
        client.call(KEYS + "Generate", key_id="off-" + key_id, algorithm=algorithm)
        client.call(KEYS + "Disable", key_id="off-" + key_id)
    for key_id, algorithm, path in [("ca", "ecdsa-p384", "p384"), ("small", "ecdsa-p256", "p256"), ("other", "rsa-4096", "rsa4096")]:
        client.call(KEYS + "Import", key_id=key_id, algorithm=algorithm, material=pem_key(f"ca/{path}-key.pem"))


def general(client, path):
    """What is wrong with the fields that many methods have, for those that this one has."""
    good, name = GOOD[path], path.rsplit("/", 1)[1]
    fields = client.request(path).DESCRIPTOR.fields_by_name
    rows = []
    if "profile" in fields:
        # A list without a profile is that of all keys.
        rows += [({"profile": ""}, 3, "profile: required")] if name != "List" else []
        rows += [
            ({"profile": "p" * 65}, 3, "profile: too large (max 64)"),
            ({"profile": "default"}, 3, UNKNOWN),
        ]
        if name in LACKS:
            rows.append(({"profile": "HashOnly"}, 9, f"profile: HashOnly has no {LACKS[name]}"))
    if "key_id" in fields:
        rows += [
            ({"key_id": ""}, 3, "key_id: required"),
            ({"key_id": "k" * 65}, 3, "key_id: too large (max 64)"),
            ({"key_id": "a/b"}, 3, ID),
        ]
        if "profile" in fields:
            rows.append(({"key_id": "none"}, 5, NO_KEY))
            # Each item of a batch that cannot be opened has a result of its own: see `each`.
            rows += [({"key_id": "off-" + good["key_id"]}, 9, OFF)] if name != "Decrypt" else []
    for field in fields:
        if field in ENTRY:
            one = ENTRY[field]
            rows += [
                ({field: []}, 3, f"{field}: expected 1 to 1024, got 0"),
                ({field: [one(0)] * 1025}, 3, f"{field}: expected 1 to 1024, got 1025"),
                ({field: [one(700_000)] * 2}, 3, f"{field}: too large (max 1048576 bytes in all)"),
            ]
    return rows


def rows(client):
    """Every row of every method of our own."""
    prepare(client)
    ours = {path for path in client.methods if path.startswith("/sealway.")}
    assert ours == set(OWN) == set(GOOD), f"methods without a row: {ours ^ (set(OWN) & set(GOOD))}"
    assert set(client.methods) - ours == ELSEWHERE, f"methods without a row: {set(client.methods) - ours ^ ELSEWHERE}"
    before, count = listed(client), 0
    for path in sorted(ours):
        good, table = GOOD[path], general(client, path) + OWN[path]
        for fields, code, text in table:
            refused(client, path, code, text, **{**good, **fields})
            count += 1
            assert client.call(OPEN + "HashData", profile="Default", input=b"abc").hashAlgorithm == "sha3-512"
        told = {field for fields, _, _ in table for field in fields}
        told |= {field for method, field in FREE if method == path}
        fields = set(client.request(path).DESCRIPTOR.fields_by_name)
        assert fields <= told, f"{path}: fields without a row: {fields - told}"
    # What was refused has left nothing behind, and what was called wrong for one field is right but for that.
    assert listed(client) == before
    for path in sorted(ours):
        client.call(path, **GOOD[path])
    each(client)
    print(count, "rows")


def each(client):
    """One of a batch is refused by itself, the others are answered."""
    asked = {"profile": "Seal", "key_id": "seal"}
    good = client.call(V1 + "Encrypt", plains=[{"plaintext": b"one"}], **asked).ciphers[0]
    fields = {"key_version": good.key_version, "nonce": good.nonce, "ciphertext": good.ciphertext, "tag": good.tag}
    closed = "does not open: wrong key, version, nonce, aad or tag, or it was changed"
    cases = [
        ({"aad": b"a"}, 3, closed),
        ({"ciphertext": b"two"}, 3, closed),
        ({"nonce": b"n" * 12}, 3, closed),
        ({"nonce": b"short"}, 3, closed),
        ({"nonce": b""}, 3, closed),
        ({"tag": b"t" * 16}, 3, closed),
        ({"tag": good.tag[:12]}, 3, closed),
        ({"tag": b""}, 3, closed),
        ({"key_version": 3}, 3, closed),
        ({"key_version": 1}, 9, DISABLED),
    ]
    batch = [{**fields, **changed} for changed, _, _ in cases] + [fields]
    opened = client.call(V1 + "Decrypt", ciphers=batch, **asked).opened
    anew = client.call(V1 + "Rewrap", ciphers=batch, **asked).rewrapped
    for (changed, code, text), one, two in zip(cases, opened, anew):
        for got in [one.refusal, two.refusal]:
            assert (got.code, got.message) == (code, text), f"{changed}: {got}"
    assert opened[-1].plaintext == b"one" and anew[-1].cipher.ciphertext, (opened[-1], anew[-1])
    off = client.call(V1 + "Decrypt", profile="Seal", key_id="off-seal", ciphers=[{**fields, "key_version": 1}]).opened[0].refusal
    assert off.code == 9, off


def listed(client):
    return client.call(KEYS + "List").SerializeToString()


def refusal(client, path):
    """The code and the text that a request is refused with that is right but for who asks, or what there is."""
    fields = GOOD.get(path) or {}
    try:
        if client.methods[path][1]:
            next(client.watch(path, **fields))
        else:
            client.call(path, **fields)
    except Refused as error:
        return error.code, error.text
    return 0, ""


def strangers(client):
    """A caller that the policy does not name is rejected by every method of every wire but health, without a reason."""
    from refusals import SIGN

    asked = {"profile": "nowhere", "input": b"abc"}
    key = {"keySource": {"rawKey": b"k" * 32}}
    signing = {"keySource": {"single": {"keyId": "none"}}}
    GOOD.update({
        **{path: asked for path in [W0 + "Hash", OPEN + "Hash", OPEN + "HashData"]},
        **{path: SIGN for path in [W0 + "Sign", OPEN + "Sign", OPEN + "SignCertificate"]},
        OPEN + "EncryptData": {"profile": "Leaving", **key},
        OPEN + "DecryptData": {"profile": "Leaving", **key},
        OPEN + "SignData": {"profile": "nowhere", **signing},
        OPEN + "VerifyData": {"profile": "nowhere", "signature": b"s", **signing},
    })
    for path in client.methods:
        code, text = refusal(client, path)
        want = 0 if path.startswith(HEALTH) else 2 if path.startswith(W0) else 7
        assert code == want and text.endswith(NOT_ALLOWED if want else ""), f"{path}: {code} {text!r}"


def without_store(client):
    """Without a key store every method that needs a key says so, and the others work."""
    for path in GOOD:
        code, text = refusal(client, path)
        named = client.request(path).DESCRIPTOR.fields_by_name
        if "key_id" in named or "ca_key_ref" in named or path.startswith(KEYS):
            assert (code, text) == (9, "this broker has no key store (--keys)"), f"{path}: {code} {text!r}"
        else:
            assert code == 0, f"{path}: {code} {text!r}"
