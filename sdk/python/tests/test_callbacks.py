"""Functions that a caller gives to a client: `authorization`, `proof`, `on_metrics`."""

from __future__ import annotations

import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import sealway
from calling import CONTENT, KINDS, calling, calls
from hostile import Hostile

BOTH = pytest.mark.parametrize("kind", KINDS)


@BOTH
@pytest.mark.parametrize("wire", [1, 2, 3])
def test_authorization_is_requested_for_each_init_and_for_no_call(
    hostile: Hostile, url: str, kind: str, wire: int
) -> None:
    tokens = iter(["Bearer one", "Bearer two"])
    with calling(kind, url, wire=wire, authorization=lambda: next(tokens)) as (_, send):
        send()
        send()
        if wire == 3:
            assert hostile.authorization == "Bearer one"
        hostile.mode, hostile.calls = "expired", 0
        send("GET" if wire == 3 else "POST")
    assert hostile.inits == 2
    assert next(tokens, None) is None
    if wire == 3:
        assert hostile.authorization == "Bearer two"


def test_async_functions_are_awaited(hostile: Hostile, url: str) -> None:
    async def authorization() -> str:
        await anyio.lowlevel.checkpoint()
        return "DPoP token"

    async def proof(init_hash: bytes) -> str:
        await anyio.lowlevel.checkpoint()
        return f"a proof of {len(init_hash)} bytes"

    calls("async", url, authorization=authorization, proof=proof)
    assert hostile.authorization == "DPoP token"
    assert hostile.request is not None and hostile.request.proof == "a proof of 32 bytes"


def test_an_async_function_ends_at_the_deadline_of_its_call(hostile: Hostile, url: str) -> None:
    async def authorization() -> str:
        await anyio.sleep(30)
        return ""

    began = time.monotonic()
    with pytest.raises(sealway.TimeoutError, match="total_timeout_sec") as error:
        calls("async", url, authorization=authorization, total_timeout_sec=0.3)
    assert time.monotonic() - began < 2
    assert (error.value.stage, error.value.retryable, hostile.inits) == ("agreement", True, 0)


def test_an_async_function_requires_the_async_transport(hostile: Hostile, url: str) -> None:
    async def authorization() -> str:
        return "Bearer one"

    with pytest.raises(sealway.UsageError, match="AsyncTransport"):
        calls("sync", url, authorization=authorization)
    assert hostile.inits == 0


@BOTH
@pytest.mark.parametrize("wrong", [None, 1, "", "Bearer hidden\nX-Other: 1", "Bearer hidd\u00e9n"])
def test_a_token_that_is_no_header_value_is_not_printed(hostile: Hostile, url: str, kind: str, wrong: Any) -> None:
    for name in ("authorization", "proof"):
        with pytest.raises(sealway.UsageError, match=name) as error:
            given: dict[str, Any] = {name: lambda *_: wrong}
            calls(kind, url, **given)
        assert "hidd" not in str(error.value)
    assert hostile.inits == 0


@BOTH
def test_an_error_of_the_callers_function_is_raised_unchanged(hostile: Hostile, url: str, kind: str) -> None:
    def authorization() -> str:
        raise LookupError("no token")

    with calling(kind, url, authorization=authorization) as (_, send):
        for _ in range(2):
            with pytest.raises(LookupError, match="no token"):
                send()
    assert hostile.inits == 0


@BOTH
@pytest.mark.parametrize("wire", [2, 3])
def test_each_call_is_measured_once(hostile: Hostile, url: str, kind: str, wire: int) -> None:
    measured: list[sealway.CallMetrics] = []
    with calling(kind, url, wire=wire, on_metrics=measured.append) as (_, send):
        response = send(content=CONTENT)
        assert measured == [response.extensions["sealway"]]
        assert {"seal", "open"} <= set(measured[0].crypto_sec)
        hostile.mode = "503"
        with pytest.raises(sealway.PlainAnswerError):
            send(content=CONTENT)
    assert [each.attempts for each in measured] == [1, 1]
