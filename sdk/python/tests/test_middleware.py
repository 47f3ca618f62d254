"""The middleware behind a real server: what handlers see, and what hostile clients get."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from sealway import entropy
from sealway.errors import ProtocolError, StoreFull, StoreUnavailable
from sealway.server import MemoryStore, body
from sealway.session.claim import Admission, Claim, SessionRecord
from sealway.session.compat.call import ClientSession, SealedCall
from sealway.session.native import server as native_server
from sealway.session.native.client import Session
from sealway.session.native.problem import clock_mac
from sealway.session.native.stream import open_whole
from sealway.wire.encoding import encode_base64
from sealway.wire.header import Headers
from sealway.wire.inner import encode_inner
from serving import Seen, agree_compat, agree_native, now_ms, sealed_application, served

Pairs = list[tuple[str, str]]


@dataclass
class World:
    url: str
    seen: Seen
    store: MemoryStore
    http: httpx.Client


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    store, seen = MemoryStore(), Seen()
    with served(sealed_application(seen, store)) as url, httpx.Client(base_url=url, timeout=10) as http:
        yield World(url, seen, store, http)


@pytest.fixture(autouse=True)
def _forget(world: World) -> None:
    world.seen.requests.clear()


def seal_native(
    session: Session,
    method: str,
    target: str,
    body: bytes | None,
    *,
    inner: list[tuple[bytes, bytes]] | None = None,
    stamp: str | None = None,
    nonce: str | None = None,
) -> tuple[Any, Pairs, bytes]:
    """A request of wire 3 by hand: what opens its answer, headers, body."""
    content_type = "" if body is None else "application/octet-stream"
    pending = session.seal(method, target, content_type, stamp or str(now_ms()), nonce or entropy.nonce())
    stream = pending.sealer.seal_all(encode_inner(inner or []), body or b"")
    headers = list(pending.headers)
    if body is None:
        return pending, [*headers, ("X-Sealed", encode_base64(stream))], b""
    return pending, [*headers, ("Content-Type", content_type)], stream


def open_native(pending: Any, response: httpx.Response) -> tuple[dict[bytes, bytes], bytes]:
    headers = Headers((n.decode(), v.decode("latin-1")) for n, v in response.headers.raw)
    opener, sealed = pending.open(response.status_code, headers)
    inner, frames = open_whole(opener, response.content if sealed is None else sealed)
    return dict(inner), b"".join(frames)


def seal_compat(session: ClientSession, target: str, body: bytes, nonce: str | None = None) -> tuple[SealedCall, Pairs]:
    sealed = session.seal(target, body, str(now_ms()), nonce or entropy.nonce(), entropy.iv())
    return sealed, [*sealed.headers, ("Content-Type", sealed.content_type)]


def open_compat(sealed: SealedCall, response: httpx.Response) -> bytes:
    headers = Headers((n.decode(), v.decode("latin-1")) for n, v in response.headers.raw)
    return sealed.open(response.status_code, headers, response.content, now_ms(), 300_000)


def problem(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    value = response.json()
    assert value["type"] == f"urn:sealway:problem:{value['code']}"
    assert value["status"] == response.status_code
    return response.status_code, value["code"]


# --- What handlers and clients see


def test_a_handler_receives_a_plain_request_and_the_identity_headers(world: World) -> None:
    session = agree_native(world.store, who=native_server.Caller("bearer", "ann é", "acme"))
    inner = [
        (b"content-type", b"text/x"),
        (b"x-a", b"1"),
        (b"forwarded", b"for=1.2.3.4"),
        (b"x_sealway_subject", b"eve"),
    ]
    pending, headers, body = seal_native(session, "PUT", "/echo?a=b%20c", b"hello", inner=inner)
    outside = [("X-Sealway-Subject", "eve"), ("X-Outer", "1"), ("X-Forwarded-For", "6.6.6.6"), ("User-Agent", "tests")]
    response = world.http.request("PUT", "/echo?a=b%20c", headers=[*headers, *outside], content=body)
    told, answer = open_native(pending, response)
    assert answer == b"hello"
    assert told[b"content-type"] == b"application/x-echo"
    assert (told[b"x-inside"], told[b"set-cookie"]) == (b"1", b"a=b")
    assert response.headers["set-cookie"] == "a=b"
    assert "x-inside" not in response.headers
    assert response.headers["cache-control"] == "no-store, no-transform"
    assert "total;dur=" in response.headers["server-timing"]
    [(method, query, seen, data)] = world.seen.requests
    assert (method, query, data) == ("PUT", "a=b%20c", b"hello")
    assert seen["x-sealway-subject"] == "ann %C3%A9"
    assert (seen["x-sealway-auth"], seen["x-sealway-tenant"]) == ("bearer", "acme")
    assert seen["x-sealway-client-id"] == "tests"
    assert (seen["content-type"], seen["x-a"], seen["user-agent"]) == ("text/x", "1", "tests")
    assert not {"x-outer", "x-kid", "x-seal", "forwarded", "x-forwarded-for"} & set(seen)


@pytest.mark.parametrize("wire", [1, 2])
def test_a_compat_call_is_opened_and_its_answer_sealed(world: World, wire: int) -> None:
    session = agree_compat(world.store, wire)
    sealed, headers = seal_compat(session, "/echo?q=1", b"plain")
    response = world.http.post("/echo?q=1", headers=[*headers, ("X-Outer", "1")], content=sealed.body)
    assert response.status_code == 200
    assert open_compat(sealed, response) == b"plain"
    [(_, _, seen, data)] = world.seen.requests
    assert data == b"plain"
    assert seen["content-type"] == "application/json"
    assert seen["x-outer"] == "1"
    assert not {"x-kid", "x-idempotency-key", "x-clientid", "x-nonce"} & set(seen)
    assert seen.get("x-sealway-client-id") == ("tests" if wire == 2 else None)


@pytest.mark.parametrize(
    ("code", "told", "is_sealed"), [(201, 200, True), (400, 400, False), (422, 400, False), (304, 502, False),
                                    (404, 404, True), (500, 500, True)]
)  # fmt: skip
def test_a_compat_answer_has_a_status_that_its_wire_has(world: World, code: int, told: int, is_sealed: bool) -> None:
    session = agree_compat(world.store, 2)
    sealed, headers = seal_compat(session, f"/status/{code}", b"")
    response = world.http.post(f"/status/{code}", headers=headers, content=sealed.body)
    assert response.status_code == told
    if is_sealed:
        assert open_compat(sealed, response) == b'{"code":%d}' % code
    else:
        assert response.json() == {"error": "CRYPTO_ERROR" if told == 400 else "SERVICE_UNAVAILABLE"}


@pytest.mark.parametrize("code", [200, 204, 304, 404, 503])
def test_an_answer_of_wire_3_has_the_services_own_status(world: World, code: int) -> None:
    session = agree_native(world.store)
    pending, headers, _ = seal_native(session, "GET", f"/status/{code}", None)
    response = world.http.get(f"/status/{code}", headers=headers)
    assert response.status_code == code
    _, body = open_native(pending, response)
    assert body == (b"" if code in (204, 304) else b'{"code":%d}' % code)
    assert ("x-sealed" in response.headers) is (code in (204, 304))


def test_an_answer_to_head_is_in_a_header(world: World) -> None:
    pending, headers, _ = seal_native(agree_native(world.store), "HEAD", "/status/200", None)
    response = world.http.head("/status/200", headers=headers)
    assert open_native(pending, response)[1] == b""


def test_a_large_body_goes_through_in_frames_both_ways(world: World) -> None:
    session, body = agree_native(world.store), bytes(range(256)) * 700
    pending, headers, stream = seal_native(session, "POST", "/echo", body)
    response = world.http.post("/echo", headers=headers, content=stream)
    assert open_native(pending, response)[1] == body


def test_a_handler_that_fails_is_a_sealed_500(world: World) -> None:
    pending, headers, stream = seal_native(agree_native(world.store), "POST", "/broken", b"x")
    response = world.http.post("/broken", headers=headers, content=stream)
    assert response.status_code == 500
    assert open_native(pending, response)[1] == b"Internal Server Error"


def test_an_answer_that_cannot_be_sealed_is_not_sent(world: World) -> None:
    _, headers, stream = seal_native(agree_native(world.store), "POST", "/many", b"x")
    assert problem(world.http.post("/many", headers=headers, content=stream)) == (502, "upstream_unreachable")
    sealed, compat = seal_compat(agree_compat(world.store, 2), "/large", b"x")
    assert world.http.post("/large", headers=compat, content=sealed.body).status_code == 502


def test_routes_decide_which_requests_are_sealed(world: World) -> None:
    spoofed = {"X-Sealway-Subject": "eve", "X_Sealway_Subject": "eve"}
    assert world.http.get("/open", headers=spoofed).status_code == 200
    assert world.http.post("/either", content=b"1", headers=spoofed).content == b"1"
    assert all("sealway" not in name for _, _, seen, _ in world.seen.requests for name in seen)
    refused = world.http.post("/nowhere", content=b"1")
    assert (refused.status_code, refused.json()) == (400, {"error": "CRYPTO_ERROR"})
    assert world.http.get("/echo").json() == {"error": "METHOD_NOT_ALLOWED"}
    pending, headers, stream = seal_native(agree_native(world.store), "POST", "/either", b"2")
    assert open_native(pending, world.http.post("/either", headers=headers, content=stream))[1] == b"2"


def test_a_path_that_no_route_names_is_sealed_and_its_preflight_reaches_no_handler(world: World) -> None:
    for path in ("/echo", "/either", "/status/200", "/nowhere"):
        told = world.http.request("OPTIONS", path, headers={"Origin": "https://shop.example"}, content=b"?")
        assert (told.status_code, told.headers["allow"], told.content) == (204, "POST, OPTIONS", b"")
        assert world.http.request("TRACE", path).status_code == 405
    assert world.seen.requests == []
    for method in ("GET", "PUT"):
        told = world.http.request(method, "/stream", content=b"")
        assert (told.status_code, told.json()) == (405, {"error": "METHOD_NOT_ALLOWED"})
    assert world.http.options("/open").status_code == 405  # Starlette's own, which has no such method there


ORIGIN = [
    ("Forwarded", "for=6.6.6.6"), ("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Anything", "6.6.6.6"),
    ("X_Forwarded_For", "6.6.6.6"), ("X-Real-IP", "6.6.6.6"), ("Client-Cert", ":6666:"),
    ("Client-Cert-Chain", ":6666:"), ("X-Client-Cert", ":6666:"),
]  # fmt: skip


@pytest.mark.parametrize("trusts", [False, True])
@pytest.mark.parametrize("wire", [1, 2, 3])
def test_origin_headers_pass_only_from_a_trusted_proxy(trusts: bool, wire: int) -> None:
    store, seen = MemoryStore(), Seen()
    with served(sealed_application(seen, store, trust_forwarded=trusts)) as url, httpx.Client(base_url=url) as http:
        if wire == 3:
            inner = [(name.lower().encode(), b"7.7.7.7") for name, _ in ORIGIN]
            _, headers, stream = seal_native(agree_native(store), "POST", "/echo", b"x", inner=inner)
        else:
            sealed, headers = seal_compat(agree_compat(store, wire), "/echo", b"x")
            stream = sealed.body
        assert http.post("/echo", headers=[*headers, *ORIGIN], content=stream).status_code == 200
    [(_, _, told, _)] = seen.requests
    names = {name.lower() for name, _ in ORIGIN}
    found = {name: value for name, value in told.items() if name in names}
    # The one in front does not know a name with underscores, and would pass on whatever a client says there.
    wanted = {name.lower(): value for name, value in ORIGIN if "_" not in name}
    assert found == (wanted if trusts else {})


# --- Hostile clients


def test_a_replay_is_rejected_and_reaches_no_handler(world: World) -> None:
    _, headers, stream = seal_native(agree_native(world.store), "POST", "/echo", b"once")
    assert world.http.post("/echo", headers=headers, content=stream).status_code == 200
    assert problem(world.http.post("/echo", headers=headers, content=stream)) == (409, "replayed")
    for wire in (1, 2):
        sealed, compat = seal_compat(agree_compat(world.store, wire), "/echo", b"once")
        assert world.http.post("/echo", headers=compat, content=sealed.body).status_code == 200
        again = world.http.post("/echo", headers=compat, content=sealed.body)
        assert (again.status_code, again.json()) == (400, {"error": "CRYPTO_ERROR"})
    assert len(world.seen.requests) == 3


def test_a_changed_byte_method_target_or_type_is_rejected_and_claims_no_nonce(world: World) -> None:
    _, headers, stream = seal_native(agree_native(world.store), "POST", "/echo?a=1", b"text")
    for at in (0, 16, 20, len(stream) - 1):
        broken = stream[:at] + bytes([stream[at] ^ 1]) + stream[at + 1 :]
        assert problem(world.http.post("/echo?a=1", headers=headers, content=broken)) == (400, "unsealable")
    other = [(n, v if n != "Content-Type" else "text/plain") for n, v in headers]
    assert problem(world.http.post("/echo?a=1", headers=other, content=stream)) == (400, "unsealable")
    assert problem(world.http.put("/echo?a=1", headers=headers, content=stream)) == (400, "unsealable")
    assert problem(world.http.post("/echo?a=2", headers=headers, content=stream)) == (400, "unsealable")
    for cut in (b"", stream[:10], stream[:-1], stream + b"\0"):
        assert problem(world.http.post("/echo?a=1", headers=headers, content=cut)) == (400, "unsealable")
    assert world.seen.requests == []
    assert world.http.post("/echo?a=1", headers=headers, content=stream).status_code == 200


def test_a_reflected_answer_is_rejected(world: World) -> None:
    sealed, headers = seal_compat(agree_compat(world.store, 2), "/echo", b"x")
    answer = world.http.post("/echo", headers=headers, content=sealed.body)
    echoed = [("X-Kid", answer.headers["x-kid"]), ("X-Idempotency-Key", answer.headers["x-idempotency-key"])]
    back = world.http.post("/echo", headers=[*echoed, ("X-ClientId", "tests")], content=answer.content)
    assert (back.status_code, back.json()) == (400, {"error": "CRYPTO_ERROR"})


def test_missing_repeated_and_malformed_headers_are_rejected(world: World) -> None:
    _, headers, stream = seal_native(agree_native(world.store), "POST", "/echo", b"x")
    for name in ("X-Kid", "X-Idempotency-Key"):
        without = [(n, v) for n, v in headers if n != name]
        assert problem(world.http.post("/echo", headers=without, content=stream)) == (400, "unsealable")
        twice = [*headers, next((n, v) for n, v in headers if n == name)]
        assert problem(world.http.post("/echo", headers=twice, content=stream)) == (400, "unsealable")
    # Two hops could take two values of it, of which the seal names one.
    for other in ("application/octet-stream", "text/plain"):
        typed = [*headers, ("Content-Type", other)]
        assert problem(world.http.post("/echo", headers=typed, content=stream)) == (400, "unsealable")
    both = [*headers, ("X-Sealed", encode_base64(stream))]
    assert problem(world.http.post("/echo", headers=both, content=stream)) == (400, "unsealable")
    assert world.seen.requests == []


def test_a_client_whose_clock_is_off_receives_the_time_with_a_proof(world: World) -> None:
    session = agree_native(world.store)
    pending, headers, stream = seal_native(session, "POST", "/echo", b"x", stamp=str(now_ms() - 300_500))
    response = world.http.post("/echo", headers=headers, content=stream)
    assert problem(response) == (400, "clock_skew")
    told = response.json()
    mac = clock_mac(session.s2c(), pending.nonce, pending.stamp, told["server_time_ms"])
    assert told["mac"] == encode_base64(mac)


def test_an_unknown_or_expired_session_is_rejected_as_expired(world: World) -> None:
    session = agree_native(world.store)
    world.store.delete(session.id)
    _, headers, stream = seal_native(session, "POST", "/echo", b"x")
    assert problem(world.http.post("/echo", headers=headers, content=stream)) == (401, "session_expired")
    over = agree_native(world.store, ttl_sec=0)
    _, headers, stream = seal_native(over, "POST", "/echo", b"x")
    assert problem(world.http.post("/echo", headers=headers, content=stream)) == (401, "session_expired")
    compat = agree_compat(world.store, 2)
    world.store.delete(compat.id)
    sealed, headers = seal_compat(compat, "/echo", b"x")
    refused = world.http.post("/echo", headers=headers, content=sealed.body)
    assert (refused.status_code, refused.json()) == (401, {"error": "SESSION_EXPIRED"})


def test_a_session_of_another_wire_is_rejected(world: World) -> None:
    native, compat = agree_native(world.store), agree_compat(world.store, 2)
    as_compat = ClientSession(native.id, 2, "tests", native.prk_bytes(), 2**50)
    sealed, headers = seal_compat(as_compat, "/echo", b"x")
    assert world.http.post("/echo", headers=headers, content=sealed.body).json() == {"error": "CRYPTO_ERROR"}
    _, headers, stream = seal_native(native, "POST", "/echo", b"x")
    swapped = [(n, f"session:{compat.id}" if n == "X-Kid" else v) for n, v in headers]
    assert problem(world.http.post("/echo", headers=swapped, content=stream)) == (400, "unsealable")


def test_an_anonymous_session_is_limited_to_its_paths(world: World) -> None:
    session = agree_compat(world.store, 1, is_anonymous=True)
    sealed, headers = seal_compat(session, "/echo", b"x")
    assert world.http.post("/echo", headers=headers, content=sealed.body).status_code == 200
    sealed, headers = seal_compat(session, "/status/200", b"x")
    refused = world.http.post("/status/200", headers=headers, content=sealed.body)
    assert (refused.status_code, refused.json()) == (403, {"error": "SESSION_FORBIDDEN"})
    sealed, headers = seal_compat(session, "/echo", bytes(5000))
    assert world.http.post("/echo", headers=headers, content=sealed.body).status_code == 413


def test_ten_mebibytes_are_too_large(world: World) -> None:
    session, body = agree_native(world.store), bytes(10 * 1024 * 1024)
    _, headers, stream = seal_native(session, "POST", "/echo", body)
    assert problem(world.http.post("/echo", headers=headers, content=stream)) == (413, "too_large")
    sealed, compat = seal_compat(agree_compat(world.store, 2), "/echo", bytes(1_100_000))
    assert world.http.post("/echo", headers=compat, content=sealed.body).json() == {"error": "PAYLOAD_TOO_LARGE"}


def test_a_stream_that_breaks_later_fails_for_its_handler(world: World) -> None:
    session = agree_native(world.store)
    pending = session.seal("POST", "/echo", "application/octet-stream", str(now_ms()), entropy.nonce())
    first = pending.sealer.seal(encode_inner([]) + b"first", False)
    second = bytearray(pending.sealer.seal(b"second", True))
    second[-1] ^= 1
    headers = [*pending.headers, ("Content-Type", "application/octet-stream")]
    before = world.seen.broke_off
    response = world.http.post("/echo", headers=headers, content=iter([first, bytes(second)]))
    assert problem(response) == (400, "unsealable")
    assert world.seen.requests == []
    assert world.seen.broke_off <= before + 1


# --- Stores


class Failing:
    """A store that gives what a test says."""

    def __init__(self, store: MemoryStore, error: Exception) -> None:
        self.store, self.error = store, error

    async def session(self, id: str) -> SessionRecord | None:
        return await self.store.session(id)

    async def admit(self, claim: Claim) -> Admission:
        raise self.error


@pytest.mark.parametrize(
    ("error", "compat", "native"),
    [
        (StoreUnavailable("away"), (503, "SERVICE_UNAVAILABLE"), (503, "store_unavailable")),
        (StoreFull("full"), (400, "CRYPTO_ERROR"), (503, "store_unavailable")),
        (ProtocolError("replayed"), (400, "CRYPTO_ERROR"), (409, "replayed")),
    ],
)
def test_without_a_claim_nothing_is_served(error: Exception, compat: tuple[int, str], native: tuple[int, str]) -> None:
    store, seen = MemoryStore(), Seen()
    with served(sealed_application(seen, Failing(store, error))) as url, httpx.Client(base_url=url) as http:
        _, headers, stream = seal_native(agree_native(store), "POST", "/echo", b"x")
        assert problem(http.post("/echo", headers=headers, content=stream)) == native
        sealed, pairs = seal_compat(agree_compat(store, 2), "/echo", b"x")
        response = http.post("/echo", headers=pairs, content=sealed.body)
        assert (response.status_code, response.json()["error"]) == compat
    assert seen.requests == []


def test_a_policy_may_deny_a_request() -> None:
    store, seen = MemoryStore(), Seen()
    app = sealed_application(seen, store, allow=lambda record, path: path != "/echo")
    with served(app) as url, httpx.Client(base_url=url) as http:
        _, headers, stream = seal_native(agree_native(store), "POST", "/echo", b"x")
        assert problem(http.post("/echo", headers=headers, content=stream)) == (403, "policy")
        sealed, pairs = seal_compat(agree_compat(store, 1), "/echo", b"x")
        assert http.post("/echo", headers=pairs, content=sealed.body).json() == {"error": "SESSION_FORBIDDEN"}


# --- Slow clients


@pytest.mark.parametrize("wire", [2, 3])
def test_a_body_that_does_not_arrive_is_rejected_in_time(
    world: World, wire: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "BODY_SEC", 0.3)
    if wire == 3:
        _, headers, stream = seal_native(agree_native(world.store), "POST", "/echo", b"text")
    else:
        sealed, headers = seal_compat(agree_compat(world.store, 2), "/echo", b"text")
        stream = sealed.body
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    request = f"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {len(stream)}\r\n{head}\r\n".encode()
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", httpx.URL(world.url).port or 0), 10) as connection:
        connection.sendall(request + stream[:-1])
        told = connection.recv(65_536)
    assert told.startswith(b"HTTP/1.1 400 ")
    assert time.monotonic() - began < 5
    assert world.seen.requests == []
