"""Scenarios of wire 3's sealed requests and answers, as they should be."""

import hashlib
from dataclasses import dataclass, replace

import checks3
import stream3
from inits3 import init_view, old_session
from session import HEX_NONCE, NOW, UUID, WINDOW, claim, text_or_hex
from session3 import b64

_SAID, _, _KEYS = old_session()
SESSION = checks3.Session(_SAID.session_id, 3, _KEYS, NOW + _SAID.expires_in_sec * 1000)
CLIENT_VIEW = init_view()
R_NONCE = "r-" + HEX_NONCE
JSON = (("content-type", "application/json"),)
PURCHASE = b'{"schemeCode":"GOLD01","amount":1500.5}'
SUCCESS = b'{"status":"SUCCESS"}'
FULL = stream3.FRAME_MAX


def session_view(session) -> dict:
    return {"id": session.id, "wire": session.wire, "client_id": "demo-client", "prk_hex": session.keys.prk.hex(),
            "c2s_hex": session.keys.c2s.hex(), "s2c_hex": session.keys.s2c.hex(), "created_ms": NOW,
            "expires_ms": session.expires_ms}


def compact(data: bytes) -> dict:
    """Bytes, of which many may be one byte many times."""
    if len(data) > 1000 and data == data[:1] * len(data):
        return {"repeat": data[:1].hex(), "count": len(data)}
    return text_or_hex(data)


def sealed_body(data: bytes) -> dict:
    """The bytes, or a long stream's hash."""
    if len(data) > 10_000:
        return {"sha256_hex": hashlib.sha256(data).hexdigest(), "count": len(data)}
    return text_or_hex(data)


@dataclass(frozen=True)
class Call:
    """One sealed message. `status` makes it an answer, to the request of the same method, path and `asked` nonce."""

    frames: tuple = (PURCHASE,)  # what each frame holds of the body
    inner: tuple = JSON
    method: str = "POST"
    path: str = "/transaction/purchase?x=1"
    content_type: str | None = "application/octet-stream"
    stamp: str = str(NOW)
    nonce: str = UUID
    in_header: bool = False
    status: int | None = None
    asked: str = UUID
    session: checks3.Session = SESSION
    lies: tuple = ()  # other parts of the context than the message's own
    block: bytes | None = None  # other bytes for the inner headers
    wire: int = 3

    def with_(self, **changes) -> "Call":
        return replace(self, **changes)

    @property
    def keys(self):
        keys = self.session.keys
        if self.status is None:
            return stream3.request_keys(keys.c2s, self.nonce, self.stamp, self.wire)
        return stream3.answer_keys(keys.s2c, self.asked, self.nonce, self.wire)

    @property
    def context(self) -> bytes:
        parts = dict(method=self.method, path=self.path, content_type=self.content_type or "", timestamp=self.stamp,
                     nonce=self.nonce, session_id=self.session.id, wire=self.wire)
        if self.status is None:
            return stream3.request_context(**(parts | dict(self.lies)))
        return stream3.answer_context(**({"status": self.status} | parts | dict(self.lies)))

    @property
    def plain(self) -> list[bytes]:
        block = stream3.encode_inner(self.inner) if self.block is None else self.block
        return [block + self.frames[0], *self.frames[1:]]

    @property
    def sealed(self) -> list[bytes]:
        return stream3.seal_frames(self.keys, self.context, self.plain)

    @property
    def stream(self) -> bytes:
        return self.keys[2] + b"".join(self.sealed)

    def headers(self, stream: bytes | None = None) -> list[list[str]]:
        out = [["X-Seal", str(self.wire)], ["X-Kid", self.session.kid], ["X-Idempotency-Key", f"{self.stamp}.{self.nonce}"]]
        if self.content_type is not None:
            out.append(["Content-Type", self.content_type])
        if self.in_header:
            out.append(["X-Sealed", b64(self.stream if stream is None else stream)])
        return out

    def body(self) -> bytes:
        return b"" if self.in_header else self.stream

    def open(self, headers, body, now=NOW, window=WINDOW):
        if self.status is None:
            return checks3.open_request(self.session, self.method, self.path, headers, body, now, window)
        return checks3.open_answer(self.session, self.method, self.path, self.asked, self.status, headers, body)

    def accepted(self, now=NOW, window=WINDOW) -> dict:
        inner = [(name.encode(), value.encode("latin-1")) for name, value in self.inner]
        assert self.open(self.headers(), self.body(), now, window) == (inner, list(self.frames))
        key, iv, commit = self.keys
        return {
            "content_type": self.content_type, "stamp": self.stamp, "nonce": self.nonce,
            "inner": [[name, compact(value.encode("latin-1"))] for name, value in self.inner],
            "frames": [compact(frame) for frame in self.frames], "key_hex": key.hex(), "iv_hex": iv.hex(),
            "commit_hex": commit.hex(), "context_hex": self.context.hex(),
            "sealed": {"headers": self.headers(), "body": sealed_body(self.body())},
        }


GET = Call((b"",), (), "GET", "/accounts/7?full=true", None, in_header=True)
POST = Call()
ANSWER = Call((SUCCESS,), status=200, stamp=str(NOW + 20), nonce=R_NONCE)
BODILESS = Call((b"",), (), "GET", "/accounts/7?full=true", None, str(NOW + 20), R_NONCE, True, 204)


def bodies():
    """Streams of every kind: what the frames hold, by a name."""
    return {"empty": (b"",), "json": (PURCHASE,), "bytes": (bytes(range(256)),), "flushed": (b"data: 1\n\n", b"data: 2\n\n", b"",),
            "flushed-headers": (b"", b"late"), "three": (b"a", b"a" * FULL, b"end"),
            "ten": tuple(bytes([n]) for n in range(10))}


def inner_headers():
    return {
        "none": (), "one-letter": (("a", "b"),), "empty-value": (("x-empty", ""),), "repeated": (("accept", "a"), ("accept", "b")),
        "tab": (("x-tab", "a\tb"),), "high-bytes": (("x-name", "Zo\xc3\xab"),), "all-token": (("!#$%&'*+-.^_`|~09az", "v"),),
        "authorization": (("authorization", "Bearer x"), ("cookie", "a=b"), ("x-request-id", "7")),
        "almost-forbidden": (("x-seale", "1"), ("proxy", "1"), ("x-sealway", "1"), ("hosts", "1"), ("x-kid2", "1")),
        "name-255": (("n" * 255, "v"),), "64": tuple((f"a{n:02d}", "") for n in range(64)),
        "16384-bytes": (("a", "v" * (stream3.INNER_MAX - 4)),),
    }


def requests(add):
    def ok(name, comment, call, now=NOW, window=WINDOW):
        add("request3", f"request3-{name}", comment, {
            "session": session_view(call.session), "client": CLIENT_VIEW, "now_ms": now, "window_ms": window, "method": call.method, "path": call.path,
            **call.accepted(now, window),
            "claim": claim(3, call.session.id, call.stamp, call.nonce, now, window)})

    for name, frames in bodies().items():
        ok(f"post-{name}", "A body of so many frames; a frame ends where its source flushes.", POST.with_(frames=frames))
    for name, headers in inner_headers().items():
        ok(f"inner-{name}", "Inner headers at the limits of what is allowed.", POST.with_(inner=headers))
    ok("get", "Without a body: the whole stream in X-Sealed.", GET)
    ok("get-inner", "Without a body, with inner headers.", GET.with_(inner=(("accept", "text/event-stream"),)))
    for method in ("HEAD", "DELETE", "QUERY", "post"):
        ok(f"method-{method}-{'lower' if method.islower() else 'upper'}", "Any method, as sent.", GET.with_(method=method))
    ok("put", "Another method with a body.", POST.with_(method="PUT"))
    ok("no-content-type", "No outer Content-Type counts as an empty one.", POST.with_(content_type=None))
    ok("other-content-type", "Any outer Content-Type; it is bound.", POST.with_(content_type="text/plain; charset=utf-8"))
    for name, path in {"root": "/", "query-empty": "/a?", "escaped": "/a%20b/%c3%A9?q=%2F", "twice": "//a//b?x=1&x=2?"}.items():
        ok(f"path-{name}", "Path and query as sent.", POST.with_(path=path))
    for name, nonce in {"16": "0123456789abcdef", "128": "aZ09_-" * 21 + "xy", "r": "r_0123456789abcdef", "dash": "-r-0123456789abc"}.items():
        ok(f"nonce-{name}", "A nonce at the limits of what is allowed.", POST.with_(nonce=nonce))
    for name, offset in {"past": -WINDOW, "future": WINDOW}.items():
        ok(f"{name}-edge", "Exactly at the edge of the window.", POST.with_(stamp=str(NOW + offset)))
    ok("narrow-edge", "At the edge of a window that is configured narrower.", POST.with_(stamp=str(NOW - 60_000)), window=60_000)
    ok("stamp-zeros", "The stamp as sent, zeros and all.", POST.with_(stamp=f"00{NOW}"))
    last = SESSION.expires_ms - 1
    ok("last-millisecond", "A session is good until the millisecond before its end.", POST.with_(stamp=str(last)), last)


def answers(add):
    def ok(name, comment, call):
        add("answer3", f"answer3-{name}", comment, {
            "session": session_view(call.session), "client": CLIENT_VIEW, "request": {"method": call.method, "path": call.path, "nonce": call.asked},
            "status": call.status, **call.accepted()})

    for name, frames in bodies().items():
        ok(name, "A body of so many frames; a frame ends where the service flushes.", ANSWER.with_(frames=frames))
    for status in (201, 404, 500, 599):
        ok(f"status-{status}", "Sent with the service's status, which is bound.", ANSWER.with_(status=status))
    for status in (204, 205, 304):
        ok(f"bodiless-{status}", "Where there can be no body the stream is in X-Sealed.", BODILESS.with_(status=status, inner=JSON))
    ok("head", "To HEAD the stream is in X-Sealed.", BODILESS.with_(method="HEAD", status=200, inner=JSON))
    ok("get", "An answer to GET has a body.", ANSWER.with_(method="GET", path="/accounts/7?full=true"))
    ok("no-content-type", "No outer Content-Type counts as an empty one.", ANSWER.with_(content_type=None))
    ok("event-stream", "Another outer Content-Type.", ANSWER.with_(content_type="text/event-stream"))
    ok("set-cookie", "A header twice, inside.", ANSWER.with_(inner=(*JSON, ("set-cookie", "a=1"), ("set-cookie", "b=2"))))
    ok("hours-later", "An answer's stamp is bound and not compared with any clock.", ANSWER.with_(stamp=str(NOW + 86_400_000)))
    ok("nonce-16", "The shortest nonce.", ANSWER.with_(nonce="r-0123456789abcd"))
    ok("nonce-128", "The longest nonce.", ANSWER.with_(nonce="r-" + "aZ09_-" * 21))


def add_all(add):
    requests(add)
    answers(add)
