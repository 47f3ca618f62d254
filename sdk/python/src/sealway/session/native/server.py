"""The server's side of an init and of a renewal: `spec/session-3.md#init`, `#renew-and-end`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...crypto.digest import hmac_sha256, sha256
from ...crypto.secret import Secret
from ...crypto.suite import Encapsulate, PrivateKeys, Suite, choose
from ...errors import ProtocolError
from ...wire.identifier import session_id
from ..claim import SessionRecord
from ..identity import Signer, key_id
from .message import InitAnswer, InitRequest, signed_message, transcript
from .schedule import confirm_key_of, exporter_of, prk_of


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity key, live from the first time up to and without the second, in milliseconds of the epoch."""

    signer: Signer
    not_before_ms: int
    not_after_ms: int

    @property
    def id(self) -> str:
        """The key id."""
        return key_id(self.signer.public)

    def is_live(self, now_ms: int) -> bool:
        """Returns True if the key may sign now."""
        return self.not_before_ms <= now_ms < self.not_after_ms


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated client, and the kind of its proof."""

    auth: str = "none"
    subject: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Draws:
    """The random values of a server for one init: a scalar of P-256 (32 bytes), one of P-384 (48), a private key of X25519
    (32), 16 bytes for the id, and the function that encapsulates."""

    p256_scalar: bytes
    p384_scalar: bytes
    x25519_private: bytes
    id_random: bytes
    encapsulate: Encapsulate


def choose_identity(
    request: InitRequest, identities: Sequence[Identity], now_ms: int
) -> tuple[Identity, tuple[str, ...]]:
    """The key that signs, and the ids of all that are live, the latest first.

    Raises:
        ProtocolError: `key_retired`.
    """
    live = sorted((key for key in identities if key.is_live(now_ms)), key=lambda key: -key.not_before_ms)
    wanted = [key for key in live if not request.pinned_key_ids or key.id in request.pinned_key_ids]
    chosen = next((key for key in wanted if request.accepts(key.signer.public)), None)
    if chosen is None:
        raise ProtocolError("key_retired")
    return chosen, tuple(key.id for key in live)


def accept(
    request: InitRequest,
    credential: bytes,
    suites: Sequence[Suite],
    identities: Sequence[Identity],
    draws: Draws,
    now_ms: int,
    expires_in_sec: int,
    who: Caller,
    renewed: SessionRecord | None = None,
) -> tuple[bytes, SessionRecord]:
    """The answer's body and the session. A renewal has the session that it is about, and no credential.

    Raises:
        ProtocolError: `policy` for a renewal under another name or with a proof, `suite_required`, `key_retired`,
            `public_key_invalid`.
    """
    if renewed is not None:
        if request.client_id != renewed.client_id or request.proof is not None:
            raise ProtocolError("policy")
        credential, who = b"", Caller(renewed.auth, renewed.subject, renewed.tenant)
    server_names = tuple(suite.value for suite in suites)
    if choose(request.suites, server_names) != request.suite:
        raise ProtocolError("suite_required")
    identity, key_ids = choose_identity(request, identities, now_ms)
    keys = PrivateKeys(Suite(request.suite), draws.p256_scalar, draws.x25519_private, p384_scalar=draws.p384_scalar)
    share, secret = keys.server_agree(request.share, draws.encapsulate)
    answer = InitAnswer(
        session_id(draws.id_random),
        request.suite,
        server_names,
        share,
        expires_in_sec,
        now_ms,
        identity.id,
        key_ids,
        who.auth,
        who.subject,
        who.tenant,
    )
    th = sha256(transcript(request, credential, answer, renewed.id if renewed else None))
    prk = prk_of(th, secret, exporter_of(renewed.key.reveal()) if renewed else b"")
    signature = identity.signer.sign(signed_message(th))
    body = answer.encode(signature, hmac_sha256(confirm_key_of(prk), th))
    record = SessionRecord(
        answer.session_id,
        3,
        request.client_id,
        Secret(prk),
        renewed.created_ms if renewed else now_ms,
        now_ms + expires_in_sec * 1000,
        who.subject,
        who.tenant,
        who.auth,
    )
    return body, record
