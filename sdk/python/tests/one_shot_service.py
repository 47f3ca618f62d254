"""A service of wire 4 that shares no code with the SDK: it opens and seals with the reference that writes the vectors.
`mode` says what it does wrong."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "vectors" / "reference"))

import hpke as reference_hpke  # type: ignore[import-not-found]
import one_shot as reference  # type: ignore[import-not-found]
import session3  # type: ignore[import-not-found]
import stream3  # type: ignore[import-not-found]
from identity3 import Identity  # type: ignore[import-not-found]

DAY_MS = 86_400_000
ROOT = bytes(31) + b"\x09"
PSK = ("team-a", bytes(range(32)))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def key(kem: str, number: int) -> Any:
    now = now_ms()
    one = reference_hpke.KEMS[kem]
    return reference.Key(one, bytes([number]) * 32, number, now - DAY_MS, now + DAY_MS, now + 2 * DAY_MS)


class Service:
    """The service. `calls` counts sealed requests that came, `documents` fetches of the key document; `stated_ms` stands in
    `clock_skew` in place of its time."""

    def __init__(self) -> None:
        self.keys = [key(name, n) for n, name in enumerate(("X-Wing", "MLKEM768-P256", "X25519", "P-256"), 1)]
        self.app = Starlette(
            routes=[
                Route("/.well-known/sealway-hpke-keys", self.document),
                Route("/{rest:path}", self.call, methods=["GET", "POST", "DELETE", "HEAD"]),
            ]
        )
        self.begin()

    def begin(self) -> None:
        self.mode, self.calls, self.documents, self.skew_ms, self.issued_ms = "", 0, 0, 0, 1
        self.stated_ms: int | None = None
        self.root = Identity(ROOT)
        self.seen: set[bytes] = set()
        self.accepted = list(self.keys)
        self.listed = list(self.keys)
        self.inner: list[tuple[bytes, bytes]] = []

    def signed_document(self) -> dict[str, Any]:
        listed = [(one.config, one.not_before_ms, one.use_until_ms, one.not_after_ms) for one in self.listed]
        names = ("not_before_ms", "use_until_ms", "not_after_ms")
        expires = now_ms() + DAY_MS
        message = reference.document_message(self.issued_ms, expires, listed)
        return {
            "issued_ms": self.issued_ms,
            "expires_ms": expires,
            "keys": [
                {"config": session3.b64(config)} | dict(zip(names, times, strict=True)) for config, *times in listed
            ],
            "root_key_id": self.root.id,
            "root_signature": session3.b64(self.root.sign(message)),
        }

    async def document(self, request: Request) -> Response:
        self.documents += 1
        return Response(json.dumps(self.signed_document()), media_type="application/json")

    async def call(self, request: Request) -> Response:
        self.calls += 1
        body = await request.body()
        headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers.raw]
        target = request.scope["raw_path"].decode() + (f"?{request.url.query}" if request.url.query else "")
        now = now_ms() + self.skew_ms
        try:
            inner, frames = reference.open_request(
                self.accepted, dict([PSK]), request.method, target, headers, body, now, 300_000
            )
        except session3.Refused as error:
            if error.code == "timestamp_outside_window":
                return self.problem(
                    request, target, headers, body, 400, "clock_skew", server_time_ms=self.stated_ms or now
                )
            status, more = (409, {"key_document": self.signed_document()}) if error.code == "key_retired" else (400, {})
            code = "key_retired" if error.code == "key_retired" else "unsealable"
            return Response(json.dumps(problem(status, code) | more), status, media_type="application/problem+json")
        self.inner = inner
        if self.mode in ("replayed", "policy", "store_unavailable"):
            status = {"replayed": 409, "policy": 403, "store_unavailable": 503}[self.mode]
            return self.problem(request, target, headers, body, status, self.mode)
        if self.mode == "unsealed replayed":
            return Response(json.dumps(problem(409, "replayed")), 409, media_type="application/problem+json")
        said = b"" if request.method == "HEAD" else b"".join(frames) or b"nothing"
        status = 404 if "missing" in target else 200
        return self.sealed(request, target, headers, body, status, frames_of(said), "r-")

    def problem(
        self, request: Request, target: str, headers: Any, body: bytes, status: int, code: str, **more: Any
    ) -> Response:
        text = json.dumps(problem(status, code) | more).encode()
        return self.sealed(request, target, headers, body, status, [text], "p-")

    def sealed(
        self, request: Request, target: str, headers: Any, body: bytes, status: int, frames: list[bytes], begins: str
    ) -> Response:
        given = {name.lower(): value for name, value in headers}
        nonce, stamp = given["x-idempotency-key"].split(".")[1], str(now_ms())
        used = next(one for one in self.accepted if one.kid == given["x-kid"])
        data = session3.unb64(given["x-sealed"]) if "x-sealed" in given else body
        psk_id, enc, _ = reference.read_prefix(used.kem, data)
        shared = reference_hpke.decapsulate(used.kem, used.private, enc)
        secrets = reference.secrets(used.kem, used.name, shared, PSK[1] if psk_id else b"", psk_id or "")
        own = begins + "0123456789abcdef" * 2
        is_bodiless = request.method == "HEAD"
        content_type = "" if is_bodiless else "application/octet-stream"
        sent_as = 201 if self.mode == "other status" else status
        context = stream3.answer_context(status, request.method, target, content_type, stamp, own, used.name, 4)
        keys = stream3.answer_keys(secrets.s2c, nonce, own, 4)
        kind = "application/problem+json" if begins == "p-" else "text/plain"
        inner = stream3.encode_inner([("content-type", kind), ("x-mirror", "1")])
        plain = [inner + b"".join(frames)] if is_bodiless else [inner + frames[0], *frames[1:]]
        stream = stream3.seal_stream(keys, context, plain)
        if self.mode == "cut":
            stream = stream[:-1]
        if self.mode == "as answer":
            own = "r-" + own[2:]
        out = {"X-Seal": "4", "X-Kid": used.kid, "X-Idempotency-Key": f"{stamp}.{own}"}
        if is_bodiless:
            return Response(status_code=sent_as, headers=out | {"X-Sealed": session3.b64(stream)})
        return Response(stream, sent_as, headers=out, media_type=content_type)


def frames_of(data: bytes) -> list[bytes]:
    """Three bytes, and what else there is in frames of half the size that they may have."""
    return [data[:3], *(data[at : at + 32_768] for at in range(3, len(data), 32_768))]


def problem(status: int, code: str) -> dict[str, Any]:
    return {"type": f"urn:sealway:problem:{code}", "title": "A sentence.", "status": status, "code": code}
