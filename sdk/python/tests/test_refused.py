"""Refused calls, by the messages that the middleware takes and gives: no server stands between."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import anyio
import pytest

from sealway import entropy
from sealway.asgi import Route, SealedApp
from sealway.server import MemoryStore, body
from sealway.session.compat.call import ClientSession
from sealway.wire.header import Headers
from sealway.wire.inner import encode_inner
from serving import agree_compat, agree_native, now_ms

Pairs = list[tuple[str, str]]
WIRES = pytest.mark.parametrize("wire", [2, 3])


async def bought(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"bought"})


class Service:
    """The middleware, and a session of each kind."""

    def __init__(self, handler: Any = bought, **more: Any) -> None:
        store = MemoryStore()
        self.app = SealedApp(handler, store=store, **more)
        self.native, self.compat = agree_native(store), agree_compat(store, 2)
        self.anonymous = agree_compat(store, 1, is_anonymous=True)

    def seal(self, wire: int, content: bytes = b"{}") -> tuple[Pairs, bytes, Callable[[Any], bytes]]:
        """Headers and body of a request, and what opens a whole answer of wire 2."""
        if wire == 3:
            pending = self.native.seal("POST", "/order", "application/octet-stream", str(now_ms()), entropy.nonce())
            headers = [*pending.headers, ("Content-Type", "application/octet-stream")]
            return headers, pending.sealer.seal_all(encode_inner([]), content), lambda sent: b""
        return seal_compat(self.compat if wire == 2 else self.anonymous, content)

    def call(
        self, headers: Pairs, chunks: list[bytes], method: str = "POST", path: str = "/order", is_held: bool = False
    ) -> list[dict[str, Any]]:
        """Sends a request and returns the answer. One that is held does not end."""
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        scope = {"type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(), "headers": raw}
        left, sent = list(chunks), list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            if not left and is_held:
                await anyio.sleep_forever()
            data = left.pop(0) if left else b""
            return {"type": "http.request", "body": data, "more_body": is_held or bool(left)}

        async def send(message: Any) -> None:
            sent.append(message)

        async def run() -> None:
            with anyio.fail_after(5):
                await self.app(scope, receive, send)

        anyio.run(run)
        return sent


def seal_compat(session: ClientSession, content: bytes) -> tuple[Pairs, bytes, Callable[[Any], bytes]]:
    sealed = session.seal("/order", content, str(now_ms()), entropy.nonce(), entropy.iv())

    def opened(sent: Any) -> bytes:
        headers = Headers((name.decode(), value.decode()) for name, value in sent[0]["headers"])
        return sealed.open(sent[0]["status"], headers, sent[1]["body"], now_ms(), 300_000)

    return [*sealed.headers, ("Content-Type", sealed.content_type)], sealed.body, opened


def told(sent: list[dict[str, Any]]) -> tuple[int, str]:
    """Status and code of a refusal, which says how long it took as all answers do."""
    [(_, timing)] = [pair for pair in sent[0]["headers"] if pair[0] == b"server-timing"]
    assert b"total;dur=" in timing
    value = json.loads(sent[1]["body"] or b"{}")
    return sent[0]["status"], value.get("code") or value.get("error", "")


async def silent(scope: Any, receive: Any, send: Any) -> None:
    """Answers nothing."""


async def crowded(scope: Any, receive: Any, send: Any) -> None:
    """Answers with more headers than a seal holds; on wire 2 with one that no wire seals."""
    await send({"type": "http.response.start", "status": 304, "headers": [(b"x-%d" % n, b"1") for n in range(80)]})
    await send({"type": "http.response.body", "body": b""})


async def waiting(scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def test_a_rejection_before_the_seal_is_read_has_one_form() -> None:
    service = Service(routes=[Route("/open/", "off"), Route("/", "required")])
    answers = {
        ("GET", "/open/%2e%2e/order"): (400, "CRYPTO_ERROR"),
        ("OPTIONS", "/order"): (204, ""),
        ("TRACE", "/order"): (405, "METHOD_NOT_ALLOWED"),
        ("GET", "/order"): (405, "METHOD_NOT_ALLOWED"),
    }
    for (method, path), answer in answers.items():
        assert told(service.call([], [b""], method, path)) == answer


@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
def test_a_method_that_is_not_sealed_is_rejected_in_the_form_of_its_wire(method: str) -> None:
    sent = Service().call([("X-Seal", "3")], [b""], method)
    assert told(sent) == (405, "method_not_allowed")
    assert (b"allow", b"POST, OPTIONS") in sent[0]["headers"]


@WIRES
@pytest.mark.parametrize("handler", [silent, crowded])
def test_an_unsealable_answer_of_the_application_is_an_error_in_the_form_of_its_wire(wire: int, handler: Any) -> None:
    service = Service(handler)
    headers, sealed, _ = service.seal(wire)
    code = "upstream_unreachable" if wire == 3 else "SERVICE_UNAVAILABLE"
    assert told(service.call(headers, [sealed])) == (502, code)


@pytest.mark.parametrize("status", [400, 422])
def test_a_handlers_400_on_wire_2_has_the_form_of_the_wires_own(status: int) -> None:
    async def rejecting(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"why"})

    service = Service(rejecting)
    headers, sealed, _ = service.seal(2)
    sent = service.call(headers, [sealed])
    assert told(sent) == (400, "CRYPTO_ERROR")
    # A step would say that the request opened.
    assert dict(sent[0]["headers"])[b"server-timing"].startswith(b"total;")


@WIRES
@pytest.mark.parametrize("at", [1, 2, 3], ids=["session", "session again", "claim"])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_unknown_error_of_the_store_is_store_unavailable(
    wire: int, at: int, is_late: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_served = False

    async def serving(scope: Any, receive: Any, send: Any) -> None:
        nonlocal is_served
        is_served = True

    service = Service(serving)
    store, asked = service.app._settings.store, 0

    def failing(ask: Any) -> Any:
        def asks(value: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == at and not is_late:
                raise ConnectionError("away")
            return answer(value, asked)

        async def answer(value: Any, number: int) -> Any:
            if number == at:
                raise ConnectionError("away")
            return await ask(value)

        return asks

    monkeypatch.setattr(store, "session", failing(store.session))
    monkeypatch.setattr(store, "admit", failing(store.admit))
    headers, sealed, _ = service.seal(wire)
    code = "store_unavailable" if wire == 3 else "SERVICE_UNAVAILABLE"
    assert told(service.call(headers, [sealed])) == (503, code)
    assert (asked, is_served) == (at, False)
    # Nobody else says what it was.
    [record] = [each for each in caplog.records if each.exc_info is not None]
    assert record.exc_info is not None and record.exc_info[0] is ConnectionError


@WIRES
def test_a_body_that_does_not_open_is_rejected_in_the_form_of_its_wire(wire: int) -> None:
    service = Service()
    headers, sealed, _ = service.seal(wire)
    code = "unsealable" if wire == 3 else "CRYPTO_ERROR"
    assert told(service.call(headers, [sealed[:-1] + bytes([sealed[-1] ^ 1])])) == (400, code)


def test_a_stream_that_breaks_later_is_reported_like_one_that_broke_at_once() -> None:
    service = Service(waiting)
    pending = service.native.seal("POST", "/order", "application/octet-stream", str(now_ms()), entropy.nonce())
    headers = [*pending.headers, ("Content-Type", "application/octet-stream")]
    first, last = pending.sealer.seal(encode_inner([]) + b"1", False), pending.sealer.seal(b"2", True)
    assert told(service.call(headers, [first, last + b"x"])) == (400, "unsealable")


def test_the_body_of_an_anonymous_session_is_bounded_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_DISCARD_SEC", 0.05)
    service = Service(anonymous_paths=["/order"])
    headers, sealed, _ = service.seal(1, bytes(9000))
    refused = (413, "PAYLOAD_TOO_LARGE")
    # One that says its length, and one that does not: neither has to come to its end.
    assert told(service.call([*headers, ("Content-Length", str(len(sealed)))], [], is_held=True)) == refused
    headers, sealed, _ = service.seal(1, bytes(9000))
    assert told(service.call(headers, [sealed[:4000], sealed[4000:4200]], is_held=True)) == refused
    headers, sealed, opened = service.seal(1, bytes(2000))
    assert opened(service.call(headers, [sealed])) == b"bought"


def test_an_anonymous_session_is_limited_to_its_paths_as_sent() -> None:
    service = Service(anonymous_paths=["/order"])
    call = service.anonymous.seal("/o%72der", b"{}", str(now_ms()), entropy.nonce(), entropy.iv())
    assert told(service.call(call.headers, [call.body], path="/o%72der")) == (403, "SESSION_FORBIDDEN")


@WIRES
@pytest.mark.parametrize("verdict", [None, 1, "no", object()])
def test_a_policy_that_returns_anything_but_true_denies(wire: int, verdict: Any) -> None:
    # A coroutine, which an async function returns, is true as a condition.
    service = Service(allow=lambda record, path: verdict)
    headers, sealed, _ = service.seal(wire)
    assert told(service.call(headers, [sealed])) == (403, "policy" if wire == 3 else "SESSION_FORBIDDEN")


@WIRES
def test_bytes_that_an_application_sends_after_its_answer_are_not_sealed(wire: int) -> None:
    async def talkative(scope: Any, receive: Any, send: Any) -> None:
        await bought(scope, receive, send)
        await send({"type": "http.response.body", "body": b" twice"})

    service = Service(talkative)
    headers, sealed, opened = service.seal(wire)
    sent = service.call(headers, [sealed])
    assert len(sent) == 2 and not sent[1]["more_body"]
    assert wire == 3 or opened(sent) == b"bought"


@WIRES
def test_each_rejected_request_is_reported_once_with_its_code(wire: int) -> None:
    reported: list[tuple[str, int]] = []
    routes = [Route("/open/", "off"), Route("/", body_max_bytes=90)]
    service = Service(silent, routes=routes, on_refusal=lambda error, wire: reported.append((error.code, wire)))
    headers, body, _ = service.seal(wire)
    service.call(headers, [body])
    service.call(headers, [body])
    service.call(service.seal(wire)[0], [bytes(100)])
    service.call(headers, [b""], path="/open/%2e%2e/order")
    codes = ["unanswered", "replayed", "body_too_large", "disguised_path"]
    assert reported == [(code, wire) for code in codes]


def test_an_error_of_on_refusal_changes_no_answer() -> None:
    def on_refusal(error: Exception, wire: int) -> None:
        raise LookupError

    assert told(Service(on_refusal=on_refusal).call([], [b""], "GET")) == (405, "METHOD_NOT_ALLOWED")


@WIRES
def test_a_route_has_its_own_bound_of_bodies_or_the_applications(wire: int) -> None:
    for own, status in ((None, 413), (1000, 200)):
        service = Service(body_max_bytes=60, routes=[Route("/order", body_max_bytes=own)])
        headers, body, _ = service.seal(wire, b'"%s"' % (b"x" * 100))
        assert service.call(headers, [body])[0]["status"] == status
