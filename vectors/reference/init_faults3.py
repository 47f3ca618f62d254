"""Scenarios of wire 3's init and renewal with one fault each: what the client refuses of an answer, and the server of a
request."""

import json
from functools import partial

import checks3
import session3 as s3
from inits import JSON_FAULTS, P
from inits3 import (BASE, BEARER, CLIENT, FUTURE, IDENTITY, KEM_PUBLIC, OTHER_ID, PAST, RENEWED, SERVER, STRANGER, SUITES, Case)
from session import NOW, fixed, text_or_hex
from session3 import Refused, b64


# --- What the client refuses ---

def refused_answer(add, name, comment, code, answer, case=BASE, status=201, trusted=(IDENTITY,)):
    data = answer if isinstance(answer, bytes) else json.dumps(answer, separators=(",", ":")).encode()
    keys = {key.id: key.public for key in trusted}
    try:
        checks3.finish_init(case.request, case.credential, CLIENT, keys, status, data, case.renewed)
        raise AssertionError(f"{name} is accepted")
    except Refused as error:
        assert error.code == code, f"{name}: {error.code} and not {code}"
    renewal = case.renewal() or {"old": None}
    add("init3-refused", f"init3-{name}", comment, renewal | {
        "authorization": case.authorization, "body": text_or_hex(case.body.encode()), "client": case.client_view(),
        "trusted_hex": [public.hex() for public in keys.values()], "status": status, "answer": text_or_hex(data),
        "code": code})


def members(case=BASE, **seen):
    said, signature, confirm, _ = case.answered(**seen)
    return said.members(signature, confirm)


def client_refused(add):
    no = partial(refused_answer, add)
    full = Case("P256", ("X25519MLKEM768", "P256"), ("P256", "SecP256r1MLKEM768"), ttl_sec=600, proof="eyJ9.e30.c2ln",
                pinned=(IDENTITY.id,), authorization=BEARER, auth="bearer", subject="ann", tenant="acme")
    what_was_sent(no, full)
    what_was_answered(no, full)
    suites_and_keys(no)
    shares(no)
    forms(no, members(full), full)


def what_was_sent(no, full):
    """The request was changed on its way; the server signs what it saw."""
    said = "The server saw another request than the client sent: "
    changes = {"suites-added": dict(suites=[*full.suites, "MLKEM1024"]), "suites-stripped": dict(suites=["P256"]),
               "suites-joined": dict(suites=["MLKEM512", "P256"]),
               "client-id": dict(client_id="demo-clienT"), "ttl": dict(ttl_sec=601), "ttl-absent": dict(ttl_sec=None),
               "proof": dict(proof="eyJ9.e30.c2lm"), "proof-absent": dict(proof=None),
               "pins": dict(pinned_key_ids=[IDENTITY.id, OTHER_ID]), "pins-absent": dict(pinned_key_ids=[]),
               "share": dict(share=s3.p256_public(fixed("wire 3/somebody else")))}
    for name, change in changes.items():
        no(f"sent-{name}", said + name + ".", "signature_invalid", members(full, request=full.request.with_(**change)), full)
    no("sent-ttl-0", said + "no ttl is not a ttl of 0.", "signature_invalid",
       members(BASE, request=BASE.request.with_(ttl_sec=0)), BASE)
    no("sent-credential", said + "another token.", "signature_invalid",
       members(full, credential=s3.credential(BEARER + "x")), full)
    no("sent-credential-absent", said + "the token was taken off.", "signature_invalid", members(full, credential=b""), full)
    no("sent-credential-added", said + "a token was put there.", "signature_invalid",
       members(BASE, credential=s3.credential(BEARER)), BASE)
    swapped = BASE.request.with_(client_id="ab", proof="c")
    no("sent-moved", "Characters moved from one field to the next.", "signature_invalid",
       members(BASE.with_(client_id="a", proof="bc"), request=swapped), BASE.with_(client_id="a", proof="bc"))


def what_was_answered(no, full):
    """The answer was changed after it was signed."""
    good = members(full)
    changes = {"session-id": ("session_id", "S-" + "0" * 32), "suites-added": ("suites", ["P256", "SecP256r1MLKEM768", "x"]),
               "suites-order": ("suites", ["SecP256r1MLKEM768", "P256"]), "suites-stripped": ("suites", ["P256"]),
               "share": ("share", b64(s3.p256_public(fixed("wire 3/somebody else")))), "expires": ("expires_in_sec", 3601),
               "time": ("server_time_ms", NOW + 1), "key-ids-added": ("key_ids", [IDENTITY.id, STRANGER.id]),
               "key-ids-other": ("key_ids", [STRANGER.id]), "auth": ("auth", "dpop"), "subject": ("subject", "bob"),
               "subject-absent": ("subject", None), "tenant": ("tenant", "acmf"), "tenant-absent": ("tenant", None)}
    for name, (member, value) in changes.items():
        no(f"answered-{name}", f"{member} was changed after it was signed.", "signature_invalid", good | {member: value}, full)
    no("answered-subject-added", "A subject that the server did not name.", "signature_invalid", members() | {"subject": "ann"})
    no("answered-moved", "The tenant takes the subject's place.", "signature_invalid",
       members(BASE.with_(tenant="ann")) | {"tenant": None, "subject": "ann"}, BASE)
    no("answered-key-id", "Another trusted key's id in the place of the signer's.", "signature_invalid",
       members() | {"key_id": STRANGER.id}, trusted=(IDENTITY, STRANGER))
    signature = s3.unb64(good["signature"])
    for name, at in {"first": 0, "middle": 32, "last": 63}.items():
        changed = bytes(byte ^ (at == n) for n, byte in enumerate(signature))
        no(f"signature-flip-{name}", "One bit of the signature is another.", "signature_invalid",
           good | {"signature": b64(changed)}, full)
    no("signature-zero", "A signature of zeros.", "signature_invalid", good | {"signature": b64(bytes(64))}, full)
    no("signature-swapped", "s before r.", "signature_invalid", good | {"signature": b64(signature[32:] + signature[:32])}, full)
    said, _, confirm, _ = full.answered()
    th = s3.sha256(s3.transcript(full.request, full.credential, said))
    wrong = {"no-label": th, "other-label": b"sealway/3 expired" + th, "twice-hashed": b"sealway/3 signature" + s3.sha256(th)}
    for name, message in wrong.items():
        no(f"signature-{name}", "The trusted key signed another message.", "signature_invalid",
           said.members(IDENTITY.sign(message), confirm), full)
    no("signature-stranger", "Another key than the one that is named signed.", "signature_invalid",
       said.members(STRANGER.sign(s3.signed(th)), confirm), full)
    confirmed = s3.unb64(good["confirm"])
    for name, changed in {"first": bytes([confirmed[0] ^ 1]) + confirmed[1:], "last": confirmed[:-1] + bytes([confirmed[-1] ^ 1]),
                          "zero": bytes(32)}.items():
        no(f"confirm-{name}", "Whoever signed does not hold the secret.", "unconfirmed", good | {"confirm": b64(changed)}, full)
    no("confirm-label", "Confirmed under the key of requests.", "unconfirmed",
       good | {"confirm": b64(s3.hmac256(full.answered()[3].c2s, th))}, full)
    no("renew-as-init", "The answer to a first init, where one to a renewal is due.", "signature_invalid",
       members(RENEWED.with_(renewed=None)), RENEWED)
    no("renew-other-session", "The renewal of another session.", "signature_invalid",
       members(RENEWED.with_(renewed=("S-" + "0" * 32, RENEWED.renewed[1]))), RENEWED)
    no("renew-without-exporter", "The old exporter was left out.", "unconfirmed",
       renewed_without_exporter(), RENEWED)


def renewed_without_exporter():
    """As RENEWED answers, but for the key schedule."""
    said, signature, _, _ = RENEWED.answered()
    th = s3.sha256(s3.transcript(RENEWED.request, b"", said, RENEWED.renewed[0]))
    keys = s3.schedule(th, s3.server_agree("P256", RENEWED.request.share, SERVER)[1])
    return said.members(signature, s3.hmac256(keys.confirm_key, th))


def suites_and_keys(no):
    two = BASE.with_(suites=("X25519MLKEM768", "P256"))
    stripped = two.request.with_(suites=["P256"])
    no("suite-downgraded", "Both like X25519MLKEM768 better; the client was led to P256 and finds it in the server's list.",
       "suite_downgraded", members(two, request=stripped), two)
    three = two.with_(suites=tuple(SUITES), server_suites=("P256", "SecP256r1MLKEM768"))
    no("suite-downgraded-second", "Found in the middle of the client's list.", "suite_downgraded",
       members(three, request=stripped), three)
    no("suite-not-in-list", "The server's list has not the suite that it answers with.", "suite_downgraded",
       members() | {"suites": ["X25519MLKEM768"]})
    no("suite-other", "Another suite than the share's.", "answer_mismatch", members(two, request=stripped) | {"suite": "X25519MLKEM768"}, two)
    no("key-untrusted", "Signed, by a key that the client does not trust.", "key_untrusted", members(), trusted=(STRANGER,))
    no("key-untrusted-none", "A client that trusts nothing.", "key_untrusted", members(), trusted=())
    no("key-id-changed", "The id of a key that the client does not trust.", "key_untrusted", members() | {"key_id": STRANGER.id})


def points():
    raw = s3.p256_public(SERVER.p256)
    x, y = raw[1:33], raw[33:]
    return {"off-curve": raw[:-1] + bytes([raw[-1] ^ 1]), "compressed": bytes([2 + (y[-1] & 1)]) + x, "infinity": b"\0",
            "zero": b"\4" + bytes(64), "x-is-p": b"\4" + P.to_bytes(32, "big") + y, "hybrid": bytes([6 + (y[-1] & 1)]) + x + y,
            "64-bytes": raw[:-1], "66-bytes": raw + b"\0"}


def kem_keys():
    """Encapsulation keys with a coefficient that is not below q."""
    return {"kem-first-q": b"\x01\x0d" + KEM_PUBLIC[2:] if KEM_PUBLIC[1] & 0xF0 == 0 else
            bytes([0x01, KEM_PUBLIC[1] & 0xF0 | 0x0D]) + KEM_PUBLIC[2:],
            "kem-last-4095": KEM_PUBLIC[:1150] + bytes([KEM_PUBLIC[1150] | 0xF0, 0xFF]) + KEM_PUBLIC[1152:],
            "kem-all-ones": b"\xff" * 1152 + KEM_PUBLIC[1152:]}


def bad_shares(suite, server):
    """Shares that are none, by the side that makes them."""
    good = s3.server_agree(suite, s3.client_share(suite, CLIENT), SERVER)[0] if server else s3.client_share(suite, CLIENT)
    lengths = s3.SERVER_LENGTHS if server else s3.CLIENT_LENGTHS
    parts = s3.split(suite, good, lengths)
    out = {"short": good[:-1], "long": good + b"\0"}
    if suite == "P256":
        return points()
    out["swapped"] = b"".join(reversed(list(parts.values())))
    join = lambda **changes: b"".join((parts | changes).values())
    if "x25519" in parts:
        out |= {"x25519-zero": join(x25519=bytes(32)), "x25519-order-8": join(x25519=bytes.fromhex(
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"))}
        # Of the length that it has, but in the other order: the swapped parts are random bytes, and agree to something.
        del out["swapped"]
    else:
        out["off-curve"] = join(p256=points()["off-curve"])
    if not server:
        out |= {name: join(kem=key) for name, key in kem_keys().items()}
    return out


def shares(no):
    for suite in SUITES:
        case = Case(suite, (suite,))
        for name, share in bad_shares(suite, True).items():
            said, _, confirm, _ = case.answered()
            said = said.with_(share=share)
            th = s3.sha256(s3.transcript(case.request, b"", said))
            no(f"share-{suite}-{name}", "Signed, and the server's share is none.", "public_key_invalid",
               said.members(IDENTITY.sign(s3.signed(th)), confirm), case)
    case = Case("X25519MLKEM768", ("X25519MLKEM768",))
    said, signature, confirm, _ = case.answered()
    good = said.members(signature, confirm)
    kem_flipped = said.with_(share=bytes([said.share[0] ^ 1]) + said.share[1:])
    th = s3.sha256(s3.transcript(case.request, b"", kem_flipped))
    no("kem-ciphertext-flip", "Signed, and the ciphertext is another: ML-KEM gives some secret, and confirm tells.", "unconfirmed",
       kem_flipped.members(IDENTITY.sign(s3.signed(th)), confirm), case)
    no("answered-kem-ciphertext", "A bit of the ciphertext was changed after it was signed.", "signature_invalid",
       good | {"share": b64(kem_flipped.share)}, case)


def forms(no, good, full):
    for status in (200, 202, 409):
        no(f"status-{status}", "Not 201.", "answer_mismatch", good, full, status)
    for name, data in {"empty": b"", "cut": json.dumps(good).encode()[:-1], "array": b"[]", "string": b'"text"',
                       "no-members": b"{}"}.items():
        no(f"json-{name}", "An answer that is not the JSON object it should be.", "answer_mismatch", data, full)
    for name in good:
        if name not in ("subject", "tenant"):
            no(f"{name.replace('_', '-')}-missing", f"{name} is not there.", "answer_mismatch",
               {key: value for key, value in good.items() if key != name}, full)
        no(f"{name.replace('_', '-')}-type", f"{name} is of a wrong type.", "answer_mismatch", good | {name: {"a": 1}}, full)
    wrong = {"session_id": {"upper": "S-" + "AB" * 16, "short": good["session_id"][:-1], "anonymous": "A-" + "0" * 32},
             "share": {"empty": "", "base64": good["share"].rstrip("=") if good["share"].endswith("=") else good["share"][:-1]},
             "expires_in_sec": {"negative": -1, "fraction": 1.5, "2-32": 2**32, "text": "3600"},
             "server_time_ms": {"negative": -1, "text": str(NOW)}, "key_id": {"upper": "AB" * 16, "short": "0" * 31},
             "key_ids": {"17": [f"{n:032x}" for n in range(17)], "of-numbers": [1]},
             "subject": {"empty": "", "257": "s" * 257}, "tenant": {"empty": "", "257": "t" * 257},
             "suites": {"text": "P256", "empty": [], "9": [f"s{n}" for n in range(9)]},
             "confirm": {"31": b64(bytes(31))}}
    for name, values in wrong.items():
        for what, value in values.items():
            no(f"{name.replace('_', '-')}-{what}", f"{name} is not of its form.", "answer_mismatch", good | {name: value}, full)
    for name, length in {"63": 63, "der": 70}.items():
        no(f"signature-{name}", "A signature of a length that the key's algorithm has not.", "signature_invalid",
           good | {"signature": b64(bytes(length))}, full)


# --- What the server refuses ---

def refused_request(add, name, comment, code, body, field=None, case=BASE):
    data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    try:
        request = checks3.read_init(data)
        given = dict(session_id="S-" + case.random.hex(), expires_in_sec=3600, server_time_ms=NOW)
        checks3.accept_init(request, b"", given, list(case.server_suites), list(case.identities), SERVER)
        raise AssertionError(f"{name} is accepted")
    except Refused as error:
        assert (error.code, error.field) == (code, field), f"{name}: {error} and not {code}: {field}"
    add("init3-request-refused", f"init3-request-{name}", comment, {
        "body": text_or_hex(data), "now_ms": NOW, "server": case.server_view(), "code": code, "field": field})


def server_refused(add):
    no = partial(refused_request, add)
    for name, (data, code) in JSON_FAULTS.items():
        field = "suite" if name == "no-members" else None
        no(f"json-{name}", "A body that is not the JSON object it should be.", code, data, field)
    good = BASE.with_(ttl_sec=600, proof="eyJ9.e30.c2ln", pinned=(IDENTITY.id,)).request.members()
    for name in ("suite", "suites", "share", "client_id"):
        slug = name.replace("_", "-")
        no(f"{slug}-missing", f"{name} is not there.", "field_invalid", {k: v for k, v in good.items() if k != name}, name)
        no(f"{slug}-null", "null is as absent.", "field_invalid", good | {name: None}, name)
    for name in good:
        slug = name.replace("_", "-")
        for what, value in {"object": {}, "flag": True}.items():
            no(f"{slug}-{what}", f"{name} is of a wrong type.", "field_invalid", good | {name: value}, name)
        twice = json.dumps(good)[:-1] + f", {json.dumps(name)}: {{}}}}"
        no(f"{slug}-twice", "Of a repeated member the last counts, which is of a wrong type.", "field_invalid", twice.encode(), name)
    wrong = {"suites": {"empty": [], "9": [f"s{n}" for n in range(8)] + ["P256"], "same": ["P256", "P256"], "of-numbers": [1],
                        "empty-name": ["", "P256"], "33": ["x" * 33, "P256"], "space": ["a b", "P256"], "dot": ["a.b", "P256"]},
             "share": {"empty": "", "unpadded": good["share"].rstrip("="), "url-safe": good["share"].replace("+", "-").replace("/", "_")},
             "client_id": {"empty": "", "257": "c" * 257, "bar": "a|b", "tab": "a\tb", "not-ascii": "é"},
             "ttl_sec": {"negative": -1, "fraction": 1.5, "2-32": 2**32, "text": "600", "1e300": 1e300},
             "proof": {"8193": "p" * 8193, "empty": ""},
             "pinned_key_ids": {"17": [f"{n:032x}" for n in range(17)], "same": [IDENTITY.id] * 2, "upper": [IDENTITY.id.upper()],
                                "short": [IDENTITY.id[:-1]], "text": IDENTITY.id}}
    for name, values in wrong.items():
        for what, value in values.items():
            if value != good.get(name):
                no(f"{name.replace('_', '-')}-{what}", f"{name} is not of its form.", "field_invalid", good | {name: value}, name)
    fitting = json.dumps(good | {"x": ""})
    no("16385-bytes", "A byte more than a body may have.", "body_too_large",
       json.dumps(good | {"x": "x" * (16_385 - len(fitting))}).encode())
    no("suite-not-first", "The server has one that the client likes better.", "suite_required",
       good | {"suites": ["X25519MLKEM768", "P256"]})
    no("suite-not-served", "The server has another of the client's.", "suite_required", good | {"suites": ["P256", "X25519MLKEM768"]},
       case=BASE.with_(server_suites=("X25519MLKEM768",)))
    no("suite-none-common", "There is no common one.", "suite_required", good, case=BASE.with_(server_suites=("X25519MLKEM768",)))
    no("suite-unlisted", "The share is of a suite that the list has not.", "suite_required", good | {"suites": ["X25519MLKEM768"]})
    no("suite-unknown", "A share of a suite that nobody knows.", "suite_required", good | {"suite": "MLKEM1024", "suites": ["MLKEM1024"]})
    for name, key in {"stranger": STRANGER, "past": PAST, "future": FUTURE}.items():
        no(f"key-retired-{name}", "No pinned key is live.", "key_retired", good | {"pinned_key_ids": [key.id]},
           case=BASE.with_(identities=(IDENTITY, PAST, FUTURE)))
    for suite in SUITES:
        for name, share in bad_shares(suite, False).items():
            no(f"share-{suite}-{name}", "The share is none.", "public_key_invalid",
               {"suite": suite, "suites": [suite], "share": b64(share), "client_id": "c"})
    no("order-members-before-suite", "Two faults, to show the order of checks.", "field_invalid",
       good | {"suites": ["X25519MLKEM768"], "ttl_sec": -1}, "ttl_sec")
    no("order-table", "Two faults, to show the order of checks.", "field_invalid",
       good | {"share": 1, "suites": 1, "proof": 1}, "suites")
    no("order-suite-before-keys", "Two faults, to show the order of checks.", "suite_required",
       good | {"suites": ["X25519MLKEM768"], "pinned_key_ids": [STRANGER.id]})
    no("order-keys-before-share", "Two faults, to show the order of checks.", "key_retired",
       good | {"share": b64(points()["off-curve"]), "pinned_key_ids": [STRANGER.id]})


def add_all(add):
    client_refused(add)
    server_refused(add)
