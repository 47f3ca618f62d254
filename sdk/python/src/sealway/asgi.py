"""ASGI middleware: opens and seals around an ordinary application, on all three wires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import quote

from . import check
from .server.body import App, Body, Receive, Scope, Send, send_whole
from .server.header import plain_request
from .server.old import serve_old
from .server.refusal import log, nothing, plain
from .server.room import BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN, Room
from .server.route import BODY_MAX, Route, Rules
from .server.settings import Settings
from .server.store import SessionStore, wall_clock_ms
from .server.three import serve_three
from .session.claim import WINDOW_MS, SessionRecord
from .session.three.call import UNSEALED_METHODS
from .wire.header import X_IDEMPOTENCY_KEY, X_KID, X_SEAL, Headers

__all__ = ["Route", "SealedApp"]


class SealedApp:
    """An application behind a seal.

        app = SealedApp(app, store=AuthorityStore("https://sessions.example", secret), routes=[Route("/health", "off")])

    A handler sees a plain request: method, target, the headers that were within, the body; who sent it is in
    `X-Sealway-Client-Id`, `X-Sealway-Auth`, `X-Sealway-Subject` and `X-Sealway-Tenant`, which nobody else can set. What
    it answers is sealed. `OPTIONS` is told 204 where sealed calls go, and reaches no handler: CORS is middleware of its
    own, around this one.

    A target that ends in a bare `?` does not open on wire 3: ASGI does not tell it from one without.
    """

    def __init__(
        self,
        app: App,
        *,
        store: SessionStore,
        routes: Sequence[Route] = (),
        anonymous_paths: Sequence[str] = (),
        allow: Callable[[SessionRecord, str], bool] | None = None,
        trusts_origin: bool = False,
        window_ms: int = WINDOW_MS,
        buffered_bytes_max: int = BUFFERED_BYTES_MAX,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Around `app`, with sessions and claims of `store`.

        The first of `routes` that names a path decides; a path that none names is sealed, required. A route that is never
        reached is a `UsageError`. Anonymous sessions may use
        `anonymous_paths`, which are compared whole. `allow` is a policy: whether a session's client may use a path.
        `trusts_origin` passes on the headers that say where a request came from, on plain routes too (`Forwarded`,
        `X-Forwarded-…`, `X-Real-IP`, `Via`, `Client-Cert` and the others of `stripped_headers` in `spec/registry.toml`):
        only behind a proxy that sets or removes them. Within a seal they are never heard.

        `buffered_bytes_max` (64 MiB, 1 MiB at least) bounds the bytes of sealed bodies that have arrived and are not opened
        yet, of all requests together: whole bodies on wires 1 and 2, frames on wire 3. One remote address (IPv6: a /64) has
        a sixteenth of it, or the longest `body_max` if that is more; with `trusts_origin` all of it, since the proxy's
        address is everybody's. What is over it is refused with 503.

        Raises:
            UsageError: for what is absent or wrong, with its name.
        """
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
        check.number("buffered_bytes_max", buffered_bytes_max, least, f"bytes, {least} at least", is_whole=True)
        check.callback("now_ms", now_ms, "a function")
        self._app = app
        self._store = store
        self._rules = Rules(routes)
        self._anonymous_paths = frozenset(paths)
        self._allow = allow
        self._trusts_origin = trusts_origin
        self._window_ms = window_ms
        self._room = Room(buffered_bytes_max, max([BODY_MAX, *(each.body_max for each in routes)]))
        self._now_ms = now_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection of ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        route = self._rules.find(scope["path"], scope.get("raw_path"))
        if scope["type"] != "http":
            if route is not None and route.sealed == "off":
                await self._plain(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        if route is None:
            log.warning("refused another spelling of a sealed path")
            answer = plain("CRYPTO_ERROR")
            await send_whole(send, answer.status, answer.headers, answer.body)
            return
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        is_marked = any(name in headers for name in (X_SEAL, X_KID, X_IDEMPOTENCY_KEY))
        is_question = scope["method"] == "OPTIONS"
        if route.sealed == "off" or (route.sealed == "optional" and not is_marked and not is_question):
            await self._plain(scope, receive, send)
            return
        if scope["method"] in UNSEALED_METHODS:
            await Body(receive, headers, route.body_max).discard()
            # The browser's question is never sealed: middleware for CORS stands around this one and answers it first.
            answer = nothing() if is_question else plain("METHOD_NOT_ALLOWED")
            await send_whole(send, answer.status, answer.headers, answer.body)
            return
        settings = Settings(
            self._store,
            route,
            scope["path"],
            self._window_ms,
            self._anonymous_paths,
            self._allow,
            self._trusts_origin,
            self._now_ms,
            self._room,
            None if self._trusts_origin else (scope.get("client") or (None,))[0],
        )
        serve = serve_three if X_SEAL in headers else serve_old
        await serve(self._app, settings, _target(scope), headers, scope, receive, send)

    async def _plain(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "headers": plain_request(scope["headers"], self._trusts_origin)}, receive, send)


def _target(scope: Scope) -> str:
    """Path and query as they were sent."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else quote(scope["path"])
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path
