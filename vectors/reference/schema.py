"""JSON Schemas (draft 2020-12) of the scenario files, one a type."""

import mle
import schema3
import schema4

CODES = ["header_missing", "header_invalid", "idempotency_key_shape", "nonce_invalid", "nonce_reserved",
         "timestamp_invalid", "timestamp_outside_window", "kid_prefix", "session_unknown", "session_expired",
         "client_mismatch", "wire_mismatch", "body_too_short", "body_too_large", "base64_invalid", "aad_mismatch",
         "unsealable", "json_invalid", "field_invalid", "public_key_invalid", "answer_mismatch"]


def obj(**members):
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def obj_with(optional, **members):
    """An object with members that may be absent."""
    return obj(**members, **optional) | {"required": list(members)}


def hexes(length=None):
    return {"type": "string", "pattern": f"^[0-9a-f]{{{2 * length}}}$" if length else "^([0-9a-f]{2})*$"}


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
MS = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
CODE = {"enum": CODES}
FAMILY = {"enum": ["session", "v1", "anonymous"]}
STATUS = {"type": "integer", "minimum": 200, "maximum": 599}

DEFS = {
    "bytes": {"oneOf": [obj(text=TEXT), obj(hex=hexes())],
              "description": "Bytes: ASCII text, or hexadecimal."},
    "headers": {"type": "array", "description": "Names and values, in order; names may repeat and compare without case.",
                "items": {"type": "array", "prefixItems": [TEXT, TEXT], "items": False, "minItems": 2}},
    "wire": {"enum": [1, 2]},
    "client_id": {"type": ["string", "null"], "description": "Null on wire 1."},
    "session": obj(id={"type": "string", "pattern": "^[SA]-[0-9a-f]{32}$"}, wire=ref("wire"), client_id=ref("client_id"),
                   key_hex=hexes(32), created_ms=MS, expires_ms=MS),
    "client": obj(wire=ref("wire"), anonymous=FLAG, client_id=ref("client_id"), scalar_hex=hexes(32), init_answer=TEXT),
    "claim": obj(key_hex=hexes(16), sealed=FLAG, stamp_ms=MS, expires_ms=MS),
    "sealed": obj(headers=ref("headers"), body=ref("bytes")),
    "message": obj(path=TEXT, stamp=TEXT, nonce=TEXT, iv_hex=hexes(12), plaintext=ref("bytes"), aad=TEXT, sealed=ref("sealed")),
    "answer": obj(status=STATUS, stamp_ms=MS, nonce_random_hex=hexes(16), path=TEXT, stamp=TEXT, nonce=TEXT,
                  iv_hex=hexes(12), plaintext=ref("bytes"), aad=TEXT, sealed=ref("sealed")),
    "probe": obj(path=TEXT, stamp=TEXT, nonce=TEXT, iv_hex=hexes(12), plaintext=ref("bytes"), sealed=ref("sealed")),
}

INIT_REQUEST = dict(family=FAMILY, headers=ref("headers"), body=ref("bytes"), now_ms=MS, window_ms=MS)

TYPES = {
    "init": ("A server accepts an init.", dict(
        INIT_REQUEST, authenticated=FLAG, client_scalar_hex=hexes(32), server_scalar_hex=hexes(32),
        session_id_random_hex=hexes(16), shared_secret_hex=hexes(32), key_info=TEXT, answer=TEXT,
        session=ref("session"), claim=ref("claim"))),
    "init-refused": ("A server refuses an init.", dict(INIT_REQUEST, code=CODE)),
    "client-init": ("A client's init request, and what it makes of the answer.", dict(
        wire=ref("wire"), anonymous=FLAG, client_id=ref("client_id"), ttl_sec={"type": ["integer", "null"]},
        scalar_hex=hexes(32), nonce_random_hex=hexes(16), sent_ms=MS, request=ref("sealed"), answer=ref("bytes"),
        received_ms=MS, session_id=TEXT, expires_ms=MS, key_hex=hexes(32), probe=ref("probe"))),
    "client-init-refused": ("A client refuses an init's answer.", dict(
        wire=ref("wire"), anonymous=FLAG, client_id=ref("client_id"), scalar_hex=hexes(32), answer=ref("bytes"), code=CODE)),
    "request": ("A sealed request, both ways.", dict(
        session=ref("session"), client=ref("client"), now_ms=MS, window_ms=MS, request=ref("message"), claim=ref("claim"))),
    "request-refused": ("A server refuses a sealed request.", dict(
        session=ref("session"), path=TEXT, now_ms=MS, window_ms=MS, headers=ref("headers"), body=ref("bytes"), code=CODE)),
    "answer": ("A sealed answer, both ways.", dict(
        session=ref("session"), client=ref("client"), now_ms=MS, window_ms=MS, request=ref("message"),
        answer=ref("answer"), received_ms=MS)),
    "answer-refused": ("A client refuses a sealed answer.", dict(
        client=ref("client"), request=ref("message"), received_ms=MS, window_ms=MS, status=STATUS,
        headers=ref("headers"), body=ref("bytes"), code=CODE)),
}

SUITE = {"type": "integer", "minimum": 1, "maximum": 0xFFFF}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
SENDER = {"enum": ["client", "server"]}


def many(**members):
    return {"type": "array", "items": obj(**members), "minItems": 1}


V1_SAID = dict(suite={"enum": [1, 2]}, client_features=NUMBER, server_features=NUMBER, channel_id=TEXT,
               client_nonce_hex=hexes(32), server_nonce_hex=hexes(32), transcript_hex=hexes(32))

TYPES |= {
    "channel-v1": ("A flowersec-v1 handshake and what follows; init, resp and ack are the payloads of their frames.", dict(
        V1_SAID, psk_hex=hexes(32), client_private_hex=hexes(32), server_private_hex=hexes(32),
        handshake_id_random_hex=hexes(24), timestamp_s=MS, shared_hex=hexes(32), auth_tag_hex=hexes(32),
        client_key_hex=hexes(32), server_key_hex=hexes(32), rekey_base_hex=hexes(32), client_nonce_prefix_hex=hexes(4),
        server_nonce_prefix_hex=hexes(4), init=TEXT, resp=TEXT, ack=TEXT, records=many(
            sender=SENDER, kind={"enum": ["data", "ping", "rekey"]}, plaintext_hex=hexes(), message_hex=hexes()))),
    "channel-v1-transcript": ("A transcript hash.", dict(V1_SAID, client_public_hex=hexes(), server_public_hex=hexes())),
    "channel-v1-record": ("A record under a given key.", dict(
        key_hex=hexes(32), nonce_prefix_hex=hexes(4), kind={"enum": ["data", "ping", "rekey"]}, seq=MS, plaintext_hex=hexes(),
        message_hex=hexes())),
    "noise": ("A Noise handshake with payloads; statics are private keys, empty where the pattern has none.", dict(
        noise_name=TEXT, prologue_hex=hexes(), psk_hex=hexes(32), client_static_hex=hexes(), server_static_hex=hexes(),
        client_ephemeral_hex=hexes(32), server_ephemeral_hex=hexes(32), messages=many(payload_hex=hexes(), message_hex=hexes()),
        handshake_hash_hex=hexes(32), client_key_hex=hexes(32), server_key_hex=hexes(32))),
    "channel-native": ("A native channel: handshake frames, then records; statics and kem are empty where the suite has none.", dict(
        suite=SUITE, noise_name=TEXT, channel_id=TEXT, psk_hex=hexes(32), init_expires_s=MS, audience=TEXT, issuer=TEXT,
        allowed_suites={"type": "array", "items": SUITE, "minItems": 1}, prologue_hex=hexes(), client_static_hex=hexes(),
        server_static_hex=hexes(), client_ephemeral_hex=hexes(32), server_ephemeral_hex=hexes(32), kem_private_hex=hexes(),
        kem_ciphertext_hex=hexes(), kem_secret_hex=hexes(), rekey_after_records=MS, pad_to=MS,
        messages=many(sender=SENDER, message_hex=hexes()), client_key_hex=hexes(32), server_key_hex=hexes(32),
        records=many(sender=SENDER, kind={"enum": ["data", "ping", "pong", "rekey", "close"]}, content_hex=hexes(),
                     message_hex=hexes()))),
}

SESSION_ID = {"type": "string", "pattern": "^[SA]-[0-9a-f]{32}$"}
NULLABLE = {"type": ["string", "null"]}
STORED = obj(id=SESSION_ID, wire={"enum": [1, 2, 3]}, client_id=NULLABLE, subject=NULLABLE, tenant=NULLABLE,
             auth={"enum": ["none", "bearer", "dpop", "certificate"]}, lineage=NULLABLE, created_ms=MS, expires_ms=MS,
             key_hex=hexes(32))
KEKS = many(id=TEXT, key_hex=hexes(32))
TYPES |= {
    "row": ("A session as Redis holds it; aad_hex is what the wrap of its key authenticates.", dict(
        keks=KEKS, session=STORED, kek_id=TEXT, iv_hex=hexes(12), aad_hex=hexes(), value_hex=hexes())),
    "row-old": ("A value of an earlier release, read where such rows are accepted until accept_until_ms.", dict(
        keks=KEKS, session_id=SESSION_ID, value_hex=hexes(), accept_until_ms=MS, session=STORED)),
    "row-refused": ("A value that gives no session, and why; accept_until_ms as in row-old, 0 for never.", dict(
        keks=KEKS, session_id=SESSION_ID, value_hex=hexes(), accept_until_ms=MS,
        reason={"enum": ["malformed", "unauthenticated", "unknown_kek", "damaged"]})),
}

RULE = {"oneOf": [obj(exact=TEXT, sealed={"$ref": "#/$defs/mode"}), obj(prefix=TEXT, sealed={"$ref": "#/$defs/mode"})]}
DEFS["mode"] = {"enum": ["required", "optional", "off"]}
RULES = {"type": "array", "items": RULE}
TYPES |= {
    "routes": ("A rule set, and what it decides; forms are the canonical forms of the target's path, null where it has none; how is the disguise "
               "of a target that seeks a sealed path, null for any other.", dict(rules=RULES, cases=many(
                   target=TEXT, how=NULLABLE, forms={"oneOf": [{"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2}, {"type": "null"}]},
                   decision={"enum": ["sealed", "optional", "plain", "refused"]}))),
    "routes-rejected": ("A rule set that is not served, the index of its first wrong rule, and why.", dict(
        rules=RULES, rule=MS, reason={"enum": ["path", "unreachable"]})),
}

ALGS, ENCS = {"enum": ["RSA-OAEP-256", "RSA-OAEP"]}, {"enum": list(mle.ENCS)}
CLASSES = ["size", "shape", "base64", "header", "alg", "enc", "zip", "crit", "param", "kid", "iat", "epk", "iv", "unwrap", "tag", "json"]
DEFS["mle_key"] = obj_with({"certificate_pem": TEXT}, private_key_pem=TEXT, alg=ALGS, kid=TEXT)
DEFS["generic"] = obj_with({"iat": {"enum": ["seconds", "milliseconds"]}}, algs={"type": "array", "items": ALGS, "minItems": 1},
                           encs={"type": "array", "items": ENCS, "minItems": 1})
MLE_MESSAGE = dict(profile={"enum": ["mastercard-jwe", "visa", "visa-acceptance", "generic-jwe"]}, message={"enum": ["request", "answer"]},
                   now_ms=MS, key=ref("mle_key"), body=TEXT)
TYPES |= {
    "mle-open": ("A message of a card scheme, and its plaintext.", dict(MLE_MESSAGE, plaintext_base64=TEXT)),
    "mle-refused": ("A message of a card scheme that is refused.", dict(MLE_MESSAGE, **{"class": {"enum": CLASSES}})),
}
# What the generic profile is configured with; the others have none.
OPTIONAL = {"mle-open": {"generic": ref("generic")}, "mle-refused": {"generic": ref("generic")}}

DEFS3, TYPES3, OPTIONAL3 = schema3.of(obj, obj_with, TEXT, MS, FLAG)
OPTIONAL |= OPTIONAL3
DEFS |= DEFS3
TYPES |= TYPES3
DEFS4, TYPES4 = schema4.of(obj, TEXT, MS, FLAG, TYPES3)
DEFS |= DEFS4
TYPES |= TYPES4
OPTIONAL |= {name: OPTIONAL3["key-set3"] for name in ("key-document4", "key-document4-refused")}


def page(name: str) -> str:
    """The page of the spec that a type is about."""
    if name in TYPES3:
        return "session-3"
    if name in TYPES4:
        return "one-shot"
    if name.startswith("row"):
        return "redis-store"
    if name.startswith("routes"):
        return "routes"
    if name.startswith("mle"):
        return "mle"
    return "channel" if "channel" in name or name == "noise" else "session"


def used(value, found):
    """The definitions that `value` leads to."""
    if isinstance(value, dict):
        name = value.get("$ref", "").removeprefix("#/$defs/")
        if name and name not in found:
            found.add(name)
            used(DEFS[name], found)
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            used(part, found)
    return found


def all_schemas() -> dict:
    schemas = {}
    for name, (title, members) in TYPES.items():
        head = dict(type={"const": name}, name={"type": "string", "pattern": "^[A-Za-z0-9._+-]+$"},
                    comment=TEXT, spec={"type": "string", "pattern": f"^{page(name)}\\.md#[a-z0-9-]+$"})
        optional = OPTIONAL.get(name, {})
        body = obj_with(optional, **head, **members)
        schemas[name] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **body,
                         "$defs": {key: DEFS[key] for key in sorted(used([members, optional], set()))}}
    return schemas
