"""A service that misbehaves by a script: it agrees sessions in order, and answers calls as `mode` says."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import anyio

from sealway import entropy
from sealway.crypto.digest import sha256
from sealway.crypto.suite import DEFAULT_SUITES
from sealway.errors import ProtocolError
from sealway.server import MemoryStore
from sealway.session.claim import Admission
from sealway.session.compat.init import PATHS, parse_init
from sealway.session.identity import Signer, algorithm_of, key_id
from sealway.session.native import message, problem, server
from sealway.session.native.key_set import ListedKey, key_set_message
from sealway.session.native.schedule import s2c_of
from sealway.wire.encoding import encode_base64, field, number
from sealway.wire.header import Headers
from sealway.wire.members import TIME_MS_MAX
from serving import IDENTITY, Seen, now_ms, sealed_application

Sent = tuple[int, list[tuple[bytes, bytes]], bytes]


def key_set(identities: list[server.Identity], root: Signer | None = None) -> bytes:
    """The set of these keys, which a root may sign."""
    keys = [ListedKey(each.id, each.signer.public, 0, TIME_MS_MAX) for each in identities]
    body: dict[str, Any] = {"issued_ms": 1, "expires_ms": TIME_MS_MAX}
    body["keys"] = [
        {
            "key_id": key.key_id,
            "alg": algorithm_of(key.public),
            "public_key": encode_base64(key.public),
            "not_before_ms": key.not_before_ms,
            "not_after_ms": key.not_after_ms,
        }
        for key in keys
    ]
    if root is not None:
        signature = root.sign(key_set_message(1, TIME_MS_MAX, keys))
        body |= {"root_key_id": key_id(root.public), "root_signature": encode_base64(signature)}
    return json.dumps(body).encode()


class Hostile:
    """The service. `calls` counts sealed calls that came, `inits` agreements, `key_sets` fetches of the set."""

    def __init__(self) -> None:
        self.store, self.seen = MemoryStore(), Seen()
        self.inner = sealed_application(self.seen, self.store)
        self.request: message.InitRequest | None = None
        self.begin()

    def begin(self) -> None:
        """Forgets what was seen, and behaves."""
        self.mode = ""
        self.inits = self.calls = self.key_sets = 0
        self.kept: Sent | None = None
        self.suites = list(DEFAULT_SUITES)
        self.identities = [server.Identity(IDENTITY, 0, TIME_MS_MAX)]
        self.root: Signer | None = None
        #: Members of an init that a machine in the middle changes before the service sees them.
        self.rewritten: dict[str, Any] = {}
        self.skew_ms = 0
        #: Ids of the sessions whose calls came, in their order.
        self.ids: list[str] = []
        self.authorization: str | None = None
        #: What a call that is held waits for.
        self.go = threading.Event()
        self.seen.begin()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path == "/.well-known/sealway-keys":
            self.key_sets += 1
            await reply(send, 200, [], key_set(self.identities, self.root))
        elif path == message.INIT_PATH:
            await self.init_native(scope, receive, send)
        elif path in PATHS.values():
            await self.init_compat(scope, receive, send)
        else:
            self.calls += 1
            headers = Headers((n.decode(), v.decode()) for n, v in scope["headers"])
            self.ids.append((headers.first("X-Kid") or "").removeprefix("session:"))
            await self.call(scope, receive, send)

    async def init_native(self, scope: Any, receive: Any, send: Any) -> None:
        self.inits += 1
        request = self.request = message.InitRequest.parse(await whole(receive))
        headers = Headers((n.decode(), v.decode()) for n, v in scope["headers"])
        authorization = self.authorization = headers.first("Authorization")
        names = [suite.value for suite in self.suites]
        if request.suite != next(name for name in request.suites if name in names):
            status, body = problem.encode_problem("suite_required", suites=names)
            await reply(send, status, [], body)
            return
        credential, stamp_ms = message.credential_of(authorization), now_ms() + self.skew_ms
        draws, seen = entropy.server_draws(), replace(request, **self.rewritten)
        try:
            body, record = server.accept(
                seen, credential, self.suites, self.identities, draws, stamp_ms, 600, server.Caller()
            )
        except ProtocolError as rejected:
            told = {"key_set": json.loads(key_set(self.identities, self.root))}
            status, body = problem.encode_problem(rejected.code, **told)
            await reply(send, status, [], body)
            return
        self.store.put(record)
        if self.mode == "init-forged":
            body = body.replace(b'"auth":"none"', b'"auth":"dpop"')
        await reply(send, 200 if self.mode == "init-status" else 201, [], body)

    async def init_compat(self, scope: Any, receive: Any, send: Any) -> None:
        self.inits += 1
        headers = Headers((n.decode(), v.decode()) for n, v in scope["headers"])
        family = next(family for family, path in PATHS.items() if path == scope["path"])
        pending = parse_init(family, headers, await whole(receive), now_ms(), 300_000)
        init = pending.release(Admission(pending.claim))
        body, record = init.accept(entropy.key_pair(), entropy.nonce_random(), now_ms())
        self.store.put(record)
        await reply(send, 200, [], body)

    async def call(self, scope: Any, receive: Any, send: Any) -> None:
        mode, is_first = self.mode, self.calls == 1
        if mode == "redirect":
            await reply(send, 302, [(b"location", b"http://127.0.0.1:1/")], b"")
        elif mode == "503":
            await reply(send, 503, [], b'{"error":"SERVICE_UNAVAILABLE"}')
        elif mode == "unsealed":
            await reply(send, 200, [(b"content-type", b"application/json")], b'{"status":"SUCCESS"}')
        elif mode == "garbage":
            await reply(send, 500, [], b"\xff\xfe{" * 100)
        elif mode.startswith("expired") and (is_first or mode.endswith("always")):
            await self.expired(scope, send, "proven" in mode)
        elif mode == "skew-forged" and is_first:
            told = {"server_time_ms": 1, "mac": encode_base64(bytes(32))}
            status, body = problem.encode_problem("clock_skew", **told)
            await reply(send, status, [], body)
        elif mode == "skew-held":
            await self.held_skew(scope, send)
        elif mode == "lost-held" and self.ids[-1] == self.ids[0]:
            # Of the first session: the first call is refused when a test says so, others at once.
            if is_first:
                await self.held()
            await self.expired(scope, send, False)
        elif mode == "served-lost" and is_first:
            # A proxy has it served, keeps the answer until the session is lost, and sends the same bytes again.
            await self.inner(scope, receive, _to_nobody)
            self.store.delete(self.ids[-1])
            await self.expired(scope, send, True)
        elif mode == "held":
            await self.held()
            await self.inner(scope, receive, send)
        elif mode == "hang":
            await anyio.sleep(30)
        else:
            await self.changed(scope, receive, send, mode)

    async def expired(self, scope: Any, send: Any, is_proven: bool) -> None:
        headers = Headers((n.decode(), v.decode()) for n, v in scope["headers"])
        if "X-Seal" not in headers:
            await reply(send, 401, [], b'{"error":"SESSION_EXPIRED"}')
            return
        told: dict[str, Any] = {}
        if is_proven:
            stamp, nonce = headers.single("X-Idempotency-Key").split(".")
            id, time_ms = headers.single("X-Kid").removeprefix("session:"), now_ms()
            if self.mode == "expired-proven-late":
                time_ms += 10_000_000
            # As servers of earlier versions signed it.
            fields = field(id) + field(nonce) + field(stamp) + number(time_ms)
            signature = IDENTITY.sign(b"sealway/3 expired" + sha256(fields))
            told = {"server_time_ms": time_ms, "key_id": key_id(IDENTITY.public)}
            told["signature"] = encode_base64(signature)
        status, body = problem.encode_problem("session_expired", **told)
        await reply(send, status, [(b"content-type", b"application/problem+json")], body)

    async def held(self) -> None:
        while not self.go.is_set():
            await anyio.sleep(0.01)

    async def held_skew(self, scope: Any, send: Any) -> None:
        """A refusal as a service makes it, kept back: by the time on it the request was too old when it came, though
        not when it was sent."""
        headers = Headers((n.decode(), v.decode()) for n, v in scope["headers"])
        stamp, nonce = headers.single("X-Idempotency-Key").split(".")
        record = await self.store.session(self.ids[-1])
        assert record is not None
        told = problem.clock_members(s2c_of(record.key.reveal()), nonce, stamp, int(stamp) + 300_000 + 150)
        await anyio.sleep(0.3)
        status, body = problem.encode_problem("clock_skew", **told)
        await reply(send, status, [], body)

    async def changed(self, scope: Any, receive: Any, send: Any, mode: str) -> None:
        """What the service answers in order, and then changed on its way."""
        if mode in ("", "stream"):
            await self.inner(scope, receive, send)
            return
        status, headers, body = await collect(self.inner, scope, receive)
        self.kept, earlier = self.kept or (status, headers, body), self.kept
        if mode == "wrong-tag":
            body = body[:-1] + bytes([body[-1] ^ 1])
        elif mode == "other-status":
            status = 203
        elif mode == "replayed" and earlier is not None:
            status, headers, body = earlier
        elif mode == "truncated":
            body = body[:-5]
        elif mode.startswith("missing "):
            headers = [(name, value) for name, value in headers if name.decode() != mode.removeprefix("missing ")]
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        if mode == "slow":
            await send({"type": "http.response.start", "status": status, "headers": headers})
            for at in range(len(body)):
                await send({"type": "http.response.body", "body": body[at : at + 1], "more_body": True})
                await anyio.sleep(0.2)
            return
        if mode == "cut":
            head = [*headers, (b"content-length", b"%d" % (len(body) + 100))]
            await send({"type": "http.response.start", "status": status, "headers": head})
            await send({"type": "http.response.body", "body": body, "more_body": True})
            return
        await reply(send, status, headers, body)


async def whole(receive: Any) -> bytes:
    body, is_more = b"", True
    while is_more:
        got = await receive()
        body, is_more = body + got.get("body", b""), got.get("more_body", False)
    return body


async def collect(app: Any, scope: Any, receive: Any) -> Sent:
    parts: list[bytes] = []
    head: list[Any] = []

    async def send(got: Any) -> None:
        if got["type"] == "http.response.start":
            head.extend([got["status"], list(got["headers"])])
        else:
            parts.append(got.get("body", b""))

    await app(scope, receive, send)
    return head[0], head[1], b"".join(parts)


async def _to_nobody(message: Any) -> None:
    """Keeps an answer from its client."""


async def reply(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})
