"""Scenarios of wire 3's sealed requests and answers with one fault each, and what a stream may suffer."""

import struct
from dataclasses import replace

import checks3
import stream3
from calls3 import ANSWER, BODILESS, CLIENT_VIEW, GET, JSON, POST, R_NONCE, SESSION, SUCCESS, Call, session_view
from session import HEX_NONCE, NOW, UUID, WINDOW, fixed, text_or_hex
from session3 import Keys, Refused, b64


def flip(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def reframed(call: Call, count: int, last: bool, plain: bytes) -> bytes:
    return stream3.seal_frame(call.keys, call.context, count, last, plain)


def stream_faults(base: Call, no):
    """What a stream may suffer. `no` takes name, comment, code, stream."""
    stream, commit = base.stream, base.keys[2]
    three = base.with_(frames=(b"one", b"two", b"three"))
    a, b, c = three.sealed
    for name, at in {"commit-first": 0, "commit-last": 15, "ciphertext-first": 20, "tag-first": len(stream) - 16,
                     "tag-last": len(stream) - 1}.items():
        no(f"flip-{name}", "One bit of the stream is another.", "unsealable", flip(stream, at))
    no("flip-second-frame", "One bit of a later frame is another.", "unsealable", three.stream[:16] + a + flip(b, 4) + c)
    no("last-mark-cleared", "The mark of the last frame was taken off.", "unsealable", commit + bytes([stream[16] & 0x7F]) + stream[17:])
    no("last-mark-set", "Cut behind the first frame, which was marked as the last.", "unsealable", commit + bytes([a[0] | 0x80]) + a[1:])
    for name, length in {"commit": 15, "no-frame": 16, "length": 19, "frame": 20, "tag": len(stream) - 1}.items():
        no(f"cut-{name}", "The stream ends in the middle.", "stream_truncated", stream[:length])
    no("cut-second-frame", "The last frame is missing.", "stream_truncated", commit + a + b)
    no("cut-one-frame", "All but the first frame are missing.", "stream_truncated", commit + a)
    no("cut-third-frame", "Ends in the middle of the last frame.", "stream_truncated", commit + a + b + c[:-1])
    no("never-last", "No frame was sealed as the last.", "stream_truncated", commit + reframed(base, 0, False, base.plain[0]))
    no("middle-missing", "A frame was taken out.", "unsealable", commit + a + c)
    no("first-missing", "The first frame was taken out.", "unsealable", commit + b + c)
    no("swapped", "Two frames changed places.", "unsealable", commit + b + a + c)
    no("repeated", "A frame stands twice.", "unsealable", commit + a + a + b + c)
    no("number-32-bits", "Frame 1 was sealed as frame 2³² + 1.", "unsealable", commit + a + reframed(three, 2**32 + 1, True, b"two"))
    no("number-from-1", "Frames were counted from 1.", "unsealable", commit + reframed(base, 1, True, base.plain[0]))
    no("byte-behind", "A byte behind the last frame.", "frame_invalid", stream + b"\0")
    no("frame-behind", "A frame behind the last one.", "frame_invalid", commit + reframed(base, 0, True, base.plain[0]) + b)
    no("stream-twice", "The stream stands twice.", "frame_invalid", stream + stream)
    no("empty-frame", "A frame that is not the last holds nothing.", "frame_invalid",
       commit + a + reframed(three, 1, False, b"") + reframed(three, 2, True, b"x"))
    for name, length in {"0": 0, "15": 15, "65553": 65_553, "2-31": 2**31 - 1}.items():
        no(f"length-{name}", "A length that no frame has.", "frame_invalid", commit + struct.pack(">I", 1 << 31 | length) + stream[20:])
    no("length-more", "A length beyond what there is.", "stream_truncated",
       commit + struct.pack(">I", struct.unpack(">I", stream[16:20])[0] + 1) + stream[20:])
    no("length-less", "A length that cuts the tag.", "unsealable",
       commit + struct.pack(">I", struct.unpack(">I", stream[16:20])[0] - 1) + stream[20:-1])
    other = base.with_(nonce=base.nonce[:-1] + "2")
    no("commit-other", "The commit of another message.", "unsealable", other.keys[2] + stream[16:])
    no("frames-other", "The frames of another message.", "unsealable", commit + b"".join(other.sealed))
    no("spliced", "The first frame of this message, the rest of another.", "unsealable",
       commit + a + b"".join(other.with_(frames=(b"one", b"two", b"three")).sealed[1:]))


def context_faults(base: Call, no):
    """Sealed under another context than the message itself gives."""
    lies = {"method": "PUT", "path": "/transaction/refund?x=1", "content_type": "application/json",
            "timestamp": str(int(base.stamp) + 1), "nonce": base.nonce[:-1] + "0", "session_id": "S-" + "0" * 32}
    extra = {"method-case": ("method", base.method.lower()), "no-query": ("path", "/transaction/purchase"),
             "query": ("path", "/transaction/purchase?x=2"), "path-case": ("path", "/Transaction/purchase?x=1"),
             "no-content-type": ("content_type", ""), "kid": ("session_id", base.session.kid)}
    if base.status is not None:
        extra["status"] = ("status", 201)
    for name, lie in ({part.replace("_", "-"): (part, value) for part, value in lies.items()} | extra).items():
        no(f"context-{name}", "Sealed for another context than the message itself gives.", "unsealable",
           base.with_(lies=(lie,)).stream)
    prk = replace(base, session=replace(base.session, keys=Keys(fixed("wire 3/another prk"))))
    no("key-other-session", "Sealed under another session's keys.", "unsealable", prk.stream)
    swapped = base.session.keys.s2c if base.status is None else base.session.keys.c2s
    keys = (stream3.request_keys(swapped, base.nonce, base.stamp, base.wire) if base.status is None
            else stream3.answer_keys(swapped, base.asked, base.nonce, base.wire))
    no("key-other-direction", "Sealed under the other direction's key.", "unsealable",
       stream3.seal_stream(keys, base.context, base.plain))


def inner_faults(base: Call, no):
    def bad(name, comment, block, frames=(b"",)):
        no(f"inner-{name}", comment, "inner_headers_invalid", base.with_(block=block, frames=frames).stream)

    whole = stream3.encode_inner(JSON)
    bad("empty", "Not even a length.", b"")
    bad("one-byte", "Half a length.", b"\0")
    bad("beyond-message", "A length beyond the frame.", struct.pack(">H", 1))
    bad("second-frame", "Not whole within the first frame.", whole[:10], (b"", whole[10:] + b"x"))
    bad("length-short", "The length cuts the last header.", struct.pack(">H", len(whole) - 3) + whole[2:])
    bad("length-long", "The length counts body.", struct.pack(">H", len(whole) - 1) + whole[2:], (b"x",))
    bad("name-beyond", "A name beyond the block.", b"\0\4\5abc")
    bad("no-value", "A name alone.", b"\0\2\1a")
    bad("value-beyond", "A value beyond the block.", b"\0\5\1a\0\2b")
    bad("name-empty", "A name of no characters.", stream3.encode_inner([("", "v")]))
    for name, text in {"upper": "Accept", "space": "a b", "colon": "a:b", "pseudo": ":path", "nul": "a\0", "high": "\xe9", "line": "a\nb"}.items():
        bad(f"name-{name}", "A name that is no lower-case token.", stream3.encode_inner([(text, "v")]))
    for name, text in {"cr": "a\rb", "lf": "a\nb", "crlf": "a\r\nx-b: c", "nul": "a\0", "del": "a\x7f", "escape": "\x1b"}.items():
        bad(f"value-{name}", "A control character in a value.", stream3.encode_inner([("a", text)]))
    for name in sorted(text.decode() for text in stream3.FORBIDDEN | {b"proxy-authorization", b"proxy-", b"x-sealway-subject", b"x-sealway-"}):
        bad(f"forbidden-{name}", "A header that may not be there.", stream3.encode_inner([(name, "1")]))
    bad("65", "A header too many.", stream3.encode_inner([(f"a{n:02d}", "") for n in range(65)]))
    bad("16385-bytes", "A byte too many.", stream3.encode_inner([("a", "v" * 16_381)]))


def swap(headers, name, value):
    return [[key, value if key == name else old] for key, old in headers]


def request_headers(no):
    headers = POST.headers()
    for name in ("X-Seal", "X-Kid", "X-Idempotency-Key"):
        slug, value = name.lower(), dict(map(tuple, headers))[name]
        no(f"{slug}-missing", f"{name} is not there.", "header_missing", [h for h in headers if h[0] != name])
        no(f"{slug}-empty", f"{name} is empty.", "header_missing", swap(headers, name, ""))
        no(f"{slug}-repeated", f"{name} is there twice, even with one value.", "header_invalid", [*headers, [name, value]])
        no(f"{slug}-not-ascii", f"{name} holds bytes beyond ASCII.", "header_invalid", swap(headers, name, value + "é"))
    no("content-type-repeated", "Content-Type is there twice, even with one value.", "header_invalid",
       [*headers, ["Content-Type", POST.content_type]])
    for value in ("2", "03", "3.0"):
        no(f"x-seal-{value}", "X-Seal is 3 and nothing else.", "header_invalid", swap(headers, "X-Seal", value))
    for name, value in {"no-dot": f"{NOW}", "three-parts": f"{NOW}.{UUID}.x", "no-stamp": f".{UUID}", "no-nonce": f"{NOW}."}.items():
        no(f"key-{name}", "X-Idempotency-Key needs two parts and one dot.", "idempotency_key_shape", swap(headers, "X-Idempotency-Key", value))
    for name, value in {"15": "n" * 15, "129": "n" * 129, "plus": "abc+0123456789abcdef", "pipe": "abc|0123456789abcdef"}.items():
        no(f"nonce-{name}", "A nonce of a wrong length or alphabet.", "nonce_invalid", call=POST.with_(nonce=value))
    for name, value in {"lower": R_NONCE, "upper": "R-" + HEX_NONCE}.items():
        no(f"nonce-reserved-{name}", "Only answers carry such a nonce.", "nonce_reserved", call=POST.with_(nonce=value))
    for name, value in {"letter": "175000000000a", "sign": f"+{NOW}", "16-digits": "0001750000000000"}.items():
        no(f"stamp-{name}", "A stamp is 1 to 15 decimal digits.", "timestamp_invalid", call=POST.with_(stamp=value, lies=()))
    for name, value in {"past": NOW - WINDOW - 1, "future": NOW + WINDOW + 1, "zero": 0, "far": 999_999_999_999_999}.items():
        no(f"window-{name}", "A stamp outside the window.", "timestamp_outside_window", call=POST.with_(stamp=str(value)))
    for name, value in {"past": NOW - WINDOW - 1, "future": NOW + WINDOW + 1}.items():
        no(f"window-wide-{name}", "Five minutes, however wide a window is configured.", "timestamp_outside_window",
           call=POST.with_(stamp=str(value)), window=3_600_000)
    no("window-narrow", "A window that is configured narrower.", "timestamp_outside_window",
       call=POST.with_(stamp=str(NOW - 60_001)), window=60_000)
    for name, value in {"bare": SESSION.id, "case": "Session:" + SESSION.id}.items():
        no(f"kid-{name}", "X-Kid begins with session:.", "kid_prefix", swap(headers, "X-Kid", value))
    for name, value in {"another": "S-" + "0" * 32, "short": SESSION.id[:-1], "upper": SESSION.id[:2] + "AB" * 16,
                        "anonymous": "A-" + SESSION.id[2:]}.items():
        no(f"kid-{name}", "X-Kid names no session that the server has.", "session_unknown", swap(headers, "X-Kid", "session:" + value))
    for name, after in {"now": 0, "later": 1}.items():
        now = SESSION.expires_ms + after
        no(f"expired-{name}", "The session is over.", "session_expired", call=POST.with_(stamp=str(now)), now=now)
    for wire in (1, 2):
        no(f"agreed-on-wire-{wire}", "The session was agreed on another wire.", "wire_mismatch",
           call=POST.with_(session=replace(SESSION, wire=wire)))


def sealed_headers(no):
    sealed = GET.headers()
    no("sealed-and-body", "X-Sealed beside a body.", "header_invalid", [*POST.headers(), ["X-Sealed", b64(POST.stream)]])
    no("sealed-nowhere", "Neither X-Sealed nor a body: a stream of no bytes.", "stream_truncated", POST.headers(), b"")
    value = b64(GET.stream)
    no("sealed-twice", "X-Sealed is there twice.", "header_invalid", [*sealed, ["X-Sealed", value]], call=GET)
    padded = GET.with_(frames=(b"a",)) if b64(GET.stream).rstrip("=") == b64(GET.stream) else GET
    good = b64(padded.stream)
    for name, text in {"unpadded": good.rstrip("="), "hex": None, "space": good[:4] + " " + good[4:]}.items():
        text = padded.stream.hex() + "!" if text is None else text
        no(f"sealed-{name}", "X-Sealed in another form than base64.", "header_invalid", swap(padded.headers(), "X-Sealed", text), call=padded)
    long = GET.with_(inner=(("x-long", "v" * 6_200),))
    assert len(b64(long.stream)) > checks3.SEALED_MAX
    no("sealed-8193", "X-Sealed over its bound.", "header_invalid", long.headers(), call=long)
    no("get-as-head", "X-Sealed of a GET on a HEAD.", "unsealable", call=GET.with_(method="HEAD"), headers=sealed)
    no("get-cut", "The stream in X-Sealed ends in the middle.", "stream_truncated", GET.headers(GET.stream[:-1]), call=GET)
    no("get-byte-behind", "A byte behind the last frame in X-Sealed.", "frame_invalid", GET.headers(GET.stream + b"\0"), call=GET)
    no("get-two-frames", "Two frames in X-Sealed, which holds one.", "stream_truncated", call=GET.with_(frames=(b"a", b"b")))


def request_order(no):
    """Two faults each, to show which one is told."""
    flipped, expired = flip(POST.stream, 20), SESSION.expires_ms
    stale = POST.with_(stamp=str(NOW - WINDOW - 1))
    said = "Two faults, to show the order of checks."
    no("order-form-before-session", said, "nonce_invalid", swap(POST.with_(nonce="x").headers(), "X-Kid", "session:S-" + "0" * 32))
    no("order-session-before-stamp", said, "session_expired", call=stale, now=expired)
    no("order-unknown-before-stamp", said, "session_unknown", swap(stale.headers(), "X-Kid", "session:S-" + "0" * 32))
    no("order-expiry-before-wire", said, "session_expired",
       call=POST.with_(session=replace(SESSION, wire=2), stamp=str(expired)), now=expired)
    no("order-wire-before-stamp", said, "wire_mismatch", call=stale.with_(session=replace(SESSION, wire=2)))
    no("order-stamp-before-place", said, "timestamp_outside_window", [*stale.headers(), ["X-Sealed", "AA=="]])
    no("order-place-before-frame", said, "header_invalid", [*POST.headers(), ["X-Sealed", "AA=="]], flipped)


def requests_refused(add):
    def no(name, comment, code, headers=None, body=None, call=POST, now=NOW, window=WINDOW):
        headers, body = call.headers() if headers is None else headers, call.body() if body is None else body
        refused(call, name, code, headers, body, now, window)
        add("request3-refused", f"request3-{name}", comment, {
            "session": session_view(call.session), "now_ms": now, "window_ms": window, "method": call.method, "path": call.path,
            "headers": headers, "body": text_or_hex(body), "code": code})

    request_headers(no)
    sealed_headers(no)
    request_order(no)
    in_body = lambda name, comment, code, stream: no(name, comment, code, body=stream)
    stream_faults(POST, in_body)
    context_faults(POST, in_body)
    inner_faults(POST, in_body)
    reflected = ANSWER.headers()
    no("reflected-answer", "An answer sent back as a request.", "nonce_reserved", reflected, ANSWER.stream)


def refused(call, name, code, headers, body, now=NOW, window=WINDOW):
    try:
        call.open(headers, body, now, window)
    except Refused as error:
        assert error.code == code, f"{name}: {error.code} and not {code}"
    else:
        raise AssertionError(f"{name} is accepted")


def answers_refused(add):
    def no(name, comment, code, headers=None, body=None, call=ANSWER):
        headers, body = call.headers() if headers is None else headers, call.body() if body is None else body
        refused(call, name, code, headers, body)
        add("answer3-refused", f"answer3-{name}", comment, {
            "client": CLIENT_VIEW, "request": {"method": call.method, "path": call.path, "nonce": call.asked},
            "status": call.status, "headers": headers, "body": text_or_hex(body), "code": code})

    headers = ANSWER.headers()
    no("unsealed", "An answer in the clear.", "unsealed", [["Content-Type", "application/json"]], SUCCESS)
    no("problem", "A problem is no sealed answer.", "unsealed", [["Content-Type", "application/problem+json"]],
       b'{"code":"unsealable","status":400}')
    no("x-seal-missing", "Sealed well, without the mark.", "unsealed", [h for h in headers if h[0] != "X-Seal"])
    for name, kid in {"another": "session:S-" + "0" * 32, "short": "session:" + SESSION.id[:-1]}.items():
        no(f"kid-{name}", "An answer of another session.", "answer_mismatch", swap(headers, "X-Kid", kid))
    no("kid-bare", "X-Kid begins with session:.", "kid_prefix", swap(headers, "X-Kid", SESSION.id))
    for name in ("X-Kid", "X-Idempotency-Key"):
        slug, value = name.lower(), dict(map(tuple, headers))[name]
        no(f"{slug}-missing", f"{name} is not there.", "header_missing", [h for h in headers if h[0] != name])
        no(f"{slug}-repeated", f"{name} is there twice, even with one value.", "header_invalid", [*headers, [name, value]])
    no("x-seal-2", "X-Seal is 3 and nothing else.", "header_invalid", swap(headers, "X-Seal", "2"))
    no("x-seal-repeated", "X-Seal is there twice.", "header_invalid", [*headers, ["X-Seal", "3"]])
    no("key-no-dot", "X-Idempotency-Key needs two parts and one dot.", "idempotency_key_shape", swap(headers, "X-Idempotency-Key", R_NONCE))
    for name, nonce in {"15": "r-" + "n" * 13, "129": "r-" + "n" * 127, "plus": "r-abc+0123456789"}.items():
        no(f"nonce-{name}", "Sealed well, with a malformed nonce.", "nonce_invalid", call=ANSWER.with_(nonce=nonce))
    for name, stamp in {"letter": "175000000000a", "16-digits": "0001750000000020"}.items():
        no(f"stamp-{name}", "Sealed well, with a malformed stamp.", "timestamp_invalid", call=ANSWER.with_(stamp=stamp, lies=()))
    no("sealed-and-body", "X-Sealed beside a body.", "header_invalid", [*headers, ["X-Sealed", b64(ANSWER.stream)]])
    for name, nonce in {"uuid": UUID[:-1] + "2", "r": "r" + HEX_NONCE}.items():
        no(f"nonce-{name}", "Sealed well, with a nonce of the kind that requests carry.", "answer_mismatch", call=ANSWER.with_(nonce=nonce))
    echo = POST.with_(status=None)
    no("echoed-request", "The client's own request comes back as its answer.", "answer_mismatch", echo.headers(), echo.stream)
    no("other-request", "The answer to another request.", "unsealable", body=ANSWER.with_(asked=UUID[:-1] + "2").stream)
    no("other-status", "Sent with another status than it was sealed for.", "unsealable", call=ANSWER.with_(status=201), body=ANSWER.stream)
    no("other-method", "The answer to another method.", "unsealable", call=ANSWER.with_(method="PUT"), body=ANSWER.stream)
    no("other-path", "The answer to another path.", "unsealable", call=ANSWER.with_(path="/transaction/refund"), body=ANSWER.stream)
    no("other-content-type", "The outer Content-Type was changed.", "unsealable", swap(headers, "Content-Type", "text/html"))
    no("other-stamp", "The stamp was changed.", "unsealable", swap(headers, "X-Idempotency-Key", f"{NOW + 21}.{R_NONCE}"))
    no("bodiless-cut", "The stream in X-Sealed ends in the middle.", "stream_truncated", BODILESS.headers(BODILESS.stream[:-1]), call=BODILESS)
    no("bodiless-two-frames", "Two frames in X-Sealed, which holds one.", "stream_truncated", call=BODILESS.with_(frames=(b"a", b"b")))
    no("content-type-repeated", "Content-Type is there twice, even with one value.", "header_invalid",
       [*headers, ["Content-Type", ANSWER.content_type]])
    no("bodiless-status", "204 and 304 are not the same.", "unsealable", BODILESS.headers(), call=BODILESS.with_(status=304))
    in_body = lambda name, comment, code, stream: no(name, comment, code, body=stream)
    stream_faults(ANSWER, in_body)
    context_faults(ANSWER, in_body)
    inner_faults(ANSWER.with_(), lambda name, comment, code, stream: "forbidden" in name or in_body(name, comment, code, stream))
    for name in ("connection", "content-length", "x-kid", "x-sealway-subject"):
        no(f"inner-forbidden-{name}", "A header that may not be there.", "inner_headers_invalid",
           call=ANSWER.with_(block=stream3.encode_inner([(name, "1")])))


def add_all(add):
    requests_refused(add)
    answers_refused(add)
