"""Agreeing, renewing and ending sessions, as conversations that somebody else has to carry: a generator yields what is to
be sent and is sent what came back."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from .. import entropy
from ..crypto.suite import Suite
from ..errors import PlainAnswerError, ProblemError, ProtocolError, SealwayError
from ..session.compat.init import ClientInit as CompatInit
from ..session.compat.init import Family
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

#: Bytes of an answer that is read whole here.
RESPONSE_MAX: Final = 65_536


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be sent to the service that agrees sessions."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, at most `TOLD_MAX` bytes of body."""

    host: str
    status: int
    headers: Headers
    body: bytes


Flow = Generator[Request, Response, ActiveSession]


def refusal(told: Response) -> SealwayError:
    """What an unsealed answer says."""
    problem = parse_problem(told.body)
    if problem is not None:
        return ProblemError(told.status, problem["code"], problem, told.host)
    error: Any = None
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        error = json.loads(told.body).get("error")
    is_known = isinstance(error, str) and len(error) <= 64 and error.isascii() and error.isprintable()
    content_type = told.headers.first("Content-Type") or ""
    return PlainAnswerError(told.status, error if is_known else None, told.host, content_type)


def establish_compat(options: Options) -> Flow:
    """An init of wire 1 or 2."""
    family = Family.ANONYMOUS if options.is_anonymous else Family.V1 if options.is_v1 else Family.SESSION
    client_id = options.client_id if options.wire == 2 else None
    init = CompatInit(options.wire, family, client_id, options.ttl_sec, entropy.key_pair(), now_ms(), entropy.nonce())
    headers = [*init.headers, ("Content-Type", "application/json")]
    if options.authorization is not None:
        headers.append(("Authorization", options.authorization))
    told = yield Request("POST", init.path, headers, init.body)
    # A captive portal answers with a page of its own, and 200.
    if told.status != 200 or "html" in (told.headers.first("Content-Type") or "").lower():
        raise refusal(told)
    at_ms, born = now_ms(), Moment()
    session = init.finish(told.body, at_ms)
    return ActiveSession(session, (session.expires_ms - at_ms) / 1000, born, at_ms)


def _seal_whole(
    previous: ActiveSession, method: str, path: str, body: bytes
) -> Generator[Request, Response, tuple[int, bytes]]:
    """A small sealed request to the service that agrees sessions, and what its answer holds."""
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
    told = yield Request(method, path, headers, stream)
    if X_SEAL not in told.headers:
        raise refusal(told)
    opener, sealed = pending.open(told.status, told.headers)
    if sealed is not None and told.body:
        raise ProtocolError("header_invalid", X_SEALED)
    _, frames = open_whole(opener, told.body if sealed is None else sealed)
    return told.status, b"".join(frames)


def delete_session(previous: ActiveSession) -> Generator[Request, Response, None]:
    """Has the service forget a session."""
    try:
        status, _ = yield from _seal_whole(previous, "DELETE", f"{INIT_PATH}/{previous.id}", b"")
    except ProblemError as problem:
        # It knows no such session any more: that is what was wanted.
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

    def establish(self, previous: ActiveSession | None) -> Flow:
        """A new session: a renewal of `previous` if that works, else an init."""
        if previous is not None:
            try:
                return (yield from self._agree(previous))
            except (SealwayError, TypeError):
                # Whatever speaks against a renewal, an init may still do.
                pass
        return (yield from self._agree(None))

    def _begin(self, suite: Suite, previous: ActiveSession | None) -> ClientInit:
        options = self._options
        renewed = previous.session if previous is not None and isinstance(previous.session, Session) else None
        init = ClientInit(
            entropy.private_keys(suite),
            tuple(each.value for each in options.usable_suites()),
            options.client_id,
            ttl_sec=options.ttl_sec,
            pinned_key_ids=self._keyring.pinned_ids(),
            authorization=options.authorization,
            renewed=renewed,
        )
        if options.prove is not None and renewed is None:
            init.prove(options.prove(init.request.proof_hash()))
        return init

    def _agree(self, previous: ActiveSession | None) -> Flow:
        suites = self._options.usable_suites()
        suite = suites[0]
        if previous is not None and isinstance(previous.session, Session):
            suite = Suite(previous.session.answer.suite)
        may_change = may_retake = True
        while True:
            init = self._begin(suite, previous)
            body = init.body()
            try:
                status, data = yield from self._ask(body, previous)
                born = Moment()
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
            return ActiveSession(session, answer.expires_in_sec, born, answer.server_time_ms)

    def _ask(self, body: bytes, previous: ActiveSession | None) -> Generator[Request, Response, tuple[int, bytes]]:
        if previous is not None:
            return (yield from _seal_whole(previous, "POST", f"{INIT_PATH}/{previous.id}/renew", body))
        headers = [("Content-Type", "application/json")]
        if self._options.authorization is not None:
            headers.append(("Authorization", self._options.authorization))
        told = yield Request("POST", INIT_PATH, headers, body)
        if told.status != 201:
            raise refusal(told)
        return told.status, told.body

    def _suite_wanted(self, problem: ProblemError) -> Suite | None:
        """The first of the client's list that is in the server's."""
        listed = problem.more.get("suites")
        if problem.code != "suite_required" or not isinstance(listed, list):
            return None
        return next((suite for suite in self._options.usable_suites() if suite.value in listed), None)

    def _identity(self, unverified: UnverifiedAnswer) -> Generator[Request, Response, bytes | None]:
        id, server_time_ms = unverified.answer.key_id, unverified.answer.server_time_ms
        known = self._keyring.key(id, server_time_ms, now_ms())
        if known is not None or not self._keyring.may_learn(id):
            return known
        data = yield from _key_set()
        return self._keyring.look_up(id, data, server_time_ms, now_ms())

    def _keep(self, session: Session) -> Generator[Request, Response, None]:
        data = None
        if self._keyring.wants_set(session.answer):
            try:
                data = yield from _key_set()
            except SealwayError:
                # The key in use is known; the next agreement asks again for the others.
                data = None
        self._keyring.remember(session.answer, session.identity, data)


def _key_set() -> Generator[Request, Response, bytes]:
    told = yield Request("GET", KEY_SET_PATH, [], b"")
    if told.status != 200:
        raise ProtocolError("key_untrusted")
    return told.body
