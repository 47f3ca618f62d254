"""Identifiers, timestamps and nonces: `spec/session.md#encodings`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..errors import ProtocolError

KID_PREFIX: Final = "session:"
#: What an answer's nonce begins with.
ANSWER_PREFIX: Final = "r-"

_SESSION_ID = re.compile(r"[SA]-[0-9a-f]{32}", re.ASCII)
_NONCE = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_NONCE_16 = re.compile(r"[A-Za-z0-9_-]{16,128}", re.ASCII)
_STAMP = re.compile(r"[0-9]{1,15}", re.ASCII)
_CLIENT_ID = re.compile(r"[\x20-\x7b\x7d\x7e]{1,256}", re.ASCII)
_KEY_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def is_session_id(text: str) -> bool:
    """Returns True for `S-` or `A-` and 32 lower-case hexadecimal digits."""
    return _SESSION_ID.fullmatch(text) is not None


def is_client_id(text: str) -> bool:
    """Returns True for 1 to 256 bytes of printable ASCII without the vertical bar."""
    return _CLIENT_ID.fullmatch(text) is not None


def is_key_id(text: str) -> bool:
    """Returns True for an identity key's id: 32 lower-case hexadecimal digits."""
    return _KEY_ID.fullmatch(text) is not None


def session_id(random: bytes, is_anonymous: bool = False) -> str:
    """The session id of 16 random bytes."""
    if len(random) != 16:
        raise ValueError("a session id is made of 16 bytes")
    return ("A-" if is_anonymous else "S-") + random.hex()


def id_of_kid(kid: str, prefix: str = KID_PREFIX) -> str:
    """Returns the text behind the prefix, of any form.

    Raises:
        ProtocolError: `kid_prefix`.
    """
    if not kid.startswith(prefix):
        raise ProtocolError("kid_prefix")
    return kid[len(prefix) :]


def check_nonce(nonce: str, least: int = 1) -> None:
    """Checks form and length of a nonce; `least` is 1 or 16 characters.

    Raises:
        ProtocolError: `nonce_invalid`.
    """
    if (_NONCE_16 if least > 1 else _NONCE).fullmatch(nonce) is None:
        raise ProtocolError("nonce_invalid")


def check_request_nonce(nonce: str, least: int = 1) -> None:
    """Checks the nonce of a request.

    Raises:
        ProtocolError: `nonce_invalid`, `nonce_reserved`.
    """
    check_nonce(nonce, least)
    # Compared without case, so that no reader anywhere takes an answer, sent back, for a request.
    if nonce[:2].lower() == ANSWER_PREFIX:
        raise ProtocolError("nonce_reserved")


def parse_stamp(stamp: str) -> int:
    """Milliseconds of the epoch.

    Raises:
        ProtocolError: `timestamp_invalid`.
    """
    if _STAMP.fullmatch(stamp) is None:
        raise ProtocolError("timestamp_invalid")
    return int(stamp)


def check_window(stamp_ms: int, now_ms: int, window_ms: int) -> None:
    """Both edges of the window are good.

    Raises:
        ProtocolError: `timestamp_outside_window`.
    """
    if abs(stamp_ms - now_ms) > window_ms:
        raise ProtocolError("timestamp_outside_window")


class IdempotencyKey(NamedTuple):
    """`<timestamp>.<nonce>` as sent."""

    stamp: str
    nonce: str

    def __str__(self) -> str:
        return f"{self.stamp}.{self.nonce}"


def split_idempotency_key(value: str) -> IdempotencyKey:
    """Two non-empty parts around one dot.

    Raises:
        ProtocolError: `idempotency_key_shape`.
    """
    parts = value.split(".")
    if len(parts) != 2 or not parts[0] or not parts[1]:
        raise ProtocolError("idempotency_key_shape")
    return IdempotencyKey(parts[0], parts[1])
