"""ASGI middleware: opens and seals around an ordinary application, on all three wires."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import check
from .exchange.refusal import Refusal
from .exchange.rejection import METHODS, ErrorAnswer, Form, Rejection
from .exchange.request import looks_sealed
from .server.body import App, Body, Receive, Scope, Send
from .server.headers import plain_request
from .server.reject import log, send_error
from .server.room import BUFFERED_BYTES_MAX, BUFFERED_BYTES_MIN, Holding, Room
from .server.route import BODY_MAX, Route, Rules
from .server.serve import Settings, serve
from .server.store import SessionStore, wall_clock_ms
from .server.timing import Timing
from .session.claim import WINDOW_MS, SessionRecord
from .wire.header import Headers

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
        reached is a `UsageError`. Anonymous sessions may use `anonymous_paths`, which are compared whole, as sent. `allow`
        is a policy: True lets a session's client use a path. `trusts_origin` passes on the headers that say where a request
        came from, on plain routes too (`Forwarded`, `X-Forwarded-…`, `X-Real-IP`, `Via`, `Client-Cert` and the others of
        `stripped_headers` in `spec/registry.toml`): only behind a proxy that sets or removes them. Within a seal they are
        never heard.

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
        room = Room(buffered_bytes_max, max([BODY_MAX, *(each.body_max for each in routes)]))
        self._app = app
        self._rules = Rules(routes)
        self._settings = Settings(store, window_ms, frozenset(paths), allow, trusts_origin, now_ms, room)

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
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        is_preflight = scope["method"] == "OPTIONS"
        if route is None:
            log.warning("refused another spelling of a sealed path")
            answer = Rejection(Refusal("disguised_path")).answer(Form.PLAIN)
        elif route.sealed == "off" or (route.sealed == "optional" and not is_preflight and not looks_sealed(headers)):
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
        headers = plain_request(scope["headers"], self._settings.trusts_origin)
        await self._app({**scope, "headers": headers}, receive, send)
