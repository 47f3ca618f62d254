"""Clients of a scheme: transports of httpx that seal requests and open answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import httpx

from .. import check
from ..client.exchange import check_redirect
from ..errors import ProtocolError, SealwayError
from ..server.store import wall_clock_ms
from ..session.claim import WINDOW_MS
from ..wire.header import Headers
from .codec import TOKEN_MAX, MleCodec
from .form import PlainAnswers, check_coding, check_options, is_token, token_type, with_body, without_body
from .keys import OpeningKey, SealingKey
from .profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class MleOptions:
    """Settings of a client.

    Attributes:
        profile: `mastercard-jwe`, `visa`, `visa-acceptance`, or what `generic_jwe` makes.
        open: the keys that open answers, all of them live.
        seal: the scheme's key.
        plain_answers: `errors` passes answers in clear with a status of 400 and more: schemes report errors so.
        content_type: that of opened answers.
        answer_max_bytes: the bound on an answer; 8 MiB by default.
        window_ms: the largest difference between an answer's `iat` and the clock.
        token_max_bytes: the longest token; 2 MiB by default.
        now_ms: the clock, in milliseconds of the epoch.
    """

    profile: Profile | str
    open: Sequence[OpeningKey]
    seal: SealingKey
    plain_answers: PlainAnswers = "none"
    content_type: str = "application/json"
    answer_max_bytes: int = 8 << 20
    window_ms: int = WINDOW_MS
    token_max_bytes: int = TOKEN_MAX
    now_ms: Callable[[], int] = wall_clock_ms


class _Scheme:
    """The steps that both transports share. Nothing here waits for the network."""

    def __init__(self, options: MleOptions) -> None:
        check.wants(isinstance(options, MleOptions), "options", options, "MleOptions(profile=…, open=…, seal=…)")
        self.codec: Final = MleCodec(
            options.profile,
            open=options.open,
            seal=options.seal,
            window_ms=options.window_ms,
            token_max_bytes=options.token_max_bytes,
            now_ms=options.now_ms,
        )
        check_options(self.codec, "request", options.open, options.plain_answers, options.content_type)
        check.number("answer_max_bytes", options.answer_max_bytes, 0, "bytes", is_whole=True)
        self.plain_answers, self.content_type = options.plain_answers, options.content_type
        self.answer_max = options.answer_max_bytes

    def request(self, request: httpx.Request, body: bytes) -> httpx.Request:
        """The request that is sent."""
        headers, more = request.headers.raw, (b"accept-encoding", b"range")
        if body:
            body = self.codec.seal("request", body)
            kept = without_body(headers, *more)
            headers = with_body(kept, token_type(self.codec.profile, "request"), body)
        else:
            headers = [(name, value) for name, value in headers if name.lower() not in more]
        # A compressed answer could not be opened.
        headers.append((b"accept-encoding", b"identity"))
        content = body or None
        return httpx.Request(
            request.method, request.url, headers=headers, content=content, extensions=request.extensions
        )

    def check_length(self, length: int) -> None:
        """Bounds an answer as it arrives."""
        if length > self.answer_max:
            raise ProtocolError("body_too_large")

    def response(self, request: httpx.Request, response: httpx.Response, body: bytes) -> httpx.Response:
        """The opened answer."""
        status, raw = response.status_code, response.headers.raw
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw)
        check_redirect(status)
        is_plain = self.plain_answers == "errors" and status >= 400
        is_bodiless = not body or request.method == "HEAD"
        if not is_bodiless:
            check_coding(headers)
        if is_bodiless or (is_plain and not is_token(self.codec.profile, "answer", headers, body)):
            kept = [(name, value) for name, value in raw if name.lower() != b"transfer-encoding"]
        else:
            body = self.codec.open("answer", body)
            kept = with_body(without_body(raw), self.content_type, body)
        extensions = {name: value for name, value in response.extensions.items() if name != "network_stream"}
        return httpx.Response(status, headers=kept, content=body, extensions=extensions)


def _named(error: SealwayError, request: httpx.Request) -> SealwayError:
    error.stage, error.host = "call", request.url.netloc.decode("ascii")
    return error


class MleTransport(httpx.BaseTransport):
    """Seals the requests of an `httpx.Client` to a scheme, and opens the answers.

        options = MleOptions(profile="mastercard-jwe", seal=scheme, open=[own], plain_answers="errors")
        transport = MleTransport(options)
        with httpx.Client(transport=transport) as client:
            client.post("https://api.example/payments", json={…})

    A request without a body is sent as it is. An answer in clear is an error, unless it is empty or `plain_answers` allows
    it; a redirect always is. Nothing binds an answer to its request in these forms. Safe to use from several threads.
    """

    def __init__(self, options: MleOptions, *, inner: httpx.BaseTransport | None = None) -> None:
        """Seals for one scheme. `inner` sends; by default httpx's own transport. Give one with the certificate that the
        scheme asks for.

        Raises:
            UsageError
        """
        self._scheme = _Scheme(options)
        self._inner = inner or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Seals a request, sends it and opens the answer.

        Raises:
            SealwayError: an `MleRefusal` says why an answer does not open.
            httpx.TransportError: of the network.
        """
        sealed = self._scheme.request(request, request.read())
        response = self._inner.handle_request(sealed)
        try:
            parts, length = [], 0
            for part in response.iter_raw():
                length += len(part)
                self._scheme.check_length(length)
                parts.append(part)
            return self._scheme.response(request, response, b"".join(parts))
        except SealwayError as error:
            raise _named(error, request) from None
        finally:
            response.close()

    def close(self) -> None:
        """Closes connections."""
        self._inner.close()


class AsyncMleTransport(httpx.AsyncBaseTransport):
    """Seals the requests of an `httpx.AsyncClient` to a scheme, and opens the answers, as `MleTransport` does."""

    def __init__(self, options: MleOptions, *, inner: httpx.AsyncBaseTransport | None = None) -> None:
        """Seals for one scheme. `inner` sends; by default httpx's own transport.

        Raises:
            UsageError
        """
        self._scheme = _Scheme(options)
        self._inner = inner or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Seals a request, sends it and opens the answer.

        Raises:
            SealwayError: an `MleRefusal` says why an answer does not open.
            httpx.TransportError: of the network.
        """
        sealed = self._scheme.request(request, await request.aread())
        response = await self._inner.handle_async_request(sealed)
        try:
            parts, length = [], 0
            async for part in response.aiter_raw():
                length += len(part)
                self._scheme.check_length(length)
                parts.append(part)
            # A private operation would keep the loop.
            return await anyio.to_thread.run_sync(self._scheme.response, request, response, b"".join(parts))
        except SealwayError as error:
            raise _named(error, request) from None
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def aclose(self) -> None:
        """Closes connections."""
        await self._inner.aclose()
