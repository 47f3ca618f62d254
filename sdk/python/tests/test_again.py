"""Which refused calls are sent again, by the transports and over real sockets, and in which session the next one goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import sealway
from calling import CONTENT, KINDS, calling, calls
from hostile import Hostile
from sealway.client import clock


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.005)


def together(n: int, act: Callable[[], Any]) -> list[Any]:
    """What so many threads at once come to: a value or an error each."""
    ready, results = threading.Barrier(n), []

    def run() -> None:
        ready.wait(5)
        try:
            results.append(act())
        except sealway.SealwayError as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return results


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("mode", "method", "wire", "is_repeated"),
    [
        ("served-lost", "POST", 3, False),
        ("served-lost", "DELETE", 3, False),
        ("served-lost", "GET", 3, True),
        ("expired-proven", "POST", 3, False),
        ("expired-proven-late", "POST", 3, False),
        ("expired", "POST", 3, False),
        ("expired", "GET", 3, True),
        ("expired", "HEAD", 3, True),
        ("expired", "POST", 2, True),
        ("expired", "POST", 1, True),
    ],
)
def test_a_call_is_retried_only_where_that_is_safe(
    hostile: Hostile, url: str, kind: str, mode: str, method: str, wire: int, is_repeated: bool
) -> None:
    hostile.mode = mode
    if is_repeated:
        [response] = calls(kind, url, method=method, wire=wire)
        assert response.extensions["sealway"].attempts == 2
        assert (hostile.inits, hostile.calls) == (2, 2)
        return
    with pytest.raises(sealway.ProblemError) as error:
        calls(kind, url, method=method, wire=wire)
    assert error.value.code == "session_expired"
    assert "whether the request was served is unknown" in str(error.value)
    assert (hostile.inits, hostile.calls) == (1, 1)
    assert len(hostile.seen.requests) == (1 if mode == "served-lost" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_rejected_twice_is_reported_and_its_session_dropped(hostile: Hostile, url: str, kind: str) -> None:
    hostile.mode = "expired-always"
    with calling(kind, url) as (_, send):
        with pytest.raises(sealway.PlainAnswerError) as error:
            send("HEAD")
        assert error.value.status == 401
        assert (hostile.inits, hostile.calls) == (2, 2)
        hostile.mode = ""
        assert send("HEAD").status_code == 200
    assert (hostile.inits, len(set(hostile.ids))) == (3, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", [1, 2, 3])
def test_a_machine_that_slept_past_the_end_of_its_session_agrees_a_new_one_before_it_posts(
    hostile: Hostile, url: str, kind: str, wire: int
) -> None:
    with calling(kind, url, wire=wire) as (transport, send):
        send(content=CONTENT)
        # By the clock of the day alone it is a day later.
        transport._parts.active._sent._day_ns -= 86_400_000_000_000
        response = send(content=CONTENT)
    assert (response.content, response.extensions["sealway"].attempts) == (CONTENT, 1)
    assert (hostile.inits, hostile.calls, len(set(hostile.ids))) == (2, 2, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", [1, 2, 3])
def test_the_life_of_a_session_counts_from_when_its_init_was_sent(
    hostile: Hostile, url: str, kind: str, wire: int, monkeypatch: Any
) -> None:
    # The answer takes 100 seconds, by the clock of the day alone.
    late = SimpleNamespace(
        monotonic_ns=time.monotonic_ns, time_ns=lambda: time.time_ns() + hostile.inits * 100_000_000_000
    )
    monkeypatch.setattr(clock, "time", late)
    with calling(kind, url, wire=wire) as (transport, send):
        send(content=CONTENT)
        active = transport._parts.active
        assert active._life_sec - 110 < active.left_sec() <= active._life_sec - 100


@pytest.mark.parametrize("wire", [2, 3])
def test_a_call_is_retried_only_once(hostile: Hostile, url: str, wire: int) -> None:
    hostile.mode = "expired-proven-always"
    with pytest.raises(sealway.SealwayError):
        calls("sync", url, method="GET" if wire == 3 else "POST", wire=wire)
    assert (hostile.inits, hostile.calls) == (2, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clock_is_corrected_only_by_proof(hostile: Hostile, url: str, kind: str) -> None:
    hostile.mode = "skew-forged"
    with pytest.raises(sealway.ProblemError) as error:
        calls(kind, url)
    assert error.value.code == "clock_skew"
    hostile.mode, hostile.skew_ms, hostile.calls = "", -400_000, 0
    [response] = calls(kind, url, method="GET")
    assert (response.status_code, hostile.calls) == (200, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "attempts"), [("POST", 1), ("PUT", 1), ("DELETE", 1), ("GET", 2)])
def test_a_clock_skew_that_was_held_back_retries_only_safe_methods(
    hostile: Hostile, url: str, kind: str, method: str, attempts: int
) -> None:
    hostile.mode = "skew-held"
    with calling(kind, url) as (_, send), pytest.raises(sealway.ProblemError) as error:
        send(method)
    assert error.value.code == "clock_skew"
    assert (hostile.calls, hostile.inits) == (attempts, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_purchase_of_a_machine_that_slept_is_retried(hostile: Hostile, url: str, kind: str) -> None:
    with calling(kind, url) as (transport, send):
        send("GET")
        active = transport._parts.active
        active._clock = (active._clock[0] - 700_000, active._clock[1])
        response = send("POST", content=CONTENT)
    assert (response.content, response.extensions["sealway"].attempts) == (CONTENT, 2)
    assert (hostile.calls, len(hostile.seen.requests), hostile.inits) == (3, 2, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_purchase_stamped_too_early_is_not_retried_and_the_next_one_has_the_time(
    hostile: Hostile, url: str, kind: str
) -> None:
    with calling(kind, url) as (transport, send):
        send("GET")
        active = transport._parts.active
        active._clock = (active._clock[0] + 400_000, active._clock[1])
        with pytest.raises(sealway.ProblemError) as error:
            send("POST", content=CONTENT)
        assert (error.value.code, hostile.calls, len(hostile.seen.requests)) == ("clock_skew", 2, 1)
        response = send("POST", content=CONTENT)
    assert (response.content, response.extensions["sealway"].attempts, hostile.inits) == (CONTENT, 1, 1)


def test_the_time_since_a_request_was_sent_is_the_longer_of_both_clocks(monkeypatch: Any) -> None:
    now = SimpleNamespace(monotonic=5_000_000_000, day=9_000_000_000)
    of_now = SimpleNamespace(monotonic_ns=lambda: now.monotonic, time_ns=lambda: now.day)
    monkeypatch.setattr(clock, "time", of_now)
    sent = clock.Moment()
    assert sent.elapsed_ms() == 0
    now.monotonic += 1
    assert sent.elapsed_ms() == 1
    now.day += 60_000_000_000
    assert sent.elapsed_ms() == 60_000
    now.day -= 3_600_000_000_000
    now.monotonic += 2_000_000_000
    assert sent.elapsed_ms() == 2001


# --- The session that a refusal calls over


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_only_posts_is_not_stuck_behind_a_service_without_a_key(
    hostile: Hostile, url: str, kind: str
) -> None:
    hostile.mode = "expired"
    with calling(kind, url) as (_, send):
        with pytest.raises(sealway.ProblemError):
            send(content=CONTENT)
        assert send(content=CONTENT).content == CONTENT
    assert (hostile.calls, hostile.inits, len(set(hostile.ids))) == (2, 2, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_rejection_of_an_older_session_drops_no_newer_one(hostile: Hostile, url: str, kind: str) -> None:
    hostile.mode = "lost-held"
    late: list[Any] = []
    with calling(kind, url) as (_, send):
        thread = threading.Thread(target=lambda: late.extend(together(1, send)))
        thread.start()
        until(lambda: hostile.calls == 1)
        with pytest.raises(sealway.ProblemError):
            send(content=CONTENT)
        assert send(content=CONTENT).content == CONTENT
        hostile.go.set()
        thread.join(5)
        assert [error.code for error in late] == ["session_expired"]
        assert send(content=CONTENT).content == CONTENT
    assert hostile.inits == 2
    assert hostile.ids[2] == hostile.ids[3] != hostile.ids[0]


@pytest.mark.parametrize("kind", KINDS)
def test_concurrent_callers_replace_an_expired_session_once(hostile: Hostile, url: str, kind: str) -> None:
    with calling(kind, url) as (_, send):
        send("GET")
        # The first call has been: from here on those of its session are refused at once.
        hostile.mode = "lost-held"
        responses = together(8, lambda: send("GET"))
    assert [response.status_code for response in responses] == [200] * 8
    assert (hostile.inits, len(set(hostile.ids))) == (2, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_in_flight_finishes_with_its_own_keys(hostile: Hostile, url: str, kind: str) -> None:
    results: list[Any] = []
    with calling(kind, url) as (transport, send):
        hostile.mode = "held"
        thread = threading.Thread(target=lambda: results.extend(together(1, lambda: send(content=CONTENT))))
        thread.start()
        until(lambda: hostile.calls == 1)
        session = transport._parts.active.session
        hostile.mode = ""
        send.end_session()
        assert session.prk_bytes()
        hostile.go.set()
        thread.join(5)
        assert [response.content for response in results] == [CONTENT]
        with pytest.raises(ValueError, match="wiped"):
            session.prk_bytes()
        assert send(content=CONTENT).content == CONTENT
    assert hostile.inits == 2
