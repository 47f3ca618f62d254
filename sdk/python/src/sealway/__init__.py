"""Sealed sessions between HTTP clients and services: wires 1, 2 and 3 of Sealway."""

from .client.async_transport import AsyncTransport
from .client.failure import NetworkError, TimeoutError, UnreachableError
from .client.metrics import CallMetrics
from .client.options import Options
from .client.transport import Transport
from .client.trust import FirstUse, Pins, Root, Trust
from .client.trust_store import FileTrustStore, TrustStore
from .crypto.suite import DEFAULT_SUITES, Suite
from .errors import (
    PlainAnswerError,
    ProblemError,
    ProtocolError,
    RedirectError,
    SealwayError,
    StoreFull,
    StoreUnavailable,
    UsageError,
)

__all__ = [
    "DEFAULT_SUITES",
    "AsyncTransport",
    "CallMetrics",
    "FileTrustStore",
    "FirstUse",
    "NetworkError",
    "Options",
    "Pins",
    "PlainAnswerError",
    "ProblemError",
    "ProtocolError",
    "RedirectError",
    "Root",
    "SealwayError",
    "StoreFull",
    "StoreUnavailable",
    "Suite",
    "TimeoutError",
    "Transport",
    "Trust",
    "TrustStore",
    "UnreachableError",
    "UsageError",
]
