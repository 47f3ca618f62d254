"""Sealed sessions between HTTP clients and services: wires 1, 2 and 3 of Sealway."""

from .client.async_transport import AsyncTransport
from .client.metrics import CallMetrics
from .client.options import Options
from .client.transport import Transport
from .client.trust import FirstUse, Pins, Root, Trust
from .crypto.suite import DEFAULT_SUITES, Suite
from .errors import (
    DeadlineExceeded,
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
    "DeadlineExceeded",
    "FirstUse",
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
    "Transport",
    "Trust",
    "UsageError",
]
