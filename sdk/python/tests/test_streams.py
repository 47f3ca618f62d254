"""Bodies that flow, calls at once, calls that end early: both transports over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import anyio
import httpcore
import httpx
import pytest

import sealway
from calling import KINDS, calling, calls, options
from hostile import Hostile
from sealway.client.deadline import StepTimeout
from sealway.client.network import _left


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


def test_a_cancelled_call_leaves_the_client_in_order(hostile: Hostile, url: str) -> None:
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
def test_a_piece_of_a_request_arrives_before_the_rest_is_made(hostile: Hostile, url: str, kind: str) -> None:
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


def test_a_stream_that_a_task_leaves_ends_its_exchange(hostile: Hostile, url: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(transport=sealway.AsyncTransport(url, options())) as client:
            async with client.stream("GET", url + "/endless") as response:
                assert await anext(response.aiter_bytes()) == b"tick"
                assert hostile.seen.left == 0
            with anyio.fail_after(5):
                while hostile.seen.left == 0:
                    await anyio.sleep(0.005)

    anyio.run(run)


def test_a_stream_that_a_thread_leaves_ends_its_exchange(hostile: Hostile, url: str) -> None:
    with httpx.Client(transport=sealway.Transport(url, options())) as client:
        with client.stream("GET", url + "/endless") as response:
            assert next(response.iter_bytes()) == b"tick"
            assert hostile.seen.left == 0
        until(lambda: hostile.seen.left == 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_whose_time_is_over_ends_its_exchange(hostile: Hostile, url: str, kind: str) -> None:
    with calling(kind, url, deadline_sec=0.5) as (_, send):
        with pytest.raises(sealway.DeadlineExceeded):
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
def test_an_answer_that_drips_meets_the_deadline(kind: str, quick: bytes, dripped: bytes) -> None:
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
        with pytest.raises(sealway.DeadlineExceeded):
            calls(kind, f"http://127.0.0.1:{server.getsockname()[1]}", deadline_sec=0.7)
        took = time.monotonic() - began
        ended.set()
        thread.join()
    assert took < 1.5


def test_a_step_has_no_more_time_than_its_call() -> None:
    now = time.monotonic()
    step = StepTimeout(5.0, now + 60, now)
    assert step == 5.0
    assert 4.9 < step.left_sec() <= 5.0
    over = StepTimeout(None, now - 1, now)
    for error in (httpcore.ReadTimeout, httpcore.WriteTimeout, httpcore.ConnectTimeout):
        with pytest.raises(error):
            _left(over, error)
    assert _left(7.0, httpcore.ReadTimeout) == 7.0
    assert _left(None, httpcore.ReadTimeout) is None
