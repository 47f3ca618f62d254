"""JSON Schemas of the scenarios of wire 3, for schema.py."""

NULL = {"type": "null"}


def of(make, make_with, text, ms, flag):
    """Definitions, types and their optional members, from the parts that schema.py has: `make` and `make_with` are its `obj` and
    `obj_with`."""
    hexes = lambda length=None: {"type": "string", "pattern": f"^[0-9a-f]{{{2 * length}}}$" if length else "^([0-9a-f]{2})*$"}
    or_null = lambda value: {"oneOf": [value, NULL]}
    many = lambda value: {"type": "array", "items": value}
    ref = lambda name: {"$ref": f"#/$defs/{name}"}
    sometimes = lambda *lengths: {"type": "string", "pattern": "^(" + "|".join(f"[0-9a-f]{{{2 * length}}}" for length in lengths) + ")?$"}
    # Members of algorithms and suites beyond the first ones: absent where there is nothing to say.
    p384 = {"p384_scalar_hex": hexes(48)}
    restricted = {"signature_algorithms": many(text)}
    pairs = ref("headers")
    status = {"type": "integer", "minimum": 200, "maximum": 599}
    session_id = {"type": "string", "pattern": "^S-[0-9a-f]{32}$"}
    codes3 = {"enum": [
        "header_missing", "header_invalid", "idempotency_key_shape", "nonce_invalid", "nonce_reserved", "timestamp_invalid",
        "timestamp_outside_window", "kid_prefix", "session_unknown", "session_expired", "wire_mismatch", "body_too_large",
        "unsealable", "json_invalid", "field_invalid", "public_key_invalid", "answer_mismatch", "suite_downgraded",
        "key_untrusted", "signature_invalid", "unconfirmed", "stream_truncated", "frame_invalid", "inner_headers_invalid",
        "unsealed", "suite_required", "key_retired"]}
    defs = {
        "session3": make(id=session_id, wire={"enum": [1, 2, 3]}, client_id=text, prk_hex=hexes(32), c2s_hex=hexes(32),
                         s2c_hex=hexes(32), created_ms=ms, expires_ms=ms),
        "client_keys": make_with(p384 | {"kem_seed_hex": hexes(64)}, p256_scalar_hex=sometimes(32), x25519_hex=sometimes(32),
                                 kem_private_hex=sometimes(2400, 3168)),
        "client3": make(p256_scalar_hex=hexes(32), body=text, answer=text, trusted_hex=hexes(65)),
        "old_session": make(session_id=session_id, prk_hex=hexes(32), exporter_hex=hexes(32), client=ref("client3")),
        "identity": make_with({"alg": text, "seed_hex": sometimes(32), "public_hex": hexes()}, scalar_hex=sometimes(32, 48),
                              not_before_ms=ms, not_after_ms=ms),
        "server_keys": make_with(
            p384,
            suites=many(text), identities=many(ref("identity")), session_id_random_hex=hexes(16), expires_in_sec=ms, auth=text,
            subject=or_null(text), tenant=or_null(text), p256_scalar_hex=sometimes(32), x25519_hex=sometimes(32),
            kem_ciphertext_hex=sometimes(1088, 1568), kem_secret_hex=sometimes(32)),
        "long_bytes": {"oneOf": [make(text=text), make(hex=hexes()), make(repeat=hexes(1), count=ms)],
                       "description": "Bytes: ASCII text, hexadecimal, or one byte so many times."},
        "hashed_bytes": {"oneOf": [make(text=text), make(hex=hexes()), make(sha256_hex=hexes(32), count=ms)],
                         "description": "Bytes: ASCII text, hexadecimal, or the hash of so many."},
        "inner": many({"type": "array", "prefixItems": [text, ref("long_bytes")], "items": False, "minItems": 2}),
        "sealed3": make(headers=ref("headers"), body=ref("hashed_bytes")),
    }
    init = dict(authorization=or_null(text), body=ref("bytes"), now_ms=ms, client=or_null(ref("client_keys")),
                trusted_hex=many(hexes()), server=ref("server_keys"), answer=text,
                init_hash_hex=hexes(32), credential_hex=sometimes(32), transcript_hex=hexes(), th_hex=hexes(32), secret_hex=hexes(), prk_hex=hexes(32),
                c2s_hex=hexes(32), s2c_hex=hexes(32), exporter_hex=hexes(32), confirm_key_hex=hexes(32))
    message = dict(content_type=or_null(text), stamp=text, nonce=text, inner=ref("inner"), frames=many(ref("long_bytes")),
                   key_hex=hexes(32), iv_hex=hexes(12), commit_hex=hexes(16), context_hex=hexes(32), sealed=ref("sealed3"))
    asked = make(method=text, path=text, nonce=text)
    key_set = dict(root_public_hex=hexes(), now_ms=ms, taken_issued_ms=or_null(ms), body=text)
    types = {
        "init3": ("An init of wire 3, both sides.", init),
        "renew3": ("A renewal, both sides: body and answer are what is sealed.",
                   dict(old=ref("old_session"), **init)),
        "init3-refused": ("A client refuses an init's answer, or a renewal's.", dict(
            old=or_null(ref("old_session")), authorization=or_null(text),
            body=ref("bytes"), client=ref("client_keys"), trusted_hex=many(hexes()), status=status, answer=ref("bytes"),
            code=codes3)),
        "init3-request-refused": ("A server refuses an init.", dict(
            body=ref("bytes"), now_ms=ms, server=make(suites=many(text), identities=many(ref("identity"))), code=codes3,
            field=or_null(text))),
        "request3": ("A sealed request, both ways.", dict(
            session=ref("session3"), client=ref("client3"), now_ms=ms, window_ms=ms, method=text, path=text, **message, claim=ref("claim"))),
        "request3-refused": ("A server refuses a sealed request.", dict(
            session=ref("session3"), now_ms=ms, window_ms=ms, method=text, path=text, headers=ref("headers"), body=ref("bytes"),
            code=codes3)),
        "answer3": ("A sealed answer, both ways.", dict(
            session=ref("session3"), client=ref("client3"), request=asked, status=status, **message)),
        "answer3-refused": ("A client refuses a sealed answer.", dict(
            client=ref("client3"), request=asked, status=status, headers=ref("headers"), body=ref("bytes"), code=codes3)),
        "key-set3": ("A client that pins a root takes a key set.", dict(
            key_set, issued_ms=ms, keys=many(make(key_id=hexes(16), public_hex=hexes())),
            signers=many(make(key_id=hexes(16), server_time_ms=ms, now_ms=ms, trusted=flag)))),
        "key-set3-refused": ("A client that pins a root refuses a key set.", dict(key_set, code=codes3)),
        "headers3": ("The headers of a request that the service behind a server receives.", dict(
            front_trusted=flag, inner=pairs, outer=pairs, service=pairs)),
        "problem3": ("A problem, whether what it says is proven, and which calls are sent again.", dict(
            session=ref("session3"), client=ref("client3"), request=make(stamp=text, nonce=text), body=text, proven=flag,
            resends=many(make(method=text, elapsed_ms=ms, again=flag)))),
    }
    return defs, types, {"key-set3": restricted, "key-set3-refused": restricted}
