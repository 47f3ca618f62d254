"""Errors of a client: those of the network, and what every error says of its call."""

from __future__ import annotations

import builtins
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import httpx

from ..errors import PlainAnswerError, SealwayError, UsageError

if TYPE_CHECKING:
    from .exchange import Call


class NetworkError(SealwayError, httpx.TransportError):
    """The connection broke. httpx's own error is the cause."""

    code = "network"


class UnreachableError(NetworkError, httpx.ConnectError):
    """No connection came about, so nothing was sent."""

    code = "unreachable"


class TimeoutError(SealwayError, httpx.TimeoutException, builtins.TimeoutError):
    """A timeout passed; the message names it."""

    code, blame = "timeout", "limit"


#: The names of httpx's timeouts, by its errors.
_STEPS: Final = {
    httpx.ConnectTimeout: "connect",
    httpx.ReadTimeout: "read",
    httpx.WriteTimeout: "write",
    httpx.PoolTimeout: "pool",
}
#: Errors after which nothing was sent.
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: Codes and statuses of an agreement that pass by themselves.
_TRANSIENT: Final = frozenset(
    {
        "unreachable",
        "timeout",
        "network",
        "rate_limited",
        "RATE_LIMITED",
        "store_unavailable",
        "upstream_unreachable",
        "upstream_timeout",
    }
)
_TRANSIENT_STATUSES: Final = (429, 502, 503, 504)
#: The option of `Options` that an error is about.
_OPTIONS: Final = {
    "key_untrusted": "trust",
    "key_retired": "trust",
    "unauthenticated": "authorization",
    "policy": "client_id",
    "wire_disabled": "wire",
    "suite_required": "suites",
    "suite_downgraded": "suites",
    "body_too_large": "answer_max_bytes",
}


def _of_network(error: httpx.TransportError, call: Call) -> SealwayError:
    for kind, step in _STEPS.items():
        if isinstance(error, kind):
            return call.timer.error(step)
    if isinstance(error, httpx.ConnectError):
        return UnreachableError(f"no connection: {error}")
    return NetworkError(f"the connection broke: {type(error).__name__}: {error}")


def _is_retryable(error: SealwayError, cause: BaseException, call: Call) -> bool:
    if call.is_unproven or _is_of_tls(cause):
        return False
    if error.stage == "agreement":
        is_transient = isinstance(error, PlainAnswerError) and error.status in _TRANSIENT_STATUSES
        return is_transient or error.code in _TRANSIENT
    return error.retryable or isinstance(cause, _UNSENT) or call.timer.is_connecting


def _is_of_tls(error: BaseException | None) -> bool:
    """True for a failure of TLS, which does not pass by itself."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def stage(name: str, origin: str, call: Call) -> Iterator[None]:
    """Gives errors that pass stage, host, remedy and `retryable`; the innermost stage counts."""
    try:
        yield
    except UsageError:
        raise
    except (SealwayError, httpx.TransportError) as cause:
        error = cause if isinstance(cause, SealwayError) else _of_network(cause, call)
        if error.host:
            raise
        error.stage, error.host = name, origin.partition("://")[2]
        error.retryable = _is_retryable(error, cause, call)
        option = f" (option `{_OPTIONS[error.code]}`)" if error.code in _OPTIONS else ""
        error.args = (f"{error.host}: {error}. {error.remedy}".rstrip(". ") + f".{option}",)
        if error is cause:
            raise
        raise error from cause
