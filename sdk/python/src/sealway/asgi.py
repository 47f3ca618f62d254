"""ASGI middleware: opens and seals around an ordinary application, on all three wires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Never

from . import check
from .exchange.refusal import Refusal
from .exchange.rejection import METHODS, ErrorAnswer, Form, Rejection
from .exchange.request import looks_sealed, wire_of
from .server.body import App, Body, Receive, Scope, Send
from .server.headers import plain_request
from .server.reject import OnRefusal, report, send_error
from .server.room import BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN, Holding, Room
from .server.route import BODY_MAX, Route, Rules
from .server.serve import Settings, serve
from .server.store import SessionStore, wall_clock_ms
from .server.timing import Timing
from .session.claim import WINDOW_MS, SessionRecord
from .wire.header import Headers

__all__ = ["Route", "SealedApp"]


class SealedApp:
    """ASGI middleware that opens sealed requests for an application, and seals its answers.

        app = SealedApp(app, store=AuthorityStore("https://sessions.example", secret), routes=[Route("/health", "off")])

    A handler receives a plain request: method, target, the headers inside the seal and the body. `X-Sealway-Client-Id`,
    `X-Sealway-Auth`, `X-Sealway-Subject` and `X-Sealway-Tenant` name its client; no client can set them. `OPTIONS` on a
    sealed path is answered with 204 and reaches no handler: put middleware for CORS around this one.

    A target that ends in a bare `?` does not open on wire 3, as ASGI does not tell it from one without.
    """

    def __init__(
        self,
        app: App,
        *,
        store: SessionStore,
        routes: Sequence[Route] = (),
        anonymous_paths: Sequence[str] = (),
        allow: Callable[[SessionRecord, str], bool] | None = None,
        trust_forwarded: bool = False,
        window_ms: int = WINDOW_MS,
        body_max_bytes: int = BODY_MAX,
        buffered_max_bytes: int = BUFFERED_BYTES_MAX,
        on_refusal: OnRefusal | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        **unknown: Never,
    ) -> None:
        """Seals `app`.

        Args:
            app: an ASGI application.
            store: sessions and claims.
            routes: the first one that names a path decides. A path that no route names is `required`.
            anonymous_paths: paths for anonymous sessions, compared whole, as sent.
            allow: a policy; returns True if the client of a session may use a path.
            trust_forwarded: True passes on the headers that name the origin of a request (`Forwarded`, `X-Forwarded-…`,
                `X-Real-IP`, `Via`, `Client-Cert` and the others of `stripped_headers` in `spec/registry.toml`), on plain
                routes too. Only behind a proxy that sets or removes them. Inside a seal they are always dropped.
            window_ms: the largest difference between a request's timestamp and this machine's clock; on wire 3 at most five
                minutes.
            body_max_bytes: the longest body of a sealed request, 1 MiB by default; a route may have its own.
            buffered_max_bytes: the bound on sealed bodies that have arrived and are not opened yet, of all requests
                together; 64 MiB by default, at least 1 MiB. One remote address (IPv6: a /64) may take a sixteenth, or the
                longest `body_max_bytes` if that is more; with `trust_forwarded` all of it, as the address is the proxy's.
                Requests beyond the bound are rejected with 503.
            on_refusal: receives the error and the wire of each rejected request, for logs and metrics. It must not block.
            now_ms: the clock, in milliseconds of the epoch.

        Raises:
            UsageError: for an option that is absent or wrong, with its name; for a route that is never reached.
        """
        renamed = {"trusts_origin": "trust_forwarded", "buffered_bytes_max": "buffered_max_bytes"}
        check.unknown("SealedApp", unknown, renamed)
        check.callback("app", app, "an ASGI application")
        is_store = all(callable(getattr(store, name, None)) for name in ("session", "admit"))
        check.wants(is_store, "store", store, "AuthorityStore, or another SessionStore")
        routes = check.listed("routes", routes, "a list of Route")
        check.wants(all(isinstance(each, Route) for each in routes), "routes", routes, "a list of Route")
        paths = check.listed("anonymous_paths", anonymous_paths, "a list of paths")
        check.wants(all(isinstance(each, str) for each in paths), "anonymous_paths", paths, "a list of paths")
        check.callback("allow", allow, "a function, or None", is_optional=True)
        check.number("window_ms", window_ms, 1, "milliseconds", is_whole=True)
        least = BUFFERED_BYTES_MIN
        check.number("buffered_max_bytes", buffered_max_bytes, least, f"bytes, {least} at least", is_whole=True)
        check.number("body_max_bytes", body_max_bytes, 0, "bytes", is_whole=True)
        check.callback("on_refusal", on_refusal, "a function, or None", is_optional=True)
        check.callback("now_ms", now_ms, "a function")
        room = Room(buffered_max_bytes, max([body_max_bytes, *(each.body_max_bytes or 0 for each in routes)]))
        self._app = app
        self._rules = Rules(routes)
        self._settings = Settings(
            store, window_ms, frozenset(paths), allow, trust_forwarded, now_ms, room, body_max_bytes, on_refusal
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection of ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        route = self._rules.find(scope["path"], scope.get("raw_path"))
        if scope["type"] != "http":
            if route is not None and route.mode == "off":
                await self._plain(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        is_preflight = scope["method"] == "OPTIONS"
        if route is None:
            refusal = Refusal("disguised_path")
            report(self._settings.on_refusal, wire_of(headers), refusal)
            answer = Rejection(refusal).answer(Form.PLAIN)
        elif route.mode == "off" or (route.mode == "optional" and not is_preflight and not looks_sealed(headers)):
            await self._plain(scope, receive, send)
            return
        elif is_preflight:
            # Never sealed: middleware for CORS stands around this one and answers it first.
            answer = ErrorAnswer(204, [(b"allow", METHODS)], b"")
        else:
            await serve(self._app, self._settings, route, headers, scope, receive, send)
            return
        timing = Timing()
        await Body(receive, headers, Holding(self._settings.room, None)).discard()
        await send_error(send, answer, timing)

    async def _plain(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = plain_request(scope["headers"], self._settings.trust_forwarded)
        await self._app({**scope, "headers": headers}, receive, send)
