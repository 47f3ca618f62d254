"""Middleware and transports over HTTP on this machine."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount
from starlette.routing import Route as StarletteRoute

from forging import forge, make_pair
from sealway import UsageError
from sealway.asgi import Route, SealedApp
from sealway.errors import ProtocolError, SealwayError, StoreFull
from sealway.mle import (
    AsyncMleTransport,
    MleApp,
    MleCodec,
    MleOptions,
    MleRefusal,
    MleTransport,
    OpeningKey,
    SealingKey,
)
from sealway.server import MemoryStore
from serving import served

SHOP, CLIENT = make_pair(), make_pair()
SHOP_KEY = OpeningKey(SHOP.private_key, kid_from="spki_sha256_hex")
TO_SHOP = SealingKey(SHOP.certificate, kid_from="spki_sha256_hex")
CLIENT_KEY = OpeningKey(CLIENT.private_key, kid_from="spki_sha256_hex")
TO_CLIENT = SealingKey(CLIENT.certificate, kid_from="spki_sha256_hex")
CRYPTO_ERROR = '{"error":"CRYPTO_ERROR"}'
REFUSALS: list[SealwayError] = []


async def echo(request: Request) -> Response:
    query, text = request.query_params, await request.body()
    headers = {"etag": '"1"', "x-own": "yes"}
    status = int(query.get("status", "200"))
    if "bare" in query:
        return Response(None, status, headers)
    if "long" in query:

        async def parts() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1000

        return StreamingResponse(parts(), status, headers)
    if "coded" in query:
        return Response(gzip.compress(b"{}"), status, {**headers, "content-encoding": "gzip"})
    if "broken" in query:
        raise RuntimeError("the handler is broken")
    seen = {
        "body": json.loads(text) if text else None,
        "wire": request.headers.get("x-sealway-wire"),
        "of": request.method,
        "own": request.headers.get("x-own"),
    }
    return JSONResponse(seen, status, headers)


INNER = Starlette(
    routes=[StarletteRoute(path, echo, methods=["GET", "POST", "DELETE"]) for path in ("/pay", "/open", "/optional")]
)
ROUTES = [
    Route("/open", "off"),
    Route("/optional", "optional"),
    Route("/pay", body_max_bytes=100_000, answer_max_bytes=100_000),
]


def app(**more: Any) -> MleApp:
    given: dict[str, Any] = {
        "open": [SHOP_KEY],
        "seal": TO_CLIENT,
        "store": MemoryStore(),
        "routes": ROUTES,
        "on_refusal": REFUSALS.append,
    }
    return MleApp(INNER, "mastercard-jwe", **{**given, **more})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(app()) as found:
        yield found


@pytest.fixture(autouse=True)
def _no_refusals() -> None:
    REFUSALS.clear()


def options(**more: Any) -> MleOptions:
    given: dict[str, Any] = {"profile": "mastercard-jwe", "open": [CLIENT_KEY], "seal": TO_SHOP}
    return MleOptions(**{**given, **more})


Call = Callable[..., httpx.Response]


@contextmanager
def calling(kind: str, **more: Any) -> Iterator[Call]:
    """Makes calls, sync or async."""
    inner = more.pop("inner", None)
    if kind == "sync":
        with httpx.Client(transport=MleTransport(options(**more), inner=inner)) as client:
            yield client.request
        return

    def call(method: str, url: str, **given: Any) -> httpx.Response:
        async def run() -> httpx.Response:
            async with httpx.AsyncClient(transport=AsyncMleTransport(options(**more), inner=inner)) as client:
                return await client.request(method, url, **given)

        return anyio.run(run)

    yield call


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def wrapped(token: bytes) -> bytes:
    return b'{"encryptedData":"%s"}' % token


def to_shop(**lies: Any) -> bytes:
    return wrapped(forge(SHOP, TO_SHOP.kid, **lies))


# --- Both together


def test_the_handler_gets_the_plaintext_and_its_answer_is_sealed(kind: str, url: str) -> None:
    with calling(kind) as call:
        answer = call("POST", f"{url}/pay?status=201", json={"pan": "4111", "amount": 12.5}, headers={"X-Own": "mine"})
    assert (answer.status_code, answer.headers["x-own"], answer.headers.get("etag")) == (201, "yes", None)
    assert answer.headers["content-type"] == "application/json"
    body = {"pan": "4111", "amount": 12.5}
    assert answer.json() == {"body": body, "wire": "mle:mastercard-jwe", "of": "POST", "own": "mine"}
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_nothing_on_the_way_is_in_clear(url: str) -> None:
    seen: list[bytes] = []

    class Spy(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(request.read())
            assert request.headers["accept-encoding"] == "identity"
            assert "digest" not in request.headers and "range" not in request.headers
            response = super().handle_request(request)
            seen.append(response.read())
            return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(seen[-1]))

    with calling("sync", inner=Spy()) as call:
        call("POST", f"{url}/pay", json={"a": 1}, headers={"Digest": "sha-256=x", "Range": "bytes=0-1"})
    assert len(seen) == 2 and all(set(json.loads(each)) == {"encryptedData"} for each in seen)


def test_a_request_without_a_body_gets_a_sealed_answer_and_an_empty_answer_stays_empty(kind: str, url: str) -> None:
    with calling(kind) as call:
        answer = call("GET", f"{url}/pay")
        assert (answer.json()["of"], answer.json()["wire"]) == ("GET", None)
        bare = call("POST", f"{url}/pay?bare&status=204", json={})
    assert (bare.status_code, bare.content) == (204, b"")
    assert set(httpx.get(f"{url}/pay").json()) == {"encryptedData"}


def test_errors_are_sealed_too(kind: str, url: str) -> None:
    with calling(kind) as call:
        answer = call("POST", f"{url}/pay?status=422", json={"a": 1})
    assert (answer.status_code, answer.json()["body"]) == (422, {"a": 1})


# --- The middleware


def test_every_wrong_token_gets_one_answer_byte_for_byte(url: str) -> None:
    token = forge(SHOP, TO_SHOP.kid)
    assert httpx.post(f"{url}/pay", content=wrapped(token)).status_code == 200
    wrong: list[tuple[str, bytes, dict[str, str]]] = [
        ("replayed", wrapped(token), {}),
        ("json", b'{"pan":"4111"}', {}),
        ("json", b'{"encryptedData":"%s","pan":"4111"}' % token, {}),
        ("json", b"", {}),
        ("shape", wrapped(b"a.b.c"), {}),
        ("kid", wrapped(forge(SHOP, "stranger")), {}),
        ("kid", to_shop(), {"keyId": "other"}),
        ("unwrap", wrapped(forge(CLIENT, TO_SHOP.kid)), {}),
        ("tag", to_shop(aad="x"), {}),
        ("json", gzip.compress(to_shop()), {"Content-Encoding": "gzip"}),
        ("json", to_shop(), {"Content-Encoding": "br"}),
    ]
    answers = set()
    for reason, body, headers in wrong:
        REFUSALS.clear()
        answer = httpx.post(f"{url}/pay", content=body, headers=headers)
        fixed = [pair for pair in answer.headers.items() if pair[0] != "date"]
        answers.add(f"{answer.status_code} {sorted(fixed)} {answer.text}")
        assert isinstance(REFUSALS[0], MleRefusal) and REFUSALS[0].reason == reason
    assert len(answers) == 1, answers
    assert CRYPTO_ERROR in answers.pop()


def test_a_body_over_its_bound_gets_413_as_it_arrives(url: str) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(15):
            yield bytes(10_000)

    answer = httpx.post(f"{url}/pay", content=parts())
    assert (answer.status_code, answer.text) == (413, '{"error":"PAYLOAD_TOO_LARGE"}')
    assert [error.code for error in REFUSALS] == ["body_too_large"]
    answer = httpx.post(f"{url}/pay", content=bytes(100_001))
    assert (answer.status_code, answer.text) == (413, '{"error":"PAYLOAD_TOO_LARGE"}')


def test_routes_say_which_paths_have_tokens(url: str) -> None:
    headers = {"X-Sealway-Wire": "mle:visa"}
    assert httpx.post(f"{url}/open", json={"a": 1}, headers=headers).json()["wire"] is None
    optional = httpx.post(f"{url}/optional", json={"a": 1}, headers=headers).json()
    assert (optional["body"], optional["wire"]) == ({"a": 1}, None)
    with calling("sync") as call:
        assert call("POST", f"{url}/optional", json={"a": 1}).json()["wire"] == "mle:mastercard-jwe"
    for path in ("/OPEN", "/o%70en/../pay", "/elsewhere"):
        answer = httpx.post(url + path, json={"a": 1})
        assert (answer.status_code, answer.text) == (400, CRYPTO_ERROR), path


@pytest.mark.parametrize("query", ["long", "coded", "broken"])
def test_an_answer_that_cannot_be_sealed_is_not_sent(query: str, url: str) -> None:
    answer = httpx.post(f"{url}/pay?{query}", content=to_shop())
    if query == "broken":
        # Starlette answers for it, and that is sealed.
        assert (answer.status_code, set(answer.json())) == (500, {"encryptedData"})
        return
    assert (answer.status_code, answer.text) == (502, '{"error":"SERVICE_UNAVAILABLE"}')
    assert [error.code for error in REFUSALS] == ["unanswered"]


def test_errors_in_clear_need_the_option_on_both_sides() -> None:
    with served(app(plain_answers="errors")) as url:
        with calling("sync") as strict, pytest.raises(MleRefusal) as caught:
            strict("POST", f"{url}/pay?status=409", json={"a": 1})
        assert caught.value.reason == "json" and caught.value.host == url.removeprefix("http://")
        with calling("sync", plain_answers="errors") as loose:
            assert loose("POST", f"{url}/pay?status=409", json={"a": 1}).json()["body"] == {"a": 1}
            assert loose("POST", f"{url}/pay", json={"a": 1}).status_code == 200


class Store(MemoryStore):
    """A store that is away, or outside of whose window everything is."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self._failure = failure

    async def admit(self, claim: Any) -> Any:
        raise self._failure


def test_nothing_is_served_while_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    found = []
    for failure in (OSError("away"), StoreFull("full"), ProtocolError("timestamp_outside_window")):
        with served(app(store=Store(failure))) as url:
            answer = httpx.post(f"{url}/pay", content=to_shop())
            found.append((answer.status_code, answer.text, getattr(REFUSALS[-1], "reason", REFUSALS[-1].code)))
    assert found == [
        (503, '{"error":"SERVICE_UNAVAILABLE"}', "store_unavailable"),
        (400, CRYPTO_ERROR, "store_full"),
        (400, CRYPTO_ERROR, "iat"),
    ]


def test_without_a_store_a_token_opens_again() -> None:
    with served(app(store=None)) as url:
        body = to_shop()
        assert [httpx.post(f"{url}/pay", content=body).status_code for _ in range(2)] == [200, 200]


def test_it_stands_in_one_application_beside_sealed_sessions() -> None:
    both = Starlette(
        routes=[
            Mount("/mle", app(routes=())),
            Mount("/", SealedApp(INNER, store=MemoryStore(), routes=[Route("/open", "off")])),
        ]
    )
    with served(both) as url:
        with calling("sync") as call:
            assert call("POST", f"{url}/mle/pay", json={}).json()["wire"] == "mle:mastercard-jwe"
        assert httpx.post(f"{url}/open", json={}).status_code == 200
        assert httpx.post(f"{url}/pay", json={}).status_code == 400


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"open": []}, "open"),
        ({"seal": None}, "seal"),
        ({"seal": SealingKey(CLIENT.public_key, kid="k", enc="A256CBC-HS512")}, "A256CBC-HS512"),
        ({"plain_answers": "all"}, "plain_answers"),
        ({"routes": ["/pay"]}, "routes"),
        ({"store": object()}, "store"),
        ({"body_max_bytes": -1}, "body_max_bytes"),
        ({"buffered_max_bytes": 1}, "buffered_max_bytes"),
        ({"content_type": ""}, "content_type"),
    ],
)
def test_a_wrong_option_is_named(more: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        app(**more)


# --- The client


@contextmanager
def answering(body: bytes, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Iterator[str]:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})

    with served(answer) as url:
        yield url


def to_client(**lies: Any) -> bytes:
    return wrapped(forge(CLIENT, CLIENT_KEY.kid, **lies))


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b'{"ok":true}', 200, "json"),
        (b'{"error":1}', 500, "json"),
        (b"<html>Welcome to the hotel", 200, "json"),
        (wrapped(forge(SHOP, "x")), 200, "kid"),
        (to_client(aad="x"), 200, "tag"),
    ],
)
def test_an_answer_that_does_not_open_is_an_error(kind: str, body: bytes, status: int, reason: str) -> None:
    with answering(body, status) as url, calling(kind) as call, pytest.raises(MleRefusal) as caught:
        call("POST", url, json={})
    error = caught.value
    assert (error.reason, error.code, error.stage, error.retryable) == (reason, "unsealable", "call", False)
    assert error.host == url.removeprefix("http://") and "4111" not in str(error)


def test_errors_in_clear_pass_by_option_and_successes_never() -> None:
    with calling("sync", plain_answers="errors") as loose:
        with answering(b'{"ok":true}') as url, pytest.raises(MleRefusal):
            loose("POST", url, json={})
        with answering(to_client(aad="x"), 400) as url, pytest.raises(MleRefusal) as caught:
            loose("POST", url, json={})
        assert caught.value.reason == "tag"
        with answering(b"down", 503) as url:
            assert loose("POST", url, json={}).content == b"down"


def test_answers_have_a_bound_and_redirects_and_codings_are_errors(kind: str) -> None:
    with calling(kind, answer_max_bytes=1999) as call:
        with answering(bytes(2000)) as url, pytest.raises(SealwayError) as caught:
            call("POST", url, json={})
        assert caught.value.code == "body_too_large"
        with answering(b"", 307, ((b"location", b"/other"),)) as url, pytest.raises(SealwayError) as caught:
            call("POST", url, json={})
        assert caught.value.code == "redirected"
        with answering(to_client(), 200, ((b"content-encoding", b"gzip"),)) as url, pytest.raises(MleRefusal):
            call("POST", url, json={})


def test_errors_of_the_network_are_those_of_httpx(kind: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with calling(kind) as call, pytest.raises(httpx.ConnectError):
        call("POST", f"http://127.0.0.1:{port}", json={})


def test_answers_of_visa_may_have_no_time_and_none_that_is_old() -> None:
    seal = SealingKey(CLIENT.public_key, kid_from="spki_sha256_hex")
    old = MleCodec("visa", seal=seal, now_ms=lambda: time.time_ns() // 1_000_000 - 400_000).seal("answer", b"{}")
    with calling("sync", profile="visa") as call:
        with answering(old) as url, pytest.raises(MleRefusal) as caught:
            call("POST", url, json={})
        assert caught.value.reason == "iat"
        with answering(b'{"encData":"%s"}' % forge(CLIENT, CLIENT_KEY.kid)) as url:
            assert call("POST", url, json={}).json() == {"pan": "4111"}


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"open": []}, "open"),
        ({"plain_answers": "all"}, "plain_answers"),
        ({"answer_max_bytes": -1}, "answer_max_bytes"),
    ],
)
def test_a_wrong_option_of_the_client_is_named(more: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        MleTransport(options(**more))
    with pytest.raises(UsageError, match="options"):
        AsyncMleTransport("visa")  # type: ignore[arg-type]
