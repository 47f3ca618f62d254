"""The sync transport."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import httpx

from .. import check
from ..errors import DeadlineExceeded, ProtocolError, SealwayError
from ..wire.header import Headers
from .active import ActiveSession
from .deadline import check_left, left_sec
from .establish import RESPONSE_MAX, Request, Response, delete_session
from .exchange import Call, NativeAttempt, StreamOpener, begin_attempt, check_redirect, headers_of, host_of, note_answer
from .explain import about
from .metrics import CallMetrics, SessionMetrics, parse_server_timing
from .network import keep_deadlines
from .options import Options
from .parts import Parts, is_native, wire_request

T = TypeVar("T")


class Transport(httpx.BaseTransport):
    """Seals what an `httpx.Client` sends to one service, and opens what comes back.

        transport = sealway.Transport("https://api.example", sealway.Options(trust=sealway.Pins(["…"])))
        with httpx.Client(transport=transport) as client:
            client.post("https://api.example/transaction/purchase", json={…})

    A session is agreed at the first call, once for all that wait for it, and renewed before its end. Safe to use from
    several threads.
    """

    def __init__(
        self,
        server_url: str,
        options: Options,
        *,
        session_url: str | None = None,
        inner: httpx.BaseTransport | None = None,
    ) -> None:
        """For the service at `server_url`; sessions are agreed at `session_url`, by default the same. `inner` sends.

        Raises:
            UsageError: for URLs with a path, and for a file of trust that cannot be read.
        """
        self._parts = Parts(server_url, session_url, options)
        is_inner = inner is None or callable(getattr(inner, "handle_request", None))
        check.wants(is_inner, "inner", inner, "a transport of httpx, or None")
        self._inner = inner or httpx.HTTPTransport()
        keep_deadlines(self._inner)
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request within a seal.

        Raises:
            SealwayError: of a kind that says what went wrong.
            httpx.TransportError: of the inner transport.
        """
        call = self._parts.call(request)
        with about(self._parts.server_origin, call):
            return self._handle(request, call)

    def _handle(self, request: httpx.Request, call: Call) -> httpx.Response:
        while True:
            active = self._session(request.extensions, call)
            try:
                response = self._attempt(active, request, call)
            finally:
                active.release()
            if response is not None:
                return response

    def _attempt(self, active: ActiveSession, request: httpx.Request, call: Call) -> httpx.Response | None:
        """Sends a call in a session: its answer, or None to send it again."""
        options = self._parts.options
        attempt = begin_attempt(active, call, self._parts.keyring, options)
        content: Any = attempt.body
        if isinstance(attempt, NativeAttempt) and attempt.body is None:
            content = _sealed(attempt, request)
        sent = wire_request(request, attempt.headers, content, call)
        began = time.monotonic()
        response = self._inner.handle_request(sent)
        call.metrics.http_sec += time.monotonic() - began
        try:
            headers = headers_of(response)
            note_answer(call.metrics, call, headers, response.headers.raw)
            if attempt.is_sealed(headers):
                if isinstance(attempt, NativeAttempt):
                    return self._opened(attempt, response, headers, call)
                body = _read(response, options.answer_max, call)
                plaintext = attempt.open_whole(response.status_code, headers, body)
                response.close()
                return self._parts.compat_response_of(
                    response.status_code, headers, response.headers.raw, plaintext, call
                )
            check_redirect(response.status_code)
            body = _read(response, RESPONSE_MAX, call)
        except BaseException:
            response.close()
            raise
        response.close()
        verdict = attempt.judge(Response(host_of(sent), response.status_code, headers, body))
        if verdict.is_session_over:
            self._parts.forget(active.id)
        if not verdict.is_again:
            raise verdict.error
        return None

    def _opened(self, attempt: NativeAttempt, response: httpx.Response, headers: Headers, call: Call) -> httpx.Response:
        opener = attempt.open(response.status_code, headers)
        source, ready = response.iter_raw(), opener.begin()
        # The head of the answer is in the first frame.
        while opener.inner is None:
            check_left(call.deadline, call.deadline_sec)
            data = next(source, None)
            if data is None:
                opener.finish()
                raise ProtocolError("stream_truncated")
            ready += opener.feed(data)
        stream = _AnswerStream(opener, response, source, ready, call, self._parts.server_origin)
        return self._parts.response_of(opener, response.status_code, stream, call)

    # --- Sessions

    def _session(self, extensions: dict[str, Any], call: Call) -> ActiveSession:
        """The session in use, held; a new one if there is none that lasts."""
        parts = self._parts
        active = parts.usable()
        if active is not None:
            return active
        began = time.monotonic()
        # Whoever waits here waits for another's exchange, and no longer than its own deadline.
        left = left_sec(call.deadline)
        if not self._lock.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
            raise DeadlineExceeded(call.deadline_sec)
        try:
            # Another thread may have been faster.
            active = parts.usable()
            if active is None:
                previous = parts.renewable()
                try:
                    with about(parts.session_origin, call):
                        active = self._carry(parts.establish(previous), extensions, call)
                finally:
                    if previous is not None:
                        previous.release()
                parts.use(active)
        finally:
            self._lock.release()
            call.metrics.session_sec += time.monotonic() - began
        return active

    def _carry(self, flow: Generator[Request, Response, T], extensions: dict[str, Any], call: Call) -> T:
        """Carries a conversation to its end."""
        metrics = SessionMetrics()
        began = time.monotonic()
        try:
            ask = next(flow)
            while True:
                request = self._parts.request_of(ask, extensions, call)
                asked = time.monotonic()
                response = self._inner.handle_request(request)
                try:
                    check_redirect(response.status_code)
                    body = _read(response, RESPONSE_MAX, call)
                except SealwayError as error:
                    ask = flow.throw(error)
                    continue
                finally:
                    response.close()
                    metrics.http_sec += time.monotonic() - asked
                told = Response(host_of(request), response.status_code, headers_of(response), body)
                metrics.server_ms = parse_server_timing(told.headers.first("Server-Timing"))
                ask = flow.send(told)
        except StopIteration as done:
            metrics.round_trip_sec = time.monotonic() - began
            metrics.crypto_sec["agree"] = max(0.0, metrics.round_trip_sec - metrics.http_sec)
            call.metrics.session = metrics
            result: T = done.value
            return result

    def end_session(self) -> None:
        """Has the service forget the session, if there is one; the next call agrees another. Sessions of wires 1 and 2
        end by themselves.

        Raises:
            SealwayError, httpx.TransportError
        """
        active = self._parts.remove()
        if active is None:
            return
        try:
            if is_native(active) and active.left_sec() > 0:
                deadline_sec = self._parts.options.deadline_sec or 0.0
                deadline = time.monotonic() + deadline_sec if deadline_sec else None
                call = Call("", "", [], b"", deadline, deadline_sec, CallMetrics(3))
                with about(self._parts.session_origin, call):
                    self._carry(delete_session(active), {}, call)
        finally:
            active.release()

    def close(self) -> None:
        """Closes connections and wipes the session's keys."""
        active = self._parts.remove()
        if active is not None:
            active.release()
        self._inner.close()


def _sealed(attempt: NativeAttempt, request: httpx.Request) -> Iterator[bytes]:
    sealer = attempt.sealed_chunks()
    if isinstance(request.stream, httpx.SyncByteStream):
        for chunk in request.stream:
            yield from sealer.seal(chunk)
    yield sealer.last()


def _read(response: httpx.Response, most: int | None, call: Call) -> bytes:
    """A body within a bound."""
    parts, length = [], 0
    for chunk in response.iter_raw():
        parts.append(chunk)
        length += len(chunk)
        if most is not None and length > most:
            raise ProtocolError("body_too_large")
        check_left(call.deadline, call.deadline_sec)
    return b"".join(parts)


class _AnswerStream(httpx.SyncByteStream):
    """The body of an answer, opened as it comes. One that ends early is an error."""

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
        call = self._call
        with about(self._origin, call):
            yield from self._ready
            self._ready = []
            for data in self._source:
                yield from self._opener.feed(data)
                check_left(call.deadline, call.deadline_sec)
            self._opener.finish()

    def close(self) -> None:
        with suppress(RuntimeError):
            self._response.close()
