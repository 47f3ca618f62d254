"""Scenarios of sealed calls: requests and answers, as they should be and with one fault each."""

import session as ref
from session import HEX_NONCE, NOW, UUID, WINDOW, Message, b64, fixed, make_session, text_or_hex

CLIENT = "demo-client"
PURCHASE = b'{"schemeCode":"GOLD01","amount":1500.5}'
SUCCESS = b'{"status":"SUCCESS","transactionId":"TXN-00112233445566AA"}'
PLAIN = {"json": PURCHASE, "empty": b"", "all-bytes": bytes(range(256)), "1000": fixed("long plaintext", 1000)}
SESSIONS = {
    "wire2": make_session(2, "session", CLIENT),
    "v1": make_session(2, "v1", CLIENT),
    "wire1": make_session(1, "session", None),
    "anonymous": make_session(1, "anonymous", None),
}
R_NONCE = "r-" + HEX_NONCE


def sealed_part(m):
    return {"path": m.path, "stamp": m.stamp, "nonce": m.nonce, "iv_hex": m.iv.hex(),
            "plaintext": text_or_hex(m.plaintext), "aad": m.true_aad, "sealed": m.wire_form()}


def both_sides(s):
    return {"session": s.server_view(), "client": s.client_view()}


def requests(add):
    def ok(name, comment, m, now=NOW):
        add("request", name, comment, both_sides(m.session) | {
            "now_ms": now, "window_ms": WINDOW, "request": sealed_part(m),
            "claim": ref.claim(3, m.session.id, m.stamp, m.nonce, now)})

    for label, s in SESSIONS.items():
        for name, plaintext in PLAIN.items():
            ok(f"request-{label}-{name}", "Seals to these bytes, and these bytes open.", Message(s, plaintext))
        base = Message(s, PURCHASE)
        for name, nonce in {"hex": HEX_NONCE, "1": "7", "128": "aZ09_-" * 21 + "xy", "dash": "-r-", "r": "r"}.items():
            ok(f"request-{label}-nonce-{name}", "A nonce at the limits of what is allowed.", base.with_(nonce=nonce))
        for name, offset in {"past": -WINDOW, "future": WINDOW}.items():
            ok(f"request-{label}-{name}-edge", "Exactly at the edge of the window.", base.with_(stamp=str(NOW + offset)))
        ok(f"request-{label}-stamp-zeros", "The AAD holds the stamp as sent, zeros and all.", base.with_(stamp=f"00{NOW}"))
        ok(f"request-{label}-last-millisecond", "A session is good until the millisecond before its end.",
           base.with_(stamp=str(s.expires - 1)), s.expires - 1)
    for name, path in {"root": "/", "escaped": "/a%20b/%C3%A9", "pipe": "/a|b", "8192": "/" + "p" * 8191}.items():
        ok(f"request-wire1-path-{name}", "Wire 1 authenticates the path as sent.", Message(SESSIONS["wire1"], PURCHASE, path=path))
    for name, client in {"1": "c", "256": "c" * 256, "punctuated": "App (iOS 17)/2.1, build=7; {x}~"}.items():
        ok(f"request-wire2-client-id-{name}", "A client id at the limits of what is allowed.",
           Message(make_session(2, "session", client), PURCHASE))


def answers(add):
    def ok(name, comment, m, received=None, request=None):
        question = request or Message(m.session, PURCHASE, path=m.path)
        add("answer", name, comment, both_sides(m.session) | {
            "now_ms": NOW, "window_ms": WINDOW, "request": sealed_part(question),
            "answer": {"status": m.status, "stamp_ms": int(m.stamp), "nonce_random_hex": HEX_NONCE, **sealed_part(m)},
            "received_ms": NOW if received is None else received})

    for label, s in SESSIONS.items():
        base = Message(s, SUCCESS, answer=True, nonce=R_NONCE, iv=fixed("answer iv", 12), stamp=str(NOW + 20))
        for name, plaintext in PLAIN.items():
            ok(f"answer-{label}-{name}", "Seals to these bytes, and these bytes open.", base.with_(plaintext=plaintext))
        for status in (201, 404, 500):
            what = "the AAD begins with it" if s.wire == 1 else "nothing binds it"
            ok(f"answer-{label}-status-{status}", f"Sent with another status: {what}.", base.with_(status=status))
        for name, offset in {"early": WINDOW, "late": -WINDOW}.items():
            ok(f"answer-{label}-clock-{name}", "The client's clock is off by the whole window.", base, NOW + 20 + offset)
        ok(f"answer-{label}-path", "Another path.", base.with_(path="/other/path"))


def flip(data, index):
    changed = bytearray(data)
    changed[index] ^= 1
    return bytes(changed)


def replace_header(headers, name, value):
    return [[n, value if n == name else v] for n, v in headers]


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def stray_bits(text):
    """Sets a bit that decodes to nothing. Without padding there is none."""
    bare = text.rstrip("=")
    return text if bare == text else bare[:-1] + ALPHABET[ALPHABET.index(bare[-1]) + 1] + text[len(bare):]


BASE64_FAULTS = {
    "unpadded": lambda t: t.rstrip("="),
    "padded-twice": lambda t: t + "=",
    "url-safe": lambda t: "-_" + t[2:],
    "stray-bits": stray_bits,
    "inner-space": lambda t: t[:4] + " " + t[4:],
    "line-end": lambda t: t + "\r\n",
}


def header_faults(base, no):
    """What every header of a message may suffer. `no` takes name, comment, code, headers."""
    headers = base.headers()
    for name, value in headers:
        slug = name.lower()
        # On a request without X-Nonce nothing says wire 1, and what wire 2 needs is missing just the same.
        no(f"{slug}-missing", f"{name} is not there.", "header_missing", [h for h in headers if h[0] != name])
        no(f"{slug}-empty", f"{name} is empty.", "header_missing", replace_header(headers, name, ""))
        no(f"{slug}-repeated", f"{name} is there twice, even with one value.", "header_invalid", [*headers, [name, value]])
        no(f"{slug}-not-ascii", f"{name} holds bytes beyond ASCII.", "header_invalid",
           replace_header(headers, name, value + "é"))
    if base.session.wire == 1:
        for name, value in {"other": "aes-256-gcm", "lower": "a256gcm", "a128": "A128GCM"}.items():
            no(f"enc-alg-{name}", "Wire 1 knows one algorithm, by one name.", "header_invalid",
               replace_header(headers, "X-Enc-Alg", value))
        for name, length in (("X-IV", 11), ("X-IV", 13), ("X-IV", 16), ("X-Tag", 15), ("X-Tag", 12), ("X-Tag", 17)):
            no(f"{name.lower()}-{length}", f"{name} of a wrong length.", "header_invalid",
               replace_header(headers, name, b64(fixed("wrong length", length))))
        for header in ("X-Tag", "X-AAD"):
            value = dict(headers)[header]
            for name, spoil in BASE64_FAULTS.items():
                spoiled = spoil(value)
                # No HTTP message can carry a line end in a header.
                if spoiled != value and "\n" not in spoiled:
                    no(f"{header.lower()}-{name}", f"{header} in another base64.", "header_invalid",
                       replace_header(headers, header, spoiled))
    else:
        stamp, nonce = base.stamp, base.nonce
        for name, value in {"no-dot": stamp, "two-dots": f"{stamp}.{nonce}.", "three-parts": f"{stamp}.{nonce}.x",
                            "no-stamp": f".{nonce}", "no-nonce": f"{stamp}.", "dot": "."}.items():
            no(f"key-{name}", "X-Idempotency-Key needs two parts and one dot.", "idempotency_key_shape",
               replace_header(headers, "X-Idempotency-Key", value))


def cipher_faults(base, no):
    """What the sealed bytes and their context may suffer. `no` takes name, comment, code, headers, body."""
    headers, body, s = base.headers(), base.body(), base.session
    if s.wire == 2:
        length = len(body)
        for name, at in {"iv-first": 0, "iv-last": 11, "ciphertext-first": 12, "ciphertext-last": length - 17,
                         "tag-first": length - 16, "tag-last": length - 1}.items():
            no(f"flip-{name}", "One bit of the body is another.", "unsealable", headers, flip(body, at))
        for length in (0, 1, 12, 27):
            no(f"body-{length}", "Shorter than an empty message.", "body_too_short", headers, body[:length])
        no("body-28-cut", "Long enough, and cut.", "unsealable", headers, body[:28])
        no("body-longer", "A byte too many.", "unsealable", headers, body + b"\0")
        no("body-base64", "Wire 2 has no base64.", "unsealable", headers, b64(body).encode())
        lies = {
            "stamp": ref.aad2(str(int(base.stamp) + 1), base.nonce, s.kid, s.client_id),
            "nonce": ref.aad2(base.stamp, base.nonce[:-1] + "0", s.kid, s.client_id),
            "kid": ref.aad2(base.stamp, base.nonce, "session:S-" + "0" * 32, s.client_id),
            "bare-kid": ref.aad2(base.stamp, base.nonce, s.id, s.client_id),
            "client-id": ref.aad2(base.stamp, base.nonce, s.kid, "other-client"),
            "client-id-case": ref.aad2(base.stamp, base.nonce, s.kid, s.client_id.upper()),
            "order": ref.aad2(base.nonce, base.stamp, s.kid, s.client_id),
            "separator": base.true_aad.replace("|", "."),
            "trailing": base.true_aad + "|",
            "wire-1": ref.aad1("POST", base.path, base.stamp, base.nonce, s.kid),
        }
    else:
        ciphertext, tag = base.parts()
        for name, at in {"first": 0, "last": -1}.items():
            no(f"flip-iv-{name}", "One bit of the IV is another.", "unsealable",
               replace_header(headers, "X-IV", b64(flip(base.iv, at))), body)
            no(f"flip-tag-{name}", "One bit of the tag is another.", "unsealable",
               replace_header(headers, "X-Tag", b64(flip(tag, at))), body)
            no(f"flip-ciphertext-{name}", "One bit of the ciphertext is another.", "unsealable", headers,
               b64(flip(ciphertext, at)).encode())
        no("body-cut", "A ciphertext that is too short.", "unsealable", headers, b64(ciphertext[:-1]).encode())
        no("body-empty", "No ciphertext where there was one.", "unsealable", headers, b"")
        padded = base.with_(plaintext=base.plaintext + b" " * ((1 - len(base.plaintext)) % 3))
        for name, spoil in BASE64_FAULTS.items():
            good = padded.body().decode()
            assert spoil(good) != good
            no(f"body-{name}", "A body in another base64.", "base64_invalid", padded.headers(), spoil(good).encode())
        no("body-raw", "A body that is no base64.", "base64_invalid", headers, ciphertext)
        lies = {
            "subject": base.true_aad.replace("POST|", "GET|").replace("200|", "201|"),
            "path": base.true_aad.replace("purchase", "refund"),
            "stamp": base.true_aad.replace(base.stamp, str(int(base.stamp) + 1)),
            "nonce": base.true_aad.replace(base.nonce, base.nonce[:-1] + "0"),
            "kid": base.true_aad.replace(s.id, "S-" + "0" * 32),
            "query": base.true_aad.replace("purchase|", "purchase?x=1|"),
        }
        for name, lie in lies.items():
            no(f"x-aad-{name}", "X-AAD, and what was sealed, is not what the message itself gives.", "aad_mismatch",
               base.with_(aad=lie).headers(), base.with_(aad=lie).body())
    for name, lie in lies.items():
        assert lie != base.true_aad, name
        liar = base.with_(aad=lie, sent_aad=base.true_aad)
        no(f"aad-{name}", "Sealed under another AAD than the message itself gives.", "unsealable", liar.headers(), liar.body())
    for name, key in {"zero": bytes(32), "other": fixed("another key")}.items():
        liar = base.with_(key=key)
        no(f"key-{name}", "Sealed with another key.", "unsealable", liar.headers(), liar.body())


def requests_refused(add):
    for label, s in SESSIONS.items():
        base = Message(s, PURCHASE)

        def no(name, comment, code, headers=None, body=None, m=base, now=NOW, session=s, path=None, prefix=label):
            add("request-refused", f"request-{prefix}-{name}", comment, {
                "session": session.server_view(), "path": path or m.path, "now_ms": now, "window_ms": WINDOW,
                "headers": m.headers() if headers is None else headers,
                "body": text_or_hex(m.body() if body is None else body), "code": code})

        header_faults(base, no)
        cipher_faults(base, no)
        for name, value in {"129": "n" * 129, "plus": "abc+def", "slash": "abc/def", "equals": "abc=", "space": "a b",
                            "colon": "a:b"}.items():
            no(f"nonce-{name}", "A nonce of a wrong length or alphabet.", "nonce_invalid", m=base.with_(nonce=value))
        for name, value in {"lower": R_NONCE, "upper": "R-" + HEX_NONCE, "bare": "r-"}.items():
            no(f"nonce-reserved-{name}", "Only answers carry such a nonce.", "nonce_reserved", m=base.with_(nonce=value))
        answer = Message(s, SUCCESS, answer=True, nonce=R_NONCE)
        extra = [["X-ClientId", s.client_id]] if s.wire == 2 else []
        no("reflected-answer", "An answer sent back as a request.", "nonce_reserved", answer.headers() + extra, answer.body())
        for name, value in {"letter": "175000000000a", "sign": f"+{NOW}", "minus": f"-{NOW}", "space": "17500000 00000",
                            "16-digits": "0001750000000000", "hex": "0x19761d5a000", "exponent": "175e10"}.items():
            headers = (replace_header(base.headers(), "X-Idempotency-Key", f"{value}.{UUID}") if s.wire == 2
                       else replace_header(base.headers(), "X-Timestamp", value))
            no(f"stamp-{name}", "A stamp is 1 to 15 decimal digits.", "timestamp_invalid", headers)
        for name, value in {"past": NOW - WINDOW - 1, "future": NOW + WINDOW + 1, "zero": 0, "far": 999_999_999_999_999}.items():
            no(f"window-{name}", "A stamp outside the window.", "timestamp_outside_window", m=base.with_(stamp=str(value)))
        kids = {"none": s.id, "case": "Session:" + s.id, "other": "sess:" + s.id, "space": "session: " + s.id}
        for name, value in kids.items():
            code = "session_unknown" if name == "space" else "kid_prefix"
            no(f"kid-prefix-{name}", "X-Kid begins with session:.", code, replace_header(base.headers(), "X-Kid", value))
        head, digits = s.id[:2], s.id[2:]
        for name, value in {"upper": head + "AB" * 16, "short": s.id[:-1], "long": s.id + "0", "head": "X-" + digits,
                            "lower-head": head.lower() + digits, "not-hex": head + "g" * 32, "empty": "",
                            "uuid": head + UUID, "another": head + "0" * 32,
                            "other-head": ("S-" if s.anonymous else "A-") + digits}.items():
            no(f"kid-{name}", "X-Kid names no session that the server has.", "session_unknown",
               replace_header(base.headers(), "X-Kid", "session:" + value))
        for name, after in {"now": 0, "later": 1, "long-ago": 86_400_000}.items():
            now = s.expires + after
            no(f"expired-{name}", "The session is over.", "session_expired", m=base.with_(stamp=str(now)), now=now)
        if s.wire == 2:
            for name, value in {"other": "other-client", "case": CLIENT.upper(), "prefix": CLIENT[:-1], "longer": CLIENT + "x"}.items():
                no(f"client-{name}", "The session is another client's.", "client_mismatch",
                   replace_header(base.headers(), "X-ClientId", value))
            for name, value in {"pipe": "a|b", "257": "c" * 257, "tab": "a\tb"}.items():
                no(f"client-id-{name}", "A malformed client id.", "header_invalid",
                   replace_header(base.headers(), "X-ClientId", value))
        else:
            no("other-path", "The request came to another path.", "aad_mismatch", path="/transaction/refund")
            no("path-8193", "A path beyond its bound.", "body_too_large", m=base.with_(path="/" + "p" * 8192))
    for label, other in (("wire2", SESSIONS["wire1"]), ("wire1", SESSIONS["wire2"])):
        s = SESSIONS[label]
        # The same id and key on both wires, so that the wire alone is the fault.
        view = s.server_view() | {"wire": other.wire, "client_id": other.client_id}
        m = Message(s, PURCHASE)
        add("request-refused", f"request-{label}-on-other-wire", "The session was agreed on another wire.", {
            "session": view, "path": m.path, "now_ms": NOW, "window_ms": WINDOW, "headers": m.headers(),
            "body": text_or_hex(m.body()), "code": "wire_mismatch"})
    order(add)


def order(add):
    """Two faults each, to show which one is told."""
    s = SESSIONS["wire2"]
    base = Message(s, PURCHASE)
    unknown = replace_header(base.headers(), "X-Kid", "session:S-" + "0" * 32)
    stale = base.with_(stamp="1", nonce=R_NONCE)
    steps = {
        "kid-before-key": ("header_missing", [["X-ClientId", "a|b"]], None, NOW),
        "client-id-before-shape": ("header_invalid",
                                   [["X-Kid", s.kid], ["X-Idempotency-Key", "x"], ["X-ClientId", "a|b"]], None, NOW),
        "shape-before-kid": ("idempotency_key_shape",
                             [["X-Kid", "bad"], ["X-Idempotency-Key", "x"], ["X-ClientId", CLIENT]], None, NOW),
        "nonce-before-stamp": ("nonce_reserved", stale.headers(), None, NOW),
        "stamp-before-kid": ("timestamp_outside_window",
                             replace_header(base.with_(stamp="1").headers(), "X-Kid", "bad"), None, NOW),
        "session-before-client": ("session_unknown", replace_header(unknown, "X-ClientId", "other"), None, NOW),
        "expiry-before-client": ("session_expired",
                                 replace_header(base.with_(stamp=str(s.expires)).headers(), "X-ClientId", "other"),
                                 None, s.expires),
        "client-before-length": ("client_mismatch", replace_header(base.headers(), "X-ClientId", "other"), b"", NOW),
    }
    for name, (code, headers, body, now) in steps.items():
        add("request-refused", f"request-wire2-order-{name}", "Two faults, to show the order of checks.", {
            "session": s.server_view(), "path": base.path, "now_ms": now, "window_ms": WINDOW, "headers": headers,
            "body": text_or_hex(base.body() if body is None else body), "code": code})


def answers_refused(add):
    for label, s in SESSIONS.items():
        question = Message(s, PURCHASE)
        base = Message(s, SUCCESS, answer=True, nonce=R_NONCE, iv=fixed("answer iv", 12), stamp=str(NOW + 20))

        def no(name, comment, code, headers=None, body=None, m=base, status=200, received=NOW, prefix=label):
            add("answer-refused", f"answer-{prefix}-{name}", comment, {
                "client": s.client_view(), "request": sealed_part(question), "received_ms": received,
                "window_ms": WINDOW, "status": status, "headers": m.headers() if headers is None else headers,
                "body": text_or_hex(m.body() if body is None else body), "code": code})

        header_faults(base, no)
        cipher_faults(base, no)
        echo = "answer_mismatch" if s.wire == 2 else "aad_mismatch"
        no("echoed-request", "The client's own request comes back as its answer.", echo, m=question)
        for name, nonce in {"uuid": UUID, "upper": "R-" + HEX_NONCE, "r": "r" + HEX_NONCE}.items():
            no(f"nonce-{name}", "Sealed well, with a nonce of the kind that requests carry.", "answer_mismatch",
               m=base.with_(nonce=nonce))
        for name, nonce in {"129": "r-" + "n" * 127, "plus": "r-abc+"}.items():
            no(f"nonce-{name}", "Sealed well, with a malformed nonce.", "nonce_invalid", m=base.with_(nonce=nonce))
        for name, kid in {"another": s.id[:2] + "0" * 32, "malformed": "S-1"}.items():
            no(f"kid-{name}", "An answer of another session.", "answer_mismatch",
               replace_header(base.headers(), "X-Kid", "session:" + kid))
        no("kid-bare", "X-Kid begins with session:.", "kid_prefix", replace_header(base.headers(), "X-Kid", s.id))
        for name, stamp in {"letter": "175000000000a", "16-digits": "0001750000000020"}.items():
            no(f"stamp-{name}", "Sealed well, with a malformed stamp.", "timestamp_invalid", m=base.with_(stamp=stamp))
        for name, received in {"old": NOW + 20 + WINDOW + 1, "ahead": NOW + 20 - WINDOW - 1}.items():
            no(f"window-{name}", "An answer stamped outside the window.", "timestamp_outside_window", received=received)
        if s.wire == 1:
            no("status", "Sent with another status than it was sealed for.", "aad_mismatch", status=404)
            no("other-path", "The answer to another path.", "aad_mismatch", m=base.with_(path="/transaction/refund"))


def add_all(add):
    requests(add)
    answers(add)
    requests_refused(add)
    answers_refused(add)
