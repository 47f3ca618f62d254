#!/usr/bin/env python3
"""A client of wire 3, written from spec/session-3.md with the package `cryptography` and the standard library alone.

    client3.py --base http://127.0.0.1:3000 --pin KEYID GET /accounts/7
    client3.py --base … --root BASE64 POST /transaction/purchase --body '{"schemeCode":"GOLD01","amount":1}'
    client3.py --base … --pin KEYID --self-check --prefix /mirror

It prints a line of JSON for everything that happens. --self-check runs checks_client3.py against a service behind the gateway
that answers as it says there, breaks requests on purpose and wants each refused with the right problem.
"""

import argparse
import http.client
import json
import os
import secrets
import ssl
import sys
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import checks3
import session3 as s3
import stream3
from session3 import ClientKeys, InitRequest, Refused, b64

SUITES = ["X25519MLKEM768", "SecP256r1MLKEM768", "P256"]
TIMEOUT_SEC = 60


class Problem(Exception):
    """What the gateway tells in the clear."""

    def __init__(self, status: int, body: dict):
        super().__init__(f"{status} {body.get('code')}: {body.get('title')}")
        self.status, self.body, self.proven, self.again = status, body, False, False

    @property
    def code(self) -> str | None:
        return self.body.get("code")


class Sent:
    """When a request was sent, by both clocks: one of them stops while a machine sleeps, the other may be set."""

    def __init__(self):
        self.monotonic, self.wall = time.monotonic(), time.time()

    def elapsed_ms(self) -> int:
        return int(max(time.monotonic() - self.monotonic, time.time() - self.wall) * 1000) + 1


@dataclass
class Trust:
    """What the client pinned before its first init: identity keys by their ids, or a root."""

    pins: list[str]
    root: bytes | None = None
    taken: checks3.RootKeys | None = None
    algorithms: list[str] | None = None

    def keys(self, key_set: bytes) -> dict[str, bytes]:
        """The trusted keys that a key set has. Without a root it is a lookup of pinned ids and proves nothing by itself."""
        if self.root is not None:
            last_ms = None if self.taken is None else self.taken.issued_ms
            self.taken = checks3.take_key_set(key_set, self.root, int(time.time() * 1000), last_ms, self.algorithms)
            return {id: public for id, (public, _, _) in self.taken.keys.items()}
        listed = [s3.unb64(key["public_key"]) for key in json.loads(key_set)["keys"]]
        return {s3.key_id(public): public for public in listed if s3.key_id(public) in self.pins}


class Answer:
    """A sealed answer whose body is opened as it comes."""

    def __init__(self, response, opener, first: list[bytes], source):
        self.status, self.opener, self.source = response.status, opener, source
        self.inner, head = stream3.decode_inner(first[0])
        self.ready = [head, *first[1:]]
        self.frames = 0

    def header(self, name: str) -> str | None:
        return next((value.decode("latin-1") for key, value in self.inner if key == name.encode()), None)

    def parts(self):
        """What each frame holds, as it comes. One that ends early is an error."""
        for part in self.ready:
            self.frames += 1
            yield part
        while data := self.source():
            for part in self.opener.feed(data):
                self.frames += 1
                yield part
        self.opener.finish()

    def body(self) -> bytes:
        return b"".join(self.parts())


class Client:
    def __init__(self, base: str, trust: Trust, suites=None, client_id="python", authorization=None, ttl_sec=None, cafile=None):
        url = urlsplit(base)
        self.host, self.secure = url.netloc, url.scheme == "https"
        self.tls = ssl.create_default_context(cafile=cafile) if self.secure else None
        self.trust, self.suites, self.client_id = trust, suites or SUITES, client_id
        self.authorization, self.ttl_sec = authorization, ttl_sec
        self.trusted: dict[str, bytes] = {}
        self.session = self.answer = None
        self.clock_offset_ms = 0
        # Makes a DPoP proof of a request, where the client has a key to prove.
        self.prove = None

    # --- HTTP ---

    def exchange(self, method: str, path: str, headers, body=None):
        """One request on a connection of its own; the response still has its body to read."""
        connection = (http.client.HTTPSConnection(self.host, timeout=TIMEOUT_SEC, context=self.tls) if self.secure
                      else http.client.HTTPConnection(self.host, timeout=TIMEOUT_SEC))
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        chunked = body is not None and not isinstance(body, bytes)
        if chunked:
            connection.putheader("Transfer-Encoding", "chunked")
        elif body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body, encode_chunked=chunked)
        return connection.getresponse()

    @staticmethod
    def problem(response) -> Problem:
        data = response.read()
        try:
            return Problem(response.status, json.loads(data))
        except ValueError:
            return Problem(response.status, {"code": None, "title": data[:200].decode("latin-1")})

    # --- Keys and init ---

    def learn_keys(self) -> dict[str, bytes]:
        response = self.exchange("GET", "/.well-known/sealway-keys", [])
        data = response.read()
        if response.status != 200:
            raise Refused("key_untrusted")
        self.trusted = self.trust.keys(data)
        return self.trusted

    def init_request(self, suite: str, keys: ClientKeys, **changes) -> InitRequest:
        pins = self.trust.pins if self.trust.root is None else []
        return InitRequest(suite, list(self.suites), s3.client_share(suite, keys), self.client_id, self.ttl_sec, None,
                           list(pins), self.trust.algorithms).with_(**changes)

    @staticmethod
    def new_keys() -> ClientKeys:
        order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
        scalar = secrets.randbelow(order - 1) + 1
        scalar384 = int.from_bytes(os.urandom(47)) + 1  # below the order of P-384
        return ClientKeys(scalar.to_bytes(32, "big"), os.urandom(32), os.urandom(64), scalar384.to_bytes(48, "big"))

    def send_init(self, body: bytes):
        headers = [("Content-Type", "application/json")]
        if self.authorization is not None:
            headers.append(("Authorization", self.authorization))
        return self.exchange("POST", "/v3/sessions", headers, body)

    def init(self, suite: str | None = None, again: bool = True) -> list[str]:
        """Agrees a session, with the first suite of the list or the one that the server asks for. Says which were tried."""
        if not self.trusted:
            self.learn_keys()
        suite = suite or self.suites[0]
        keys = self.new_keys()
        request = self.init_request(suite, keys)
        if self.prove is not None:
            request = request.with_(proof=self.prove(request))
        response = self.send_init(json.dumps(request.members()).encode())
        if response.status != 201:
            problem = self.problem(response)
            wanted = problem.body.get("suite")
            if again and problem.code == "suite_required" and wanted in self.suites:
                return [suite, *self.init(wanted, False)]
            if again and problem.code == "key_retired" and self.trust.root is not None:
                self.trusted = self.trust.keys(json.dumps(problem.body["key_set"]).encode())
                return [suite, *self.init(suite, False)]
            raise problem
        self.take(request, keys, response.status, response.read(), s3.credential(self.authorization), None)
        return [suite]

    def take(self, request, keys, status, data, credential, renewed) -> None:
        trusted = self.trusted
        if self.trust.taken is not None:
            server_time_ms = checks3.read_init_answer(status, data)[0].server_time_ms
            trusted = self.trust.taken.live(server_time_ms, int(time.time() * 1000))
        answer, made = checks3.finish_init(request, credential, keys, trusted, status, data, renewed)
        self.answer, self.began = answer, time.monotonic()
        self.clock_offset_ms = 0
        self.session = checks3.Session(answer.session_id, 3, made, answer.server_time_ms + answer.expires_in_sec * 1000)

    def now_ms(self) -> int:
        """The server's time by a clock that never jumps."""
        return self.answer.server_time_ms + int((time.monotonic() - self.began) * 1000) + self.clock_offset_ms

    # --- Sealed calls ---

    def seal(self, method: str, path: str, frames=None, inner=(), stamp=None, nonce=None, content_type="application/octet-stream",
             block=None):
        """Headers and body of a sealed request; without frames its stream goes into X-Sealed."""
        stamp, nonce = stamp or str(self.now_ms()), nonce or secrets.token_hex(16)
        content_type = None if frames is None else content_type
        keys = stream3.request_keys(self.session.keys.c2s, nonce, stamp)
        context = stream3.request_context(method, path, content_type or "", stamp, nonce, self.session.id)
        head = stream3.encode_inner(inner) if block is None else block
        plain = [head + (frames or [b""])[0], *(frames or [b""])[1:]]
        stream = stream3.seal_stream(keys, context, plain)
        headers = [("X-Seal", "3"), ("X-Kid", self.session.kid), ("X-Idempotency-Key", f"{stamp}.{nonce}")]
        if frames is None:
            return [*headers, ("X-Sealed", b64(stream))], None
        return [*headers, ("Content-Type", content_type)], stream

    @staticmethod
    def stamp_and_nonce(headers) -> tuple[str, str]:
        stamp, nonce = dict(headers)["X-Idempotency-Key"].split(".")
        return stamp, nonce

    def open(self, method: str, path: str, nonce: str, response) -> Answer:
        """Checks an answer's head and opens its first frame. An unsealed one is a problem, or nobody's."""
        headers = response.getheaders()
        if checks3.optional(headers, "X-Seal") is None:
            raise self.problem(response)
        opener = checks3.answer_opener(self.session, method, path, nonce, response.status, headers)
        sealed = checks3.optional(headers, "X-Sealed")
        if sealed is not None:
            first, source = opener.feed(s3.unb64(sealed)), lambda: b""
        else:
            first, source = [], lambda: response.read1(65_536)
            while not first and (data := source()):
                first = opener.feed(data)
        if not first:
            raise Refused("stream_truncated")
        return Answer(response, opener, first, source)

    def once(self, method: str, path: str, frames=None, inner=(), **more) -> Answer:
        headers, body = self.seal(method, path, frames, inner, **more)
        return self.sent(method, path, headers, body)

    def sent(self, method: str, path: str, headers, body) -> Answer:
        """Sends what was sealed, as it is. A problem comes back with what it proves."""
        sent = Sent()
        response = self.exchange(method, path, headers, body)
        stamp, nonce = self.stamp_and_nonce(headers)
        try:
            return self.open(method, path, nonce, response)
        except Problem as problem:
            problem.proven = checks3.clock_proven(problem.body, self.session, nonce, stamp)
            problem.again = checks3.sends_again(problem.body, problem.proven, method, stamp, sent.elapsed_ms())
            raise

    def call(self, method: str, path: str, frames=None, inner=()) -> Answer:
        """A call that heals once: of a wrong clock, and of a session that is over."""
        try:
            return self.once(method, path, frames, inner)
        except Problem as problem:
            if problem.code == "clock_skew" and problem.proven:
                self.clock_offset_ms += problem.body["server_time_ms"] - self.now_ms()
            elif problem.code == "session_expired" and problem.again:
                self.init()
            if not problem.again:
                raise
            return self.once(method, path, frames, inner)

    def renew(self, session_id: str | None = None, suite: str | None = None, **changes) -> None:
        keys, old = self.new_keys(), self.session
        request = self.init_request(suite or self.answer.suite, keys, **changes)
        answer = self.once("POST", f"/v3/sessions/{session_id or old.id}/renew", [json.dumps(request.members()).encode()],
                           [("content-type", "application/json")])
        if answer.status != 201:
            raise Problem(answer.status, {"code": None, "title": answer.body()[:200].decode("latin-1")})
        self.take(request, keys, answer.status, answer.body(), b"", (old.id, old.keys.exporter))

    def end(self) -> int:
        answer = self.once("DELETE", f"/v3/sessions/{self.session.id}")
        answer.body()
        return answer.status


def tell(**what) -> None:
    print(json.dumps(what), flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="the gateway: http://host:port")
    parser.add_argument("--pin", action="append", default=[], help="the id of an identity key; may be repeated")
    parser.add_argument("--root", help="the public key of a root in base64")
    parser.add_argument("--algorithm", action="append", help="an algorithm of identity keys that is accepted; may be repeated")
    parser.add_argument("--suite", action="append", default=[], choices=list(s3.PARTS), help="a suite, the one liked most first")
    parser.add_argument("--client-id", default="python")
    parser.add_argument("--authorization", help="the value of Authorization at an init")
    parser.add_argument("--ttl", type=int)
    parser.add_argument("--cafile", help="whom to trust for TLS")
    parser.add_argument("--body", help="the body of a call")
    parser.add_argument("--content-type", default="application/json", help="of that body")
    parser.add_argument("--self-check", action="store_true")
    parser.add_argument("--issuer-key", help="in the self-check: the scalar of an issuer that the gateway trusts, in hexadecimal")
    parser.add_argument("--prefix", default="/mirror", help="where the service of the self-check is")
    parser.add_argument("call", nargs="*", help="method and path")
    return parser.parse_args()


def make(args, **changes) -> Client:
    settings = dict(suites=args.suite or None, client_id=args.client_id, authorization=args.authorization, ttl_sec=args.ttl,
                    cafile=args.cafile)
    trust = Trust([] if args.root else args.pin, s3.unb64(args.root) if args.root else None,
                  algorithms=args.algorithm)
    return Client(args.base, trust, **(settings | changes))


def main() -> int:
    args = arguments()
    if not args.pin and not args.root:
        raise SystemExit("client3.py: --pin or --root is needed: without one anybody could answer an init")
    if args.self_check:
        import checks_client3
        return checks_client3.run(args)
    client = make(args)
    try:
        tried = client.init()
        tell(session=client.session.id, suites_tried=tried, auth=client.answer.auth, key_id=client.answer.key_id)
        method, path = args.call
        answer = client.call(method, path, None if args.body is None else [args.body.encode()],
                             () if args.body is None else (("content-type", args.content_type),))
        tell(status=answer.status, headers=[[part.decode("latin-1") for part in header] for header in answer.inner])
        for part in answer.parts():
            tell(frame=part.decode("utf-8", "backslashreplace"))
    except (Problem, Refused) as error:
        tell(refused=error.code, said=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
