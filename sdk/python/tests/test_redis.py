"""The middleware over the Redis of a real authority: `spec/redis-store.md`."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import redis as driver
from redis.asyncio.connection import ConnectionPool

import processes
import sealway
from sealway.errors import UsageError
from sealway.server.redis import KeyRing, RedisStore
from sealway.server.redis.lines import Lines
from sealway.session.claim import Claim
from sealway.session.epoch import Answer, Epoch
from serving import Seen, sealed_application, served

TARGET = "/transaction/purchase"
BODY = b'{"schemeCode":"AEF","amount":1}'
#: What `spec/redis-store.md` says that the user needs, and nothing else.
RIGHTS = "~sealway:* ~{sealway:* -@all +ping +info +evalsha +time +get +set +exists +pttl +hget +hset +hmget"


@dataclass
class World:
    gateway: processes.Gateway
    redis: processes.Redis
    #: The middleware.
    url: str
    seen: Seen
    store: RedisStore
    admin: Any
    kek: Path

    def captured(self, server_url: str, wire: int = 3) -> tuple[httpx.Response, httpx.Request]:
        """A call at one of the two, and the bytes that went over the wire."""
        sent: list[httpx.Request] = []

        class Watching(httpx.HTTPTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                sent.append(request)
                return super().handle_request(request)

        trust = sealway.FirstUse() if wire == 3 else None
        options = sealway.Options(trust=trust, wire=wire, client_id="tests", authority_url=self.gateway.url)
        transport = sealway.Transport(server_url, options, inner=Watching())
        with httpx.Client(transport=transport) as client:
            response = client.post(server_url + TARGET, content=BODY, headers={"Content-Type": "application/json"})
        return response, sent[-1]

    def again(self, request: httpx.Request, server_url: str) -> httpx.Response:
        """The same bytes once more."""
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        return httpx.post(server_url + TARGET, headers=headers, content=request.read())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with begun(tmp_path_factory.mktemp("redis")) as made:
        yield made


@pytest.fixture(autouse=True)
def _forget(request: pytest.FixtureRequest) -> None:
    if "world" in request.fixturenames:
        request.getfixturevalue("world").seen.begin()


@contextmanager
def begun(folder: Path) -> Iterator[World]:
    kek = folder / "sessions.kek"
    kek.write_text(f"# keys\nkek-1 {base64.b64encode(os.urandom(32)).decode()}\n")
    kek.chmod(0o600)
    password = secrets.token_hex(16)
    with processes.redis(folder) as redis:
        admin = driver.Redis(port=redis.port)
        admin.execute_command("ACL", "SETUSER", "service", "on", f">{password}", *RIGHTS.split())  # type: ignore[no-untyped-call]
        processes.identity("generate", str(folder / "a.identity"))
        sessions = f'  store: "redis://127.0.0.1:{redis.port}/0"\n  kek_file: "sessions.kek"\n'
        with processes.gateway(folder, sessions, "key_file: a.identity") as gateway:
            store = RedisStore(f"redis://service:{password}@127.0.0.1:{redis.port}/0", KeyRing(file=kek))
            assert password not in repr(store)
            seen = Seen()
            with served(sealed_application(seen, store), store) as url:
                yield World(gateway, redis, url, seen, store, admin, kek)
        admin.close()


def told(response: httpx.Response) -> tuple[int, str]:
    value = response.json()
    return response.status_code, value.get("code") or value["error"]


REPLAYED = {1: (400, "CRYPTO_ERROR"), 2: (400, "CRYPTO_ERROR"), 3: (409, "replayed")}
AWAY = (503, "store_unavailable")


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


@pytest.mark.parametrize("wire", [1, 2, 3])
def test_a_session_of_the_gateway_is_served_and_no_request_twice(world: World, wire: int) -> None:
    response, request = world.captured(world.url, wire)
    assert (response.status_code, response.content) == (200, BODY)
    assert told(world.again(request, world.url)) == REPLAYED[wire]
    assert told(world.again(request, world.gateway.url)) == REPLAYED[wire]
    [(_, _, headers, _)] = world.seen.requests
    assert headers.get("x-sealway-client-id") == (None if wire == 1 else "tests")


@pytest.mark.parametrize("wire", [1, 2, 3])
def test_a_request_that_the_gateway_served_is_not_served_again(world: World, wire: int) -> None:
    response, request = world.captured(world.gateway.url, wire)
    assert response.json()["status"] == "SUCCESS"
    assert told(world.again(request, world.url)) == REPLAYED[wire]
    assert world.seen.requests == []


def test_one_of_many_equal_concurrent_requests_is_served(world: World) -> None:
    transport = sealway.Transport(world.gateway.url, sealway.Options(trust=sealway.FirstUse()), inner=Interceptor())
    with pytest.raises(Interception), httpx.Client(transport=transport) as client:
        client.post(world.gateway.url + TARGET, content=BODY)
    request = Interceptor.kept[-1]
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(world.again(request, world.url).status_code)) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(results) == [200] + [409] * 11
    assert len(world.seen.requests) == 1


class Interception(Exception):
    """A sealed call that was not sent."""


class Interceptor(httpx.HTTPTransport):
    """Keeps sealed calls back."""

    kept: list[httpx.Request] = []  # noqa: RUF012

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == TARGET:
            self.kept.append(request)
            raise Interception
        return super().handle_request(request)


@contextmanager
def client_of(world: World, **more: Any) -> Iterator[tuple[sealway.Transport, Callable[[], httpx.Response]]]:
    options = sealway.Options(trust=sealway.FirstUse(), authority_url=world.gateway.url, **more)
    transport = sealway.Transport(world.url, options)
    with httpx.Client(transport=transport) as client:
        yield transport, lambda: client.post(world.url + TARGET, content=BODY)


@pytest.mark.parametrize("how", ["ended", "revoked"])
def test_a_session_ended_elsewhere_is_over_within_a_second(world: World, how: str) -> None:
    with client_of(world) as (_, call):
        first = call().extensions["sealway"].session_id
        if how == "ended":
            headers = {"Authorization": f"Bearer {processes.SECRET}"}
            assert httpx.delete(f"{world.gateway.url}/v1/authority/sessions/{first}", headers=headers).is_success
        else:
            world.admin.set(f"sealway:s:{first}", b"x")
        time.sleep(1)
        with pytest.raises(sealway.ProblemError) as error:
            call()
        assert (error.value.status, error.value.code) == (401, "session_expired")
        assert call().extensions["sealway"].session_id != first
    assert len(world.seen.requests) == 2


def test_an_unreadable_session_is_a_fault_and_not_an_ended_session(world: World) -> None:
    with client_of(world) as (_, call):
        first = call().extensions["sealway"].session_id
        name = f"sealway:s:{first}"
        value = world.admin.get(name)
        time.sleep(1)
        for broken in (
            value[:-1] + bytes([value[-1] ^ 1]),
            value[:-1],
            value + b"0",
            value.replace(b"kek-1", b"kek-2"),
        ):
            world.admin.set(name, broken)
            with pytest.raises(sealway.ProblemError) as error:
                call()
            assert (error.value.status, error.value.code) == AWAY
        world.admin.set(name, value)
        assert call().extensions["sealway"].session_id == first


def test_a_request_that_is_stamped_ahead_waits_for_its_time(world: World) -> None:
    with client_of(world) as (transport, call):
        call()
        active: Any = transport._parts.active
        active._clock = (active._clock[0] + 1500, active._clock[1])
        began = time.monotonic()
        assert call().status_code == 200
        assert 0.6 < time.monotonic() - began < 2
        active._clock = (active._clock[0] + 8500, active._clock[1])
        with pytest.raises(sealway.ProblemError) as error:
            call()
        assert (error.value.status, error.value.code) == AWAY
    assert len(world.seen.requests) == 2


def test_while_redis_stalls_requests_are_rejected_in_time_and_none_is_served_later(world: World) -> None:
    _, request = world.captured(world.url)
    with client_of(world) as (_, call):
        call()
        world.redis.process.send_signal(signal.SIGSTOP)
        try:
            for _ in range(2):
                began = time.monotonic()
                with pytest.raises(sealway.ProblemError) as error:
                    call()
                assert (error.value.status, error.value.code) == AWAY
                assert time.monotonic() - began < 0.5 + 0.5
            assert told(world.again(request, world.url)) == AWAY
        finally:
            world.redis.process.send_signal(signal.SIGCONT)
        assert len(world.seen.requests) == 2

        def is_served() -> bool:
            try:
                return call().status_code == 200
            except sealway.ProblemError:
                return False

        until(is_served)
    assert told(world.again(request, world.url)) == REPLAYED[3]


def test_no_request_is_served_twice_after_redis_lost_its_memory(tmp_path: Path) -> None:
    with begun(tmp_path) as world:
        _, request = world.captured(world.url)
        kid = request.headers["X-Kid"].removeprefix("session:")
        sessions = {name: world.admin.get(name) for name in world.admin.keys("sealway:s:*")}
        generation = world.admin.hget("{sealway:0}:epoch", "gen")
        world.admin.flushall()
        # The session is known for a moment yet.
        assert told(world.again(request, world.url)) == AWAY

        # As where they are in PostgreSQL too: sessions are back, claims are not.
        for name, value in sessions.items():
            world.admin.set(name, value)
        assert f"sealway:s:{kid}".encode() in sessions
        until(lambda: world.admin.hget("{sealway:0}:epoch", "gen") not in (None, generation))
        time.sleep(1)
        assert told(world.again(request, world.url)) == AWAY
        # Even if the gateway that began the new epoch knew nothing of the earlier one.
        world.admin.hset("{sealway:0}:epoch", "floor", "0")
        assert told(world.again(request, world.url)) == AWAY
        assert len(world.seen.requests) == 1

        world.redis.process.kill()
        world.redis.process.wait(10)
        began = time.monotonic()
        assert told(world.again(request, world.url)) == AWAY
        assert time.monotonic() - began < 1
        assert len(world.seen.requests) == 1


def test_nothing_is_served_without_an_epoch_of_this_server(tmp_path: Path) -> None:
    with begun(tmp_path) as world:
        _, request = world.captured(world.gateway.url)
        # It would begin another epoch.
        world.gateway.process.send_signal(signal.SIGSTOP)
        try:
            old = world.admin.hgetall("{sealway:0}:epoch")
            for members in ({"gen": "-" + "0" * 31}, {"node": "0" * 40}, {"gen": "0" * 32}):
                world.admin.hset("{sealway:0}:epoch", mapping=members)
                time.sleep(1)
                assert told(world.again(request, world.url)) == AWAY
                world.admin.hset("{sealway:0}:epoch", mapping=old)
        finally:
            world.gateway.process.send_signal(signal.SIGCONT)
        assert world.seen.requests == []


def test_a_connection_with_a_late_answer_is_not_used_again() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
            lines = Lines(ConnectionPool.from_url(url, protocol=2, driver_info=None))
            with anyio.move_on_after(0.2):
                async with lines.line(False) as line:
                    await line.ask(("GET", "a"))
            assert line.is_broken
            assert lines._free == []

    anyio.run(run)


def test_a_connection_in_use_when_the_store_is_closed_is_closed_afterwards() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
            lines = Lines(ConnectionPool.from_url(url, protocol=2, driver_info=None))
            async with lines.line(False) as line:
                await lines.aclose()
            assert lines._free == []
            assert not line._connection.is_connected
            with pytest.raises(ConnectionError):
                async with lines.line(False):
                    pass

    anyio.run(run)


def test_no_request_waits_for_a_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    store = RedisStore("redis://127.0.0.1:1", KeyRing(text="a " + base64.b64encode(bytes(32)).decode()))
    answers = [Answer("AHEAD", 10_000, 0), Answer("OK", 6_000, 0)]

    async def answer(*_: Any) -> tuple[Epoch, Answer]:
        return Epoch("a" * 32, 1), answers.pop(0)

    monkeypatch.setattr(store, "_run", answer)
    began = time.monotonic()
    with pytest.raises(sealway.StoreUnavailable):
        anyio.run(store.admit, Claim(bytes(16), True, 10_600, 300_000))
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    "url",
    [
        "redis-cluster://a:1",
        "http://127.0.0.1",
        "127.0.0.1:6379",
        "redis://h:port",
        "rediss://h?ssl_cert_reqs=none",
        "redis://h?db=1&retry_on_timeout=1",
    ],
)
def test_a_wrong_url_or_prefix_is_rejected(url: str) -> None:
    keys = KeyRing(text="a " + base64.b64encode(bytes(32)).decode())
    with pytest.raises(UsageError):
        RedisStore(url, keys)
    with pytest.raises(UsageError):
        RedisStore("redis://127.0.0.1:1", keys, prefix="a b")
    RedisStore("redis://127.0.0.1:1?db=1", keys)
