"""Sessions as a Redis keeps them: `spec/redis-store.md#sessions`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from ..crypto.aead import IV_LEN, KEY_LEN, TAG_LEN, Aes256Gcm
from ..crypto.secret import Secret
from ..errors import Refused
from ..wire.identifier import is_client_id
from .claim import SessionRecord

#: What stands where a session was revoked.
REVOKED: Final = b"x"
_HEAD = struct.Struct(">QBBQ")
_WRAPPED_LEN = IV_LEN + KEY_LEN + TAG_LEN
_NO_TEXT = 0xFFFF
_AUTHS = ("none", "bearer", "dpop", "certificate")


class _Reader:
    def __init__(self, value: bytes, at: int) -> None:
        self._value, self._at = value, at

    def take(self, length: int) -> bytes:
        part = self._value[self._at : self._at + length]
        if len(part) != length:
            raise ValueError("it is cut short")
        self._at += length
        return part

    def text(self) -> str | None:
        length = int.from_bytes(self.take(2), "big")
        return None if length == _NO_TEXT else self.take(length).decode("utf-8")

    def end(self) -> None:
        if self._at != len(self._value):
            raise ValueError("something follows")


def decode_stored(id: str, value: bytes, find_key: Callable[[str], Aes256Gcm | None]) -> SessionRecord | None:
    """The session of a value; None for one that was revoked. `find_key` gives a key-encryption key by its id.

    Raises:
        ValueError: for a value of another form, one whose key-encryption key is unknown or that does not unwrap. That is a
            fault, and not the end of a session.
    """
    if value == REVOKED:
        return None
    if len(value) < _HEAD.size:
        raise ValueError("it is cut short")
    expires_ms, version, wire, created_ms = _HEAD.unpack_from(value)
    if version not in (1, 2) or wire not in (1, 2, 3):
        raise ValueError("its version or its wire is unknown")
    reader = _Reader(value, _HEAD.size)
    client_id, subject = reader.text(), reader.text()
    tenant, auth = None, 0
    if version == 2:
        tenant, auth = reader.text(), reader.take(1)[0]
    kek_id, wrapped = reader.text(), reader.take(_WRAPPED_LEN)
    reader.end()
    is_named = client_id is not None and is_client_id(client_id)
    if kek_id is None or auth >= len(_AUTHS) or not (is_named or (wire == 1 and client_id is None)):
        raise ValueError("a member is not of its form")
    kek = find_key(kek_id)
    if kek is None:
        raise ValueError("its key-encryption key is unknown")
    try:
        key = kek.open(wrapped[:IV_LEN], wrapped[IV_LEN:], id.encode("ascii"))
    except Refused:
        raise ValueError("it does not unwrap") from None
    return SessionRecord(id, wire, client_id, Secret(key), created_ms, expires_ms, subject, tenant, _AUTHS[auth])
