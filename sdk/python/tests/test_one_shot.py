"""Wire 4 over real sockets, against a service that shares no code with the SDK: `spec/one-shot.md`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest

import sealway
from one_shot_service import PSK, ROOT, Service
from sealway.crypto.curve import KeyPair
from sealway.wire.encoding import encode_base64
from serving import served

ROOT_PUBLIC = encode_base64(KeyPair(ROOT).public)
KINDS = ["sync", "async"]


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Service, str]]:
    service = Service()
    with served(service.app) as url:
        yield service, url


@pytest.fixture
def service(started: tuple[Service, str]) -> Service:
    started[0].begin()
    return started[0]


@pytest.fixture
def url(started: tuple[Service, str]) -> str:
    return started[1]


def pins(service: Service) -> sealway.KeyPins:
    return sealway.KeyPins([encode_base64(one.config) for one in service.keys])


def send(kind: str, url: str, trust: Any, *requests: tuple[str, str, bytes], **options: Any) -> list[httpx.Response]:
    """Sends these requests by one client, one after the other."""
    if kind == "sync":
        with sealway.OneShot(url, trust, **options) as client:
            return [client.request(method, path, content=body or None) for method, path, body in requests]

    async def run() -> list[httpx.Response]:
        async with sealway.AsyncOneShot(url, trust, **options) as client:
            return [await client.request(method, path, content=body or None) for method, path, body in requests]

    return anyio.run(run)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kem", list(sealway.Kem))
@pytest.mark.parametrize("psk", [None, sealway.Psk(*PSK)])
def test_a_request_to_each_kem_is_served(
    service: Service, url: str, kind: str, kem: sealway.Kem, psk: sealway.Psk | None
) -> None:
    post, get, head = send(
        kind,
        url,
        pins(service),
        ("POST", "/pay?x=1", b"amount=77"),
        ("GET", "/a", b""),
        ("HEAD", "/a", b""),
        kems=(kem,),
        psk=psk,
    )
    assert (post.status_code, post.content, post.headers["x-mirror"]) == (200, b"amount=77", "1")
    assert (get.content, head.content) == (b"nothing", b"")
    assert post.extensions["sealway"].suite == kem.value
    assert (service.calls, service.documents) == (3, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_root_and_kids_find_their_key_in_the_document_once(service: Service, url: str, kind: str) -> None:
    for trust in (sealway.Root(ROOT_PUBLIC), sealway.KeyPins([service.keys[2].kid])):
        service.begin()
        answers = send(kind, url, trust, ("POST", "/a", b"1"), ("POST", "/b", b"2"))
        assert [answer.content for answer in answers] == [b"1", b"2"]
        assert (service.calls, service.documents) == (2, 1)


def test_a_stream_goes_up_and_comes_down_in_frames(service: Service, url: str) -> None:
    parts = [b"ab", b"cdef", b"g" * 100_000]
    with (
        sealway.OneShot(url, pins(service)) as client,
        client.stream("POST", "/a", content=iter(parts)) as answer,
    ):
        received = list(answer.iter_raw())
    assert received[0] == b"abc"
    assert b"".join(received) == b"".join(parts)
    with sealway.OneShot(url, pins(service)) as client:
        assert client.post("/missing", content=b"x").status_code == 404


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("replayed", "replayed"),
        ("policy", "policy"),
        ("store_unavailable", "store_unavailable"),
        ("cut", "stream_truncated"),
        ("other status", "unsealable"),
    ],
)
def test_what_the_service_refuses_or_breaks_is_a_typed_error(
    service: Service, url: str, kind: str, mode: str, code: str
) -> None:
    service.mode = mode
    with pytest.raises(sealway.SealwayError) as error:
        send(kind, url, pins(service), ("POST", "/a", b"1"))
    assert error.value.code == code
    assert service.calls == 1
    assert not error.value.retryable
    assert ("unknown" in str(error.value)) is (mode in ("replayed", "policy", "store_unavailable"))


def test_a_problem_that_is_said_to_be_an_answer_does_not_open(service: Service, url: str) -> None:
    service.mode, service.skew_ms = "as answer", 900_000
    with pytest.raises(sealway.ProtocolError, match="unsealable"):
        send("sync", url, pins(service), ("POST", "/a", b"1"))


def test_an_unsealed_problem_of_the_sealed_kind_proves_nothing(service: Service, url: str) -> None:
    service.mode = "unsealed replayed"
    with pytest.raises(sealway.ProblemError) as error:
        send("sync", url, pins(service), ("POST", "/a", b"1"))
    assert not error.value.retryable and "unknown" in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sealed_clock_skew_moves_the_clock_and_sends_again(service: Service, url: str, kind: str) -> None:
    # The client is 20 minutes behind: its stamp was too old for every server.
    service.skew_ms = 1_200_000
    answers = send(kind, url, pins(service), ("POST", "/a", b"1"), ("POST", "/b", b"2"))
    assert [answer.content for answer in answers] == [b"1", b"2"]
    assert service.calls == 3
    # It is ahead: the stamp becomes good later, so that only a safe request is sent again.
    service.begin()
    service.skew_ms = -1_200_000
    assert send(kind, url, pins(service), ("GET", "/a", b""))[0].content == b"nothing"
    with pytest.raises(sealway.ProblemError, match="unknown") as error:
        send(kind, url, pins(service), ("POST", "/a", b"1"))
    assert error.value.code == "clock_skew"
    assert service.calls == 3


@pytest.mark.parametrize("stated_ms", [10**15, 2**64 - 1])
def test_a_server_time_beyond_what_a_stamp_can_carry_moves_no_clock(service: Service, url: str, stated_ms: int) -> None:
    with sealway.OneShot(url, pins(service)) as client:
        service.skew_ms, service.stated_ms = 1_200_000, stated_ms
        for method in ("GET", "POST"):
            with pytest.raises(sealway.ProblemError) as error:
                client.request(method, "/a")
            assert (error.value.code, error.value.retryable) == ("clock_skew", False)
        assert service.calls == 2
        service.skew_ms = 0
        assert client.get("/a").content == b"nothing"
        assert service.calls == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_retired_key_is_named_and_only_a_safe_request_is_sent_again(service: Service, url: str, kind: str) -> None:
    fresh = service.keys[3]

    def retire() -> None:
        service.accepted, service.listed, service.issued_ms = [fresh], [fresh], 2

    root = sealway.Root(ROOT_PUBLIC)
    with sealway.OneShot(url, root) as client:
        client.get("/a")
        retire()
        assert client.get("/a").content == b"nothing"
        assert (service.calls, service.documents) == (3, 1)
    service.begin()
    with sealway.OneShot(url, root) as client:
        client.get("/a")
        retire()
        with pytest.raises(sealway.KeyRetiredError, match="unknown") as error:
            client.post("/a", content=b"1")
        assert error.value.kids == (fresh.kid,)
        # The document was taken: the next call uses its key.
        assert client.post("/a", content=b"1").content == b"1"
    service.begin()
    retire()
    with pytest.raises(sealway.KeyRetiredError) as pinned:
        send(kind, url, sealway.KeyPins([encode_base64(service.keys[0].config)]), ("GET", "/a", b""))
    assert pinned.value.kids == (fresh.kid,)


def test_with_pinned_kids_a_forged_document_lasts_until_the_next_rejection(service: Service, url: str) -> None:
    old, fresh = service.keys[0], service.keys[3]
    # A key without end, issued at the last time there is: the root's signature does not count here.
    service.accepted, service.listed, service.issued_ms = [old], [old], 999_999_999_999_999
    with sealway.OneShot(url, sealway.KeyPins([old.kid, fresh.kid])) as client:
        client.post("/a", content=b"1")
        service.accepted, service.listed, service.issued_ms = [fresh], [fresh], 1
        with pytest.raises(sealway.KeyRetiredError):
            client.get("/a")
        assert client.post("/a", content=b"1").content == b"1"
    assert (service.calls, service.documents) == (3, 2)


def test_an_older_or_foreign_document_is_not_taken(service: Service, url: str, tmp_path: Any) -> None:
    store = sealway.FileTrustStore(tmp_path / "trust.json")
    service.issued_ms = 5
    send("sync", url, sealway.Root(ROOT_PUBLIC, store), ("GET", "/a", b""))
    service.issued_ms = 4
    with pytest.raises(sealway.ProtocolError, match="key_untrusted"):
        send("sync", url, sealway.Root(ROOT_PUBLIC, store), ("GET", "/a", b""))
    other = encode_base64(KeyPair(bytes(31) + b"\x0a").public)
    with pytest.raises(sealway.ProtocolError, match="key_untrusted"):
        send("sync", url, sealway.Root(other), ("GET", "/a", b""))
    with pytest.raises(sealway.ProtocolError, match="key_untrusted"):
        send("sync", url, sealway.KeyPins(["hpke:" + "0" * 32]), ("GET", "/a", b""))
    assert service.calls == 1


@pytest.mark.parametrize("psk", [sealway.Psk("nobody", PSK[1]), sealway.Psk(PSK[0], bytes(32))])
def test_an_unknown_psk_and_a_wrong_one_look_alike(service: Service, url: str, psk: sealway.Psk) -> None:
    with pytest.raises(sealway.ProblemError) as error:
        send("sync", url, pins(service), ("POST", "/a", b"1"), psk=psk)
    assert error.value.code == "unsealable"


def test_options_that_are_wrong_say_so() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: sealway.KeyPins([]), "1 to 16 keys"),
        (lambda: sealway.KeyPins(["AAAA"]), "key configurations"),
        (lambda: sealway.KeyPins(["hpke:" + "0" * 32, "AAAA"]), "key configurations"),
        (lambda: sealway.Psk("a b", bytes(32)), "visible ASCII"),
        (lambda: sealway.Psk("a", bytes(31)), "32 bytes"),
        (lambda: sealway.Options(wire=4), "needs trust"),
        (lambda: sealway.Options(wire=4, trust=sealway.Pins(["0" * 32])), "KeyPins or Root"),
        (lambda: sealway.Options(trust=sealway.Pins(["0" * 32]), psk=sealway.Psk("a", bytes(32))), "only wire 4"),
        (lambda: sealway.Options(wire=4, trust=sealway.Root(ROOT_PUBLIC), kems=()), "none of them"),
    ]
    for wrong, message in cases:
        with pytest.raises(sealway.UsageError, match=message):
            wrong()
    assert "0101" not in repr(sealway.Psk("a", b"\1" * 32))
