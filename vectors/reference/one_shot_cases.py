"""Scenarios of wire 4: requests, answers, key documents and problems, as they should be and with one fault each."""

import json
from dataclasses import dataclass, replace
from functools import partial

import call_faults3
import calls3
import checks3
import hpke
import one_shot
import session3 as s3
import stream3
from calls3 import FULL, JSON, PURCHASE, SUCCESS
from keys3 import OTHER_ROOT, ROOT, given
from session import HEX_NONCE, NOW, UUID, WINDOW, fixed, text_or_hex
from session3 import Refused, b64

DAY = 86_400_000
R_NONCE, P_NONCE = "r-" + HEX_NONCE, "p-" + HEX_NONCE
PROBLEM = (("content-type", "application/problem+json"),)


def key(name: str, number: int, begin=NOW - DAY, until=NOW + 6 * DAY, end=NOW + 7 * DAY) -> one_shot.Key:
    return one_shot.Key(hpke.KEMS[name], fixed(f"wire 4/{name} {number}"), number, begin, until, end)


XWING, HYBRID, X25519, P256 = (key(name, number) for number, name in enumerate(("X-Wing", "MLKEM768-P256", "X25519", "P-256"), 1))
KEYS = (XWING, HYBRID, X25519, P256)
NEXT = key("X25519", 5, NOW - 1, NOW + 13 * DAY, NOW + 14 * DAY)
MASTER = fixed("wire 4/master")
PSK_ID = "team-a.2026"
PSKS = {PSK_ID: one_shot.psk_of(MASTER, PSK_ID)}


@dataclass(frozen=True)
class Sealed:
    """What stands where a session does in a call of wire 3."""

    key: one_shot.Key
    psk_id: str | None
    psk: bytes
    randomness: bytes
    keys: one_shot.Secrets
    enc: bytes
    shared: bytes

    @property
    def id(self) -> str:
        return self.key.name

    @property
    def kid(self) -> str:
        return self.key.kid


def sealed(to: one_shot.Key = X25519, psk_id: str | None = None, psk: bytes | None = None, draw: str = "one") -> Sealed:
    randomness = fixed(f"wire 4/ephemeral {draw}", 64 if to.kem.hybrid else 32)
    enc, shared = hpke.encapsulate(to.kem, to.public, randomness)
    assert hpke.decapsulate(to.kem, to.private, enc) == shared
    psk = b"" if psk_id is None else PSKS[psk_id] if psk is None else psk
    return Sealed(to, psk_id, psk, randomness, one_shot.secrets(to.kem, to.name, shared, psk, psk_id or ""), enc, shared)


@dataclass(frozen=True)
class Call(calls3.Call):
    """A request of wire 4, or an answer to one."""

    session: Sealed = None
    wire: int = 4

    @property
    def prefix(self) -> bytes:
        return b"" if self.status is not None else one_shot.prefix(self.session.psk_id, self.session.enc)

    def headers(self, stream: bytes | None = None) -> list[list[str]]:
        return super().headers(self.prefix + (self.stream if stream is None else stream))

    def body(self) -> bytes:
        return b"" if self.in_header else self.prefix + self.stream

    def open(self, headers, body, now=NOW, window=WINDOW):
        said = self.session
        if self.status is None:
            return one_shot.open_request([*KEYS, NEXT], PSKS, self.method, self.path, headers, body, now, window)
        is_problem, inner, frames = one_shot.open_answer(said.key.name, said.keys.s2c, self.method, self.path, self.asked, self.status,
                                                         headers, body)
        assert is_problem == self.nonce.startswith("p-")
        return inner, frames


ONE = sealed()
POST = Call(session=ONE)
GET = Call((b"",), (), "GET", "/accounts/7?full=true", None, in_header=True, session=ONE)
ANSWER = Call((SUCCESS,), status=200, stamp=str(NOW + 20), nonce=R_NONCE, session=ONE)
BODILESS = Call((b"",), (), "GET", "/accounts/7?full=true", None, str(NOW + 20), R_NONCE, True, 204, session=ONE)


def key_view(one: one_shot.Key) -> dict:
    return {"kem": one.kem.name, "config_hex": one.config.hex(), "private_hex": one.private.hex()}


def server_view() -> dict:
    return {"keys": [key_view(one) | {"not_before_ms": one.not_before_ms, "use_until_ms": one.use_until_ms,
                                      "not_after_ms": one.not_after_ms} for one in (*KEYS, NEXT)],
            "psks": [{"id": name, "psk_hex": psk.hex()} for name, psk in PSKS.items()]}


def halves(said: Sealed) -> dict:
    """What a hybrid's secret is made of, for libraries that draw ML-KEM's randomness themselves; empty for the others."""
    one, group_private = said.key.kem, said.randomness[-32:]
    group_public = said.key.public[s3.KEM_KEY:] if one.hybrid else said.key.public
    pq = hpke.kem.encapsulate(said.key.public[:s3.KEM_KEY], said.randomness[:32])[1] if one.hybrid else b""
    return {"kem_secret_hex": pq.hex(), "group_private_hex": group_private.hex(),
            "group_secret_hex": hpke.group_agree(one.group, group_private, group_public).hex()}


def requests(add):
    def ok(name, comment, call, now=NOW, window=WINDOW):
        said = call.session
        add("request4", f"request4-{name}", comment, {
            "key": key_view(said.key), "psk": said.psk_id and {"id": said.psk_id, "psk_hex": said.psk.hex()},
            "randomness_hex": said.randomness.hex(), **halves(said), "enc_hex": said.enc.hex(), "shared_secret_hex": said.shared.hex(),
            "c2s_hex": said.keys.c2s.hex(), "s2c_hex": said.keys.s2c.hex(), "now_ms": now, "window_ms": window,
            "method": call.method, "path": call.path, **call.accepted(now, window), "claim": claim(said, call.stamp, now, window)})

    for to in KEYS:
        slug = to.kem.name.lower()
        for psk_id in (None, PSK_ID):
            said, mode = sealed(to, psk_id, draw=slug), "base" if psk_id is None else "psk"
            ok(f"{slug}-{mode}", "One request to a key of each KEM, in each mode.", POST.with_(session=said))
            ok(f"{slug}-{mode}-get", "The same without a body: the whole stream in X-Sealed.", GET.with_(session=said))
    ok("another-draw", "Another request to the same key: another enc, and other keys.", POST.with_(session=sealed(draw="two")))
    ok("another-key", "A request to another key that is accepted as well.", POST.with_(session=sealed(NEXT)))
    for name, frames in calls3.bodies().items():
        ok(f"post-{name}", "A body of so many frames; a frame ends where its source flushes.", POST.with_(frames=frames))
    ok("get-inner", "Without a body, with inner headers.", GET.with_(inner=(("accept", "text/event-stream"),)))
    for method in ("HEAD", "DELETE", "QUERY"):
        ok(f"method-{method}", "Any method, as sent.", GET.with_(method=method))
    ok("no-content-type", "No outer Content-Type counts as an empty one.", POST.with_(content_type=None))
    for name, offset in {"past": -WINDOW, "future": WINDOW}.items():
        ok(f"{name}-edge", "Exactly at the edge of the window.", POST.with_(stamp=str(NOW + offset)))
    end = X25519.not_after_ms - 1
    ok("last-millisecond", "A key is accepted until the millisecond before its end, also when clients no longer use it.",
       POST.with_(stamp=str(end)), end)


def claim(said: Sealed, stamp: str, now: int, window: int) -> dict:
    scope = s3.sha256(said.key.config)
    return {"key_hex": s3.sha256(b"\5\0\x20" + scope + said.enc)[:16].hex(), "sealed": said.psk_id is not None, "stamp_ms": int(stamp),
            "expires_ms": now + 2 * window + 1}


def refused(call, name, code, headers, body, now=NOW, window=WINDOW):
    call_faults3.refused(call, name, code, headers, body, now, window)


def requests_refused(add):
    def no(name, comment, code, headers=None, body=None, call=POST, now=NOW, window=WINDOW):
        headers, body = call.headers() if headers is None else headers, call.body() if body is None else body
        refused(call, name, code, headers, body, now, window)
        add("request4-refused", f"request4-{name}", comment, {
            "server": server_view(), "now_ms": now, "window_ms": window, "method": call.method, "path": call.path,
            "headers": headers, "body": text_or_hex(body), "code": code})

    headers, swap = POST.headers(), call_faults3.swap
    for name in ("X-Seal", "X-Kid", "X-Idempotency-Key"):
        slug, value = name.lower(), dict(map(tuple, headers))[name]
        no(f"{slug}-missing", f"{name} is not there.", "header_missing", [h for h in headers if h[0] != name])
        no(f"{slug}-repeated", f"{name} is there twice, even with one value.", "header_invalid", [*headers, [name, value]])
    for value in ("04", "4.0"):
        no(f"x-seal-{value}", "X-Seal is 4 and nothing else.", "header_invalid", swap(headers, "X-Seal", value))
    for name, value in {"bare": ONE.id, "session": "session:" + ONE.id, "upper": "hpke:" + "AB" * 16, "case": "HPKE:" + ONE.id,
                        "31": ONE.kid[:-1], "33": ONE.kid + "0"}.items():
        no(f"kid-{name}", "X-Kid is hpke: and 32 lower-case digits.", "kid_prefix", swap(headers, "X-Kid", value))
    no("kid-unknown", "X-Kid names no key that the server has.", "key_retired", swap(headers, "X-Kid", "hpke:" + "0" * 32))
    no("kid-another", "X-Kid names another key of the server than the one sealed to.", "unsealable", swap(headers, "X-Kid", NEXT.kid))
    no("key-over", "The key is over.", "key_retired", call=POST.with_(stamp=str(X25519.not_after_ms)), now=X25519.not_after_ms)
    early = NEXT.not_before_ms - 1
    no("key-not-yet", "The key is not accepted yet.", "key_retired", call=POST.with_(session=sealed(NEXT), stamp=str(early)), now=early)
    no("nonce-reserved", "Only answers carry such a nonce.", "nonce_reserved", call=POST.with_(nonce=R_NONCE))
    no("stamp-letter", "A stamp is 1 to 15 decimal digits.", "timestamp_invalid", call=POST.with_(stamp="175000000000a", lies=()))
    for name, value in {"past": NOW - WINDOW - 1, "future": NOW + WINDOW + 1, "zero": 0, "far": 999_999_999_999_999}.items():
        no(f"window-{name}", "A stamp outside the window.", "timestamp_outside_window", call=POST.with_(stamp=str(value)))
    no("sealed-and-body", "X-Sealed beside a body.", "header_invalid", [*headers, ["X-Sealed", b64(POST.body())]])
    no("get-two-frames", "Two frames in X-Sealed, which holds one.", "stream_truncated", call=GET.with_(frames=(b"a", b"b")))
    no("get-as-head", "X-Sealed of a GET on a HEAD.", "unsealable", call=GET.with_(method="HEAD"), headers=GET.headers())

    # What stands in front of the stream.
    enc, stream, psk = ONE.enc, POST.stream, sealed(psk_id=PSK_ID)
    keyed = POST.with_(session=psk)
    for name, data in {
            "empty": b"", "mode-alone": b"\0", "no-enc": b"\0\0", "enc-cut": b"\0\0" + enc[:-1], "mode-2": b"\2\0" + enc + stream,
            "mode-255": b"\xff\0" + enc + stream, "base-with-psk-id": b"\0\1a" + enc + stream, "psk-without-id": b"\1\0" + enc + stream,
            "psk-id-65": b"\1\x41" + b"a" * 65 + enc + stream, "psk-id-space": b"\1\3a b" + enc + stream,
            "psk-id-high": b"\1\2\xc3\xa9" + enc + stream, "psk-id-cut": b"\1\x40team"}.items():
        is_cut = name in ("empty", "mode-alone", "no-enc", "enc-cut", "psk-id-cut")
        no(f"prefix-{name}", "Mode, psk_id and enc have one form.", "stream_truncated" if is_cut else "unsealable", body=data)
    no("mode-changed", "A request with a PSK, said to have none.", "unsealable", call=keyed, body=b"\0\0" + psk.enc + keyed.stream)
    no("mode-added", "A request without a PSK, said to have one.", "unsealable",
       body=one_shot.prefix(PSK_ID, enc) + stream)
    no("psk-unknown", "A psk_id that the server does not know.", "unsealable",
       call=POST.with_(session=sealed(psk_id="nobody", psk=fixed("wire 4/another psk"))))
    no("psk-wrong", "A known psk_id with another PSK.", "unsealable",
       call=POST.with_(session=sealed(psk_id=PSK_ID, psk=fixed("wire 4/another psk"))))
    no("psk-id-changed", "Another psk_id than the one sealed with.", "unsealable", call=keyed,
       body=one_shot.prefix("team-b.2026", psk.enc) + keyed.stream)

    # enc itself.
    low = bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")
    for name, point in {"zero": bytes(32), "one": b"\1" + bytes(31), "order-8": low, "p-minus-1": bytes.fromhex("ec" + "ff" * 30 + "7f")}.items():
        no(f"enc-x25519-{name}", "A point of low order.", "unsealable", body=b"\0\0" + point + stream)
    no("enc-x25519-high-bit", "enc in another spelling of the same point.", "unsealable",
       body=b"\0\0" + enc[:-1] + bytes([enc[-1] | 0x80]) + stream)
    point = sealed(P256)
    to_p256 = POST.with_(session=point)
    for name, data in {"compressed": bytes([2 + point.enc[-1] % 2]) + point.enc[1:33] + bytes(32), "hybrid": bytes([6 + point.enc[-1] % 2]) + point.enc[1:],
                       "off-curve": point.enc[:-1] + bytes([point.enc[-1] ^ 1]), "infinity": bytes(65),
                       "beyond-p": b"\4" + b"\xff" * 32 + point.enc[33:]}.items():
        no(f"enc-p-256-{name}", "No uncompressed point of the curve.", "unsealable", call=to_p256, body=b"\0\0" + data + to_p256.stream)
    for to in (XWING, HYBRID):
        said, other = sealed(to), sealed(to, draw="two")
        call, slug, flip = POST.with_(session=said), to.kem.name.lower(), call_faults3.flip
        for name, data in {"first-byte": flip(said.enc, 0), "pq-last-byte": flip(said.enc, s3.KEM_CIPHERTEXT - 1),
                           "two-requests": said.enc[:s3.KEM_CIPHERTEXT] + other.enc[s3.KEM_CIPHERTEXT:], "other": other.enc}.items():
            no(f"enc-{slug}-{name}", "One part of enc is not this request's.", "unsealable", call=call, body=b"\0\0" + data + call.stream)

    in_body = lambda name, comment, code, data: no(name, comment, code, body=POST.prefix + data)
    call_faults3.stream_faults(POST, in_body)
    call_faults3.context_faults(POST, in_body)
    call_faults3.inner_faults(POST, lambda name, comment, code, data: "forbidden" in name or in_body(name, comment, code, data))
    three = POST.with_(wire=3)
    no("sealed-as-wire-3", "Sealed with the labels of wire 3.", "unsealable", body=POST.prefix + three.stream)
    said = "Two faults, to show the order of checks."
    stale = POST.with_(stamp=str(NOW - WINDOW - 1))
    no("order-form-before-key", said, "nonce_invalid", swap(POST.with_(nonce="x").headers(), "X-Kid", "hpke:" + "0" * 32))
    no("order-key-before-frame", said, "key_retired", swap(headers, "X-Kid", "hpke:" + "0" * 32), b"")
    no("order-frame-before-stamp", said, "unsealable", call=stale, body=stale.prefix + call_faults3.flip(stale.stream, 20))
    no("order-inner-before-stamp", said, "inner_headers_invalid", call=stale.with_(block=b"\0"))


def answer_view(call) -> dict:
    return {"kid": call.session.kid, "s2c_hex": call.session.keys.s2c.hex(),
            "request": {"method": call.method, "path": call.path, "nonce": call.asked}, "status": call.status}


def answers(add):
    def ok(name, comment, call):
        add("answer4", f"answer4-{name}", comment, answer_view(call) | call.accepted() | {"problem": call.nonce.startswith("p-")})

    for name, frames in calls3.bodies().items():
        ok(name, "A body of so many frames; a frame ends where the service flushes.", ANSWER.with_(frames=frames))
    for to in (XWING, HYBRID, P256):
        ok(f"{to.kem.name.lower()}", "The answer to a request to a key of another KEM.", ANSWER.with_(session=sealed(to)))
    ok("psk", "The answer to a request with a PSK.", ANSWER.with_(session=sealed(psk_id=PSK_ID)))
    for status in (404, 500):
        ok(f"status-{status}", "Sent with the service's status, which is bound.", ANSWER.with_(status=status))
    ok("bodiless-204", "Where there can be no body the stream is in X-Sealed.", BODILESS)
    for code, status in (("clock_skew", 400), ("policy", 403), ("replayed", 409), ("store_unavailable", 503)):
        ok(f"problem-{code}", "A problem of the server: its nonce says so.",
           ANSWER.with_(status=status, nonce=P_NONCE, inner=PROBLEM, frames=(json.dumps(problem(code, status)).encode(),)))
    ok("problem-of-the-service", "The service's own problem is an answer like any other.",
       ANSWER.with_(status=409, inner=PROBLEM, frames=(json.dumps(problem("replayed", 409)).encode(),)))


def answers_refused(add):
    def no(name, comment, code, headers=None, body=None, call=ANSWER):
        headers, body = call.headers() if headers is None else headers, call.body() if body is None else body
        refused(call, name, code, headers, body)
        add("answer4-refused", f"answer4-{name}", comment, answer_view(call) | {"headers": headers, "body": text_or_hex(body), "code": code})

    headers, swap = ANSWER.headers(), call_faults3.swap
    no("unsealed", "An answer in the clear.", "unsealed", [["Content-Type", "application/json"]], SUCCESS)
    no("x-seal-3", "X-Seal is 4 and nothing else.", "header_invalid", swap(headers, "X-Seal", "3"))
    no("kid-another", "An answer under another key.", "answer_mismatch", swap(headers, "X-Kid", NEXT.kid))
    no("kid-session", "X-Kid begins with hpke:.", "kid_prefix", swap(headers, "X-Kid", "session:" + ONE.id))
    for name, nonce in {"uuid": UUID[:-1] + "2", "upper": "R-" + HEX_NONCE}.items():
        no(f"nonce-{name}", "Sealed well, with a nonce that no answer carries.", "answer_mismatch", call=ANSWER.with_(nonce=nonce))
    no("problem-as-answer", "A problem of the server, said to be the service's.", "unsealable",
       swap(headers, "X-Idempotency-Key", f"{ANSWER.stamp}.{R_NONCE}"), call=ANSWER, body=ANSWER.with_(nonce=P_NONCE).stream)
    no("answer-as-problem", "The service's answer, said to be a problem of the server.", "unsealable",
       swap(headers, "X-Idempotency-Key", f"{ANSWER.stamp}.{P_NONCE}"))
    no("other-request", "The answer to another request of the same key.", "unsealable", body=ANSWER.with_(session=sealed(draw="two")).stream)
    no("other-status", "Sent with another status than it was sealed for.", "unsealable", call=ANSWER.with_(status=201), body=ANSWER.stream)
    no("echoed-request", "The client's own request comes back as its answer.", "answer_mismatch", POST.headers(), POST.body())
    no("sealed-as-wire-3", "Sealed with the labels of wire 3.", "unsealable", body=ANSWER.with_(wire=3).stream)
    no("bodiless-cut", "The stream in X-Sealed ends in the middle.", "stream_truncated", BODILESS.headers(BODILESS.stream[:-1]), call=BODILESS)
    in_body = lambda name, comment, code, stream: no(name, comment, code, body=stream)
    call_faults3.stream_faults(ANSWER, in_body)
    call_faults3.context_faults(ANSWER, in_body)


# --- Key documents, PSKs and problems ---

def document(keys=KEYS, issued=NOW - DAY, expires=NOW + 7 * DAY, root=ROOT, signed=None, **changes) -> dict:
    listed = [(one.config, one.not_before_ms, one.use_until_ms, one.not_after_ms) for one in keys]
    message = one_shot.document_message(issued, expires, listed) if signed is None else signed
    body = {"issued_ms": issued, "expires_ms": expires, "keys": [
        {"config": b64(config), "not_before_ms": begin, "use_until_ms": until, "not_after_ms": end} for config, begin, until, end in listed],
        "root_key_id": root.id, "root_signature": b64(root.sign(message))}
    return {name: value for name, value in (body | changes).items() if value is not None}


@dataclass(frozen=True)
class Listed:
    """A key by its configuration alone."""

    config: bytes
    not_before_ms: int = NOW - DAY
    use_until_ms: int = NOW + DAY
    not_after_ms: int = NOW + 2 * DAY


def take(body, now, taken, root=ROOT, algorithms=None):
    return one_shot.take_document(json.dumps(body).encode(), root.public, now, taken, algorithms)


ALL = [name for name in hpke.KEMS]


def taken_document(add, name, comment, body, choices, now=NOW, taken=None, **client):
    issued, keys = take(body, now, taken, **client)
    for now_ms, kems, kid in choices:
        assert one_shot.choose(keys, now_ms, kems) == kid, (name, now_ms, kems)
    known = [one_shot.read_config(config)[1] for config, _, _, _ in keys]
    add("key-document4", f"key-document4-{name}", comment, given(body, now, taken, **client) | {
        "issued_ms": issued,
        "keys": [{"kid": "hpke:" + one_shot.key_name(config), "config_hex": config.hex(), "kem": kem and kem.name}
                 for (config, _, _, _), kem in zip(keys, known)],
        "choices": [{"now_ms": now_ms, "kems": kems, "kid": kid} for now_ms, kems, kid in choices]})


def refused_document(add, name, comment, code, body, now=NOW, taken=None, **client):
    try:
        take(body, now, taken, **client)
        raise AssertionError(f"{name} is taken")
    except Refused as error:
        assert error.code == code, f"{name}: {error} and not {code}"
    add("key-document4-refused", f"key-document4-{name}", comment, given(body, now, taken, **client) | {"code": code})


def documents(add):
    ok = partial(taken_document, add)
    first = [(NOW, ALL, XWING.kid), (NOW, ["X25519", "P-256"], X25519.kid), (NOW, ["P-256"], P256.kid), (NOW, [], None)]
    ok("four-keys", "The first key in use of a KEM that the client has.", document(), first)
    ok("in-use", "A key is used from its begin to the millisecond before its use ends, not until its end.", document((X25519,)), [
        (X25519.not_before_ms - 1, ALL, None), (X25519.not_before_ms, ALL, X25519.kid), (X25519.use_until_ms - 1, ALL, X25519.kid),
        (X25519.use_until_ms, ALL, None)])
    ok("two-of-one-kem", "The server's order decides, not the times.", document((NEXT, X25519)), [
        (NOW, ALL, NEXT.kid), (NEXT.not_before_ms - 1, ALL, X25519.kid)])
    ok("no-keys", "A document may be empty.", document(()), [(NOW, ALL, None)])
    alien = Listed(one_shot.config(0x0042, b"\7" * 1568, 9))
    ok("unknown-kem", "A key of a KEM that the client does not know is skipped.", document((alien, X25519)), [(NOW, ALL, X25519.kid)])
    ok("taken-same", "The document that was taken before.", document(), first, taken=NOW - DAY)
    ok("unknown-members", "Unknown members are passed over.", document(note={"a": 1}), first)


def documents_refused(add):
    no = partial(refused_document, add)
    good, listed = document(), document()["keys"]
    changed = lambda at, **changes: good | {"keys": [one | changes if n == at else one for n, one in enumerate(listed)]}
    no("issued-changed", "When it was issued was changed after it was signed.", "signature_invalid", good | {"issued_ms": good["issued_ms"] + 1})
    no("expires-changed", "Its end was changed after it was signed.", "signature_invalid", good | {"expires_ms": good["expires_ms"] + 1})
    no("key-missing", "A key was taken out.", "signature_invalid", good | {"keys": listed[:3]})
    no("keys-swapped", "Two keys changed places, so that another would be used.", "signature_invalid", good | {"keys": listed[::-1]})
    no("key-replaced", "A key was replaced by another.", "signature_invalid", changed(2, config=b64(NEXT.config)))
    for member in ("not_before_ms", "use_until_ms", "not_after_ms"):
        no(f"{member.replace('_', '-')}-changed", "A time was changed.", "signature_invalid", changed(0, **{member: listed[0][member] + 1}))
    message = one_shot.document_message(good["issued_ms"], good["expires_ms"],
                                        [(one.config, one.not_before_ms, one.use_until_ms, one.not_after_ms) for one in KEYS])
    no("label-of-wire-3", "Signed with the label of a key set.", "signature_invalid",
       document(signed=b"sealway/3 keys" + message[len(b"sealway/4 keys"):]))
    no("other-root", "Another root signed.", "key_untrusted", document(root=OTHER_ROOT))
    no("no-root", "A document without a root proves nothing by itself.", "key_untrusted", document(root_key_id=None, root_signature=None))
    no("no-signature", "The root's name without its signature.", "field_invalid", document(root_signature=None))
    no("no-root-id", "A root's signature without its name.", "field_invalid", document(root_key_id=None))
    no("expired", "The document's time is over.", "key_untrusted", good, good["expires_ms"])
    no("rolled-back", "An earlier document than the one that was taken before.", "key_untrusted", good, taken=good["issued_ms"] + 1)
    no("key-twice", "One key stands twice.", "field_invalid", document((X25519, X25519)))
    many = tuple(replace(X25519, key_id=number) for number in range(17))
    no("17-keys", "A key too many.", "field_invalid", document(many))
    no("times-backwards", "A key that is used longer than it is accepted.", "field_invalid",
       document((replace(X25519, use_until_ms=X25519.not_after_ms + 1),)))
    for name, config in {"two-suites": X25519.config[:-6] + bytes.fromhex("000800010002") + bytes.fromhex("00010001"),
                         "other-aead": X25519.config[:-1] + b"\1", "other-kdf": X25519.config[:-3] + b"\3" + X25519.config[-2:],
                         "short": X25519.config[:3] + X25519.config[4:], "byte-behind": X25519.config + b"\0",
                         "no-suites": X25519.config[:-6] + b"\0\0", "unknown-kem-no-suite": b"\1\0\x42" + bytes(40)}.items():
        no(f"config-{name}", "A key configuration of another form.", "field_invalid", document((Listed(config),)))
    for name in ("issued_ms", "expires_ms", "keys"):
        no(f"{name.replace('_', '-')}-missing", f"{name} is not there.", "field_invalid", {k: v for k, v in good.items() if k != name})
    for name in ("config", "not_before_ms", "use_until_ms", "not_after_ms"):
        no(f"key-{name.replace('_', '-')}-missing", f"A key without {name}.", "field_invalid", changed(0, **{name: None}))


def psks(add):
    for name, psk_id in {"usual": PSK_ID, "one-byte": "a", "64-bytes": "!" + "~" * 63}.items():
        add("psk4", f"psk4-{name}", "A PSK that a server derives from its master.", {
            "master_hex": MASTER.hex(), "psk_id": psk_id, "psk_hex": one_shot.psk_of(MASTER, psk_id).hex()})


def problem(code: str, status: int) -> dict:
    body = {"type": f"urn:sealway:problem:{code}", "title": "A sentence.", "status": status, "code": code}
    return body | ({"server_time_ms": NOW + DAY} if code == "clock_skew" else {})


def problems(add):
    def one(name, comment, body, is_sealed, resends):
        for method, elapsed_ms, again in resends:
            assert one_shot.sends_again(body, is_sealed, method, POST.stamp, elapsed_ms) is again, (name, method, elapsed_ms)
        add("problem4", f"problem4-{name}", comment, {
            "stamp": POST.stamp, "status": body["status"], "body": json.dumps(body), "sealed": is_sealed,
            "resends": [{"method": method, "elapsed_ms": elapsed_ms, "again": again} for method, elapsed_ms, again in resends]})

    methods = ("GET", "HEAD", "POST", "PUT", "DELETE")
    if_safe = [(method, 0, method in checks3.SAFE_METHODS) for method in methods]
    never = [(method, 0, False) for method in methods]
    skew = problem("clock_skew", 400)
    one("clock-skew", "The stamp was too old for every server before the request was sent, unless that took long.", skew, True,
        [*((method, 0, True) for method in methods), ("POST", 85_799_999, True), ("POST", 85_800_000, False), ("GET", 86_400_001, True)])
    for name, at in (("perhaps-old", NOW + 600_000), ("early", NOW - DAY)):
        one(f"clock-skew-{name}", "Some server may still serve it, or will.", skew | {"server_time_ms": at}, True, if_safe)
    one("clock-skew-unsealed", "Anybody on the path can write it.", skew, False, never)
    one("key-retired", "Anybody on the path can write it: a safe method alone is sent again.", problem("key_retired", 409), False, if_safe)
    one("key-retired-sealed", "No server that lacks the key can seal it.", problem("key_retired", 409), True, never)
    for code, status in (("replayed", 409), ("policy", 403), ("store_unavailable", 503), ("unsealable", 400)):
        one(code.replace("_", "-"), "The outcome is unknown, or certain: nothing is sent again.", problem(code, status), code != "unsealable", never)


def add_all(add):
    for part in (requests, requests_refused, answers, answers_refused, documents, documents_refused, psks, problems):
        part(add)
