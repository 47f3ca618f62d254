"""Sessions as a Redis keeps them: `spec/redis-store.md#sessions`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..crypto.aead import IV_LEN, KEY_LEN, TAG_LEN, Aes256Gcm
from ..crypto.secret import Secret
from ..errors import ProtocolError
from ..wire.identifier import is_client_id, is_session_id
from .claim import SessionRecord

#: What stands where a session was revoked.
REVOKED: Final = b"x"
_HEAD = struct.Struct(">QBBQ")
_WRAPPED_LEN = IV_LEN + KEY_LEN + TAG_LEN
_NO_TEXT = 0xFFFF
_AUTHS = ("none", "bearer", "dpop", "certificate")


class _Reader:
    def __init__(self, value: bytes, at: int) -> None:
        self._value, self.at = value, at

    def take(self, length: int) -> bytes:
        part = self._value[self.at : self.at + length]
        if len(part) != length:
            raise ValueError("it is cut short")
        self.at += length
        return part

    def text(self) -> str | None:
        length = int.from_bytes(self.take(2), "big")
        return None if length == _NO_TEXT else self.take(length).decode("utf-8")

    def end(self) -> None:
        if self.at != len(self._value):
            raise ValueError("something follows")


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A session as it stands in Redis.

    Attributes:
        lineage: the first session of its chain of renewals, whose revocation ends it; None where it is the first itself.
    """

    record: SessionRecord
    lineage: str | None


def decode_stored(
    id: str, value: bytes, find_key: Callable[[str], Aes256Gcm | None], accept_until_ms: int = 0
) -> StoredRow | None:
    """The session of a value; None for one that was revoked, and for a row of an earlier release, whose fields nobody has
    authenticated, unless it ends by `accept_until_ms`. `find_key` gives a key-encryption key by its id.

    Raises:
        ValueError: for a value of another form, one whose key-encryption key is unknown or that does not unwrap. That is a
            fault, and not the end of a session.
    """
    if value == REVOKED:
        return None
    if len(value) < _HEAD.size:
        raise ValueError("it is cut short")
    expires_ms, version, wire, created_ms = _HEAD.unpack_from(value)
    if version not in (1, 2, 3) or wire not in (1, 2, 3):
        raise ValueError("its version or its wire is unknown")
    reader = _Reader(value, _HEAD.size)
    client_id, subject = reader.text(), reader.text()
    tenant, auth = (None, 0) if version == 1 else (reader.text(), reader.take(1)[0])
    lineage = reader.text() if version == 3 else None
    head = value[: reader.at]
    kek_id, wrapped = reader.text(), reader.take(_WRAPPED_LEN)
    reader.end()
    is_named = client_id is not None and is_client_id(client_id)
    is_chained = lineage is None or is_session_id(lineage)
    if kek_id is None or auth >= len(_AUTHS) or not is_chained or not (is_named or (wire == 1 and client_id is None)):
        raise ValueError("a member is not of its form")
    # A session of wire 3 could be renewed, and outlive that time; a key that everybody knows is wrapped under the zeros.
    is_accepted = wire != 3 and id[2:] != "0" * 32 and expires_ms <= accept_until_ms
    if version != 3 and not is_accepted:
        return None
    kek = find_key(kek_id)
    if kek is None:
        raise ValueError("its key-encryption key is unknown")
    # Every field beside the key is authenticated with it.
    aad = id.encode("ascii")
    if version == 3:
        aad = b"sealway session row\0" + struct.pack(">H", len(aad)) + aad + head
    try:
        key = kek.open(wrapped[:IV_LEN], wrapped[IV_LEN:], aad)
    except ProtocolError:
        raise ValueError("it does not unwrap") from None
    record = SessionRecord(id, wire, client_id, Secret(key), created_ms, expires_ms, subject, tenant, _AUTHS[auth])
    return StoredRow(record, lineage)
