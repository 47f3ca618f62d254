"""What the sync and the async transport share: nothing in here waits."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx

from .. import check
from ..errors import UsageError
from ..session.compat.call import ClientSession
from ..wire.header import SEALING, Headers
from .active import ActiveSession
from .deadline import timeouts
from .establish import Agreement, Flow, Request, establish_compat
from .exchange import Call, StreamOpener, check_call
from .metrics import CallMetrics
from .options import Options, origin_of
from .trust import Keyring

#: Headers of a compat answer that are not of its plaintext.
_OF_SEALED_ANSWER = SEALING | {"content-type", "content-length", "content-encoding", "transfer-encoding"}


class Parts:
    """A client's settings and the session in use. Whoever is given a session holds it, and releases it."""

    def __init__(self, server_url: str, session_url: str | None, options: Options) -> None:
        check.wants(isinstance(options, Options), "options", options, "sealway.Options(trust=…)")
        self.options = options
        self.server_origin = origin_of(server_url, "server_url")
        self.session_origin = self.server_origin if session_url is None else origin_of(session_url, "session_url")
        self.keyring: Keyring | None = None
        if options.wire == 3 and options.trust is not None:
            self.keyring = Keyring(options.trust, self.session_origin)
        self.active: ActiveSession | None = None
        # For moments: nobody waits for the network while holding it.
        self._lock = threading.Lock()

    def usable(self) -> ActiveSession | None:
        """The session in use, unless it is about to end."""
        with self._lock:
            active = self.active
            if active is None or not active.is_usable():
                return None
            active.hold()
            return active

    def renewable(self) -> ActiveSession | None:
        """The session in use, if it has not ended."""
        with self._lock:
            active = self.active
            if self.keyring is None or active is None or active.left_sec() <= 0:
                return None
            active.hold()
            return active

    def establish(self, previous: ActiveSession | None) -> Flow:
        """How to come to a session, by renewing `previous` if there is one."""
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
        """Has the next call begin with another session than this one; a later one stays in use."""
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

    def call(self, request: httpx.Request) -> Call:
        """What a request asks for.

        Raises:
            UsageError: for what cannot be sealed, and for another origin: a redirect could lead anywhere.
        """
        url, options = request.url, self.options
        if origin_of(f"{url.scheme}://{url.netloc.decode('ascii')}") != self.server_origin:
            raise UsageError("this transport seals for one service alone, and the URL is another's")
        is_whole = isinstance(request.stream, httpx.ByteStream)
        check_call(request.method, request.headers.raw, options.wire, not is_whole)
        body = b"".join(request.stream) if isinstance(request.stream, httpx.ByteStream) else None
        if body is not None and len(body) > options.request_max:
            raise UsageError("the request's body is over request_max")
        deadline_sec = request.extensions.get("sealway_deadline_sec", options.deadline_sec)
        deadline = None if deadline_sec is None else time.monotonic() + deadline_sec
        return Call(
            request.method,
            url.raw_path.decode("latin-1"),
            request.headers.raw,
            body,
            deadline,
            deadline_sec or 0.0,
            CallMetrics(options.wire),
        )

    def request_of(self, ask: Request, extensions: dict[str, Any], call: Call) -> httpx.Request:
        """What a conversation wants sent, as a request."""
        steps = timeouts(extensions, call.deadline, call.deadline_sec)
        return httpx.Request(
            ask.method,
            self.session_origin + ask.path,
            headers=ask.headers,
            content=ask.body if ask.method == "POST" else None,
            extensions={"timeout": steps},
        )

    def response_of(
        self, opener: StreamOpener, status: int, stream: httpx.SyncByteStream | httpx.AsyncByteStream, call: Call
    ) -> httpx.Response:
        """The answer that was inside."""
        return httpx.Response(
            status, headers=list(opener.inner or ()), stream=stream, extensions={"sealway": call.metrics}
        )

    def compat_response_of(
        self, status: int, headers: Headers, raw: Any, plaintext: bytes, call: Call
    ) -> httpx.Response:
        """The answer of wire 1 or 2: its plaintext has no headers of its own."""
        kept = [(name, value) for name, value in raw if name.lower().decode("latin-1") not in _OF_SEALED_ANSWER]
        return httpx.Response(status, headers=kept, content=plaintext, extensions={"sealway": call.metrics})


def is_native(active: ActiveSession) -> bool:
    """Whether a session is of wire 3."""
    return not isinstance(active.session, ClientSession)


def wire_request(
    request: httpx.Request, attempt_headers: list[tuple[str, str]], content: Any, call: Call
) -> httpx.Request:
    """The sealed request: nothing of the caller's is outside but its host."""
    steps = timeouts(request.extensions, call.deadline, call.deadline_sec)
    extensions = {**request.extensions, "timeout": steps}
    if isinstance(content, bytes) and not content and call.method in ("GET", "HEAD", "DELETE"):
        content = None
    return httpx.Request(call.method, request.url, headers=attempt_headers, content=content, extensions=extensions)
