"""ASGI middleware: opens and seals around an ordinary application, on all three wires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import quote

from .server.body import App, Body, Receive, Scope, Send, send_whole
from .server.header import without_ours
from .server.old import serve_old
from .server.refusal import nothing, plain
from .server.route import Route, find_route
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
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Around `app`, with sessions and claims of `store`.

        The first of `routes` that matches decides; a path that none names is sealed, required. Anonymous sessions may use
        `anonymous_paths`, which are compared whole. `allow` is a policy: whether a session's client may use a path.
        `trusts_origin` passes on what says outside of a seal where a request came from (`Forwarded`, `X-Forwarded-…`,
        `X-Real-IP`, `Via`, `Client-Cert` and its chain): only behind a proxy that sets or removes them. Within a seal they
        are never heard.
        """
        self._app = app
        self._store = store
        self._routes = tuple(routes)
        self._anonymous_paths = frozenset(anonymous_paths)
        self._allow = allow
        self._trusts_origin = trusts_origin
        self._window_ms = window_ms
        self._now_ms = now_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection of ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        route = find_route(self._routes, scope["path"])
        if scope["type"] != "http":
            if route.sealed == "off":
                await self._app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        is_marked = any(name in headers for name in (X_SEAL, X_KID, X_IDEMPOTENCY_KEY))
        is_question = scope["method"] == "OPTIONS"
        if route.sealed == "off" or (route.sealed == "optional" and not is_marked and not is_question):
            await self._app({**scope, "headers": without_ours(scope["headers"])}, receive, send)
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
        )
        serve = serve_three if X_SEAL in headers else serve_old
        await serve(self._app, settings, _target(scope), headers, scope, receive, send)


def _target(scope: Scope) -> str:
    """Path and query as they were sent."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else quote(scope["path"])
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path
