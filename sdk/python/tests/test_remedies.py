"""Errors of a client name the origin and a remedy."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import sealway
from calling import KINDS, calling
from hostile import Hostile
from sealway import entropy
from sealway.wire.encoding import encode_base64
from serving import served

BOTH = pytest.mark.parametrize("kind", KINDS)
QUERY = "/echo?token=hidden"


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def told(kind: str, url: str, error: type[Exception], **more: Any) -> str:
    """Returns the message of a call that fails, after checking that it names the origin and nothing behind it."""
    given = {"timeout": more.pop("timeout", 10)}
    with pytest.raises(error) as caught, calling(kind, url, authorization="Bearer hidden", **more) as (_, send):
        send("POST", QUERY, **given)
    said = str(caught.value)
    assert url.partition("://")[2] in said
    assert "hidden" not in said
    assert caught.value.origin == url  # type: ignore[attr-defined]
    return said


@BOTH
def test_nobody_listens(kind: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert "nothing listens there: see whether the service runs" in told(kind, url, httpx.ConnectError)


@BOTH
def test_a_deadline_and_a_timeout_of_the_clients_are_told_apart(kind: str, silent: str) -> None:
    said = told(kind, silent, sealway.DeadlineExceeded, deadline_sec=0.3)
    assert "no whole answer within 0.3 s" in said
    assert "the whole call had `deadline_sec`" in said
    # A service that hangs for longer than a step may take is not the deadline's doing.
    assert "no answer in time (read)" in told(kind, silent, httpx.ReadTimeout, deadline_sec=None, timeout=0.3)


@BOTH
def test_tls_fails(kind: str, hostile: Hostile, url: str) -> None:
    assert "TLS failed: see whether this port speaks https" in told(
        kind, url.replace("http://", "https://"), httpx.ConnectError
    )


@BOTH
def test_a_key_that_is_not_pinned_is_another_service_or_an_impostor(kind: str, hostile: Hostile, url: str) -> None:
    assert "another service, or an impostor" in told(kind, url, sealway.ProblemError, trust=sealway.Pins(["00" * 16]))
    root = sealway.Root(encode_base64(entropy.key_pair().public))
    assert "another service, or an impostor" in told(kind, url, sealway.ProtocolError, trust=root)


@BOTH
def test_a_captive_portal_is_one(kind: str) -> None:
    with answering(200, b"text/html", b"<html>Welcome to the hotel") as url:
        assert "sign in to the network" in told(kind, url, sealway.PlainAnswerError)


@BOTH
@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (400, "clock_skew", "set both by NTP"),
        (401, "unauthenticated", "give a valid token as `authorization`"),
        (403, "policy", "or ask its operator"),
        (403, "wire_disabled", "see `wire`"),
        (503, "store_unavailable", "try again later"),
    ],
)
def test_a_session_that_is_refused_says_what_to_do(kind: str, status: int, code: str, remedy: str) -> None:
    body = json.dumps({"type": f"urn:sealway:problem:{code}", "status": status, "code": code}).encode()
    with answering(status, b"application/problem+json", body) as url:
        said = told(kind, url, sealway.ProblemError)
        assert f"refused: {status} {code}" in said
        assert remedy in said


def answering(status: int, content_type: bytes, body: bytes) -> Any:
    """A service that answers everything alike."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return served(answer)
