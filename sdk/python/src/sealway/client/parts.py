"""The parts that the sync and the async transport share. Nothing here waits."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import httpx

from .. import check
from ..errors import UsageError
from ..session.compat.call import ClientSession
from ..session.native.client import Session
from ..wire.header import SEALING, Headers
from .active import ActiveSession
from .establish import Agreement, Flow, Request, establish_compat
from .exchange import Call, CompatAttempt, NativeAttempt, StreamOpener, check_call
from .metrics import CallMetrics
from .one_shot import OneShotAttempt, OneShotKey, OneShotKeys
from .options import Options, check_answer_max, check_timeout, origin_of
from .timer import TIMEOUTS, Timer
from .trust import FirstUse, Keyring, Pins, Root

#: Headers of a compat answer that are not of its plaintext.
_OF_SEALED_ANSWER = SEALING | {"content-type", "content-length", "content-encoding", "transfer-encoding"}

#: Former names of a transport's arguments.
RENAMED = {"server_url": "url", "session_url": "Options.authority_url"}


class Parts:
    """The options of a client and its session in use. A caller that receives a session releases it after use."""

    def __init__(self, url: str, options: Options) -> None:
        check.wants(isinstance(options, Options), "options", options, "sealway.Options(trust=…)")
        self.options = options
        self.service_origin = origin_of(url)
        authority = options.authority_url
        self.authority_origin = self.service_origin if authority is None else origin_of(authority, "authority_url")
        self.keyring: Keyring | None = None
        self.keys: OneShotKeys | None = None
        if options.wire == 3 and isinstance(options.trust, (Pins, Root, FirstUse)):
            self.keyring = Keyring(options.trust, self.authority_origin, options.algorithm_names())
        elif options.wire == 4:
            self.keys = OneShotKeys(options, self.authority_origin)
        self.active: ActiveSession | None = None
        # Held for moments: never while waiting for the network.
        self._lock = threading.Lock()

    def usable(self) -> ActiveSession | None:
        """Returns the session in use, held, unless it is about to end."""
        with self._lock:
            active = self.active
            if active is None or not active.is_usable():
                return None
            active.hold()
            return active

    def renewable(self) -> ActiveSession | None:
        """Returns the session in use, held, if it can be renewed."""
        with self._lock:
            active = self.active
            if self.keyring is None or active is None or active.left_sec() <= 0:
                return None
            active.hold()
            return active

    def establish(self, previous: ActiveSession | None) -> Flow[ActiveSession]:
        """Agrees a session; renews `previous` if there is one. On wire 4 it finds a key."""
        if self.keys is not None:
            return self.keys.establish()
        if self.keyring is None:
            return establish_compat(self.options)
        return Agreement(self.options, self.keyring).establish(previous)

    def use(self, active: ActiveSession) -> None:
        """Takes a new session into use."""
        with self._lock:
            active.hold()
            previous, self.active = self.active, active
            if previous is not None:
                previous.retire()

    def forget(self, id: str) -> None:
        """Takes this session out of use; a later one stays."""
        with self._lock:
            active = self.active
            if active is not None and active.id == id:
                self.active = None
                active.retire()

    def remove(self) -> ActiveSession | None:
        """Takes the session out of use. Calls that began in it finish in it."""
        with self._lock:
            active, self.active = self.active, None
            if active is not None:
                active.hold()
                active.retire()
            return active

    def attempt(self, active: ActiveSession, call: Call) -> NativeAttempt | CompatAttempt:
        """Seals a call in a session, or to a key, for one attempt."""
        call.metrics.attempts += 1
        call.metrics.session_id = active.id
        if isinstance(active.session, ClientSession):
            return CompatAttempt(active, active.session, call, self.options)
        if isinstance(active.session, OneShotKey) and self.keys is not None:
            return OneShotAttempt(active, active.session, call, self.keys)
        return NativeAttempt(active, active.session, call)

    def call(self, request: httpx.Request) -> Call:
        """Returns the call of a request.

        Raises:
            UsageError: for a request that cannot be sealed, for wrong `extensions`, and for another origin than the
                service's: a redirect could lead anywhere.
        """
        url, options = request.url, self.options
        if origin_of(f"{url.scheme}://{url.netloc.decode('ascii')}") != self.service_origin:
            raise UsageError(
                f"url: this transport seals for {self.service_origin} alone; make another one for another origin"
            )
        is_whole = isinstance(request.stream, httpx.ByteStream)
        check_call(request.method, request.headers.raw, options.wire, not is_whole)
        body = b"".join(request.stream) if isinstance(request.stream, httpx.ByteStream) else None
        if body is not None and len(body) > options.request_max_bytes:
            raise UsageError(
                f"content: {len(body)} bytes are over request_max_bytes, which is {options.request_max_bytes}"
            )
        limits, answer_max = self._limits(request.extensions)
        return Call(
            request.method,
            url.raw_path.decode("latin-1"),
            request.headers.raw,
            body,
            Timer(limits, request.extensions),
            CallMetrics(options.wire),
            answer_max,
            options.on_metrics,
        )

    def _limits(self, extensions: Mapping[str, Any]) -> tuple[dict[str, float | None], int | None]:
        """Returns timeouts and the bound of the answer: those of the options, but for those of one call."""
        limits: dict[str, Any] = {name: getattr(self.options, name) for name in (*TIMEOUTS, "answer_max_bytes")}
        for extension, value in extensions.items():
            prefix, separator, name = extension.partition("sealway_")
            if prefix or not separator:
                continue
            if name not in limits:
                known = ", ".join(f"sealway_{each}" for each in limits)
                raise UsageError(f"extensions: {extension} is unknown: give one of {known}")
            limits[name] = value
            if name in TIMEOUTS:
                check_timeout(extension, value)
            else:
                check_answer_max(value, self.options.wire)
        return limits, limits.pop("answer_max_bytes")

    def call_without_request(self) -> Call:
        """Returns a call that ends the session."""
        limits, answer_max = self._limits({})
        return Call("", "", [], b"", Timer(limits, {}), CallMetrics(3), answer_max)

    def request_of(self, request: Request, call: Call) -> httpx.Request:
        """Returns a request to the authority in the form of httpx."""
        return httpx.Request(
            request.method,
            self.authority_origin + request.path,
            headers=request.headers,
            content=request.body if request.method == "POST" else None,
            extensions={"timeout": call.timer.steps()},
        )

    def response_of(
        self, opener: StreamOpener, status: int, stream: httpx.SyncByteStream | httpx.AsyncByteStream, call: Call
    ) -> httpx.Response:
        """Returns the answer inside the seal."""
        return httpx.Response(
            status, headers=list(opener.inner or ()), stream=stream, extensions={"sealway": call.metrics}
        )

    def compat_response_of(
        self, status: int, headers: Headers, raw: Any, plaintext: bytes, call: Call
    ) -> httpx.Response:
        """Returns the answer of wire 1 or 2: its plaintext has no headers of its own."""
        kept = [(name, value) for name, value in raw if name.lower().decode("latin-1") not in _OF_SEALED_ANSWER]
        return httpx.Response(status, headers=kept, content=plaintext, extensions={"sealway": call.metrics})


def is_native(active: ActiveSession) -> bool:
    """Returns True for a session of wire 3."""
    return isinstance(active.session, Session)


def wire_request(
    request: httpx.Request, attempt_headers: list[tuple[str, str]], content: Any, call: Call
) -> httpx.Request:
    """Returns the sealed request. Of the caller's headers only `Host` stays outside on wires 3 and 4."""
    extensions = {**request.extensions, "timeout": call.timer.steps()}
    if isinstance(content, bytes) and not content and call.method in ("GET", "HEAD", "DELETE"):
        content = None
    return httpx.Request(call.method, request.url, headers=attempt_headers, content=content, extensions=extensions)
