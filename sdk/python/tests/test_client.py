"""Both transports against a service that misbehaves, over real sockets: typed errors, no hang, no secret told."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import pytest

import sealway
from calling import CONTENT, KINDS, PIN, calls, options
from hostile import Hostile
from sealway.client.active import ActiveSession
from sealway.crypto.secret import Secret
from sealway.crypto.suite import Suite
from sealway.wire.encoding import encode_base64
from serving import IDENTITY, served


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", [1, 2, 3])
def test_calls_share_one_session(hostile: Hostile, url: str, kind: str, wire: int) -> None:
    responses = calls(kind, url, 3, wire=wire)
    assert [response.content for response in responses] == [CONTENT] * 3
    assert (hostile.inits, hostile.calls) == (1, 3)
    metrics = responses[-1].extensions["sealway"]
    assert metrics.wire == wire
    assert {"seal", "open"} <= set(metrics.crypto_sec)
    assert metrics.server_ms["total"] >= 0
    assert metrics.round_trip_sec >= metrics.http_sec > 0


@pytest.mark.parametrize("suite", list(Suite))
def test_every_suite_agrees(hostile: Hostile, url: str, suite: Suite) -> None:
    hostile.suites = list(Suite)
    [response] = calls("sync", url, suites=(suite,))
    assert response.extensions["sealway"].suite == suite.value


def test_another_suite_that_the_server_requires_is_used_once(hostile: Hostile, url: str) -> None:
    hostile.suites = [Suite.P256]
    [response] = calls("sync", url)
    assert (response.extensions["sealway"].suite, hostile.inits) == ("P256", 2)


BROKEN = [
    ("wrong-tag", 3, "unsealable"),
    ("wrong-tag", 2, "unsealable"),
    ("wrong-tag", 1, "base64_invalid unsealable"),
    ("other-status", 3, "unsealable"),
    ("truncated", 3, "stream_truncated"),
    ("truncated", 2, "unsealable body_too_short"),
    ("missing x-kid", 3, "header_missing"),
    ("missing x-seal", 3, "unsealed"),
    ("missing x-idempotency-key", 3, "header_missing"),
    ("missing x-kid", 2, "unsealed"),
    ("missing x-idempotency-key", 2, "header_missing"),
    ("missing x-tag", 1, "header_missing"),
    ("unsealed", 3, "unsealed"),
    ("unsealed", 2, "unsealed"),
    ("503", 3, "SERVICE_UNAVAILABLE"),
    ("503", 1, "SERVICE_UNAVAILABLE"),
    ("garbage", 3, "unsealed"),
    ("redirect", 3, "redirected"),
    ("redirect", 2, "redirected"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "wire", "code"), BROKEN)
def test_a_wrong_answer_is_an_error(hostile: Hostile, url: str, kind: str, mode: str, wire: int, code: str) -> None:
    hostile.mode = mode
    with pytest.raises(sealway.SealwayError) as error:
        calls(kind, url, wire=wire)
    assert error.value.code in code.split()
    assert "amount" not in str(error.value)
    assert hostile.calls == 1
    if mode == "redirect":
        assert isinstance(error.value, sealway.RedirectError)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_to_another_request_does_not_open(hostile: Hostile, url: str, kind: str) -> None:
    hostile.mode = "replayed"
    with pytest.raises(sealway.ProtocolError) as error:
        calls(kind, url, 2)
    assert error.value.code == "unsealable"
    assert hostile.calls == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_cut_is_an_error(hostile: Hostile, url: str, kind: str) -> None:
    hostile.mode = "cut"
    with pytest.raises((sealway.NetworkError, sealway.ProtocolError)):
        calls(kind, url)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["slow", "hang"])
def test_a_slow_answer_ends_at_the_deadline(hostile: Hostile, url: str, kind: str, mode: str) -> None:
    hostile.mode = mode
    began = time.monotonic()
    with pytest.raises(sealway.TimeoutError):
        calls(kind, url, total_timeout_sec=0.8)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_over_its_bound_is_rejected(hostile: Hostile, url: str, kind: str) -> None:
    with pytest.raises(sealway.ProtocolError) as error:
        calls(kind, url, content=b"", path="/large", answer_max_bytes=1_000_000)
    assert error.value.code == "body_too_large"
    [response] = calls(kind, url, content=b"", path="/large", answer_max_bytes=None)
    assert len(response.content) == 2_000_000


@pytest.mark.parametrize("mode", ["init-forged", "init-status"])
def test_a_changed_answer_to_an_init_is_rejected(hostile: Hostile, url: str, mode: str) -> None:
    hostile.mode = mode
    with pytest.raises(sealway.SealwayError) as error:
        calls("sync", url)
    assert error.value.code in ("signature_invalid", "unsealed")
    assert hostile.calls == 0


def test_a_service_with_another_key_is_not_trusted(hostile: Hostile, url: str) -> None:
    with pytest.raises((sealway.ProtocolError, sealway.ProblemError)) as error:
        calls("sync", url, trust=sealway.Pins(["0" * 32]))
    assert error.value.code in ("key_untrusted", "key_retired")
    assert hostile.calls == 0


def test_a_proof_is_made_for_the_share_that_is_sent(hostile: Hostile, url: str) -> None:
    hashes: list[bytes] = []

    def prove(init_hash: bytes) -> str:
        hashes.append(init_hash)
        return "a proof"

    calls("sync", url, authorization=lambda: "DPoP token", proof=prove)
    assert hostile.request is not None
    assert hostile.request.proof == "a proof"
    assert hashes == [hostile.request.proof_hash()]


def test_a_public_key_can_be_pinned_itself(hostile: Hostile, url: str) -> None:
    assert calls("sync", url, trust=sealway.Pins([encode_base64(IDENTITY.public)]))[0].content == CONTENT


def test_concurrent_writers_of_a_trust_file_lose_nothing(tmp_path: Any) -> None:
    file = tmp_path / "trust.json"
    store = sealway.FileTrustStore(file)
    threads = [threading.Thread(target=store.change, args=(f"http://{n}", lambda _, n=n: {"n": n})) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.read(f"http://{n}") for n in range(16)] == [{"n": n} for n in range(16)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trust.json", "trust.json.lock"]


def test_keys_of_the_first_use_are_stored(hostile: Hostile, url: str, tmp_path: Any) -> None:
    file = tmp_path / "trust.json"
    calls("sync", url, trust=sealway.FirstUse(sealway.FileTrustStore(file)))
    assert PIN in file.read_text()
    file.write_text(file.read_text().replace(PIN, "0" * 32))
    with pytest.raises(sealway.UsageError):
        calls("sync", url, trust=sealway.FirstUse(sealway.FileTrustStore(file)))
    file.write_text("nothing")
    with pytest.raises(sealway.UsageError):
        calls("sync", url, trust=sealway.FirstUse(sealway.FileTrustStore(file)))


def test_a_request_that_cannot_be_sealed_is_the_callers_error(hostile: Hostile, url: str) -> None:
    with httpx.Client(transport=sealway.Transport(url, options())) as client:
        for method, target, headers in (
            ("OPTIONS", "/echo", {}),
            ("POST", "/echo", {"X-Kid": "1"}),
            ("POST", "/echo", {"X-Sealway-Subject": "eve"}),
        ):
            with pytest.raises(sealway.UsageError):
                client.request(method, url + target, headers=headers)
        with pytest.raises(sealway.UsageError):
            client.get("http://127.0.0.1:1/echo")
    with pytest.raises(sealway.UsageError):
        calls("sync", url, wire=2, method="GET")
    with pytest.raises(sealway.UsageError):
        sealway.Options()
    assert hostile.inits == hostile.calls == 0


def test_nothing_that_holds_a_key_prints_it(hostile: Hostile, url: str) -> None:
    for wire in (2, 3):
        transport = sealway.Transport(url, options(wire=wire))
        with httpx.Client(transport=transport) as client:
            client.post(url + "/echo")
            active = transport._parts.active
            assert isinstance(active, ActiveSession)
            session: Any = active.session
            key = session.prk_bytes() if wire == 3 else session.key_bytes()
            for shown in (repr(active), repr(session), str(session)):
                assert key.hex() not in shown
                assert "redacted" in shown
        with pytest.raises(ValueError, match="wiped"):
            session.prk_bytes() if wire == 3 else session.key_bytes()
        if wire == 3:
            with pytest.raises(ValueError, match="wiped"):
                session.seal("GET", "/echo", "", "1", "n" * 16)


def test_derived_keys_are_wiped_with_their_key() -> None:
    secret = Secret(bytes(range(32)))
    assert secret.made(bytes) is secret.made(bytes)
    assert "redacted" in repr(secret)
    secret.wipe()
    for make in (bytes, bytearray):
        with pytest.raises(ValueError, match="wiped"):
            secret.made(make)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", [2, 3])
def test_a_captive_portal_is_named_with_the_host(kind: str, wire: int) -> None:
    async def portal(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<html>Welcome to the hotel"})

    with served(portal) as url, pytest.raises(sealway.PlainAnswerError) as error:
        calls(kind, url, wire=wire)
    host = url.removeprefix("http://")
    assert f"{host}: the answer is not sealed: 200 text/html" in str(error.value)
    assert "a proxy, not the service, answered" in str(error.value)
