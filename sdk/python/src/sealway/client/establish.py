"""Agreeing, renewing and ending sessions without I/O. A generator yields requests to send and functions of the caller to
call, and receives the answers and their results."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from .. import check, entropy
from ..crypto.suite import Suite
from ..errors import PlainAnswerError, ProblemError, ProtocolError, SealwayError, UsageError
from ..session.compat.init import ClientInit as CompatInit
from ..session.native.call import OCTETS
from ..session.native.client import ClientInit, Session, UnverifiedAnswer
from ..session.native.key_set import KEY_SET_PATH
from ..session.native.message import INIT_PATH
from ..session.native.problem import parse_problem
from ..session.native.stream import open_whole
from ..wire.encoding import encode_base64
from ..wire.header import X_SEAL, X_SEALED, Headers
from ..wire.inner import encode_inner
from .active import ActiveSession
from .clock import Moment, now_ms
from .options import Options
from .trust import Keyring

#: The longest answer of an authority, and without a seal, in bytes: a key set, and a problem around it.
RESPONSE_MAX: Final = 65_536 + 4_096


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the authority: the service that agrees sessions."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """An answer without a seal, or to a `Request`; `body` has at most `RESPONSE_MAX` bytes."""

    status: int
    headers: Headers
    body: bytes


T = TypeVar("T")
#: A function of the caller, such as `Options.authorization`.
Callback = Callable[[], Any]
Flow = Generator[Request | Callback, Any, T]


def rejection(response: Response) -> SealwayError:
    """Returns the error of an answer without a seal."""
    problem = parse_problem(response.body)
    if problem is not None:
        return ProblemError(response.status, problem["code"], problem)
    error: Any = None
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        error = json.loads(response.body).get("error")
    is_known = isinstance(error, str) and len(error) <= 64 and error.isascii() and error.isprintable()
    content_type = response.headers.first("Content-Type") or ""
    return PlainAnswerError(response.status, error if is_known else None, content_type)


def _result(name: str, function: Callback | None) -> Flow[str | None]:
    """Returns the result of a function of the caller, a text for a header or a JSON member.

    Raises:
        UsageError: for anything else. The value is not shown: it is a secret.
    """
    if function is None:
        return None
    value = yield function
    check.text(name, value, "a function that returns a text")
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"{name} returned a text with characters that a header cannot have")
    return str(value)


def _init_headers(authorization: str | None) -> list[tuple[str, str]]:
    content = [("Content-Type", "application/json")]
    return content if authorization is None else [*content, ("Authorization", authorization)]


def establish_compat(options: Options) -> Flow[ActiveSession]:
    """Agrees a session of wire 1 or 2."""
    authorization = yield from _result("authorization", options.authorization)
    client_id = options.client_id if options.wire == 2 else None
    keys, nonce = entropy.key_pair(), entropy.nonce()
    init = CompatInit(options.wire, options.init_path, client_id, options.ttl_sec, keys, now_ms(), nonce)
    sent = Moment()
    response = yield Request("POST", init.path, [*init.headers, *_init_headers(authorization)], init.body)
    # A captive portal answers with a page of its own, and 200.
    if response.status != 200 or "html" in (response.headers.first("Content-Type") or "").lower():
        raise rejection(response)
    at_ms, arrived = now_ms(), Moment()
    session = init.finish(response.body, at_ms)
    return ActiveSession(session, (session.expires_ms - at_ms) / 1000, sent, at_ms, arrived)


def _seal_whole(previous: ActiveSession, method: str, path: str, body: bytes) -> Flow[tuple[int, bytes]]:
    """Sends a small sealed request to the authority. Returns status and plaintext of its answer."""
    session = previous.session
    if not isinstance(session, Session):
        raise TypeError("the session is not of wire 3")
    content_type = OCTETS if body else ""
    pending = session.seal(method, path, content_type, str(previous.stamp_ms(time.monotonic())), entropy.nonce())
    inner = encode_inner([(b"content-type", b"application/json")] if body else [])
    stream = pending.sealer.seal_all(inner, body)
    headers = list(pending.headers)
    if body:
        headers.append(("Content-Type", content_type))
    else:
        headers.append((X_SEALED, encode_base64(stream)))
        stream = b""
    response = yield Request(method, path, headers, stream)
    if X_SEAL not in response.headers:
        raise rejection(response)
    opener, sealed = pending.open(response.status, response.headers)
    if sealed is not None and response.body:
        raise ProtocolError("header_invalid", X_SEALED)
    _, frames = open_whole(opener, response.body if sealed is None else sealed)
    return response.status, b"".join(frames)


def delete_session(previous: ActiveSession) -> Flow[None]:
    """Ends a session at the authority."""
    try:
        status, _ = yield from _seal_whole(previous, "DELETE", f"{INIT_PATH}/{previous.id}", b"")
    except ProblemError as problem:
        # The authority does not know the session any more.
        if problem.code == "session_expired":
            return
        raise
    if status // 100 != 2:
        raise PlainAnswerError(status, None)


class Agreement:
    """Agrees sessions of wire 3 for one client."""

    def __init__(self, options: Options, keyring: Keyring) -> None:
        self._options = options
        self._keyring = keyring

    def establish(self, previous: ActiveSession | None) -> Flow[ActiveSession]:
        """Agrees a session: renews `previous` if that works, else sends an init."""
        if previous is not None:
            try:
                return (yield from self._agree(previous))
            except (SealwayError, TypeError):
                # An init may succeed where a renewal fails.
                pass
        return (yield from self._agree(None))

    def _begin(self, suite: Suite, previous: ActiveSession | None, authorization: str | None) -> Flow[ClientInit]:
        options = self._options
        renewed = previous.session if previous is not None and isinstance(previous.session, Session) else None
        init = ClientInit(
            entropy.private_keys(suite),
            tuple(each.value for each in options.usable_suites()),
            options.client_id,
            ttl_sec=options.ttl_sec,
            pinned_key_ids=self._keyring.pinned_ids(),
            authorization=authorization,
            renewed=renewed,
            signature_algorithms=options.algorithm_names(),
        )
        make = options.proof
        if make is not None and renewed is None:
            init_hash = init.request.proof_hash()
            proof = yield from _result("proof", lambda: make(init_hash))
            init.prove(proof or "")
        return init

    def _agree(self, previous: ActiveSession | None) -> Flow[ActiveSession]:
        suites = self._options.usable_suites()
        suite = suites[0]
        if previous is not None and isinstance(previous.session, Session):
            suite = Suite(previous.session.answer.suite)
        may_change = may_retake = True
        while True:
            authorization = None
            if previous is None:
                authorization = yield from _result("authorization", self._options.authorization)
            init = yield from self._begin(suite, previous, authorization)
            sent = Moment()
            try:
                status, data = yield from self._send(init.body(), previous, authorization)
                arrived = Moment()
                unverified = init.unverified(status, data)
            except ProblemError as problem:
                wanted = self._suite_wanted(problem)
                if may_change and wanted is not None and wanted is not suite:
                    suite, may_change = wanted, False
                    continue
                if may_retake and problem.code == "key_retired":
                    may_retake = False
                    if self._keyring.retired(problem.more.get("key_set"), now_ms()):
                        continue
                raise
            identity = yield from self._identity(unverified)
            session = init.finish(unverified, identity)
            yield from self._keep(session)
            answer = session.answer
            return ActiveSession(session, answer.expires_in_sec, sent, answer.server_time_ms, arrived)

    def _send(self, body: bytes, previous: ActiveSession | None, authorization: str | None) -> Flow[tuple[int, bytes]]:
        if previous is not None:
            return (yield from _seal_whole(previous, "POST", f"{INIT_PATH}/{previous.id}/renew", body))
        response = yield Request("POST", INIT_PATH, _init_headers(authorization), body)
        if response.status != 201:
            raise rejection(response)
        return response.status, response.body

    def _suite_wanted(self, problem: ProblemError) -> Suite | None:
        """Returns the first suite of the client's list that is in the server's."""
        listed = problem.more.get("suites")
        if problem.code != "suite_required" or not isinstance(listed, list):
            return None
        return next((suite for suite in self._options.usable_suites() if suite.value in listed), None)

    def _identity(self, unverified: UnverifiedAnswer) -> Flow[bytes | None]:
        id, server_time_ms = unverified.answer.key_id, unverified.answer.server_time_ms
        known = self._keyring.key(id, server_time_ms, now_ms())
        if known is not None or not self._keyring.may_learn(id):
            return known
        data = yield from _key_set()
        return self._keyring.look_up(id, data, server_time_ms, now_ms())

    def _keep(self, session: Session) -> Flow[None]:
        data = None
        if self._keyring.wants_set(session.answer):
            try:
                data = yield from _key_set()
            except SealwayError:
                # The key in use is known; the next agreement asks again for the others.
                data = None
        self._keyring.remember(session.answer, session.identity, data)


def _key_set() -> Flow[bytes]:
    response = yield Request("GET", KEY_SET_PATH, [], b"")
    if response.status != 200:
        raise ProtocolError("key_untrusted")
    return bytes(response.body)
