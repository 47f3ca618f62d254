"""The room for sealed bodies that still arrive: over sockets, from several addresses."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from sealway import entropy
from sealway.asgi import Route, SealedApp
from sealway.server import MemoryStore, body
from sealway.server.room import Room, client_of
from sealway.wire.inner import encode_inner
from serving import agree_compat, agree_native, now_ms, served

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")

MIB = 1 << 20
WIRES = pytest.mark.parametrize("wire", [1, 2, 3])
HEAD = "POST {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n"
#: Of the plaintext of a body.
LENGTH = {1: 200_000, 2: 400_000, 3: 60_000}


async def handler(scope: Any, receive: Any, send: Any) -> None:
    """Reads what it is sent, but for `/early`; `/throws` fails."""
    if scope["path"] == "/throws":
        raise RuntimeError("a handler's own fault")
    while scope["path"] != "/early" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"bought"})


class Late:
    """A sealed request whose head was sent, and whose body is the test's to send."""

    def __init__(self, connection: socket.socket, sealed: bytes) -> None:
        self.connection, self.body = connection, sealed

    def finish(self) -> tuple[int, bytes]:
        """Sends the rest; what is answered."""
        self.connection.sendall(self.body)
        answer = b""
        while part := self.connection.recv(65_536):
            answer += part
        self.connection.close()
        head, _, text = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), text


class Service:
    """A server, and sessions of all wires."""

    def __init__(self, url: str, app: SealedApp, store: MemoryStore) -> None:
        self.port, self.room = urlsplit(url).port or 0, app._settings.room
        self.compat = {wire: agree_compat(store, wire) for wire in (1, 2)}
        self.native = agree_native(store)
        self.begun: list[socket.socket] = []

    def sealed(self, wire: int, target: str, length: int) -> tuple[list[tuple[str, str]], bytes]:
        if wire == 3:
            pending = self.native.seal("POST", target, "application/octet-stream", str(now_ms()), entropy.nonce())
            whole = pending.sealer.seal_all(encode_inner([]), bytes(length))
            return [*pending.headers, ("Content-Type", "application/octet-stream")], whole
        sealed = self.compat[wire].seal(target, b'"%s"' % (b"x" * length), str(now_ms()), entropy.nonce(), entropy.iv())
        return [*sealed.headers, ("Content-Type", sealed.content_type)], sealed.body

    def begin(self, wire: int, address: str = "127.0.0.1", target: str = "/order", length: int = 0) -> Late:
        headers, whole = self.sealed(wire, target, length or LENGTH[wire])
        connection = socket.create_connection(("127.0.0.1", self.port), 30, (address, 0))
        self.begun.append(connection)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        connection.sendall(f"{HEAD.format(target, len(whole))}{lines}\r\n".encode())
        return Late(connection, whole)

    def all_but_one_byte(self, request: Late) -> None:
        """Sends so much, and waits until the service holds it."""
        before = self.room.taken
        request.connection.sendall(request.body[:-1])
        self.holds(before + len(request.body) - 1)
        request.body = request.body[-1:]

    def holds(self, count: int) -> None:
        until = time.monotonic() + 20
        while self.room.taken != count and time.monotonic() < until:
            time.sleep(0.005)
        assert self.room.taken == count

    def is_served(self, request: Late) -> None:
        status, text = request.finish()
        assert status == 200, text[:100]

    def is_refused(self, wire: int, request: Late) -> None:
        status, text = request.finish()
        problem = {
            "code": "store_unavailable",
            "status": 503,
            "title": "Try again later.",
            "type": "urn:sealway:problem:store_unavailable",
        }
        assert (status, json.loads(text)) == (503, problem if wire == 3 else {"error": "SERVICE_UNAVAILABLE"})


@contextmanager
def service(**more: Any) -> Iterator[Service]:
    store = MemoryStore()
    app = SealedApp(handler, store=store, **{"buffered_max_bytes": 2 * MIB, **more})
    with served(app) as url:
        started = Service(url, app, store)
        try:
            yield started
        finally:
            for connection in started.begun:
                connection.close()


@WIRES
def test_slow_bodies_use_no_more_than_the_budget_and_their_share_of_it(wire: int) -> None:
    with service() as here:
        room = here.room
        each = len(here.sealed(wire, "/order", LENGTH[wire])[1])
        in_share = room.share // (each - 1)
        assert in_share > 1
        # What is only announced takes nothing.
        for _ in range(20):
            here.begin(wire)
        here.is_served(here.begin(wire))
        slow: list[Late] = []
        host = 2
        while room.taken + each <= room.max:
            for _ in range(in_share):
                if room.taken + each <= room.max:
                    slow.append(here.begin(wire, f"127.0.0.{host}"))
                    here.all_but_one_byte(slow[-1])
            if host == 2:
                here.is_refused(wire, here.begin(wire, "127.0.0.2"))
                here.is_served(here.begin(wire, "127.0.1.1"))
            host += 1
        assert len(slow) > in_share
        here.is_refused(wire, here.begin(wire, "127.0.1.1"))
        # The first one is served, and who goes away gives back what it took.
        here.is_served(slow[0])
        here.is_served(here.begin(wire, "127.0.1.1"))
        for request in slow[1:]:
            request.connection.close()
        here.holds(0)
        assert not room.by_client
        here.is_served(here.begin(wire, "127.0.0.2"))


@pytest.mark.parametrize("wire", [2, 3])
def test_reserved_bytes_are_released_however_a_request_ends(wire: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(here: Service, target: str = "/order") -> Late:
        request = here.begin(wire, target=target)
        here.all_but_one_byte(request)
        return request

    def forged(here: Service) -> int:
        request = begun(here)
        request.body = bytes([request.body[0] ^ 1])
        return request.finish()[0]

    def late(here: Service) -> int:
        monkeypatch.setattr(body, "BODY_SEC", 3)
        monkeypatch.setattr(body, "_DISCARD_SEC", 0.1)
        request = begun(here)
        request.body = b""
        return request.finish()[0]

    def cut(here: Service) -> int:
        begun(here).connection.close()
        return 0

    def failing(here: Service) -> int:
        # On wires 1 and 2 what a handler did not answer is 502.
        return begun(here, "/throws").finish()[0]

    ends: list[tuple[Callable[[Service], int], int]] = [(forged, 400), (failing, 502), (cut, 0), (late, 400)]
    with service() as here:
        for end, status in ends:
            assert end(here) == status
            here.holds(0)
        assert not here.room.by_client


def test_bytes_after_the_first_frame_are_released_if_the_handler_answers_without_them() -> None:
    with service() as here:
        request = here.begin(3, target="/early", length=100_000)
        # A frame, and half of one.
        request.body = request.body[:90_000]
        assert request.finish()[0] == 200
        here.holds(0)


def test_behind_a_trusted_proxy_one_address_may_use_the_whole_budget() -> None:
    with service(trust_forwarded=True) as here:
        slow = [here.begin(2) for _ in range(3)]
        for request in slow:
            here.all_but_one_byte(request)
        assert here.room.taken > here.room.share
        for request in slow:
            here.is_served(request)
        here.holds(0)


def test_a_body_longer_than_the_budget_is_too_large() -> None:
    with service(buffered_max_bytes=MIB, routes=[Route("/", body_max_bytes=4 * MIB)]) as here:
        with closing(here.begin(2, length=MIB).connection) as connection:
            assert connection.recv(12).endswith(b" 413")
        here.is_served(here.begin(3, length=2 * MIB))


def test_the_share_of_an_address_is_a_sixteenth_or_the_longest_buffered_body() -> None:
    def share(**more: Any) -> int:
        return SealedApp(handler, store=MemoryStore(), **more)._settings.room.share

    assert share() == 4 * MIB
    assert share(buffered_max_bytes=MIB) == MIB
    assert share(routes=[Route("/", body_max_bytes=9 * MIB)]) == 9 * MIB
    assert share(routes=[Route("/", body_max_bytes=1 << 40)]) == 64 * MIB
    assert Room(MIB, 0).share == 128 << 10


def test_an_ipv6_address_counts_by_its_64_bit_network() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:2") == "2001:db8::/64"
    assert client_of("2001:db8::1") != client_of("2001:db8:0:1::1")
    assert client_of("fe80::1%eth0") == client_of("fe80::2")
    assert client_of("::ffff:192.0.2.1") == client_of("192.0.2.1") == "192.0.2.1"
    assert [client_of(none) for none in (None, "", "@", "testclient", "/run/socket")] == [None] * 5
