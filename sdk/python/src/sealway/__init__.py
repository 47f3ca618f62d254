"""Sealed sessions between HTTP clients and services, and single sealed requests: wires 1 to 4 of Sealway."""

from .client.async_transport import AsyncTransport
from .client.failure import NetworkError, TimeoutError, UnreachableError
from .client.metrics import CallMetrics
from .client.once import AsyncOneShot, OneShot
from .client.options import Options
from .client.transport import Transport
from .client.trust import FirstUse, KeyPins, Pins, Psk, Root, Trust
from .client.trust_store import FileTrustStore, TrustStore
from .crypto.hpke import Kem
from .crypto.suite import DEFAULT_SUITES, Suite
from .errors import (
    KeyRetiredError,
    PlainAnswerError,
    ProblemError,
    ProtocolError,
    RedirectError,
    SealwayError,
    StoreFull,
    StoreUnavailable,
    UsageError,
)
from .session.identity import SignatureAlgorithm

__all__ = [
    "DEFAULT_SUITES",
    "AsyncOneShot",
    "AsyncTransport",
    "CallMetrics",
    "FileTrustStore",
    "FirstUse",
    "Kem",
    "KeyPins",
    "KeyRetiredError",
    "NetworkError",
    "OneShot",
    "Options",
    "Pins",
    "PlainAnswerError",
    "ProblemError",
    "ProtocolError",
    "Psk",
    "RedirectError",
    "Root",
    "SealwayError",
    "SignatureAlgorithm",
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
