"""Headers that cross a seal, on either side of an application."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..session.claim import SessionRecord
from ..wire.header import OF_HOP, SEALING
from ..wire.inner import InnerHeaders, may_be_inner

RawHeaders = list[tuple[bytes, bytes]]


def _names(names: str) -> frozenset[bytes]:
    return frozenset(names.encode("ascii").split())


_SEALING: Final = _names(" ".join(SEALING))
_OF_HOP: Final = _names(" ".join(OF_HOP))
_OF_SEALED_BODY: Final = _names(
    "content-type content-length content-encoding accept-encoding accept expect range if-range if-match "
    "if-none-match if-modified-since if-unmodified-since"
)
_OF_SERVICE_BODY: Final = _names(
    "content-type content-length content-encoding content-range accept-ranges etag last-modified trailer server-timing"
)
#: Headers that say where a request came from (`stripped_headers` of `spec/registry.toml`): true only where a trusted proxy
#: says it.
_OF_ORIGIN: Final = _names(
    "forwarded x-real-ip x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip fastly-client-ip "
    "client-cert client-cert-chain x-arr-clientcert"
)
_ORIGIN_PREFIXES: Final = (b"x-forwarded-", b"x-client-cert", b"x-ssl-client-", b"ssl-client-", b"x-amzn-mtls-")
_VIA: Final = b"via"
_TRACE: Final = _names("traceparent tracestate")
_OUTSIDE_OF_REQUEST: Final = _names("host user-agent accept-language")
_OUTSIDE_OF_ANSWER: Final = _names("set-cookie retry-after vary")
#: Headers of a sealed request that its plain one does not have, and of a plain answer that its sealed one does not have.
_OUTSIDE_ALONE: Final = _SEALING | (_OF_HOP - {b"host"}) | _OF_SEALED_BODY
_INSIDE_ALONE: Final = _SEALING | _OF_HOP | _OF_SERVICE_BODY
_OURS = b"x-sealway-"


def _alike(name: bytes) -> bytes:
    # Many pass headers on as variables, in which a hyphen is an underscore.
    return name.lower().replace(b"_", b"-")


def _is_of_origin(name: bytes) -> bool:
    return name in _OF_ORIGIN or name.startswith(_ORIGIN_PREFIXES)


def _is_told(name: bytes, trust_forwarded: bool) -> bool:
    """True for a header, of this lower-case name, that says where a request came from and is a trusted proxy's."""
    # In the spelling alone that the proxy writes: what it does not know, it passes on.
    return trust_forwarded and (_is_of_origin(name) or name == _VIA)


def _is_forged(name: bytes, alike: bytes, trust_forwarded: bool) -> bool:
    """True for a header that only the middleware, or only a trusted proxy, may write."""
    if alike.startswith(_OURS):
        return True
    return (_is_of_origin(alike) or alike == _VIA) and not _is_told(name.lower(), trust_forwarded)


def plain_request(headers: Iterable[tuple[bytes, bytes]], trust_forwarded: bool) -> RawHeaders:
    """Headers without those that are the middleware's alone to say, nor, unless the proxy in front is trusted, those that
    say where a request came from."""
    return [(name, value) for name, value in headers if not _is_forged(name, _alike(name), trust_forwarded)]


def _text(value: str) -> bytes:
    """A text as a header carries it, two texts never alike: what is not visible ASCII, percent signs, and spaces at its
    ends are percent-encoded."""
    data = value.encode("utf-8")
    out = bytearray()
    for at, byte in enumerate(data):
        if (0x21 <= byte <= 0x7E and byte != 0x25) or (byte == 0x20 and 0 < at < len(data) - 1):
            out.append(byte)
        else:
            out += b"%%%02X" % byte
    return bytes(out)


def identity_headers(record: SessionRecord) -> RawHeaders:
    """The headers that say whose session a request is of; what the session does not know is left out."""
    told = (
        (b"x-sealway-client-id", record.client_id),
        (b"x-sealway-auth", record.auth),
        (b"x-sealway-subject", record.subject),
        (b"x-sealway-tenant", record.tenant),
    )
    return [(name, _text(value)) for name, value in told if value is not None]


def unseal_outer(headers: RawHeaders, content_type: str, trust_forwarded: bool) -> RawHeaders:
    """The headers of the request inside a seal that has none of its own, of those outside."""

    def stays(name: bytes, alike: bytes) -> bool:
        is_of_seal = alike in _OUTSIDE_ALONE or alike.startswith(b"proxy-")
        return not (is_of_seal or _is_forged(name, alike, trust_forwarded))

    kept = [(name, value) for name, value in headers if stays(name, _alike(name))]
    type = content_type.encode("ascii")
    return [*kept, (b"content-type", type), (b"accept", type)]


# SPEC session-3.md#sealed-requests
def unseal_inner(outer: RawHeaders, inner: InnerHeaders, trust_forwarded: bool) -> RawHeaders:
    """The headers within a seal, and little of those outside, which anybody on the path could have written."""
    within = [
        (name, value)
        for name, value in inner
        if not (_is_forged(name, alike := _alike(name), False) or alike in _TRACE)
    ]
    names = {_alike(name) for name, _ in within}

    def stays(name: bytes) -> bool:
        is_told = name in _TRACE or _is_told(name, trust_forwarded)
        return is_told or (name in _OUTSIDE_OF_REQUEST and name not in names)

    return within + [(name.lower(), value) for name, value in outer if stays(name.lower())]


def seal_whole(headers: RawHeaders) -> RawHeaders:
    """The headers of an answer that is sealed as a whole: they stay outside."""
    return [
        (lower, value)
        for name, value in headers
        if (lower := name.lower()) not in _INSIDE_ALONE and not _alike(name).startswith(_OURS)
    ]


def seal_inner(headers: RawHeaders) -> InnerHeaders:
    """The headers within an answer that is sealed with its headers."""
    return [(lower, value) for name, value in headers if may_be_inner(lower := name.lower())]


def seal_outer(headers: RawHeaders) -> RawHeaders:
    """The headers that stand outside such an answer as well: those that peers in between act on."""
    kept = [
        (lower, value)
        for name, value in headers
        if (lower := name.lower()) in _OUTSIDE_OF_ANSWER or lower.startswith(b"access-control-")
    ]
    return [*kept, (b"cache-control", b"no-store, no-transform")]
