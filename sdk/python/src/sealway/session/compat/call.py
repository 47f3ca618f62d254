"""Sealed calls of wires 1 and 2, both sides: `spec/session.md#open`, `spec/session.md#answer`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...crypto.aead import IV_LEN, TAG_LEN, Aes256Gcm
from ...crypto.secret import Secret
from ...errors import ProtocolError
from ...wire.encoding import decode_base64, encode_base64
from ...wire.header import (
    X_AAD,
    X_CLIENT_ID,
    X_ENC_ALG,
    X_IDEMPOTENCY_KEY,
    X_IV,
    X_KID,
    X_NONCE,
    X_TAG,
    X_TIMESTAMP,
    Headers,
    compat_wire_of,
)
from ...wire.identifier import (
    ANSWER_PREFIX,
    KID_PREFIX,
    check_nonce,
    check_request_nonce,
    check_window,
    id_of_kid,
    is_client_id,
    is_session_id,
    parse_stamp,
    split_idempotency_key,
)
from ..claim import TAG_SEALED, Claim, SessionRecord, make_claim

BODY_MAX_ANONYMOUS: Final = 4_096
PATH_MAX: Final = 8_192
_A256GCM = "A256GCM"

Pairs = list[tuple[str, str]]


def _aad_1(what: str, path: str, stamp: str, nonce: str, kid: str) -> bytes:
    return f"{what}|{path}|{stamp}|{nonce}|{kid}".encode("latin-1")


def _aad_2(stamp: str, nonce: str, kid: str, client_id: str) -> bytes:
    return f"{stamp}|{nonce}|{kid}|{client_id}".encode("ascii")


def path_of(target: str) -> str:
    """A target without its query."""
    return target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The headers of a message of wire 1, beside stamp and nonce."""

    iv: bytes
    tag: bytes
    aad: bytes


def _parts_1(headers: Headers) -> _Parts:
    if headers.single(X_ENC_ALG) != _A256GCM:
        raise ProtocolError("header_invalid", X_ENC_ALG)
    found = []
    for name, length in ((X_IV, IV_LEN), (X_TAG, TAG_LEN), (X_AAD, None)):
        try:
            data = decode_base64(headers.single(name))
        except ValueError:
            raise ProtocolError("header_invalid", name) from None
        if length is not None and len(data) != length:
            raise ProtocolError("header_invalid", name)
        found.append(data)
    return _Parts(*found)


def _seal(
    wire: int,
    gcm: Aes256Gcm,
    what: str,
    path: str,
    stamp: str,
    nonce: str,
    kid: str,
    client_id: str,
    iv: bytes,
    plaintext: bytes,
) -> tuple[Pairs, bytes]:
    """Headers and body of a message; `what` is the method or the status."""
    if wire == 2:
        sealed = gcm.seal(iv, plaintext, _aad_2(stamp, nonce, kid, client_id))
        return [(X_KID, kid), (X_IDEMPOTENCY_KEY, f"{stamp}.{nonce}")], iv + sealed
    aad = _aad_1(what, path, stamp, nonce, kid)
    sealed = gcm.seal(iv, plaintext, aad)
    headers = [
        (X_KID, kid),
        (X_ENC_ALG, _A256GCM),
        (X_IV, encode_base64(iv)),
        (X_TAG, encode_base64(sealed[-TAG_LEN:])),
        (X_AAD, encode_base64(aad)),
        (X_NONCE, nonce),
        (X_TIMESTAMP, stamp),
    ]
    return headers, encode_base64(memoryview(sealed)[:-TAG_LEN]).encode("ascii")


def _open_1(gcm: Aes256Gcm, parts: _Parts, expected_aad: bytes, body: bytes) -> bytes:
    if parts.aad != expected_aad:
        raise ProtocolError("aad_mismatch")
    try:
        ciphertext = decode_base64(body)
    except ValueError:
        raise ProtocolError("base64_invalid") from None
    return gcm.open(parts.iv, ciphertext + parts.tag, expected_aad)


def _open_2(gcm: Aes256Gcm, aad: bytes, body: bytes) -> bytes:
    if len(body) < IV_LEN + TAG_LEN:
        raise ProtocolError("body_too_short")
    return gcm.open(body[:IV_LEN], memoryview(body)[IV_LEN:], aad)


# --- The client


class ClientSession:
    """A client's session. Safe to use from several threads. Printing shows no key.

    Attributes:
        id: the session id.
        wire: 1 or 2.
        expires_ms: its end, by the client's clock, in milliseconds of the epoch.
    """

    __slots__ = ("_client_id", "_gcm", "_key", "expires_ms", "id", "wire")

    def __init__(self, id: str, wire: int, client_id: str | None, key: bytes, expires_ms: int) -> None:
        self.id: Final = id
        self.wire: Final = wire
        self.expires_ms: Final = expires_ms
        self._client_id = client_id or ""
        self._key = Secret(key)
        self._gcm = Aes256Gcm(key)

    def seal(self, target: str, plaintext: bytes, stamp: str, nonce: str, iv: bytes) -> SealedCall:
        """A sealed `POST`. `nonce` holds at least 128 random bits, `iv` is 12 random bytes.

        Raises:
            ValueError: for a path over 8192 bytes on wire 1.
        """
        path, kid = path_of(target), KID_PREFIX + self.id
        if self.wire == 1 and len(path) > PATH_MAX:
            raise ValueError("the path is over its bound")
        headers, body = _seal(self.wire, self._gcm, "POST", path, stamp, nonce, kid, self._client_id, iv, plaintext)
        if self.wire == 2:
            headers.append((X_CLIENT_ID, self._client_id))
        return SealedCall(self, path, headers, body)

    def _open(self, path: str, status: int, headers: Headers, body: bytes, now_ms: int, window_ms: int) -> bytes:
        kid = headers.single(X_KID)
        if id_of_kid(kid) != self.id:
            raise ProtocolError("answer_mismatch")
        if self.wire == 1:
            parts = _parts_1(headers)
            nonce, stamp = headers.single(X_NONCE), headers.single(X_TIMESTAMP)
            plaintext = _open_1(self._gcm, parts, _aad_1(str(status), path, stamp, nonce, kid), body)
        else:
            stamp, nonce = split_idempotency_key(headers.single(X_IDEMPOTENCY_KEY))
            plaintext = _open_2(self._gcm, _aad_2(stamp, nonce, kid, self._client_id), body)
        check_nonce(nonce)
        # Compared with case: what looks like a request's may be one, sent back.
        if not nonce.startswith(ANSWER_PREFIX):
            raise ProtocolError("answer_mismatch")
        check_window(parse_stamp(stamp), now_ms, window_ms)
        return plaintext

    def wipe(self) -> None:
        """Overwrites the key that is reachable from here."""
        self._key.wipe()

    def key_bytes(self) -> bytes:
        """A copy of the session key, for tests that compare it."""
        return bytes(self._key.reveal())

    def __repr__(self) -> str:
        return f"ClientSession(id={self.id!r}, wire={self.wire}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class SealedCall:
    """A sealed request, and what opens its answer.

    Attributes:
        headers: what has to be sent, `Content-Type` aside.
        body: the sealed body.
    """

    _session: ClientSession
    _path: str
    headers: Pairs
    body: bytes

    @property
    def content_type(self) -> str:
        """Of the sealed body."""
        return content_type_of(self._session.wire)

    def open(self, status: int, headers: Headers, body: bytes, now_ms: int, window_ms: int) -> bytes:
        """The plaintext of the answer, once all of it holds.

        Raises:
            ProtocolError: as `spec/session.md#answer` has it.
        """
        return self._session._open(self._path, status, headers, body, now_ms, window_ms)


def content_type_of(wire: int) -> str:
    """The content type of a sealed body of wire 1 or 2."""
    return "application/octet-stream" if wire == 2 else "text/plain; charset=utf-8"


# --- The server


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A sealed request whose headers are good: checks 2 to 7 of `spec/session.md#open`, but for the session itself."""

    wire: int
    session_id: str
    stamp: str
    nonce: str
    _client_id: str
    _path: str
    _parts: _Parts | None

    def check_session(self, record: SessionRecord, now_ms: int, window_ms: int) -> None:
        """Checks 8 to 10, and 5 once more: the clock may be another than when the headers were read.

        Raises:
            ProtocolError: `session_expired`, `wire_mismatch`, `client_mismatch`, `timestamp_outside_window`.
        """
        if now_ms >= record.expires_ms:
            raise ProtocolError("session_expired")
        if record.wire != self.wire:
            raise ProtocolError("wire_mismatch")
        if self.wire == 2 and record.client_id != self._client_id:
            raise ProtocolError("client_mismatch")
        check_window(int(self.stamp), now_ms, window_ms)

    def open(self, record: SessionRecord, body: bytes) -> bytes:
        """The plaintext, by checks 12 and 13, in a session that was checked. It is nobody's before the claim.

        Raises:
            ProtocolError: `body_too_short`, `aad_mismatch`, `base64_invalid`, `unsealable`.
        """
        gcm, kid = record.key.made(Aes256Gcm), KID_PREFIX + self.session_id
        if self._parts is not None:
            return _open_1(gcm, self._parts, _aad_1("POST", self._path, self.stamp, self.nonce, kid), body)
        return _open_2(gcm, _aad_2(self.stamp, self.nonce, kid, self._client_id), body)

    def claim(self, window_ms: int) -> Claim:
        """The claim that a store has to admit before anybody sees the plaintext."""
        return make_claim(TAG_SEALED, self.session_id, self.nonce, int(self.stamp), window_ms)

    def seal_answer(
        self, record: SessionRecord, status: int, plaintext: bytes, stamp: str, nonce: str, iv: bytes
    ) -> tuple[Pairs, bytes]:
        """Headers and body. `status` is the one that is sent."""
        gcm, kid, what = record.key.made(Aes256Gcm), KID_PREFIX + self.session_id, str(status)
        return _seal(self.wire, gcm, what, self._path, stamp, nonce, kid, self._client_id, iv, plaintext)


def parse_call(target: str, headers: Headers, now_ms: int, window_ms: int) -> ParsedCall:
    """Checks 2 to 7, the form of the session's id included.

    Raises:
        ProtocolError: as the table has it.
    """
    wire = compat_wire_of(headers)
    kid, parts, client_id, path = headers.single(X_KID), None, "", path_of(target)
    if wire == 1:
        nonce, stamp = headers.single(X_NONCE), headers.single(X_TIMESTAMP)
        parts = _parts_1(headers)
        if len(path) > PATH_MAX:
            raise ProtocolError("body_too_large")
    else:
        key = headers.single(X_IDEMPOTENCY_KEY)
        client_id = headers.single(X_CLIENT_ID)
        if not is_client_id(client_id):
            raise ProtocolError("header_invalid", X_CLIENT_ID)
        stamp, nonce = split_idempotency_key(key)
    check_request_nonce(nonce)
    check_window(parse_stamp(stamp), now_ms, window_ms)
    id = id_of_kid(kid)
    if not is_session_id(id):
        raise ProtocolError("session_unknown")
    return ParsedCall(wire, id, stamp, nonce, client_id, path, parts)
