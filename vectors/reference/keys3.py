"""Scenarios of wire 3's key sets, and of the proofs that two problems carry."""

import json
from functools import partial
from types import SimpleNamespace

import checks3
import session3 as s3
from calls3 import CLIENT_VIEW, POST, SESSION, session_view
from inits3 import DAY, FUTURE, IDENTITY, NEXT, PAST, STRANGER
from identity3 import Identity
from session import NOW, fixed, text_or_hex
from session3 import Refused, b64

ROOT, OTHER_ROOT = Identity(fixed("wire 3/root")), Identity(fixed("wire 3/another root"))
ISSUED, EXPIRES = NOW - DAY, NOW + 7 * DAY


def key_set(keys=(IDENTITY, NEXT), issued=ISSUED, expires=EXPIRES, root=ROOT, signed=None, **changes) -> dict:
    """A set, signed by `root`; `signed` is what the root saw where that is something else."""
    listed = [(key.id, key.public, key.not_before_ms, key.not_after_ms) for key in keys]
    message = s3.key_set_message(issued, expires, listed) if signed is None else signed
    body = {"issued_ms": issued, "expires_ms": expires, "keys": [
        {"key_id": id, "alg": alg, "public_key": b64(public), "not_before_ms": begin, "not_after_ms": end}
        for (id, public, begin, end), alg in zip(listed, [key.alg for key in keys])],
        "root_key_id": root.id, "root_signature": b64(root.sign(message))}
    return {name: value for name, value in (body | changes).items() if value is not None}


def signers(keys: checks3.RootKeys, cases) -> list[dict]:
    """Whether each key may have signed an answer with that time, by that clock of the client's."""
    def one(key, server_time_ms, now_ms, trusted):
        assert (keys.live(server_time_ms, now_ms).get(key.id) == key.public) is trusted, (key, server_time_ms, now_ms)
        return {"key_id": key.id, "server_time_ms": server_time_ms, "now_ms": now_ms, "trusted": trusted}

    return [one(*case) for case in cases]


def take(body, now, taken, root=ROOT, algorithms=None):
    return checks3.take_key_set(json.dumps(body).encode(), root.public, now, taken, algorithms)


def given(body, now, taken, root=ROOT, algorithms=None) -> dict:
    """`algorithms` are those that the client accepts, where it restricts them."""
    restricted = {} if algorithms is None else {"signature_algorithms": list(algorithms)}
    return {"root_public_hex": root.public.hex(), "now_ms": now, "taken_issued_ms": taken, "body": json.dumps(body)} | restricted


def taken_set(add, name, comment, body, now=NOW, taken=None, cases=(), **client):
    keys = take(body, now, taken, **client)
    add("key-set3", f"key-set3-{name}", comment, given(body, now, taken, **client) | {
        "issued_ms": keys.issued_ms,
        "keys": [{"key_id": id, "public_hex": public.hex()} for id, (public, _, _) in keys.keys.items()],
        "signers": signers(keys, cases or [(key, now, now, key.id in keys.keys) for key in (IDENTITY, STRANGER)])})


def refused_set(add, name, comment, code, body, now=NOW, taken=None, **client):
    try:
        take(body, now, taken, **client)
        raise AssertionError(f"{name} is taken")
    except Refused as error:
        assert error.code == code, f"{name}: {error} and not {code}"
    add("key-set3-refused", f"key-set3-{name}", comment, given(body, now, taken, **client) | {"code": code})


def sets(add):
    ok = partial(taken_set, add)
    ok("two-keys", "A set, signed by the pinned root.", key_set())
    ok("one-key", "A set of one key.", key_set((IDENTITY,)))
    many = tuple(Identity(fixed(f"wire 3/key {n}"), NOW, NOW + DAY) for n in range(16))
    ok("16-keys", "As many keys as there may be.", key_set(many))
    ok("not-live", "Keys that are over, or not yet live, may stand in a set. They sign nothing.", key_set((PAST, IDENTITY, FUTURE)), cases=[
        (PAST, NOW, NOW, False), (IDENTITY, NOW, NOW, True), (FUTURE, NOW, NOW, False)])
    begin, end = FUTURE.not_before_ms, IDENTITY.not_after_ms
    ok("not-before", "A key signs from its begin on, by the server's time alone: the client's clock may be behind.", key_set((FUTURE,)), cases=[
        (FUTURE, begin - 1, begin - 1, False), (FUTURE, begin, begin, True), (FUTURE, begin, begin - DAY, True),
        (FUTURE, begin - 1, begin + DAY, False)])
    ok("not-after", "A key signs until the millisecond before its end, by both clocks: the thief of a key that is over says an earlier time.",
       key_set(expires=end + DAY), cases=[
        (IDENTITY, end - 1, end - 1, True), (IDENTITY, end, end, False), (IDENTITY, end, NOW, False), (IDENTITY, end - 1, end, False),
        (IDENTITY, NOW, end + 1, False), (NEXT, end, end, True)])
    stale = Identity(fixed("wire 3/stale"), NOW - 2 * DAY, ISSUED)
    ok("over-when-issued", "A key that was over when the set was issued signs nothing, whatever either clock says.", key_set((stale, IDENTITY)),
       cases=[(stale, ISSUED - 1, ISSUED - 1, False), (IDENTITY, ISSUED - 1, ISSUED - 1, True)])
    ok("expires", "A set that was taken is over at its end, by both clocks.", key_set(), cases=[
        (IDENTITY, EXPIRES - 1, EXPIRES - 1, True), (IDENTITY, EXPIRES, NOW, False), (IDENTITY, NOW, EXPIRES, False)])
    ok("taken-same", "The set that was taken before.", key_set(), taken=ISSUED)
    ok("taken-older", "A later set than the one before.", key_set(), taken=ISSUED - 1)
    ok("last-millisecond", "A set is good until the millisecond before its end.", key_set(), EXPIRES - 1)
    public = NEXT.public[:-1] + bytes([NEXT.public[-1] ^ 1])
    off = SimpleNamespace(alg="ES256", id=s3.key_id(public), public=public, not_before_ms=0, not_after_ms=EXPIRES)
    ok("off-curve", "A key off the curve may stand in a set, and signs nothing.", key_set((IDENTITY, off)))
    ok("unknown-members", "Unknown members are passed over.", key_set(note={"a": 1}))


def sets_refused(add):
    no = partial(refused_set, add)
    good, listed = key_set(), key_set()["keys"]
    changed = lambda at, **changes: good | {"keys": [key | changes if n == at else key for n, key in enumerate(listed)]}
    no("issued-changed", "When it was issued was changed after it was signed.", "signature_invalid", good | {"issued_ms": ISSUED + 1})
    no("expires-changed", "Its end was changed after it was signed.", "signature_invalid", good | {"expires_ms": EXPIRES + 1})
    no("key-missing", "A key was taken out.", "signature_invalid", good | {"keys": listed[:1]})
    no("key-added", "A key was put in.", "signature_invalid", good | {"keys": key_set((IDENTITY, NEXT, STRANGER))["keys"]})
    no("keys-swapped", "Two keys changed places.", "signature_invalid", good | {"keys": listed[::-1]})
    no("key-replaced", "A key was replaced by another.", "signature_invalid", good | {"keys": key_set((IDENTITY, STRANGER))["keys"]})
    no("not-before-changed", "A key's begin was changed.", "signature_invalid", changed(0, not_before_ms=NOW))
    no("not-after-changed", "A key's end was changed.", "signature_invalid", changed(1, not_after_ms=NOW + 90 * DAY))
    signature = s3.unb64(good["root_signature"])
    no("signature-flip", "One bit of the signature is another.", "signature_invalid",
       good | {"root_signature": b64(signature[:-1] + bytes([signature[-1] ^ 1]))})
    seen = s3.key_set_message(ISSUED, EXPIRES, [(key.id, key.public, key.not_before_ms, key.not_after_ms) for key in (IDENTITY, NEXT)])
    no("signature-no-label", "Signed without the label.", "signature_invalid", key_set(signed=seen[len(b"sealway/3 keys"):]))
    no("signature-by-key", "An identity key signed in the root's place.", "signature_invalid",
       good | {"root_signature": b64(IDENTITY.sign(seen))})
    no("other-root", "Another root signed.", "key_untrusted", key_set(root=OTHER_ROOT))
    no("no-root", "A set without a root proves nothing by itself.", "key_untrusted",
       key_set(root_key_id=None, root_signature=None))
    no("no-signature", "The root's name without its signature.", "field_invalid", key_set(root_signature=None))
    no("no-root-id", "A root's signature without its name.", "field_invalid", key_set(root_key_id=None))
    no("key-id-other", "Signed, and a key's id is another's.", "field_invalid", relabelled())
    no("expired", "The set's time is over.", "key_untrusted", good, EXPIRES)
    no("rolled-back", "An earlier set than the one that was taken before.", "key_untrusted", good, taken=ISSUED + 1)
    for name in ("issued_ms", "expires_ms", "keys"):
        no(f"{name.replace('_', '-')}-missing", f"{name} is not there.", "field_invalid", {k: v for k, v in good.items() if k != name})
    for name in ("key_id", "alg", "public_key", "not_before_ms", "not_after_ms"):
        no(f"key-{name.replace('_', '-')}-missing", f"A key without {name}.", "field_invalid", changed(0, **{name: None}))
    short = IDENTITY.public[:64]
    no("key-64-bytes", "A key of 64 bytes.", "field_invalid", changed(0, key_id=s3.key_id(short), public_key=b64(short)))
    hybrid = b"\6" + IDENTITY.public[1:]
    no("key-hybrid", "A key of another form of points.", "field_invalid", changed(0, key_id=s3.key_id(hybrid), public_key=b64(hybrid)))
    no("alg-other", "A key of another kind.", "field_invalid", changed(0, alg="EdDSA"))
    many = tuple(Identity(fixed(f"wire 3/key {n}"), NOW, NOW + DAY) for n in range(17))
    no("17-keys", "A key too many.", "field_invalid", key_set(many))


def relabelled() -> dict:
    keys = [(NEXT.id, IDENTITY.public, IDENTITY.not_before_ms, IDENTITY.not_after_ms)]
    body = key_set((IDENTITY,), signed=s3.key_set_message(ISSUED, EXPIRES, keys))
    return body | {"keys": [body["keys"][0] | {"key_id": NEXT.id}]}


def problems(add):
    stamp, nonce, time = POST.stamp, POST.nonce, NOW + 86_400_000
    head = lambda code, status: {"type": f"urn:sealway:problem:{code}", "title": "A sentence.", "status": status, "code": code}

    def one(name, comment, body, proven, resends, stamp=stamp):
        session = SESSION
        assert checks3.clock_proven(body, session, nonce, stamp) is proven, name
        for method, elapsed_ms, again in resends:
            assert checks3.sends_again(body, proven, method, stamp, elapsed_ms) is again, (name, method, elapsed_ms)
        add("problem3", f"problem3-{name}", comment, {
            "session": session_view(session), "client": CLIENT_VIEW, "request": {"stamp": stamp, "nonce": nonce}, "body": json.dumps(body),
            "proven": proven,
            "resends": [{"method": method, "elapsed_ms": elapsed_ms, "again": again} for method, elapsed_ms, again in resends]})

    always = [("GET", 0, True), ("HEAD", 0, True), ("POST", 0, True), ("PUT", 0, True), ("DELETE", 0, True)]
    never = [(method, 0, False) for method, _, _ in always]
    if_safe = [(method, 0, method in checks3.SAFE_METHODS) for method, _, _ in always]
    mac = lambda s2c=SESSION.keys.s2c, nonce=nonce, stamp=stamp, time=time: b64(s3.clock_mac(s2c, nonce, stamp, time))
    skew = head("clock_skew", 400) | {"server_time_ms": time, "mac": mac()}
    one("clock-skew", "The server's time, with proof. The stamp was too old before the request was sent, unless that took long.", skew, True,
        [*always, ("POST", 85_799_999, True), ("POST", 85_800_000, False), ("POST", 86_400_001, False), ("GET", 86_400_001, True)])
    for name, comment, at in (
            ("just-old", "One millisecond more than twice the widest window.", NOW + 600_001),
            ("perhaps-old", "A server whose clock is a window behind may have served it.", NOW + 600_000),
            ("window-old", "So may one whose clock is a millisecond behind.", NOW + 300_001),
            ("early", "Refused now, and good later: whoever has it can still have it served.", NOW - 86_400_000)):
        one(f"clock-skew-{name}", comment, head("clock_skew", 400) | {"server_time_ms": at, "mac": mac(time=at)}, True,
            [*always, ("POST", 1, False), ("GET", 1, True)] if name == "just-old" else if_safe)
    one("clock-skew-time", "Another time than the mac is for.", skew | {"server_time_ms": time + 1}, False, never)
    one("clock-skew-nonce", "The proof of another request.", skew | {"mac": mac(nonce="0" * 16)}, False, never)
    one("clock-skew-stamp", "The proof of another stamp.", skew | {"mac": mac(stamp=str(NOW + 1))}, False, never)
    one("clock-skew-c2s", "A mac under the other direction's key.", skew | {"mac": mac(s2c=SESSION.keys.c2s)}, False, never)
    one("clock-skew-absent", "No mac.", head("clock_skew", 400) | {"server_time_ms": time}, False, never)
    one("clock-skew-no-time", "No time.", head("clock_skew", 400) | {"mac": mac()}, False, never)
    one("clock-skew-cut", "Half a mac.", skew | {"mac": b64(s3.unb64(mac())[:16])}, False, never)

    one("expired", "A session that is unknown or over: whoever is in between can have had the request served before.",
        head("session_expired", 401), False, [*if_safe, ("POST", 86_400_001, False)])
    one("expired-with-time", "Nothing in it changes that: anybody on the path can write it, and no proof says what was served.",
        head("session_expired", 401) | {"server_time_ms": NOW + 60_000, "key_id": IDENTITY.id, "signature": b64(bytes(64))},
        False, if_safe)
    one("expired-stamped-late", "Nor does a stamp behind the session's end: a server whose clock is behind has served it.",
        head("session_expired", 401), False, if_safe, str(SESSION.expires_ms))
    one("expired-as-skew", "A proof of the time is none of this.",
        head("session_expired", 401) | {"server_time_ms": time, "mac": mac()}, False, if_safe)


def add_all(add):
    sets(add)
    sets_refused(add)
    problems(add)
