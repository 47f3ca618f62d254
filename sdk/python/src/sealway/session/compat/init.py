"""Inits of wires 1 and 2, both sides: `spec/session.md#init`."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ...crypto.curve import KeyPair
from ...crypto.digest import expand, extract
from ...crypto.secret import Secret
from ...errors import ProtocolError
from ...wire.encoding import decode_base64, encode_base64
from ...wire.header import X_CLIENT_ID, X_IDEMPOTENCY_KEY, X_NONCE, X_TIMESTAMP, Headers, compat_wire_of
from ...wire.identifier import (
    check_request_nonce,
    check_window,
    is_client_id,
    is_session_id,
    parse_stamp,
    session_id,
    split_idempotency_key,
)
from ...wire.members import U32_MAX, Members, parse_json, whole
from ..claim import TAG_INIT_1, TAG_INIT_2, ReplayGuard, SessionRecord, make_claim
from .call import ClientSession


class Family(StrEnum):
    """The endpoints that begin a session."""

    SESSION = "session"
    V1 = "v1"
    ANONYMOUS = "anonymous"


PATHS: Final = {
    Family.SESSION: "/session/init",
    Family.V1: "/v1/session/init",
    Family.ANONYMOUS: "/session/init/anon",
}
BODY_MAX: Final = {Family.SESSION: 65_536, Family.V1: 1_048_576, Family.ANONYMOUS: 4_096}

KEY_AGREEMENT: Final = "ECDH_P256"
TTL_SEC: Final = 1800
TTL_SEC_MIN: Final = 300
TTL_SEC_MAX: Final = 3600
TTL_SEC_AUTHENTICATED: Final = 3600
TTL_SEC_ANONYMOUS: Final = 120
_ENC_ALG, _ENC_ALG_V1 = "A256GCM", "aes-256-gcm"
_ANY = 10**400
_DECIMAL = re.compile(r"[ \t\n\r\f\v]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t\n\r\f\v]*", re.ASCII)


def derive_key(secret: bytes, id: str, wire: int, client_id: str | None) -> bytes:
    """The session key of a shared secret: `spec/session.md#keys`."""
    who = (client_id or "") if wire == 2 else ("ANON" if id.startswith("A-") else "AUTH")
    info = b"SESSION|A256GCM|" + who.encode("ascii")
    return expand(extract(id.encode("ascii"), secret), info)


# --- The server


@dataclass(frozen=True, slots=True)
class InitCall:
    """An init whose headers and members are good; its public key is looked at when its claim has been admitted."""

    family: Family
    wire: int
    client_id: str | None
    public_key: str
    ttl_sec: int

    def accept(
        self, keys: KeyPair, id_random: bytes, now_ms: int, subject: str | None = None
    ) -> tuple[bytes, SessionRecord]:
        """The answer's body and the session. `id_random` is 16 bytes.

        Raises:
            ProtocolError: `public_key_invalid`.
        """
        try:
            peer = decode_base64(self.public_key)
        except ValueError:
            raise ProtocolError("public_key_invalid") from None
        id = session_id(id_random, self.family is Family.ANONYMOUS)
        key = derive_key(keys.agree(peer), id, self.wire, self.client_id)
        answer = {
            "sessionId": id,
            "serverPublicKey": encode_base64(keys.public),
            "encAlg": _ENC_ALG_V1 if self.family is Family.V1 else _ENC_ALG,
            "expiresInSec": self.ttl_sec,
        }
        record = SessionRecord(
            id, self.wire, self.client_id, Secret(key), now_ms, now_ms + self.ttl_sec * 1000, subject
        )
        return json.dumps(answer, separators=(",", ":")).encode("ascii"), record


def _ttl_strict(value: Any) -> int:
    if value is None:
        return TTL_SEC
    found = whole(value, _ANY)
    if found is None:
        raise ProtocolError("field_invalid", "ttlSec")
    return min(max(found, TTL_SEC_MIN), TTL_SEC_MAX)


def _ttl_lax(value: Any) -> int:
    if isinstance(value, str):
        spelled = _DECIMAL.fullmatch(value) if len(value) <= 400 else None
        value = float(spelled[1]) if spelled else None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isinf(value):
        return TTL_SEC
    return min(max(int(value), TTL_SEC_MIN), TTL_SEC_MAX)


def parse_init(
    family: Family, pairs: Headers, body: bytes, now_ms: int, window_ms: int, is_authenticated: bool = False
) -> ReplayGuard[InitCall]:
    """Reads an init, in the order of `spec/session.md#post-v1sessioninit`.

    Raises:
        ProtocolError: as that table has it.
    """
    is_one = family is Family.ANONYMOUS or (family is Family.SESSION and compat_wire_of(pairs) == 1)
    if len(body) > BODY_MAX[family]:
        raise ProtocolError("body_too_large")
    value = parse_json(body)
    if is_one:
        nonce, stamp = pairs.single(X_NONCE), pairs.single(X_TIMESTAMP)
        client_id = None
    else:
        if not any(pairs.all(X_IDEMPOTENCY_KEY)):
            raise ProtocolError("header_missing", X_IDEMPOTENCY_KEY)
        client_id = pairs.single(X_CLIENT_ID)
        if not is_client_id(client_id):
            raise ProtocolError("header_invalid", X_CLIENT_ID)
    members = Members(value)
    if is_one and value.get("keyAgreement") != KEY_AGREEMENT:
        raise ProtocolError("field_invalid", "keyAgreement")
    public_key = members.required("clientPublicKey", lambda v: v if isinstance(v, str) and v else None)
    if not is_one:
        try:
            stamp, nonce = split_idempotency_key(pairs.single(X_IDEMPOTENCY_KEY))
        except ProtocolError:
            raise ProtocolError("idempotency_key_shape") from None
    check_request_nonce(nonce, 16 if family is Family.V1 else 1)
    stamp_ms = parse_stamp(stamp)
    check_window(stamp_ms, now_ms, window_ms)
    if family is Family.ANONYMOUS:
        ttl_sec = TTL_SEC_ANONYMOUS
    elif family is Family.V1:
        ttl_sec = TTL_SEC_AUTHENTICATED if is_authenticated else TTL_SEC
    else:
        ttl_sec = (_ttl_lax if is_one else _ttl_strict)(value.get("ttlSec"))
    tag, scope = (TAG_INIT_1, "") if is_one else (TAG_INIT_2, client_id or "")
    claim = make_claim(tag, scope, nonce, stamp_ms, window_ms)
    return ReplayGuard(claim, InitCall(family, 1 if is_one else 2, client_id, public_key, ttl_sec))


# --- The client


class ClientInit:
    """A client's init that waits for its answer. The key pair is for this one.

    Attributes:
        path: where it goes.
        headers, body: what is sent, beside `Content-Type`.
    """

    __slots__ = ("_client_id", "_keys", "_wire", "body", "headers", "path")

    def __init__(
        self,
        wire: int,
        path: str,
        client_id: str | None,
        ttl_sec: int | None,
        keys: KeyPair,
        stamp_ms: int,
        nonce: str,
    ) -> None:
        if wire == 2 and (client_id is None or not is_client_id(client_id)):
            raise ValueError("a client id is 1 to 256 characters of printable ASCII without a vertical bar")
        self._wire, self._keys = wire, keys
        self._client_id = client_id if wire == 2 else None
        self.path: Final = path
        body: dict[str, Any] = {"clientPublicKey": encode_base64(keys.public)}
        if wire == 1:
            body["keyAgreement"] = KEY_AGREEMENT
        if ttl_sec is not None:
            body["ttlSec"] = ttl_sec
        self.body: Final = json.dumps(body, separators=(",", ":")).encode("ascii")
        self.headers: list[tuple[str, str]] = (
            [(X_NONCE, nonce), (X_TIMESTAMP, str(stamp_ms))]
            if wire == 1
            else [(X_IDEMPOTENCY_KEY, f"{stamp_ms}.{nonce}"), (X_CLIENT_ID, client_id or "")]
        )

    def finish(self, body: bytes, received_ms: int) -> ClientSession:
        """The session that the answer gives; `received_ms` is the client's clock.

        Raises:
            ProtocolError: `json_invalid`, `field_invalid`, `public_key_invalid`.
        """
        members = Members(parse_json(body, is_server=False))
        id = members.required("sessionId", lambda v: v if isinstance(v, str) and is_session_id(v) else None)
        share = members.required("serverPublicKey", lambda v: v if isinstance(v, str) and v else None)
        members.required("encAlg", lambda v: v if v in (_ENC_ALG, _ENC_ALG_V1) else None)
        expires_in_sec = members.required("expiresInSec", lambda v: whole(v, U32_MAX))
        try:
            peer = decode_base64(share)
        except ValueError:
            raise ProtocolError("public_key_invalid") from None
        key = derive_key(self._keys.agree(peer), id, self._wire, self._client_id)
        return ClientSession(id, self._wire, self._client_id, key, received_ms + expires_in_sec * 1000)

    def __repr__(self) -> str:
        return f"ClientInit(wire={self._wire}, redacted)"
