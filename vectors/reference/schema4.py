"""JSON Schemas of the scenarios of wire 4, for schema.py. They share the parts of wire 3's."""


def of(make, text, ms, flag, types3):
    """Definitions and types; `types3` are those of schema3."""
    hexes = lambda length=None: {"type": "string", "pattern": f"^[0-9a-f]{{{2 * length}}}$" if length else "^([0-9a-f]{2})*$"}
    or_null = lambda value: {"oneOf": [value, {"type": "null"}]}
    many = lambda value: {"type": "array", "items": value}
    ref = lambda name: {"$ref": f"#/$defs/{name}"}
    kem = {"enum": ["X-Wing", "MLKEM768-P256", "X25519", "P-256"]}
    kid = {"type": "string", "pattern": "^hpke:[0-9a-f]{32}$"}
    status = {"type": "integer", "minimum": 200, "maximum": 599}
    code = types3["request3-refused"][1]["code"]
    key = dict(kem=kem, config_hex=hexes(), private_hex=hexes(32))
    defs = {
        "key4": make(**key),
        "psk4": make(id=text, psk_hex=hexes(32)),
        "server4": make(keys=many(make(**key, not_before_ms=ms, use_until_ms=ms, not_after_ms=ms)), psks=many(ref("psk4"))),
    }
    message = {name: part for name, part in types3["answer3"][1].items() if name not in ("session", "client", "request", "status")}
    answered = dict(kid=kid, s2c_hex=hexes(32), request=types3["answer3"][1]["request"], status=status)
    document = dict(root_public_hex=hexes(), now_ms=ms, taken_issued_ms=or_null(ms), body=text)
    types = {
        "request4": ("A request sealed to a key, both ways.", dict(
            key=ref("key4"), psk=or_null(ref("psk4")), randomness_hex=hexes(), kem_secret_hex=hexes(), group_private_hex=hexes(32),
            group_secret_hex=hexes(32), enc_hex=hexes(), shared_secret_hex=hexes(32), c2s_hex=hexes(32), s2c_hex=hexes(32), now_ms=ms,
            window_ms=ms, method=text, path=text, **message, claim=ref("claim"))),
        "request4-refused": ("A server refuses a request sealed to a key.", dict(
            server=ref("server4"), now_ms=ms, window_ms=ms, method=text, path=text, headers=ref("headers"), body=ref("bytes"), code=code)),
        "answer4": ("A sealed answer without a session, both ways.", dict(answered, **message, problem=flag)),
        "answer4-refused": ("A client refuses a sealed answer without a session.", dict(
            answered, headers=ref("headers"), body=ref("bytes"), code=code)),
        "key-document4": ("A client that pins a root takes a key document, and chooses a key.", dict(
            document, issued_ms=ms, keys=many(make(kid=kid, config_hex=hexes(), kem=or_null(kem))),
            choices=many(make(now_ms=ms, kems=many(kem), kid=or_null(kid))))),
        "key-document4-refused": ("A client that pins a root refuses a key document.", dict(document, code=code)),
        "psk4": ("A pre-shared key that a server derives.", dict(master_hex=hexes(32), psk_id=text, psk_hex=hexes(32))),
        "problem4": ("A problem, sealed or not, and which calls are sent again.", dict(
            stamp=text, status=status, body=text, sealed=flag, resends=many(make(method=text, elapsed_ms=ms, again=flag)))),
    }
    return defs, types
