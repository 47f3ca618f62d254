"""A store that asks an authority: `spec/session.md#authority-endpoints`."""

from __future__ import annotations

import ipaddress
import time
from typing import Any, Final, Never
from urllib.parse import urlsplit

import anyio
import httpx

from .. import check
from ..client.options import origin_of
from ..crypto.secret import Secret
from ..errors import ProtocolError, StoreFull, StoreUnavailable, UsageError
from ..session.claim import Admission, Claim, SessionRecord
from ..session.native.message import AUTHS
from ..wire.identifier import is_client_id, is_session_id
from ..wire.members import Members, base64_bytes, parse_json, short, text, whole
from .cache import BriefCache

MESSAGE_MAX: Final = 65_536
_MS_MAX = 2**53


def _check_url(url: str) -> str:
    origin = origin_of(url)
    parts = urlsplit(origin)
    host = parts.hostname or ""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if parts.scheme != "https" and not is_loopback:
        # Session keys travel in these messages.
        raise UsageError("url: session keys need https; http is for an authority on this machine")
    return origin


class AuthorityStore:
    """Asks an authority for sessions and claims. A claim whose answer is lost may have been admitted: it is not asked
    for again. Printing shows no secret."""

    def __init__(
        self, url: str, secret: str, *, timeout_sec: float = 2.0, verify: Any = True, **unknown: Never
    ) -> None:
        """Asks the authority at `url`, `https://…` or `http://` on this machine, for at most `timeout_sec` a question.
        `verify` is httpx's, for TLS.

        Raises:
            UsageError: for another URL, and for a secret that is not one line of 16 visible ASCII characters or more.
        """
        check.unknown("AuthorityStore", unknown, {"deadline_sec": "timeout_sec"})
        check.text("secret", secret, "the authority's secret")
        check.number("timeout_sec", timeout_sec, 0.001, "seconds above 0")
        secret = secret.strip()
        if len(secret) < 16 or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise UsageError("the authority's secret is one line of at least 16 visible ASCII characters")
        self._timeout_sec = timeout_sec
        # A connection that was idle for long may be gone, and a claim is not asked for twice.
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=4.0)
        self._client = httpx.AsyncClient(
            base_url=_check_url(url),
            headers={"Authorization": f"Bearer {secret}", "Accept": "application/json"},
            timeout=timeout_sec,
            limits=limits,
            follow_redirects=False,
            trust_env=False,
            verify=verify,
        )
        self._cache = BriefCache()

    async def session(self, id: str) -> SessionRecord | None:
        """Returns the session with this id, as of less than a second ago."""
        if not is_session_id(id):
            return None
        known = self._cache.get(id)
        if known is not None:
            return known
        asked_sec = time.monotonic()
        status, members = await self._ask("GET", f"/v1/authority/sessions/{id}", None)
        try:
            if members.required("id", lambda v: v if isinstance(v, str) else None) != id:
                raise StoreUnavailable("the authority answered another question")
            if status == 404 and members.optional("error", _text) == "SESSION_NOT_FOUND":
                return None
            if status != 200:
                raise StoreUnavailable(f"the authority answered {status}")
            record = _record(members)
        except ProtocolError:
            raise StoreUnavailable("the authority's answer is not understood") from None
        self._cache.put(record, asked_sec)
        return record

    async def admit(self, claim: Claim) -> Admission:
        """Asks for a claim, once."""
        key = claim.key.hex()
        body = {"key": key, "sealed": claim.is_sealed, "stamp_ms": claim.stamp_ms}
        status, members = await self._ask("POST", "/v1/authority/nonces", body)
        try:
            error = members.optional("error", _text)
            if status == 507 and error == "NONCES_FULL":
                raise StoreFull("the authority holds as many claims as it may")
            if members.optional("key", _text) != key:
                raise StoreUnavailable("the authority answered another question")
        except ProtocolError:
            raise StoreUnavailable("the authority's answer is not understood") from None
        if status == 201 and error is None:
            return Admission(claim)
        if status == 409 and error == "REPLAYED":
            raise ProtocolError("replayed")
        if status == 409 and error == "TIMESTAMP_OUTSIDE_WINDOW":
            raise ProtocolError("timestamp_outside_window")
        raise StoreUnavailable(f"the authority answered {status}")

    async def _ask(self, method: str, path: str, body: Any) -> tuple[int, Members]:
        try:
            with anyio.fail_after(self._timeout_sec):
                async with self._client.stream(method, path, json=body) as response:
                    data = bytearray()
                    async for chunk in response.aiter_raw():
                        data += chunk
                        if len(data) > MESSAGE_MAX:
                            raise StoreUnavailable("the authority's answer is over its bound")
                    if response.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                        raise StoreUnavailable(f"the authority answered {response.status_code} and no JSON")
                    return response.status_code, Members(parse_json(bytes(data)))
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            raise StoreUnavailable(f"the authority cannot be asked: {type(error).__name__}") from None
        except ProtocolError:
            raise StoreUnavailable("the authority's answer is not understood") from None

    async def aclose(self) -> None:
        """Closes connections and forgets sessions."""
        self._cache.clear()
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"AuthorityStore({self._client.base_url!s}, secret redacted)"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _record(members: Members) -> SessionRecord:
    wire = members.required("wire", lambda v: whole(v, 3))
    key = members.required("key", base64_bytes)
    client_id = members.optional("client_id", lambda v: text(v, is_client_id))
    if wire == 0 or len(key) != 32 or (wire != 1 and client_id is None):
        raise ProtocolError("field_invalid")
    return SessionRecord(
        members.required("id", lambda v: text(v, is_session_id)),
        wire,
        client_id,
        Secret(key),
        members.required("created_ms", lambda v: whole(v, _MS_MAX)),
        members.required("expires_ms", lambda v: whole(v, _MS_MAX)),
        members.optional("subject", lambda v: short(v, 4096)),
        members.optional("tenant", lambda v: short(v, 4096)),
        members.optional("auth", lambda v: text(v, AUTHS.__contains__)) or "none",
    )
