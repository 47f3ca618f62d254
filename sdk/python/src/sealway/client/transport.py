"""The sync transport."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Never, TypeVar

import httpx

from .. import check
from ..errors import ProtocolError, SealwayError, UsageError
from ..wire.header import Headers
from .active import ActiveSession
from .establish import RESPONSE_MAX, Flow, Request, Response, delete_session
from .exchange import Call, NativeAttempt, StreamOpener, check_redirect, headers_of, note_answer
from .failure import stage
from .metrics import SessionMetrics, parse_server_timing
from .network import keep_timeouts
from .options import Options
from .parts import RENAMED, Parts, is_native, wire_request
from .timer import READING, WAIT

T = TypeVar("T")


class Transport(httpx.BaseTransport):
    """Seals the requests of an `httpx.Client` to one service, and opens the answers.

        transport = sealway.Transport("https://api.example", sealway.Options(trust=sealway.Pins(["…"])))
        with httpx.Client(transport=transport) as client:
            client.post("https://api.example/transaction/purchase", json={…})

    The first call agrees a session, once for all callers that wait for it; a later one renews it before its end. Safe to
    use from several threads.
    """

    def __init__(
        self, url: str, options: Options, *, inner: httpx.BaseTransport | None = None, **unknown: Never
    ) -> None:
        """Seals for the service at `url`. `inner` sends; by default httpx's own transport.

        Raises:
            UsageError: for a URL with a path, and for a trust store that cannot be read.
        """
        check.unknown("Transport", unknown, RENAMED)
        self._parts = Parts(url, options)
        is_inner = inner is None or callable(getattr(inner, "handle_request", None))
        check.wants(is_inner, "inner", inner, "a transport of httpx, or None")
        self._inner = inner or httpx.HTTPTransport()
        keep_timeouts(self._inner)
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Seals a request, sends it and opens the answer.

        Raises:
            SealwayError: with the stage of the call; an error of the network is an `httpx.TransportError` too.
        """
        call = self._parts.call(request)
        try:
            with stage("call", self._parts.service_origin, call):
                return self._handle(request, call)
        except BaseException:
            call.report()
            raise

    def _handle(self, request: httpx.Request, call: Call) -> httpx.Response:
        while True:
            active = self._session(call)
            try:
                response = self._attempt(active, request, call)
            finally:
                active.release()
            if response is not None:
                return response

    def _attempt(self, active: ActiveSession, request: httpx.Request, call: Call) -> httpx.Response | None:
        """Sends a call in a session. Returns its answer, or None to send it again."""
        attempt = self._parts.attempt(active, call)
        content: Any = attempt.body
        if isinstance(attempt, NativeAttempt) and attempt.body is None:
            content = _sealed(attempt, request)
        began = time.monotonic()
        response = self._send(wire_request(request, attempt.headers, content, call), call)
        call.metrics.http_sec += time.monotonic() - began
        try:
            headers = headers_of(response)
            note_answer(call.metrics, call, headers, response.headers.raw)
            if attempt.is_sealed(headers):
                if isinstance(attempt, NativeAttempt) and not attempt.is_problem(headers):
                    return self._open(attempt, response, headers, call)
                call.timer.enter(READING)
                body = _read(response, call.answer_max, call)
                plaintext = attempt.open_whole(response.status_code, headers, body)
                response.close()
                if not isinstance(attempt, NativeAttempt):
                    call.report()
                    return self._parts.compat_response_of(
                        response.status_code, headers, response.headers.raw, plaintext, call
                    )
                verdict = attempt.judge_sealed(response.status_code, plaintext)
            else:
                check_redirect(response.status_code)
                body = _read(response, RESPONSE_MAX, call)
                verdict = attempt.judge(Response(response.status_code, headers, body))
        except BaseException:
            response.close()
            raise
        response.close()
        if verdict.is_session_over:
            self._parts.forget(active.id)
        if not verdict.is_again:
            raise verdict.error
        return None

    def _open(self, attempt: NativeAttempt, response: httpx.Response, headers: Headers, call: Call) -> httpx.Response:
        opener = attempt.open(response.status_code, headers)
        source, ready = response.iter_raw(), opener.begin()
        # The headers of the answer are in its first frame.
        while opener.inner is None:
            call.timer.check()
            data = next(source, None)
            if data is None:
                opener.finish()
                raise ProtocolError("stream_truncated")
            ready += opener.feed(data)
        call.timer.enter(READING)
        stream = _AnswerStream(opener, response, source, ready, call, self._parts.service_origin)
        return self._parts.response_of(opener, response.status_code, stream, call)

    def _send(self, request: httpx.Request, call: Call) -> httpx.Response:
        """Sends a request and returns the head of its answer."""
        callers_trace = request.extensions.get("trace")

        def trace(event: str, info: dict[str, Any]) -> None:
            call.timer.note(event)
            if callers_trace is not None:
                callers_trace(event, info)

        request.extensions["trace"] = trace
        call.timer.enter(WAIT)
        call.timer.check()
        return self._inner.handle_request(request)

    # --- Sessions

    def _session(self, call: Call) -> ActiveSession:
        """Returns the session in use, held; agrees one if none lasts."""
        parts = self._parts
        active = parts.usable()
        if active is not None:
            return active
        began = time.monotonic()
        call.timer.enter(WAIT)
        with stage("agreement", parts.authority_origin, call):
            # Another caller may be agreeing: this one waits no longer than its own timeout.
            if not self._lock.acquire(timeout=min(call.timer.joint_left_sec(), threading.TIMEOUT_MAX)):
                raise call.timer.error()
            try:
                active = parts.usable()
                if active is None:
                    previous = parts.renewable()
                    try:
                        active = self._carry(parts.establish(previous), call)
                    finally:
                        if previous is not None:
                            previous.release()
                    parts.use(active)
            finally:
                self._lock.release()
                call.metrics.session_sec += time.monotonic() - began
        return active

    def _carry(self, flow: Flow[T], call: Call) -> T:
        """Sends the requests of an agreement, and calls its functions, to its end."""
        metrics = SessionMetrics()
        began = time.monotonic()
        try:
            step = next(flow)
            while True:
                if not isinstance(step, Request):
                    step = flow.send(_result(step()))
                    continue
                request = self._parts.request_of(step, call)
                asked = time.monotonic()
                response = self._send(request, call)
                try:
                    check_redirect(response.status_code)
                    body = _read(response, RESPONSE_MAX, call)
                except SealwayError as error:
                    step = flow.throw(error)
                    continue
                finally:
                    response.close()
                    metrics.http_sec += time.monotonic() - asked
                headers = headers_of(response)
                metrics.server_ms = parse_server_timing(headers.first("Server-Timing"))
                step = flow.send(Response(response.status_code, headers, body))
        except StopIteration as done:
            metrics.round_trip_sec = time.monotonic() - began
            metrics.crypto_sec["agree"] = max(0.0, metrics.round_trip_sec - metrics.http_sec)
            call.metrics.session = metrics
            result: T = done.value
            return result

    def end_session(self) -> None:
        """Ends the session at the authority, if there is one; the next call agrees another. Sessions of wires 1 and 2 end
        by themselves.

        Raises:
            SealwayError
        """
        active = self._parts.remove()
        if active is None:
            return
        try:
            if is_native(active) and active.left_sec() > 0:
                call = self._parts.call_without_request()
                with stage("agreement", self._parts.authority_origin, call):
                    self._carry(delete_session(active), call)
        finally:
            active.release()

    def close(self) -> None:
        """Closes connections and wipes the session's keys."""
        active = self._parts.remove()
        if active is not None:
            active.release()
        self._inner.close()


def _result(value: Any) -> Any:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise UsageError("authorization and proof: an async function is for AsyncTransport alone")
    return value


def _sealed(attempt: NativeAttempt, request: httpx.Request) -> Iterator[bytes]:
    sealer = attempt.sealed_chunks()
    if isinstance(request.stream, httpx.SyncByteStream):
        for chunk in request.stream:
            yield from sealer.seal(chunk)
    yield sealer.last()


def _read(response: httpx.Response, most: int | None, call: Call) -> bytes:
    """Reads a body of at most `most` bytes."""
    parts, length = [], 0
    for chunk in response.iter_raw():
        parts.append(chunk)
        length += len(chunk)
        if most is not None and length > most:
            raise ProtocolError("body_too_large")
        call.timer.check()
    return b"".join(parts)


class _AnswerStream(httpx.SyncByteStream):
    """The body of an answer, opened as it arrives. One that ends early is an error."""

    def __init__(
        self,
        opener: StreamOpener,
        response: httpx.Response,
        source: Iterator[bytes],
        ready: list[bytes],
        call: Call,
        origin: str,
    ) -> None:
        self._opener, self._response, self._source, self._ready = opener, response, source, ready
        self._call, self._origin = call, origin

    def __iter__(self) -> Iterator[bytes]:
        with stage("call", self._origin, self._call):
            yield from self._ready
            self._ready = []
            for data in self._source:
                yield from self._opener.feed(data)
                self._call.timer.check()
            self._opener.finish()

    def close(self) -> None:
        with suppress(RuntimeError):
            self._response.close()
        self._call.report()
