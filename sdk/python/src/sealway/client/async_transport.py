"""The async transport: as the sync one, step by step, where that waits for a thread this waits for a task."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Generator
from contextlib import suppress
from typing import Any, TypeVar

import anyio
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
from .options import Options
from .parts import Parts, is_native, wire_request

T = TypeVar("T")


class AsyncTransport(httpx.AsyncBaseTransport):
    """Seals what an `httpx.AsyncClient` sends to one service, and opens what comes back.

    A session is agreed at the first call, once for all that wait for it, and renewed before its end. For the tasks of
    one event loop. A call that is cancelled leaves the session in order.
    """

    def __init__(
        self,
        server_url: str,
        options: Options,
        *,
        session_url: str | None = None,
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """For the service at `server_url`; sessions are agreed at `session_url`, by default the same. `inner` sends.

        Raises:
            UsageError: for URLs with a path, and for a file of trust that cannot be read.
        """
        self._parts = Parts(server_url, session_url, options)
        is_inner = inner is None or callable(getattr(inner, "handle_async_request", None))
        check.wants(is_inner, "inner", inner, "a transport of httpx, or None")
        self._inner = inner or httpx.AsyncHTTPTransport()
        self._lock = anyio.Lock()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request within a seal.

        Raises:
            SealwayError: of a kind that says what went wrong.
            httpx.TransportError: of the inner transport.
        """
        call = self._parts.call(request)
        with about(self._parts.server_origin, call):
            return await self._handle(request, call)

    async def _handle(self, request: httpx.Request, call: Call) -> httpx.Response:
        while True:
            active = await self._session(request.extensions, call)
            try:
                response = await self._attempt(active, request, call)
            finally:
                active.release()
            if response is not None:
                return response

    async def _attempt(self, active: ActiveSession, request: httpx.Request, call: Call) -> httpx.Response | None:
        """Sends a call in a session: its answer, or None to send it again."""
        options = self._parts.options
        attempt = begin_attempt(active, call, self._parts.keyring, options)
        content: Any = attempt.body
        if isinstance(attempt, NativeAttempt) and attempt.body is None:
            content = _sealed(attempt, request)
        sent = wire_request(request, attempt.headers, content, call)
        began = time.monotonic()
        response = await self._sent(sent, call)
        call.metrics.http_sec += time.monotonic() - began
        try:
            headers = headers_of(response)
            note_answer(call.metrics, call, headers, response.headers.raw)
            if attempt.is_sealed(headers):
                if isinstance(attempt, NativeAttempt):
                    return await self._opened(attempt, response, headers, call)
                body = await _read(response, options.answer_max, call)
                plaintext = attempt.open_whole(response.status_code, headers, body)
                await response.aclose()
                return self._parts.compat_response_of(
                    response.status_code, headers, response.headers.raw, plaintext, call
                )
            check_redirect(response.status_code)
            body = await _read(response, RESPONSE_MAX, call)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await response.aclose()
            raise
        await response.aclose()
        verdict = attempt.judge(Response(host_of(sent), response.status_code, headers, body))
        if verdict.is_session_over:
            self._parts.forget(active.id)
        if not verdict.is_again:
            raise verdict.error
        return None

    async def _opened(
        self, attempt: NativeAttempt, response: httpx.Response, headers: Headers, call: Call
    ) -> httpx.Response:
        opener = attempt.open(response.status_code, headers)
        source, ready = _in_time(response.aiter_raw(), call), opener.begin()
        # The head of the answer is in the first frame.
        while opener.inner is None:
            data = await anext(source, None)
            if data is None:
                opener.finish()
                raise ProtocolError("stream_truncated")
            ready += opener.feed(data)
        stream = _AnswerStream(opener, response, source, ready, call, self._parts.server_origin)
        return self._parts.response_of(opener, response.status_code, stream, call)

    async def _sent(self, request: httpx.Request, call: Call) -> httpx.Response:
        """The head of an answer. The timeouts of the inner transport are for each read: a head that drips outlasts them."""
        try:
            with anyio.fail_after(left_sec(call.deadline)):
                return await self._inner.handle_async_request(request)
        except TimeoutError:
            raise DeadlineExceeded(call.deadline_sec) from None

    # --- Sessions

    async def _session(self, extensions: dict[str, Any], call: Call) -> ActiveSession:
        """The session in use, held; a new one if there is none that lasts."""
        parts = self._parts
        active = parts.usable()
        if active is not None:
            return active
        began = time.monotonic()
        try:
            # Whoever waits here waits for another's exchange, and no longer than its own deadline.
            with anyio.fail_after(left_sec(call.deadline)):
                await self._lock.acquire()
        except TimeoutError:
            raise DeadlineExceeded(call.deadline_sec) from None
        try:
            # Another task may have been faster.
            active = parts.usable()
            if active is None:
                previous = parts.renewable()
                try:
                    with about(parts.session_origin, call):
                        active = await self._carry(parts.establish(previous), extensions, call)
                finally:
                    if previous is not None:
                        previous.release()
                parts.use(active)
        finally:
            self._lock.release()
            call.metrics.session_sec += time.monotonic() - began
        return active

    async def _carry(self, flow: Generator[Request, Response, T], extensions: dict[str, Any], call: Call) -> T:
        """Carries a conversation to its end."""
        metrics = SessionMetrics()
        began = time.monotonic()
        try:
            ask = next(flow)
            while True:
                request = self._parts.request_of(ask, extensions, call)
                asked = time.monotonic()
                response = await self._sent(request, call)
                try:
                    check_redirect(response.status_code)
                    body = await _read(response, RESPONSE_MAX, call)
                except SealwayError as error:
                    ask = flow.throw(error)
                    continue
                finally:
                    with anyio.CancelScope(shield=True):
                        await response.aclose()
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

    async def end_session(self) -> None:
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
                    await self._carry(delete_session(active), {}, call)
        finally:
            active.release()

    async def aclose(self) -> None:
        """Closes connections and wipes the session's keys."""
        active = self._parts.remove()
        if active is not None:
            active.release()
        await self._inner.aclose()


async def _sealed(attempt: NativeAttempt, request: httpx.Request) -> AsyncIterator[bytes]:
    sealer = attempt.sealed_chunks()
    if isinstance(request.stream, httpx.AsyncByteStream):
        async for chunk in request.stream:
            for part in sealer.seal(chunk):
                yield part
    yield sealer.last()


async def _read(response: httpx.Response, most: int | None, call: Call) -> bytes:
    """A body within a bound."""
    parts, length = [], 0
    async for chunk in _in_time(response.aiter_raw(), call):
        parts.append(chunk)
        length += len(chunk)
        if most is not None and length > most:
            raise ProtocolError("body_too_large")
    return b"".join(parts)


async def _in_time(source: AsyncIterator[bytes], call: Call) -> AsyncIterator[bytes]:
    """What comes before the deadline. The timeouts of the inner transport are for each read: what drips outlasts them."""
    while True:
        check_left(call.deadline, call.deadline_sec)
        try:
            with anyio.fail_after(left_sec(call.deadline)):
                data = await anext(source, None)
        except TimeoutError:
            raise DeadlineExceeded(call.deadline_sec) from None
        if data is None:
            return
        yield data


class _AnswerStream(httpx.AsyncByteStream):
    """The body of an answer, opened as it comes. One that ends early is an error."""

    def __init__(
        self,
        opener: StreamOpener,
        response: httpx.Response,
        source: AsyncIterator[bytes],
        ready: list[bytes],
        call: Call,
        origin: str,
    ) -> None:
        self._opener, self._response, self._source, self._ready = opener, response, source, ready
        self._call, self._origin = call, origin

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with about(self._origin, self._call):
            for part in self._ready:
                yield part
            self._ready = []
            async for data in self._source:
                for part in self._opener.feed(data):
                    yield part
            self._opener.finish()

    async def aclose(self) -> None:
        with suppress(RuntimeError):
            await self._response.aclose()
