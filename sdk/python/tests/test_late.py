"""What may change before a sealed request is admitted, and while it streams: the clock, its session, the claims."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from sealway import entropy
from sealway.asgi import SealedApp
from sealway.errors import ProtocolError, StoreUnavailable
from sealway.server import MemoryStore, body, serve
from sealway.session.claim import Claim
from sealway.session.compat.call import ClientSession
from sealway.session.native.client import Session
from sealway.wire.inner import encode_inner
from serving import agree_compat, agree_native, now_ms

WINDOW_MS = 1000
HTTP: dict[str, Any] = {"type": "http", "method": "POST", "path": "/order", "raw_path": b"/order", "query_string": b""}

Pairs = list[tuple[str, str]]
Seal = Callable[[int], tuple[Pairs, list[bytes]]]


class World:
    """A store and a server with a clock that the test sets, and a handler that says whether it was reached."""

    def __init__(self) -> None:
        self.clock_ms = now_ms()
        self.store = MemoryStore(window_ms=WINDOW_MS, now_ms=lambda: self.clock_ms)
        self.served = 0
        self.handler: Any = self.bought
        self.app = SealedApp(self._run, store=self.store, window_ms=WINDOW_MS, now_ms=lambda: self.clock_ms)
        self.asked, self.released = anyio.Event(), anyio.Event()
        self.native: Session | None = None
        self.compat: ClientSession | None = None

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
        self.served += 1
        await self.handler(scope, receive, send)

    async def bought(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"bought"})

    def id(self, wire: int) -> str:
        session = self.native if wire == 3 else self.compat
        assert session is not None
        return session.id

    def seal(self, wire: int, stamp_ms: int) -> tuple[Pairs, list[bytes]]:
        """A request of one frame, or of a frame and an end."""
        if wire == 3:
            self.native = self.native or agree_native(self.store)
            pending = self.native.seal("POST", "/order", "application/octet-stream", str(stamp_ms), entropy.nonce())
            frames = [pending.sealer.seal(encode_inner([]) + b"{}", False), pending.sealer.seal(b"", True)]
            return [*pending.headers, ("Content-Type", "application/octet-stream")], frames
        self.compat = self.compat or agree_compat(self.store, 2)
        sealed = self.compat.seal("/order", b"{}", str(stamp_ms), entropy.nonce(), entropy.iv())
        return [*sealed.headers, ("Content-Type", sealed.content_type)], [sealed.body]

    async def call(
        self, headers: Pairs, parts: list[bytes], is_held: bool = False, is_open: bool = False
    ) -> list[dict[str, Any]]:
        """What the server sends. Of a body that is held nothing comes before `released`; an open one does not end."""
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        sent: list[dict[str, Any]] = []
        left = list(parts)

        async def receive() -> dict[str, Any]:
            if is_held:
                self.asked.set()
                await self.released.wait()
            if not left:
                await anyio.sleep_forever()
            return {"type": "http.request", "body": left.pop(0), "more_body": is_open or bool(left)}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app({**HTTP, "headers": raw}, receive, send)
        return sent

    async def told(self, headers: Pairs, parts: list[bytes], change: Callable[[], object]) -> tuple[int, str]:
        """Returns status and code of a request during whose body something changes."""
        sent: list[dict[str, Any]] = []

        async def run() -> None:
            sent.extend(await self.call(headers, parts, is_held=True))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await self.asked.wait()
                change()
                self.released.set()
        if sent[0]["status"] == 200:
            return 200, ""
        said = json.loads(sent[1]["body"])
        return sent[0]["status"], said.get("code") or said["error"]


WIRES = pytest.mark.parametrize("wire", [2, 3])
HOW = pytest.mark.parametrize("how", ["revoked", "over"])


@WIRES
def test_a_slow_copy_of_a_request_is_not_served_after_the_first_claim_is_forgotten(wire: int) -> None:
    async def run() -> None:
        world = World()
        begin_ms = world.clock_ms
        request = world.seal(wire, begin_ms + 900)
        await world.call(*request)
        assert world.served == 1
        world.clock_ms = begin_ms + 1800

        def pass_by() -> None:
            world.clock_ms = begin_ms + 2 * WINDOW_MS + 2

        told = await world.told(*request, pass_by)
        assert told == ((400, "clock_skew") if wire == 3 else (400, "CRYPTO_ERROR"))
        assert world.served == 1

    anyio.run(run)


@WIRES
@HOW
def test_a_request_whose_session_ends_before_its_first_frame_arrives_is_not_served(wire: int, how: str) -> None:
    async def run() -> None:
        world = World()
        request = world.seal(wire, world.clock_ms)

        def end() -> None:
            if how == "revoked":
                world.store.delete(world.id(wire))
            else:
                record = world.store._sessions[world.id(wire)]
                world.store.put(type(record)(**{**_members(record), "expires_ms": world.clock_ms}))

        told = await world.told(*request, end)
        assert told == ((401, "session_expired") if wire == 3 else (401, "SESSION_EXPIRED"))
        assert world.served == 0

    anyio.run(run)


def _members(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


@WIRES
def test_a_body_that_drips_has_the_same_deadline_as_one_that_stalls(wire: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SEC", 0.3)

    async def run() -> None:
        world = World()
        headers, parts = world.seal(wire, world.clock_ms)
        whole = b"".join(parts)
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        left = [whole[at : at + 1] for at in range(len(whole) - 1)]

        async def receive() -> dict[str, Any]:
            await anyio.sleep(0.05)
            return {"type": "http.request", "body": left.pop(0) if left else b"", "more_body": True}

        statuses: list[int] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        monkeypatch.setattr(body, "_DISCARD_SEC", 0.1)
        with anyio.fail_after(2):
            await world.app({**HTTP, "headers": raw}, receive, send)
        assert statuses == [400]
        assert world.served == 0

    anyio.run(run)


def test_the_store_rejects_stamps_older_than_what_it_forgot_when_the_clock_is_set_back() -> None:
    async def run() -> None:
        world = World()
        begin_ms = world.clock_ms

        async def admit(stamp_ms: int, key: int) -> None:
            await world.store.admit(Claim(struct.pack(">16B", *[key] * 16), True, stamp_ms, WINDOW_MS))

        await admit(begin_ms, 1)
        world.clock_ms = begin_ms + 3_600_000
        await admit(world.clock_ms, 2)
        world.clock_ms = begin_ms
        with pytest.raises(ProtocolError, match="timestamp_outside_window"):
            await admit(begin_ms, 1)

    anyio.run(run)


def sent_of_a_session_that_ends(how: str, work: Callable[[Any, Any, anyio.Event], Any]) -> list[dict[str, Any]]:
    """Sends a whole request, ends its session once the handler has set the event, and returns what the server sent."""

    async def run() -> list[dict[str, Any]]:
        world = World()
        begun = anyio.Event()
        world.handler = lambda scope, receive, send: work(receive, send, begun)
        headers, parts = world.seal(3, world.clock_ms)
        sent: list[dict[str, Any]] = []

        async def call() -> None:
            sent.extend(await world.call(headers, parts))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await begun.wait()
                if how == "revoked":
                    world.store.delete(world.id(3))
                else:
                    world.clock_ms += 3_600_000
        return sent

    return anyio.run(run)


@HOW
def test_an_answer_in_flight_is_cut_within_a_second_of_the_end_of_its_session(how: str) -> None:
    async def ticks(receive: Any, send: Any, begun: anyio.Event) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"tick", "more_body": True})
            begun.set()
            await anyio.sleep(0.05)

    assert sent_of_a_session_that_ends(how, ticks)[-1]["more_body"]


@HOW
def test_a_request_whose_session_ends_before_its_answer_begins_is_rejected(how: str) -> None:
    async def never(receive: Any, send: Any, begun: anyio.Event) -> None:
        while (await receive()).get("more_body"):
            pass
        begun.set()
        await anyio.sleep_forever()

    assert sent_of_a_session_that_ends(how, never)[0]["status"] == 401


def test_a_request_that_still_arrives_is_cut_within_a_second_of_the_end_of_its_session() -> None:
    async def run() -> None:
        world = World()
        begun = anyio.Event()

        async def wait(scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            await world.bought(scope, receive, send)
            world.served += 1

        world.handler = wait
        headers, parts = world.seal(3, world.clock_ms)
        sent: list[dict[str, Any]] = []

        async def call() -> None:
            sent.extend(await world.call(headers, parts[:1], is_open=True))

        with anyio.fail_after(4):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await begun.wait()
                world.store.delete(world.id(3))
        assert sent[0]["status"] == 401
        assert json.loads(sent[1]["body"])["code"] == "session_expired"
        assert world.served == 1

    anyio.run(run)


@HOW
def test_a_request_that_still_arrives_after_its_answer_began_is_cut_at_the_end_of_its_session(how: str) -> None:
    async def run() -> None:
        world = World()

        async def early(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"yes"})
            if how == "revoked":
                world.store.delete(world.id(3))
            else:
                world.clock_ms += 3_600_000
            while (await receive()).get("more_body"):
                pass

        world.handler = early
        headers, parts = world.seal(3, world.clock_ms)
        with anyio.fail_after(4):
            sent = await world.call(headers, parts[:1], is_open=True)
        # What was answered before stays answered.
        assert [message.get("more_body") for message in sent] == [None, False]

    anyio.run(run)


@pytest.mark.parametrize("how", ["refused", "broken", "silent"])
def test_a_request_in_flight_survives_a_store_outage_but_not_its_session(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "LOOK_AGAIN_SEC", 0.001)

    async def run() -> None:
        world = World()
        asked = 0

        async def away(id: str) -> None:
            nonlocal asked
            asked += 1
            if how == "silent":
                # The session's end comes before an answer.
                await anyio.sleep_forever()
            raise StoreUnavailable("away") if how == "refused" else ConnectionError("away")

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            record = world.store._sessions[world.id(3)]
            monkeypatch.setattr(world.store, "session", away)
            if how == "silent":
                world.clock_ms = record.expires_ms - 200
            while asked < (1 if how == "silent" else 3):
                await anyio.sleep(0.001)
            world.served += 1
            world.clock_ms = record.expires_ms
            await anyio.sleep_forever()

        world.handler = slow
        with anyio.fail_after(10):
            sent = await world.call(*world.seal(3, world.clock_ms))
        assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (401, "session_expired")
        assert world.served == 2

    anyio.run(run)


@WIRES
def test_an_application_that_has_read_its_request_and_answered_is_not_cancelled(
    wire: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "LOOK_AGAIN_SEC", 0.001)

    async def run() -> None:
        world = World()
        is_over = False

        async def early(scope: Any, receive: Any, send: Any) -> None:
            nonlocal is_over
            await world.bought(scope, receive, send)
            world.store.delete(world.id(wire))
            await anyio.sleep(0.1)
            is_over = True

        world.handler = early
        assert (await world.call(*world.seal(wire, world.clock_ms)))[0]["status"] == 200
        assert is_over

    anyio.run(run)


def test_a_call_of_wire_2_in_flight_is_not_cut_because_its_client_would_retry_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "LOOK_AGAIN_SEC", 0.001)

    async def run() -> None:
        world = World()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            world.store.delete(world.id(2))
            await anyio.sleep(0.1)
            await world.bought(scope, receive, send)

        world.handler = slow
        assert (await world.call(*world.seal(2, world.clock_ms)))[0]["status"] == 200

    anyio.run(run)
