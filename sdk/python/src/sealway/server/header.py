"""Which headers cross a seal, on either side of a handler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..session.claim import SessionRecord
from ..wire.header import OF_HOP, SEALING
from ..wire.inner import InnerHeaders, may_be_inner

RawHeaders = list[tuple[bytes, bytes]]


def _names(*names: str) -> frozenset[bytes]:
    return frozenset(name.encode("ascii") for name in names)


_SEALING: Final = _names(*SEALING)
_OF_HOP: Final = _names(*OF_HOP)
_OF_SEALED_BODY: Final = _names(
    "content-type",
    "content-length",
    "content-encoding",
    "accept-encoding",
    "accept",
    "expect",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
)
_OF_SERVICE_BODY: Final = _names(
    "content-type",
    "content-length",
    "content-encoding",
    "content-range",
    "accept-ranges",
    "etag",
    "last-modified",
    "trailer",
    "server-timing",
)
#: What says where a request came from (`stripped_headers` of `spec/registry.toml`): true only where somebody in front is
#: trusted to say it.
_OF_ORIGIN: Final = _names(
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "client-cert",
    "client-cert-chain",
    "x-arr-clientcert",
)
_ORIGIN_PREFIXES: Final = (b"x-forwarded-", b"x-client-cert", b"x-ssl-client-", b"ssl-client-", b"x-amzn-mtls-")
_VIA: Final = b"via"
_TRACE: Final = _names("traceparent", "tracestate")
_OUTSIDE_OF_REQUEST: Final = _names("host", "user-agent", "accept-language")
_OUTSIDE_OF_ANSWER: Final = _names("set-cookie", "retry-after")
_OURS = b"x-sealway-"


def _plain(name: bytes) -> bytes:
    # Many pass headers on as variables, in which a hyphen is an underscore.
    return name.lower().replace(b"_", b"-")


def _is_of_origin(name: bytes) -> bool:
    return name in _OF_ORIGIN or name.startswith(_ORIGIN_PREFIXES)


def _is_of_way(name: bytes) -> bool:
    return name == _VIA or name in _TRACE


def plain_request(headers: Iterable[tuple[bytes, bytes]], trusts_origin: bool) -> RawHeaders:
    """Headers without those that are the middleware's alone to say, nor, unless the one in front is trusted, those that
    say where a request came from."""

    def stays(name: bytes) -> bool:
        # In the spelling alone that the one in front writes: what that does not know, it passes on.
        is_told = trusts_origin and (_is_of_origin(name) or name == _VIA)
        return is_told or not (_is_of_origin(_plain(name)) or _plain(name) == _VIA)

    return [(name, value) for name, value in without_ours(headers) if stays(name.lower())]


def without_ours(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Headers without those that are the middleware's alone to say."""
    return [(name, value) for name, value in headers if not _plain(name).startswith(_OURS)]


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


def _identity(record: SessionRecord) -> RawHeaders:
    told = (
        (b"x-sealway-client-id", record.client_id),
        (b"x-sealway-auth", record.auth),
        (b"x-sealway-subject", record.subject),
        (b"x-sealway-tenant", record.tenant),
    )
    return [(name, _text(value)) for name, value in told if value is not None]


def old_request(
    headers: RawHeaders, record: SessionRecord, content_type: str, length: int, trusts_origin: bool
) -> RawHeaders:
    """What a handler sees of a call of wire 1 or 2."""
    drop = _SEALING | (_OF_HOP - {b"host"}) | _OF_SEALED_BODY
    kept = [
        (name, value)
        for name, value in plain_request(headers, trusts_origin)
        if _plain(name) not in drop and not _plain(name).startswith(b"proxy-")
    ]
    type = content_type.encode("ascii")
    own = [(b"content-type", type), (b"accept", type), (b"content-length", b"%d" % length)]
    return kept + own + _identity(record)


def three_request(
    outer: RawHeaders, inner: InnerHeaders, record: SessionRecord, length: int | None, trusts_origin: bool
) -> RawHeaders:
    """What a handler sees of a request of wire 3, and who sent it."""
    own = [(b"content-length", b"%d" % length)] if length is not None else []
    return service_headers(outer, inner, trusts_origin) + own + _identity(record)


def service_headers(outer: RawHeaders, inner: InnerHeaders, trusts_origin: bool) -> RawHeaders:
    """The inner headers, and little of those outside, which anybody on the path could have written."""
    within = [
        (name, value)
        for name, value in without_ours(inner)
        if not (_is_of_origin(_plain(name)) or _is_of_way(_plain(name)))
    ]
    names = {_plain(name) for name, _ in within}

    def stays(name: bytes) -> bool:
        # In the spelling alone that the one in front writes: what that does not know, it passes on.
        is_told = name in _TRACE or (trusts_origin and (_is_of_origin(name) or name == _VIA))
        return is_told or (name in _OUTSIDE_OF_REQUEST and name not in names)

    return within + [(name.lower(), value) for name, value in outer if stays(name.lower())]


def old_answer(headers: RawHeaders) -> RawHeaders:
    """What stays outside of an answer of wire 1 or 2."""
    drop = _SEALING | _OF_HOP | _OF_SERVICE_BODY
    return [(name.lower(), value) for name, value in without_ours(headers) if name.lower() not in drop]


def inner_answer(headers: RawHeaders) -> InnerHeaders:
    """What goes within an answer of wire 3."""
    return [(name.lower(), value) for name, value in headers if may_be_inner(name.lower())]


def outer_answer(headers: RawHeaders) -> RawHeaders:
    """What stands outside as well: what somebody in between needs."""
    kept = [
        (name.lower(), value)
        for name, value in headers
        if name.lower() in _OUTSIDE_OF_ANSWER or name.lower().startswith(b"access-control-") or name.lower() == b"vary"
    ]
    return [*kept, (b"cache-control", b"no-store, no-transform")]
