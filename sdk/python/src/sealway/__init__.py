"""Sealed sessions between HTTP clients and services: wires 1, 2 and 3 of Sealway."""

from .crypto.suite import DEFAULT_SUITES, Suite
from .errors import (
    DeadlineExceeded,
    PlainAnswerError,
    ProblemError,
    RedirectRefused,
    Refused,
    SealwayError,
    StoreFull,
    StoreUnavailable,
    UsageError,
)

__all__ = [
    "DEFAULT_SUITES",
    "DeadlineExceeded",
    "PlainAnswerError",
    "ProblemError",
    "RedirectRefused",
    "Refused",
    "SealwayError",
    "StoreFull",
    "StoreUnavailable",
    "Suite",
    "UsageError",
]
