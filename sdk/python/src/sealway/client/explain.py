"""Origins and remedies in the errors of a client."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx

from ..errors import DeadlineExceeded, PlainAnswerError, RedirectError, SealwayError, UsageError
from .deadline import is_over
from .exchange import Call

_PIN: Final = (
    "this is another service, or an impostor, or its identity keys were replaced: compare the pinned keys with those that "
    "the service's operator names, by another way than this connection, and change `trust` only if they agree"
)
_CLOCK: Final = "this machine's clock and the service's are too far apart: set both by NTP"
_PORTAL: Final = "sign in to the network if it asks for that, and see whether the URL is the service's"
_AWAY: Final = "try again later; if it stays, the service's operator sees why in its log"
#: By the code of an error.
_REMEDIES: Final = {
    "key_untrusted": _PIN,
    "key_retired": _PIN,
    "signature_invalid": _PIN,
    "unconfirmed": _PIN,
    "clock_skew": _CLOCK,
    "timestamp_outside_window": _CLOCK,
    "session_expired": "the next call begins a new session",
    "unauthenticated": "give a valid token as `authorization`, and `prove` where it is bound to a key",
    "policy": "the service allows this client less: see `client_id` and `authorization`, or ask its operator",
    "wire_disabled": "the service serves other wires: see `wire`",
    "suite_required": "the service takes other suites: see `suites`",
    "suite_downgraded": "somebody in between may have changed the suites: try another network",
    "store_unavailable": _AWAY,
    "body_too_large": "raise `answer_max` if so long an answer is expected",
}
_TIMEOUTS: Final = {
    httpx.ConnectTimeout: "no connection in time: see whether host and port are right and a firewall lets it through",
    httpx.ReadTimeout: "no answer in time (read): the service is slow or the connection hangs; see the client's `timeout`",
    httpx.WriteTimeout: "the request could not be sent in time (write): see the client's `timeout`",
    httpx.PoolTimeout: "no connection of the pool was free in time: see the client's `limits`",
}


def _causes(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or at.__context__


def _of_transport(error: httpx.TransportError) -> str:
    for kind, remedy in _TIMEOUTS.items():
        if isinstance(error, kind):
            return remedy
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "TLS: its certificate is not trusted, or another host's: trust its authority (`verify`), or mend the URL"
        if isinstance(cause, ssl.SSLError):
            return "TLS failed: see whether this port speaks https, and which versions of TLS"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there: see whether the service runs, and whether host and port are right"
    return "see whether the host's name is right and the network there"


def _remedy(error: SealwayError | httpx.TransportError) -> str:
    if isinstance(error, httpx.TransportError):
        return _of_transport(error)
    if isinstance(error, DeadlineExceeded):
        return "the whole call had `deadline_sec`: raise it, or see why the service is slow"
    if isinstance(error, RedirectError):
        return "use the URL that it redirects to, if that is the service's"
    if isinstance(error, PlainAnswerError):
        return _PORTAL if error.error is None else _REMEDIES.get(error.error.lower(), "")
    return _REMEDIES.get(error.code, "")


def _explain(error: SealwayError | httpx.TransportError, origin: str) -> None:
    if isinstance(error, UsageError) or getattr(error, "origin", None) is not None:
        return
    error.origin = origin  # type: ignore[union-attr]
    said, remedy = str(error), _remedy(error)
    host = origin.partition("://")[2].removesuffix(":443").removesuffix(":80")
    named = said if host in said else f"{origin}: {said or type(error).__name__}"
    error.args = (f"{named}; {remedy}" if remedy else named, *error.args[1:])


@contextmanager
def about(origin: str, call: Call) -> Iterator[None]:
    """Has errors that pass name the service, by its origin alone, and say what to do; each once. A timeout that the call's
    deadline brought is `DeadlineExceeded`."""
    try:
        yield
    except httpx.TimeoutException as timeout:
        if not is_over(call.deadline):
            _explain(timeout, origin)
            raise
        exceeded = DeadlineExceeded(call.deadline_sec)
        _explain(exceeded, origin)
        raise exceeded from timeout
    except (SealwayError, httpx.TransportError) as error:
        _explain(error, origin)
        raise
