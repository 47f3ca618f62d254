"""Inner headers: those that travel within a seal of wire 3, at the head of the first frame.

`spec/session-3.md#sealed-requests`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Final

from ..errors import ProtocolError
from .header import OF_HOP, SEALING

#: Bytes behind the first length.
INNER_LEN_MAX: Final = 16_384
INNER_COUNT_MAX: Final = 64

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]{1,255}")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_FORBIDDEN = frozenset(name.encode("ascii") for name in SEALING | OF_HOP)

#: Names in lower case and values.
InnerHeaders = list[tuple[bytes, bytes]]


def may_be_inner(name: bytes) -> bool:
    """Returns True if a header of this lower-case name may be inside a seal."""
    return (
        _TOKEN.fullmatch(name) is not None
        and name not in _FORBIDDEN
        and not name.startswith((b"proxy-", b"x-sealway-"))
    )


def encode_inner(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The block of these headers, its length first.

    Raises:
        ProtocolError: `inner_headers_invalid` for a name or a value that may not be there, and for too many.
    """
    parts, count = [b""], 0
    for name, value in headers:
        if not may_be_inner(name) or len(value) > 0xFFFF or _VALUE.fullmatch(value) is None:
            raise ProtocolError("inner_headers_invalid", name.decode("ascii", "replace"))
        parts.append(struct.pack(">B", len(name)) + name + struct.pack(">H", len(value)) + value)
        count += 1
    block = b"".join(parts)
    if count > INNER_COUNT_MAX or len(block) > INNER_LEN_MAX:
        raise ProtocolError("inner_headers_invalid")
    return struct.pack(">H", len(block)) + block


def decode_inner(plaintext: bytes) -> tuple[InnerHeaders, int]:
    """The headers at the head of a first frame, and where the body begins.

    Raises:
        ProtocolError: `inner_headers_invalid`.
    """
    if len(plaintext) < 2:
        raise ProtocolError("inner_headers_invalid")
    at, end = 2, 2 + int.from_bytes(plaintext[:2], "big")
    if end - 2 > INNER_LEN_MAX or end > len(plaintext):
        raise ProtocolError("inner_headers_invalid")
    headers: InnerHeaders = []
    while at < end:
        name_end = at + 1 + plaintext[at]
        value_at = name_end + 2
        if value_at > end:
            raise ProtocolError("inner_headers_invalid")
        name = plaintext[at + 1 : name_end]
        at = value_at + int.from_bytes(plaintext[name_end:value_at], "big")
        if at > end:
            raise ProtocolError("inner_headers_invalid")
        value = plaintext[value_at:at]
        if not may_be_inner(name) or _VALUE.fullmatch(value) is None or len(headers) == INNER_COUNT_MAX:
            raise ProtocolError("inner_headers_invalid")
        headers.append((name, value))
    return headers, end
