"""Bodies that flow, calls at once, calls that end early: both transports over real sockets."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import anyio
import httpcore
import httpx
import pytest

import sealway
from calling import KINDS, calling, calls, options
from hostile import Hostile
from sealway.client.network import _left
from sealway.client.timer import CONNECTING, READING, SENDING, StepTimeout, Timer


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.005)


def test_bodies_stream_both_ways_in_threads(hostile: Hostile, url: str) -> None:
    with httpx.Client(transport=sealway.Transport(url, options())) as client:
        with client.stream("POST", url + "/stream", content=iter([b"abc", b"de" * 40_000, b"f"])) as response:
            assert b"".join(response.iter_bytes()) == (b"ABC" + b"DE" * 40_000 + b"F" + b"end")
        assert response.extensions["sealway"].crypto_sec["open"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_many_calls_at_once_agree_one_session(hostile: Hostile, url: str, kind: str) -> None:
    if kind == "sync":
        with httpx.Client(transport=sealway.Transport(url, options())) as client:
            threads = [threading.Thread(target=client.post, args=(url + "/echo",)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
    else:

        async def run() -> None:
            transport = sealway.AsyncTransport(url, options())
            async with httpx.AsyncClient(transport=transport) as client, anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(client.post, url + "/echo")

        anyio.run(run)
    assert (hostile.inits, hostile.calls) == (1, 8)


def test_a_client_works_after_a_cancelled_call(hostile: Hostile, url: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(transport=sealway.AsyncTransport(url, options())) as client:
            hostile.mode = "hang"
            with anyio.move_on_after(0.3):
                await client.post(url + "/echo")
            hostile.mode = ""
            assert (await client.post(url + "/echo", content=b"1")).content == b"1"

    anyio.run(run)
    assert hostile.inits == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_of_a_request_arrives_before_the_rest_exists(hostile: Hostile, url: str, kind: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one"
        until(lambda: hostile.seen.pieces == [b"one"])
        yield b"two"

    async def async_pieces() -> AsyncIterator[bytes]:
        yield b"one"
        with anyio.fail_after(5):
            while hostile.seen.pieces != [b"one"]:
                await anyio.sleep(0.005)
        yield b"two"

    with calling(kind, url) as (_, send):
        response = send("POST", "/stream", content=pieces() if kind == "sync" else async_pieces())
    assert (response.content, hostile.seen.pieces) == (b"ONETWOend", [b"one", b"two"])


def test_a_piece_of_an_answer_comes_when_the_service_sends_it_to_threads(hostile: Hostile, url: str) -> None:
    heard: list[bytes] = []
    with (
        httpx.Client(transport=sealway.Transport(url, options())) as client,
        client.stream("GET", url + "/ticks") as response,
    ):
        for chunk in response.iter_bytes():
            heard.append(chunk)
            # Not before the first one is here is the second one made.
            hostile.seen.go.set()
    assert heard == [b"one", b"two"]


def test_a_piece_of_an_answer_comes_when_the_service_sends_it_to_tasks(hostile: Hostile, url: str) -> None:
    async def run() -> list[bytes]:
        heard: list[bytes] = []
        transport = sealway.AsyncTransport(url, options())
        async with httpx.AsyncClient(transport=transport) as client, client.stream("GET", url + "/ticks") as response:
            async for chunk in response.aiter_bytes():
                heard.append(chunk)
                hostile.seen.go.set()
        return heard

    assert anyio.run(run) == [b"one", b"two"]


# --- Calls that end early end on the wire


def test_a_cancelled_call_ends_its_exchange(hostile: Hostile, url: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(transport=sealway.AsyncTransport(url, options())) as client:
            for path in ("/wait", "/endless"):
                before = hostile.seen.left
                async with anyio.create_task_group() as group:
                    group.start_soon(client.get, url + path)
                    with anyio.fail_after(5):
                        while path not in hostile.seen.begun:
                            await anyio.sleep(0.005)
                    await anyio.sleep(0.05)
                    assert hostile.seen.left == before
                    group.cancel_scope.cancel()
                # The client itself is still open: it is the exchange that ended.
                with anyio.fail_after(5):
                    while hostile.seen.left == before:
                        await anyio.sleep(0.005)

    anyio.run(run)


def test_a_stream_that_a_task_abandons_ends_its_exchange(hostile: Hostile, url: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(transport=sealway.AsyncTransport(url, options())) as client:
            async with client.stream("GET", url + "/endless") as response:
                assert await anext(response.aiter_bytes()) == b"tick"
                assert hostile.seen.left == 0
            with anyio.fail_after(5):
                while hostile.seen.left == 0:
                    await anyio.sleep(0.005)

    anyio.run(run)


def test_a_stream_that_a_thread_abandons_ends_its_exchange(hostile: Hostile, url: str) -> None:
    with httpx.Client(transport=sealway.Transport(url, options())) as client:
        with client.stream("GET", url + "/endless") as response:
            assert next(response.iter_bytes()) == b"tick"
            assert hostile.seen.left == 0
        until(lambda: hostile.seen.left == 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_times_out_ends_its_exchange(hostile: Hostile, url: str, kind: str) -> None:
    with calling(kind, url, total_timeout_sec=0.5) as (_, send):
        with pytest.raises(sealway.TimeoutError):
            send("GET", "/wait")
        until(lambda: hostile.seen.left == 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("quick", "dripped"),
    [
        (b"", b"HTTP/1.1 201 Created\r\nx-a: bcdefghijkl"),
        (b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n", b"0" * 16 + b"1"),
        (b"HTTP/1.1 201 Created\r\ncontent-length: 50\r\n\r\n", b"{" * 50),
    ],
    ids=["head", "length of a chunk", "body"],
)
def test_an_answer_that_drips_ends_at_the_deadline(kind: str, quick: bytes, dripped: bytes) -> None:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            peer, _ = server.accept()
            with peer, suppress(OSError):
                peer.sendall(quick)
                for byte in dripped:
                    if ended.wait(0.2):
                        return
                    peer.sendall(bytes([byte]))

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(sealway.TimeoutError):
            calls(kind, f"http://127.0.0.1:{server.getsockname()[1]}", total_timeout_sec=0.7)
        took = time.monotonic() - began
        ended.set()
        thread.join()
    assert took < 1.5


LIMITS = {"connect_timeout_sec": 10.0, "head_timeout_sec": 30.0, "idle_timeout_sec": 60.0, "total_timeout_sec": None}


def test_a_step_ends_at_the_deadline_of_its_call() -> None:
    timer = Timer({**LIMITS, "total_timeout_sec": 20.0}, {})
    timer.enter(SENDING)
    step = timer.steps()["write"]
    assert 19.9 < step <= 20.0
    assert isinstance(step, StepTimeout) and 19.9 < step.left_sec() <= 20.0
    timer._began -= 21
    for error in (httpcore.ReadTimeout, httpcore.WriteTimeout, httpcore.ConnectTimeout):
        with pytest.raises(error):
            _left(step, error)
    assert _left(7.0, httpcore.ReadTimeout) == 7.0
    assert _left(None, httpcore.ReadTimeout) is None


def test_a_joint_timeout_runs_on_between_reads_and_another_one_begins_anew() -> None:
    timer = Timer(LIMITS, {})
    for event, whole in (("connection.connect_tcp.started", 10.0), ("http11.receive_response_headers.started", 30.0)):
        timer.note(event)
        timer._since -= whole - 1
        assert 0.9 < timer.left_sec() <= 1.0
    timer.enter(READING)
    timer._since -= 100
    assert timer.left_sec() == 60.0
    timer.note("http11.send_request_headers.started")
    assert timer.phase is SENDING
    timer.note("http11.receive_response_body.started")
    assert timer.phase is SENDING


def test_timeouts_of_httpx_count_unless_they_are_its_default() -> None:
    own = httpx.Timeout(3.0, connect=None).as_dict()
    for given, read, connect in ((own, 3.0, 10.0), (httpx.Timeout(5.0).as_dict(), 60.0, 10.0), (None, 60.0, 10.0)):
        timer = Timer(LIMITS, {"timeout": given})
        assert (timer.steps()["read"], timer.steps()["connect"]) == (read, connect)
        timer.enter(READING)
        assert timer.left_sec() == read
        timer.enter(CONNECTING)
        assert 9.9 < timer.left_sec() <= 10.0


def test_without_timeouts_nothing_is_bounded() -> None:
    timer = Timer(dict.fromkeys(LIMITS), {})
    assert timer.left_sec() == timer.joint_left_sec() == math.inf
    timer.check()
    assert all(step >= 1e6 for step in timer.steps().values())


# --- Each timeout, over real sockets


@dataclass
class Drip:
    """A peer that answers with pieces of bytes, each after a pause."""

    url: str
    accepted: int = 0


@contextmanager
def dripping(*pieces: tuple[float, bytes]) -> Iterator[Drip]:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        drip = Drip(f"http://127.0.0.1:{server.getsockname()[1]}")

        def run() -> None:
            with suppress(OSError):
                peer, _ = server.accept()
                drip.accepted += 1
                with peer:
                    for pause, data in pieces:
                        if ended.wait(pause):
                            return
                        peer.sendall(data)
                    ended.wait(5)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield drip
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_that_drips_ends_at_the_head_timeout(kind: str) -> None:
    with dripping(*[(0.15, b"H")] * 20) as drip:
        began = time.monotonic()
        with pytest.raises(
            sealway.TimeoutError, match=r"no answer within 0.5 s \(option `head_timeout_sec`\)"
        ) as error:
            calls(kind, drip.url, head_timeout_sec=0.5)
        assert time.monotonic() - began < 1.5
    assert (error.value.stage, error.value.code, error.value.retryable) == ("agreement", "timeout", True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_timeout_does_not_count_the_upload(hostile: Hostile, url: str, kind: str) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(4):
            time.sleep(0.2)
            yield b"x"

    async def async_pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            await anyio.sleep(0.2)
            yield b"x"

    with calling(kind, url, head_timeout_sec=0.5) as (_, send):
        response = send("POST", "/stream", content=pieces() if kind == "sync" else async_pieces())
    assert response.content == b"XXXXend"


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_pauses_ends_at_the_idle_timeout_and_not_at_that_of_the_head(
    hostile: Hostile, url: str, kind: str
) -> None:
    with calling(kind, url, head_timeout_sec=0.3, idle_timeout_sec=0.8) as (_, send):
        threading.Timer(0.5, hostile.seen.go.set).start()
        assert send("GET", "/ticks").content == b"onetwo"
        hostile.begin()
        began = time.monotonic()
        with pytest.raises(sealway.TimeoutError, match="idle_timeout_sec") as error:
            send("GET", "/ticks")
        assert 0.7 < time.monotonic() - began < 2
        hostile.seen.go.set()
    assert (error.value.stage, error.value.retryable) == ("call", False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_may_have_its_own_timeouts(hostile: Hostile, url: str, kind: str) -> None:
    with calling(kind, url) as (_, send):
        send("GET")
        hostile.mode = "hang"
        for name in ("total", "head"):
            with pytest.raises(sealway.TimeoutError, match=f"within 0.3 s .option `{name}_timeout_sec`"):
                send("GET", extensions={f"sealway_{name}_timeout_sec": 0.3})
        hostile.mode = ""
        with pytest.raises(sealway.ProtocolError, match="answer_max_bytes"):
            send("GET", "/large", extensions={"sealway_answer_max_bytes": 1000})
        for extension, value in (("sealway_deadline_sec", 1), ("sealway_total_timeout_sec", 0)):
            with pytest.raises(sealway.UsageError, match="sealway_total_timeout_sec"):
                send("GET", extensions={extension: value})


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_without_a_total_timeout_is_not_bounded(hostile: Hostile, url: str, kind: str) -> None:
    with calling(kind, url, total_timeout_sec=0.6) as (_, send):
        threading.Timer(1.0, hostile.seen.go.set).start()
        assert send("GET", "/ticks", extensions={"sealway_total_timeout_sec": None}).content == b"onetwo"
