"""Errors of a client: stage, code, retryable, host and remedy."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import sealway
from calling import CONTENT, KINDS, calling
from hostile import Hostile
from sealway import entropy
from sealway.remedies import REMEDIES
from sealway.wire.encoding import encode_base64
from serving import served

BOTH = pytest.mark.parametrize("kind", KINDS)
QUERY = "/echo?token=hidden"


def failure(kind: str, url: str, expected: type[sealway.SealwayError], **more: Any) -> sealway.SealwayError:
    """Returns the error of a call, after checking what all errors have."""
    given: dict[str, Any] = {"timeout": more.pop("timeout", 10)}
    client = calling(kind, url, authorization=lambda: "Bearer hidden", **more)
    with pytest.raises(expected) as caught, client as (_, send):
        send("POST", QUERY, **given)
    error = caught.value
    assert error.host == url.partition("://")[2]
    assert str(error).startswith(f"{error.host}: ")
    assert error.remedy == REMEDIES[error.code]
    assert error.remedy.rstrip(".") in str(error)
    assert "hidden" not in str(error)
    return error


def facts(error: sealway.SealwayError) -> tuple[str, str, bool]:
    return error.stage, error.code, error.retryable


@contextmanager
def nobody() -> Iterator[str]:
    """A port that refuses connections."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@BOTH
def test_a_host_without_a_listener_is_unreachable(kind: str) -> None:
    with nobody() as url:
        error = failure(kind, url, sealway.UnreachableError)
    assert facts(error) == ("agreement", "unreachable", True)
    # A caller of httpx needs no name of this package.
    assert isinstance(error, httpx.ConnectError) and isinstance(error.__cause__, httpx.ConnectError)


@BOTH
def test_a_service_without_a_listener_is_unreachable_after_the_agreement(hostile: Hostile, url: str, kind: str) -> None:
    with nobody() as gone:
        error = failure(kind, gone, sealway.UnreachableError, authority_url=url)
    assert facts(error) == ("call", "unreachable", True)
    assert hostile.inits == 1


@BOTH
def test_the_host_of_an_agreement_is_the_authority(hostile: Hostile, url: str, kind: str) -> None:
    with (
        nobody() as gone,
        pytest.raises(sealway.UnreachableError) as error,
        calling(kind, url, authority_url=gone) as c,
    ):
        c[1]()
    assert (error.value.stage, error.value.host) == ("agreement", gone.partition("://")[2])
    assert hostile.calls == 0


@BOTH
def test_a_total_timeout_and_one_of_httpx_are_named(kind: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        error = failure(kind, url, sealway.TimeoutError, total_timeout_sec=0.3)
        assert "no whole answer within 0.3 s (option `total_timeout_sec`)" in str(error)
        assert facts(error) == ("agreement", "timeout", True)
        assert isinstance(error, TimeoutError) and isinstance(error, httpx.TimeoutException)
        error = failure(kind, url, sealway.TimeoutError, total_timeout_sec=None, timeout=0.3)
        assert "no answer within 0.3 s (option `timeout`)" in str(error)


@BOTH
def test_a_timeout_of_a_call_that_was_sent_is_not_retryable(hostile: Hostile, url: str, kind: str) -> None:
    hostile.mode = "hang"
    error = failure(kind, url, sealway.TimeoutError, head_timeout_sec=0.3)
    assert facts(error) == ("call", "timeout", False)
    assert "(option `head_timeout_sec`)" in str(error)


@BOTH
def test_a_failure_of_tls_is_not_retryable(kind: str, hostile: Hostile, url: str) -> None:
    error = failure(kind, url.replace("http://", "https://"), sealway.UnreachableError)
    assert facts(error) == ("agreement", "unreachable", False)
    assert "SSL" in str(error)


@BOTH
def test_the_outcome_of_a_call_whose_connection_broke_is_unknown(kind: str, hostile: Hostile, url: str) -> None:
    hostile.mode = "cut"
    with pytest.raises(sealway.NetworkError) as error, calling(kind, url) as (_, send):
        send(content=CONTENT, headers={"X-Padding": "x"})
    assert facts(error.value) == ("call", "network", False)


@BOTH
def test_a_key_that_is_not_trusted_names_the_option(kind: str, hostile: Hostile, url: str) -> None:
    error = failure(kind, url, sealway.ProblemError, trust=sealway.Pins(["00" * 16]))
    assert facts(error) == ("agreement", "key_retired", False)
    root = sealway.Root(encode_base64(entropy.key_pair().public))
    error = failure(kind, url, sealway.ProtocolError, trust=root)
    assert facts(error) == ("agreement", "key_untrusted", False)
    assert str(error).endswith("(option `trust`)")
    assert hostile.calls == 0


@BOTH
def test_a_page_of_a_captive_portal_is_not_sealed(kind: str) -> None:
    with answering(200, b"text/html", b"<html>Welcome to the hotel") as url:
        error = failure(kind, url, sealway.PlainAnswerError)
    assert facts(error) == ("agreement", "unsealed", False)
    assert "a proxy, not the service, answered" in str(error)


@BOTH
def test_a_redirect_is_not_followed(kind: str, hostile: Hostile, url: str) -> None:
    hostile.mode = "redirect"
    assert facts(failure(kind, url, sealway.RedirectError)) == ("call", "redirected", False)


@BOTH
@pytest.mark.parametrize(
    ("status", "code", "is_retryable"),
    [
        (400, "clock_skew", False),
        (401, "unauthenticated", False),
        (403, "policy", False),
        (403, "wire_disabled", False),
        (429, "rate_limited", True),
        (503, "store_unavailable", True),
    ],
)
def test_a_rejected_agreement_has_the_code_of_its_problem(
    kind: str, status: int, code: str, is_retryable: bool
) -> None:
    body = json.dumps({"type": f"urn:sealway:problem:{code}", "status": status, "code": code}).encode()
    with answering(status, b"application/problem+json", body) as url:
        error = failure(kind, url, sealway.ProblemError)
    assert facts(error) == ("agreement", code, is_retryable)
    assert f"the service answers {status} {code}" in str(error)


@BOTH
@pytest.mark.parametrize(
    ("status", "public", "code", "is_retryable"),
    [
        (403, "WIRE_DISABLED", "WIRE_DISABLED", False),
        (429, "RATE_LIMITED", "RATE_LIMITED", True),
        (503, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE", True),
        (400, "SOMETHING_ELSE", "unsealed", False),
        (400, "policy", "unsealed", False),
        (502, "<html>", "unsealed", True),
    ],
)
def test_a_rejected_agreement_of_a_compat_wire_has_the_code_of_its_public_error(
    kind: str, status: int, public: str, code: str, is_retryable: bool
) -> None:
    with answering(status, b"application/json", json.dumps({"error": public}).encode()) as url:
        error = failure(kind, url, sealway.PlainAnswerError, wire=2)
    assert facts(error) == ("agreement", code, is_retryable)
    assert str(status) in str(error)


@BOTH
def test_a_proven_rejection_of_a_stream_is_retryable(kind: str, hostile: Hostile, url: str) -> None:
    async def chunks() -> Any:
        yield b"x"

    with calling(kind, url) as (transport, send):
        send("GET")
        active = transport._parts.active
        active._clock = (active._clock[0] - 700_000, active._clock[1])
        with pytest.raises(sealway.ProblemError) as error:
            send("POST", content=iter([b"x"]) if kind == "sync" else chunks())
    assert facts(error.value) == ("call", "clock_skew", True)
    assert "unknown" not in str(error.value)
    assert len(hostile.seen.requests) == 1
    # `session_expired` has no proof, whatever the method.
    hostile.mode, hostile.calls = "expired", 0
    with calling(kind, url) as (_, send), pytest.raises(sealway.ProblemError) as error:
        send("GET", content=iter([b"x"]) if kind == "sync" else chunks())
    assert facts(error.value) == ("call", "session_expired", False)


@BOTH
def test_an_error_after_an_unproven_rejection_is_not_retryable(kind: str, hostile: Hostile, url: str) -> None:
    with nobody() as gone, calling(kind, url, wire=2) as (transport, send):
        send(content=CONTENT)
        hostile.mode, hostile.calls = "expired", 0
        # The second attempt needs a session, which nobody agrees then.
        transport._parts.authority_origin = gone
        with pytest.raises(sealway.UnreachableError) as error:
            send(content=CONTENT)
    assert facts(error.value) == ("agreement", "unreachable", False)


@BOTH
def test_a_request_that_cannot_be_sealed_is_an_error_of_its_configuration(
    kind: str, hostile: Hostile, url: str
) -> None:
    with calling(kind, url, request_max_bytes=10) as (_, send), pytest.raises(sealway.UsageError) as error:
        send("POST", content=bytes(11))
    assert "request_max_bytes" in str(error.value)
    assert facts(error.value) == ("configuration", "usage", False)
    assert error.value.remedy == REMEDIES["usage"]
    assert hostile.inits == 0


def answering(status: int, content_type: bytes, body: bytes) -> Any:
    """A service that answers all requests alike."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return served(answer)
