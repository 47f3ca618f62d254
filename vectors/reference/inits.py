"""Scenarios of session set-up: what a server accepts and refuses, and what a client does with the answer."""

import json

import session as ref
from session import HEX_NONCE, NOW, UUID, WINDOW, Message, b64, fixed, make_session, public, text_or_hex

CLIENT = "demo-client"
DEFAULT_TTL = {"session": 1800, "v1": 1800, "anonymous": 120}
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
ABSENT = object()


class Init:
    """An init request under construction. Every part may be replaced by something wrong."""

    def __init__(self, family="session", wire=2, **changes):
        self.family, self.wire = family, wire
        self.client_id = CLIENT if wire == 2 else None
        self.stamp, self.nonce, self.now, self.window = str(NOW), UUID, NOW, WINDOW
        self.ttl = ABSENT  # the text of a JSON value
        self.extra = ""
        self.share = None
        self.body = None
        self.authenticated = False
        self.headers = None
        self.__dict__.update(changes)
        self.base = make_session(wire, family, self.client_id)

    def share_text(self):
        return b64(public(self.base.client_scalar)) if self.share is None else self.share

    def body_bytes(self):
        if self.body is not None:
            return self.body
        members = [f'"clientPublicKey":{json.dumps(self.share_text())}']
        if self.wire == 1:
            members.append('"keyAgreement":"ECDH_P256"')
        if self.ttl is not ABSENT:
            members.append(f'"ttlSec":{self.ttl}')
        return ("{" + ",".join(members) + self.extra + "}").encode()

    def header_list(self):
        if self.headers is not None:
            return self.headers
        if self.wire == 1:
            return [["X-Nonce", self.nonce], ["X-Timestamp", self.stamp]]
        return [["X-Idempotency-Key", f"{self.stamp}.{self.nonce}"], ["X-ClientId", self.client_id]]

    def request(self):
        return {
            "family": self.family,
            "headers": self.header_list(),
            "body": text_or_hex(self.body_bytes()),
            "now_ms": self.now,
            "window_ms": self.window,
        }

    def accepted(self, ttl=None):
        if ttl is None:
            ttl = 3600 if self.authenticated else DEFAULT_TTL[self.family]
        s = self.base.with_(ttl=ttl, created=self.now)
        scope = (1, self.client_id) if self.wire == 2 else (2, "")
        return self.request() | {
            "authenticated": self.authenticated,
            "client_scalar_hex": s.client_scalar.hex(),
            "server_scalar_hex": s.server_scalar.hex(),
            "session_id_random_hex": s.random.hex(),
            "shared_secret_hex": s.z.hex(),
            "key_info": s.info,
            "answer": s.answer,
            "session": s.server_view(),
            "claim": ref.claim(*scope, self.stamp, self.nonce, self.now, self.window),
        }


def accepted(add):
    def ok(name, comment, init, ttl=None):
        add("init", name, comment, init.accepted(ttl))

    ok("init-wire2", "A plain init.", Init())
    ok("init-wire2-hex-nonce", "A nonce of 32 hexadecimal digits.", Init(nonce=HEX_NONCE))
    ok("init-wire2-nonce-1", "The shortest nonce.", Init(nonce="7"))
    ok("init-wire2-nonce-128", "The longest nonce.", Init(nonce="aZ09_-" * 21 + "xy"))
    ok("init-wire2-nonce-r", "Only r followed by - is reserved.", Init(nonce="r_0123456789abcdef"))
    for edge, sign in (("past", -1), ("future", 1)):
        for wire in (1, 2):
            ok(f"init-wire{wire}-{edge}-edge", "Exactly at the edge of the window.",
               Init(wire=wire, stamp=str(NOW + sign * WINDOW)))
    ok("init-wire2-narrow-window", "A window of one second, at its edge.", Init(window=1000, stamp=str(NOW - 1000)))
    ok("init-wire2-header-case", "Header names have no case.",
       Init(headers=[["x-IDEMPOTENCY-key", f"{NOW}.{UUID}"], ["X-CLIENTID", CLIENT]]))
    ok("init-wire2-both-kinds-of-header", "X-Nonce beside X-Idempotency-Key is still wire 2.",
       Init(headers=[["X-Nonce", HEX_NONCE], ["X-Timestamp", "1"], *Init().header_list()]))
    for name, client_id in {"1": "c", "256": "c" * 256, "punctuated": "App (iOS 17)/2.1, build=7; {x}~"}.items():
        ok(f"init-wire2-client-id-{name}", "A client id at the limits of what is allowed.", Init(client_id=client_id))
    ok("init-wire2-unknown-members", "Members that nobody knows are passed over.",
       Init(extra=',"device":{"os":["a",1,null]},"":true'))
    ok("init-wire2-duplicate-ttl", "Of a repeated member the last one counts.", Init(ttl="400", extra=',"ttlSec":500'), 500)
    ok("init-wire2-duplicate-key", "Of a repeated member the last one counts.",
       Init(body=b'{"clientPublicKey":"nonsense",' + Init().body_bytes()[1:]))
    ok("init-wire2-white-space", "JSON may have white space anywhere.",
       Init(body=b" \r\n\t" + Init().body_bytes().replace(b":", b" :\n ") + b"\n"))
    ok("init-wire2-escaped-name", "A member's name may be written with escapes.",
       Init(body=Init().body_bytes().replace(b"clientPublicKey", b"client\\u0050ublicKey")))
    ok("init-wire2-nesting-100", "Deep, but not too deep.", Init(extra=',"x":' + "[" * 100 + "]" * 100))
    ok("init-wire2-nesting-127", "As deep as it may be: the outer object is one level of 127.",
       Init(extra=',"x":' + "[" * 126 + "]" * 126))
    strict = {"absent": (ABSENT, 1800), "null": ("null", 1800), "0": ("0", 300), "1": ("1", 300), "299": ("299", 300),
              "300": ("300", 300), "1234": ("1234", 1234), "3600": ("3600", 3600), "3601": ("3601", 3600),
              "1800.0": ("1800.0", 1800), "1e3": ("1e3", 1000), "1E+3": ("1E+3", 1000), "12000e-1": ("12000e-1", 1200),
              "1e300": ("1e300", 3600), "4294967596": ("4294967596", 3600),
              "18446744073709551916": ("18446744073709551916", 3600)}
    for name, (ttl, seconds) in strict.items():
        ok(f"init-wire2-ttl-{name}", "An integer value, however written, is clamped to 300 to 3600.", Init(ttl=ttl), seconds)
    lax = strict | {"-1": ("-1", 300), "1.5": ("1.5", 300), "1800.9": ("1800.9", 1800), "text-1800": ('"1800"', 1800),
                    "text-spaced": ('" 1700 "', 1700), "text-1e3": ('"1e3"', 1000), "text--5": ('"-5"', 300),
                    "text-empty": ('""', 1800), "text-word": ('"abc"', 1800), "text-unit": ('"1700s"', 1800),
                    "text-inf": ('"inf"', 1800), "text-Infinity": ('"Infinity"', 1800), "text-nan": ('"NaN"', 1800),
                    "text-1e400": ('"1e400"', 1800),
                    "true": ("true", 1800), "array": ("[]", 1800), "array-of-one": ("[600]", 1800), "object": ("{}", 1800)}
    for name, (ttl, seconds) in lax.items():
        ok(f"init-wire1-ttl-{name}", "Wire 1 reads ttlSec laxly.", Init(wire=1, ttl=ttl), seconds)
    ok("init-wire1", "A plain init of wire 1.", Init(wire=1))
    ok("init-wire1-nonce-1", "The shortest nonce.", Init(wire=1, nonce="7"))
    ok("init-wire1-client-id-ignored", "Wire 1 has no client id; the header means nothing.",
       Init(wire=1, headers=[*Init(wire=1).header_list(), ["X-ClientId", "a|b"]]))
    ok("init-anonymous", "An anonymous session.", Init("anonymous", 1))
    ok("init-anonymous-ttl-ignored", "An anonymous client cannot choose its ttl.", Init("anonymous", 1, ttl="3600"))
    ok("init-v1", "The other family, without a token.", Init("v1"))
    ok("init-v1-authenticated", "The other family, with an accepted token.", Init("v1", authenticated=True))
    ok("init-v1-nonce-16", "The shortest nonce there.", Init("v1", nonce="0123456789abcdef"))
    for name, ttl in {"number": "60", "text": '"abc"', "negative": "-1"}.items():
        ok(f"init-v1-ttl-{name}", "/v1 never looks at ttlSec.", Init("v1", ttl=ttl))


def public_keys():
    scalar = make_session(2, "session", CLIENT).client_scalar
    raw = public(scalar)
    good = b64(raw)
    x, y = raw[1:33], raw[33:]
    off_curve = raw[:-1] + bytes([raw[-1] ^ 1])
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    stray = good[:-2] + alphabet[alphabet.index(good[-2]) + 1] + "="
    assert good.endswith("=") and ("+" in good or "/" in good)
    parity = 2 + (y[-1] & 1)
    return {
        "spki": b64(public(scalar, "spki")),
        "compressed": b64(public(scalar, "compressed")),
        "hybrid": b64(bytes([4 + parity]) + x + y),
        "infinity": b64(b"\0"),
        "infinity-padded": b64(b"\0" * 65),
        "zero-point": b64(b"\4" + b"\0" * 64),
        "off-curve": b64(off_curve),
        "x-is-p": b64(b"\4" + P.to_bytes(32, "big") + y),
        "coordinates-not-reduced": b64(b"\4" + b"\xff" * 64),
        "no-prefix": b64(x + y),
        "wrong-prefix": b64(b"\5" + x + y),
        "64-bytes": b64(raw[:-1]),
        "66-bytes": b64(raw + b"\0"),
        "jwk-like": "x." + b64(x),
        "unpadded": good.rstrip("="),
        "padded-twice": good + "=",
        "url-safe": good.replace("+", "-").replace("/", "_"),
        "stray-bits": stray,
        "inner-space": good[:40] + " " + good[40:],
        "line-end": good + "\n",
        "leading-space": " " + good,
        "hex": raw.hex(),
        "not-ascii": good[:-2] + "é=",
    }


JSON_FAULTS = {
    "empty": (b"", "json_invalid"),
    "white-space": (b"  \n", "json_invalid"),
    "cut": (b'{"clientPublicKey":"', "json_invalid"),
    "trailing-comma": (b'{"clientPublicKey":"AA==",}', "json_invalid"),
    "trailing-text": (b"{} x", "json_invalid"),
    "single-quotes": (b"{'clientPublicKey':'AA=='}", "json_invalid"),
    "comment": (b"{/* */}", "json_invalid"),
    "byte-order-mark": (b"\xef\xbb\xbf{}", "json_invalid"),
    "not-utf8": (b'{"a":"\xff"}', "json_invalid"),
    "raw-control": (b'{"a":"\x01"}', "json_invalid"),
    "leading-zero": (b'{"a":01}', "json_invalid"),
    "nan": (b'{"a":NaN}', "json_invalid"),
    "nesting-128": (b"[" * 128 + b"]" * 128, "json_invalid"),
    "nesting-200": (b"[" * 200 + b"]" * 200, "json_invalid"),
    "array": (b"[]", "field_invalid"),
    "string": (b'"text"', "field_invalid"),
    "number": (b"7", "field_invalid"),
    "null": (b"null", "field_invalid"),
    "no-members": (b"{}", "field_invalid"),
}


# Clients read with what their platform has; the spec asks them for no more.
SERVERS_ONLY = {"byte-order-mark", "not-utf8", "nan", "nesting-128", "nesting-200"}


def refused(add):
    def no(name, comment, code, init):
        add("init-refused", name, comment, init.request() | {"code": code})

    def without(init, name):
        return [h for h in init.header_list() if h[0] != name]

    def swap(init, name, value):
        return [[n, value if n == name else v] for n, v in init.header_list()]

    families = {"wire2": ("session", 2), "v1": ("v1", 2), "wire1": ("session", 1), "anonymous": ("anonymous", 1)}
    for label, (family, wire) in families.items():
        def make(**changes):
            return Init(family, wire, **changes)

        base = make()
        for header, _ in base.header_list():
            slug = header.lower()
            # On /session/init without X-Nonce nothing says wire 1, and what wire 2 needs is missing just the same.
            no(f"init-{label}-{slug}-missing", f"{header} is not there.", "header_missing",
               make(headers=without(base, header)))
            no(f"init-{label}-{slug}-empty", f"{header} is empty.", "header_missing", make(headers=swap(base, header, "")))
            code = "idempotency_key_shape" if header == "X-Idempotency-Key" else "header_invalid"
            twice = [*base.header_list(), [header, dict(base.header_list())[header]]]
            no(f"init-{label}-{slug}-repeated", f"{header} is there twice, even with one value.", code, make(headers=twice))
            no(f"init-{label}-{slug}-not-ascii", f"{header} holds bytes beyond ASCII.", code,
               make(headers=swap(base, header, dict(base.header_list())[header] + "é")))
        if wire == 2:
            for name, value in {"pipe": "a|b", "257": "c" * 257, "tab": "a\tb"}.items():
                no(f"init-{label}-client-id-{name}", "A malformed client id.", "header_invalid", make(client_id=value))
            for name, value in {"no-dot": f"{NOW}", "two-dots": f"{NOW}.{UUID}.", "three-parts": f"{NOW}.{UUID}.x",
                                "no-stamp": f".{UUID}", "no-nonce": f"{NOW}.", "dot": "."}.items():
                no(f"init-{label}-key-{name}", "X-Idempotency-Key needs two parts and one dot.",
                   "idempotency_key_shape", make(headers=swap(base, "X-Idempotency-Key", value)))
        else:
            agreement = {"absent": None, "wrong": '"ECDH_P384"', "lower-case": '"ecdh_p256"', "null": "null", "number": "1"}
            for name, value in agreement.items():
                member = f',"keyAgreement":{value}' if value else ""
                body = f'{{"clientPublicKey":"{base.share_text()}"{member}}}'.encode()
                no(f"init-{label}-key-agreement-{name}", "keyAgreement must be ECDH_P256.", "field_invalid", make(body=body))
        for name, value in {"129": "n" * 129, "plus": "abc+0123456789abcdef", "slash": "abc/0123456789abcdef",
                            "equals": "0123456789abcdef=", "space": "0123456789 abcdef", "colon": "0123456789:abcdef",
                            "pipe": "0123456789|abcdef"}.items():
            no(f"init-{label}-nonce-{name}", "A nonce of a wrong length or alphabet.", "nonce_invalid", make(nonce=value))
        for name, value in {"lower": "r-" + HEX_NONCE, "upper": "R-" + HEX_NONCE}.items():
            no(f"init-{label}-nonce-reserved-{name}", "Only answers carry such a nonce.", "nonce_reserved", make(nonce=value))
        for name, value in {"letter": "175000000000a", "sign": f"+{NOW}", "minus": f"-{NOW}", "space": "17500000 00000",
                            "16-digits": "0001750000000000", "hex": "0x19761d5a000", "exponent": "175e10",
                            "seconds-date": "2025-06-15T15:06:40Z"}.items():
            no(f"init-{label}-stamp-{name}", "A stamp is 1 to 15 decimal digits.", "timestamp_invalid", make(stamp=value))
        for name, value in {"past": NOW - WINDOW - 1, "future": NOW + WINDOW + 1, "zero": 0, "far": 999_999_999_999_999,
                            "in-seconds": NOW // 1000}.items():
            no(f"init-{label}-window-{name}", "A stamp outside the window.", "timestamp_outside_window", make(stamp=str(value)))
        for name, (body, code) in JSON_FAULTS.items():
            no(f"init-{label}-json-{name}", "A body that is not the JSON object it should be.", code, make(body=body))
        for name, value in {"null": "null", "number": "5", "array": "[]", "empty": '""'}.items():
            body = make(extra=f',"clientPublicKey":{value}').body_bytes()
            no(f"init-{label}-share-{name}", "clientPublicKey is no string, or an empty one.", "field_invalid", make(body=body))
    for name, value in public_keys().items():
        no(f"init-wire2-point-{name}", "Not the one form of public key that the wires know.", "public_key_invalid",
           Init(share=value))
    no("init-wire1-point-off-curve", "Wire 1 checks the point as well.", "public_key_invalid",
       Init(wire=1, share=public_keys()["off-curve"]))
    no("init-v1-point-off-curve", "/v1 checks the point as well.", "public_key_invalid",
       Init("v1", share=public_keys()["off-curve"]))
    no("init-v1-nonce-15", "One character too short on /v1.", "nonce_invalid", Init("v1", nonce="0123456789abcde"))
    for name, value in {"-1": "-1", "-1.0": "-1.0", "-0.5": "-0.5", "1.5": "1.5", "text": '"1800"', "true": "true",
                        "false": "false", "array": "[]", "object": "{}"}.items():
        no(f"init-wire2-ttl-{name}", "ttlSec is no integer of at least 0.", "field_invalid", Init(ttl=value))
    for wire in (1, 2):
        no(f"init-wire{wire}-ttl-1e400", "A number beyond every double is no JSON here.", "json_invalid",
           Init(wire=wire, ttl="1e400"))
    order(no)


def order(no):
    """Two faults each, to show which one is told: the only scenarios with more than one."""
    stale = f"{NOW - WINDOW - 1}.{UUID}"
    steps = [
        ("json-before-key", "json_invalid", dict(body=b"{", headers=[])),
        ("key-before-client", "header_missing", dict(headers=[["X-ClientId", "a|b"]])),
        ("client-before-share", "header_invalid", dict(body=b"{}", client_id="a|b")),
        ("share-before-shape", "field_invalid", dict(body=b"{}", headers=[["X-Idempotency-Key", "x"], ["X-ClientId", CLIENT]])),
        ("shape-before-nonce", "idempotency_key_shape", dict(headers=[["X-Idempotency-Key", "x.y.z"], ["X-ClientId", CLIENT]])),
        ("nonce-before-stamp", "nonce_invalid", dict(nonce="short", stamp="x")),
        ("stamp-before-point", "timestamp_invalid", dict(stamp="x", share="AA==")),
        ("window-before-point", "timestamp_outside_window",
         dict(share="AA==", headers=[["X-Idempotency-Key", stale], ["X-ClientId", CLIENT]])),
    ]
    for name, code, changes in steps:
        no(f"init-v1-order-{name}", "Two faults, to show the order of checks.", code, Init("v1", **changes))


def client_sessions():
    return {
        "wire2": make_session(2, "session", CLIENT),
        "v1": make_session(2, "v1", CLIENT),
        "wire1": make_session(1, "session", None),
        "anonymous": make_session(1, "anonymous", None),
    }


def client_init(s, ttl=None, answer=None):
    nonce = fixed("client nonce", 16)
    init = Init(s.family, s.wire, nonce=nonce.hex(), ttl=ABSENT if ttl is None else str(ttl))
    probe = Message(s, b'{"probe":true}')
    return {
        "wire": s.wire,
        "anonymous": s.anonymous,
        "client_id": s.client_id,
        "ttl_sec": ttl,
        "scalar_hex": s.client_scalar.hex(),
        "nonce_random_hex": nonce.hex(),
        "sent_ms": NOW,
        "request": {"headers": init.header_list(), "body": text_or_hex(init.body_bytes())},
        "answer": text_or_hex((answer or s.answer).encode()),
        "received_ms": NOW + 250,
        "session_id": s.id,
        "expires_ms": NOW + 250 + s.ttl * 1000,
        "key_hex": s.key.hex(),
        "probe": {
            "path": probe.path, "stamp": probe.stamp, "nonce": probe.nonce, "iv_hex": probe.iv.hex(),
            "plaintext": text_or_hex(probe.plaintext), "sealed": probe.wire_form(),
        },
    }


def clients(add):
    for label, s in client_sessions().items():
        add("client-init", f"client-init-{label}", "A client's init and the session it gives.", client_init(s))
    s = client_sessions()["wire2"]
    add("client-init", "client-init-wire2-ttl", "A client that names its ttl.", client_init(s.with_(ttl=600), 600))
    add("client-init", "client-init-wire1-ttl", "A client that names its ttl.",
        client_init(client_sessions()["wire1"].with_(ttl=600), 600))
    extra = s.answer.replace("{", '{"serverTime":1,')
    add("client-init", "client-init-extra-member", "A client passes over members it does not know.", client_init(s, answer=extra))

    def no(name, comment, code, answer, s=s):
        add("client-init-refused", f"client-init-{name}", comment, {
            "wire": s.wire, "anonymous": s.anonymous, "client_id": s.client_id, "scalar_hex": s.client_scalar.hex(),
            "answer": text_or_hex(answer if isinstance(answer, bytes) else answer.encode()), "code": code})

    for name, (body, code) in JSON_FAULTS.items():
        if name in SERVERS_ONLY:
            continue
        no(f"json-{name}", "An answer that is not the JSON object it should be.", code, body)
    good = json.loads(s.answer)
    for member in good:
        no(f"{member.lower()}-missing", f"{member} is not there.", "field_invalid",
           json.dumps({k: v for k, v in good.items() if k != member}))
        no(f"{member.lower()}-type", f"{member} is of a wrong type.", "field_invalid", json.dumps(good | {member: [1]}))
    for name, value in {"upper-hex": "S-" + "AB" * 16, "short": good["sessionId"][:-1], "long": good["sessionId"] + "0",
                        "prefix": "X-" + good["sessionId"][2:], "kid": s.kid, "empty": ""}.items():
        no(f"session-id-{name}", "Not a session id.", "field_invalid", json.dumps(good | {"sessionId": value}))
    for name, value in {"unknown": "A128GCM", "upper": "AES-256-GCM", "empty": ""}.items():
        no(f"enc-alg-{name}", "Neither of the two names of the algorithm.", "field_invalid", json.dumps(good | {"encAlg": value}))
    for name, value in {"negative": -1, "fraction": 1.5, "2-32": 2**32, "text": "1800"}.items():
        no(f"expires-{name}", "Not a whole number of seconds.", "field_invalid", json.dumps(good | {"expiresInSec": value}))
    for name, value in public_keys().items():
        no(f"point-{name}", "Not the one form of public key that the wires know.", "public_key_invalid",
           json.dumps(good | {"serverPublicKey": value}, ensure_ascii=False))


def add_all(add):
    accepted(add)
    refused(add)
    clients(add)
