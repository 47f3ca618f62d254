"""Base64 in its one form, and the fields that are hashed: `#encodings` of both session specs."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable


def encode_base64(data: bytes | bytearray | memoryview) -> str:
    """RFC 4648 section 4, padded."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_base64(text: str | bytes) -> bytes:
    """The bytes of canonical base64: padded, unused bits zero, nothing in between.

    Raises:
        ValueError: for any other spelling.
    """
    try:
        raw = text.encode("ascii") if isinstance(text, str) else text
        data = binascii.a2b_base64(raw, strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not canonical base64") from None
    # The strict reader still takes unused bits that are not zero, which would give one message many spellings.
    if binascii.b2a_base64(data, newline=False) != raw:
        raise ValueError("not canonical base64")
    return data


def encode_base64url(data: bytes) -> str:
    """RFC 4648 section 5, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def field(value: bytes | bytearray | str) -> bytes:
    """`length (32 bits, big-endian) ‖ value`."""
    data = value.encode("utf-8") if isinstance(value, str) else value
    return len(data).to_bytes(4, "big") + data


def short_fields(*texts: str) -> bytes:
    """The fields of texts of ASCII, each of which has fewer than 256 characters."""
    return "".join([f"\0\0\0{chr(len(text))}{text}" for text in texts]).encode("latin-1")


def number(value: int) -> bytes:
    """A field of 64 bits. `value` is 0 to 2**64 - 1."""
    return b"\0\0\0\x08" + struct.pack(">Q", value)


def fields(values: Iterable[bytes | str]) -> bytes:
    """`list(a, b…)`: a field of fields."""
    return field(b"".join(field(value) for value in values))


def optional(value: str | int | None) -> bytes:
    """A text or a number that may be absent; absent is the empty field."""
    if value is None:
        return field(b"")
    return number(value) if isinstance(value, int) else field(value)
