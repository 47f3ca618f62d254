"""The async transport: as the sync one, step by step, where that waits for a thread this waits for a task."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Generator
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import httpx

from ..errors import DeadlineExceeded, Refused, SealwayError
from ..wire.header import Headers
from .agreed import Agreed
from .deadline import is_over, left_sec, tighten
from .establish import TOLD_MAX, Ask, Told, end_three
from .exchange import Attempt3, AttemptOld, Call, StreamOpener, begin_attempt, check_redirect, headers_of, note_answer
from .metrics import CallMetrics
from .options import Options
from .parts import Parts, is_three, wire_request

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
        self._inner = inner or httpx.AsyncHTTPTransport()
        self._lock = anyio.Lock()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request within a seal.

        Raises:
            SealwayError: of a kind that says what went wrong.
            httpx.TransportError: of the inner transport.
        """
        call = self._parts.call(request)
        try:
            return await self._handle(request, call)
        except httpx.TimeoutException as timeout:
            if is_over(call.deadline):
                raise DeadlineExceeded(call.deadline_sec) from timeout
            raise

    async def _handle(self, request: httpx.Request, call: Call) -> httpx.Response:
        options = self._parts.options
        agreed = await self._session(None, request.extensions, call)
        while True:
            attempt = begin_attempt(agreed, call, self._parts.keyring, options)
            content: Any = attempt.body
            if isinstance(attempt, Attempt3) and attempt.body is None:
                content = _sealed(attempt, request)
            sent = wire_request(request, attempt.headers, content, call)
            began = time.monotonic()
            response = await self._sent(sent, call)
            call.metrics.http_sec += time.monotonic() - began
            try:
                headers = headers_of(response)
                note_answer(call.metrics, call, headers, response.headers.raw)
                steps = sent.extensions["timeout"]
                if attempt.is_sealed(headers):
                    if isinstance(attempt, AttemptOld):
                        body = await _read(response, options.answer_max, steps, call)
                        plaintext = attempt.open_whole(response.status_code, headers, body)
                        await response.aclose()
                        return self._parts.old_response_of(
                            response.status_code, headers, response.headers.raw, plaintext, call
                        )
                    return await self._opened(attempt, response, headers, steps, call)
                check_redirect(response.status_code)
                body = await _read(response, TOLD_MAX, steps, call)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
                raise
            await response.aclose()
            error = attempt.judge(response.status_code, body)
            if call.has_healed_session or getattr(error, "code", "") == "session_expired":
                self._parts.forget(agreed.id)
            if error is not None:
                raise error
            agreed = await self._session(None, request.extensions, call)

    async def _opened(
        self, attempt: Attempt3, response: httpx.Response, headers: Headers, steps: dict[str, Any], call: Call
    ) -> httpx.Response:
        opener = attempt.open(response.status_code, headers)
        source, ready = response.aiter_raw(), opener.begin()
        # The head of the answer is in the first frame.
        while opener.inner is None:
            tighten(steps, call.deadline, call.deadline_sec)
            data = await anext(source, None)
            if data is None:
                opener.finish()
                raise Refused("stream_truncated")
            ready += opener.feed(data)
        stream = _Opened(opener, response, source, ready, steps, call)
        return self._parts.response_of(opener, response.status_code, stream, call)

    async def _sent(self, request: httpx.Request, call: Call) -> httpx.Response:
        """The head of an answer. The timeouts of the inner transport are for each read: a head that drips outlasts them."""
        try:
            with anyio.fail_after(left_sec(call.deadline)):
                return await self._inner.handle_async_request(request)
        except TimeoutError:
            raise DeadlineExceeded(call.deadline_sec) from None

    # --- Sessions

    async def _session(self, not_id: str | None, extensions: dict[str, Any], call: Call) -> Agreed:
        parts = self._parts
        agreed = parts.usable(not_id)
        if agreed is not None:
            return agreed
        began = time.monotonic()
        try:
            # Whoever waits here waits for another's exchange, and no longer than its own deadline.
            with anyio.fail_after(left_sec(call.deadline)):
                await self._lock.acquire()
        except TimeoutError:
            raise DeadlineExceeded(call.deadline_sec) from None
        try:
            # Another task may have been faster.
            agreed = parts.usable(not_id)
            if agreed is None:
                agreed = await self._carry(parts.establish(not_id), extensions, call)
                parts.agreed = agreed
        finally:
            self._lock.release()
            call.metrics.session_sec += time.monotonic() - began
        return agreed

    async def _carry(self, flow: Generator[Ask, Told, T], extensions: dict[str, Any], call: Call) -> T:
        """Carries a conversation to its end."""
        try:
            ask = next(flow)
            while True:
                request = self._parts.request_of(ask, extensions, call)
                response = await self._sent(request, call)
                try:
                    check_redirect(response.status_code)
                    body = await _read(response, TOLD_MAX, request.extensions["timeout"], call)
                except SealwayError as error:
                    ask = flow.throw(error)
                    continue
                finally:
                    with anyio.CancelScope(shield=True):
                        await response.aclose()
                ask = flow.send(Told(response.status_code, headers_of(response), body))
        except StopIteration as done:
            result: T = done.value
            return result

    async def end_session(self) -> None:
        """Has the service forget the session, if there is one; the next call agrees another. Sessions of wires 1 and 2
        end by themselves.

        Raises:
            SealwayError, httpx.TransportError
        """
        agreed, self._parts.agreed = self._parts.agreed, None
        if agreed is None:
            return
        if is_three(agreed) and agreed.left_sec(time.monotonic()) > 0:
            deadline_sec = self._parts.options.deadline_sec or 0.0
            deadline = time.monotonic() + deadline_sec if deadline_sec else None
            await self._carry(end_three(agreed), {}, Call("", "", [], b"", deadline, deadline_sec, CallMetrics(3)))
        agreed.session.wipe()

    async def aclose(self) -> None:
        """Closes connections and wipes the session's keys."""
        agreed, self._parts.agreed = self._parts.agreed, None
        if agreed is not None:
            agreed.session.wipe()
        await self._inner.aclose()


async def _sealed(attempt: Attempt3, request: httpx.Request) -> AsyncIterator[bytes]:
    sealer = attempt.sealed_chunks()
    if isinstance(request.stream, httpx.AsyncByteStream):
        async for chunk in request.stream:
            for part in sealer.seal(chunk):
                yield part
    yield sealer.last()


async def _read(response: httpx.Response, most: int | None, steps: dict[str, Any], call: Call) -> bytes:
    """A body within a bound."""
    parts, length = [], 0
    async for chunk in response.aiter_raw():
        parts.append(chunk)
        length += len(chunk)
        if most is not None and length > most:
            raise Refused("body_too_large")
        tighten(steps, call.deadline, call.deadline_sec)
    return b"".join(parts)


class _Opened(httpx.AsyncByteStream):
    """The body of an answer, opened as it comes. One that ends early is an error."""

    def __init__(
        self,
        opener: StreamOpener,
        response: httpx.Response,
        source: AsyncIterator[bytes],
        ready: list[bytes],
        steps: dict[str, Any],
        call: Call,
    ) -> None:
        self._opener, self._response, self._source, self._ready = opener, response, source, ready
        self._steps, self._call = steps, call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        call = self._call
        try:
            for part in self._ready:
                yield part
            self._ready = []
            async for data in self._source:
                for part in self._opener.feed(data):
                    yield part
                tighten(self._steps, call.deadline, call.deadline_sec)
            self._opener.finish()
        except httpx.TimeoutException as timeout:
            if is_over(call.deadline):
                raise DeadlineExceeded(call.deadline_sec) from timeout
            raise

    async def aclose(self) -> None:
        with suppress(RuntimeError):
            await self._response.aclose()
