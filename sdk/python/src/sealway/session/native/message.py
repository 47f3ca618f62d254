"""The two messages of an init, and what is hashed of them: `spec/session-3.md#init`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from ...crypto.digest import sha256
from ...errors import ProtocolError
from ...wire.encoding import encode_base64, field, fields, number, optional
from ...wire.identifier import is_client_id, is_key_id, is_session_id
from ...wire.members import U32_MAX, U64_MAX, Members, base64_bytes, names, short, text, whole
from ..identity import SIGNATURE_MAX, accepts, key_id

INIT_PATH: Final = "/v3/sessions"
INIT_MAX: Final = 16_384
PROOF_MAX: Final = 8_192
SUITES_MAX: Final = 8
KEYS_MAX: Final = 16
SUBJECT_MAX: Final = 256
AUTHS: Final = frozenset({"none", "bearer", "dpop", "certificate"})
ALGORITHMS_MAX: Final = 8
_SUITE_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_ALGORITHM_NAME = re.compile(r"[A-Za-z0-9_+-]{1,32}", re.ASCII)


def _is_suite_name(value: str) -> bool:
    return _SUITE_NAME.fullmatch(value) is not None


def is_algorithm_name(value: str) -> bool:
    """Returns True for the form of a signature algorithm's name, known or not."""
    return _ALGORITHM_NAME.fullmatch(value) is not None


def _is_native_id(value: str) -> bool:
    return value.startswith("S-") and is_session_id(value)


def dump(members: dict[str, Any]) -> bytes:
    """Compact JSON without the members that are None."""
    kept = {name: value for name, value in members.items() if value is not None}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


@dataclass(frozen=True, slots=True)
class InitRequest:
    """The init of a client. Suites and algorithms are names, known here or not; no `signature_algorithms` is no
    restriction."""

    suite: str
    suites: tuple[str, ...]
    share: bytes
    client_id: str
    ttl_sec: int | None = None
    proof: str | None = None
    pinned_key_ids: tuple[str, ...] = ()
    signature_algorithms: tuple[str, ...] | None = None

    def accepts(self, public: bytes) -> bool:
        """Returns True if the client may trust the key, by its algorithm."""
        return accepts(self.signature_algorithms, public, key_id(public) in self.pinned_key_ids)

    def encode(self) -> bytes:
        """The body."""
        return dump(
            {
                "suite": self.suite,
                "suites": list(self.suites),
                "share": encode_base64(self.share),
                "client_id": self.client_id,
                "ttl_sec": self.ttl_sec,
                "proof": self.proof,
                "pinned_key_ids": list(self.pinned_key_ids) or None,
                "signature_algorithms": self.signature_algorithms and list(self.signature_algorithms),
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> InitRequest:
        """Reads a body as a server does.

        Raises:
            ProtocolError: `body_too_large`, `json_invalid`, `field_invalid` with the member.
        """
        if len(data) > INIT_MAX:
            raise ProtocolError("body_too_large")
        members = Members.parse(data)

        def algorithms(value: Any) -> tuple[str, ...] | None:
            return tuple(names(value, is_algorithm_name, 1, ALGORITHMS_MAX) or ()) or None

        return cls(
            suite=members.required("suite", lambda v: text(v, _is_suite_name)),
            suites=tuple(members.required("suites", lambda v: names(v, _is_suite_name, 1, SUITES_MAX))),
            share=members.required("share", base64_bytes),
            client_id=members.required("client_id", lambda v: text(v, is_client_id)),
            ttl_sec=members.optional("ttl_sec", lambda v: whole(v, U32_MAX)),
            proof=members.optional("proof", lambda v: short(v, PROOF_MAX)),
            pinned_key_ids=tuple(members.optional("pinned_key_ids", lambda v: names(v, is_key_id, 0, KEYS_MAX)) or ()),
            signature_algorithms=members.optional("signature_algorithms", algorithms),
        )

    def proof_hash(self) -> bytes:
        """`init_hash` of a DPoP proof: what binds it to this one share."""
        return sha256(
            fields(self.suites)
            + field(self.suite)
            + field(self.share)
            + field(self.client_id)
            + optional(self.ttl_sec)
            + fields(self.pinned_key_ids)
            + self.algorithms_field()
        )

    def algorithms_field(self) -> bytes:
        """The algorithms as they are hashed: no bytes without a restriction."""
        return b"" if self.signature_algorithms is None else fields(self.signature_algorithms)


@dataclass(frozen=True, slots=True)
class InitAnswer:
    """The answer of a server, without signature and confirmation. The signature covers all of it."""

    session_id: str
    suite: str
    suites: tuple[str, ...]
    share: bytes
    expires_in_sec: int
    server_time_ms: int
    key_id: str
    key_ids: tuple[str, ...]
    auth: str = "none"
    subject: str | None = None
    tenant: str | None = None

    def encode(self, signature: bytes, confirm: bytes) -> bytes:
        """The body."""
        return dump(
            {
                "session_id": self.session_id,
                "suite": self.suite,
                "suites": list(self.suites),
                "share": encode_base64(self.share),
                "expires_in_sec": self.expires_in_sec,
                "server_time_ms": self.server_time_ms,
                "key_id": self.key_id,
                "key_ids": list(self.key_ids),
                "auth": self.auth,
                "subject": self.subject,
                "tenant": self.tenant,
                "signature": encode_base64(signature),
                "confirm": encode_base64(confirm),
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> tuple[InitAnswer, bytes, bytes]:
        """The answer, its signature and its confirmation.

        Raises:
            ProtocolError: `answer_mismatch`.
        """

        def bounded(value: Any, least: int, most: int) -> bytes | None:
            found = base64_bytes(value)
            return found if found is not None and least <= len(found) <= most else None

        members = Members.parse(data, "answer_mismatch")
        answer = cls(
            session_id=members.required("session_id", lambda v: text(v, _is_native_id)),
            suite=members.required("suite", lambda v: text(v, _is_suite_name)),
            suites=tuple(members.required("suites", lambda v: names(v, _is_suite_name, 1, SUITES_MAX))),
            share=members.required("share", base64_bytes),
            expires_in_sec=members.required("expires_in_sec", lambda v: whole(v, U32_MAX)),
            server_time_ms=members.required("server_time_ms", lambda v: whole(v, U64_MAX)),
            key_id=members.required("key_id", lambda v: text(v, is_key_id)),
            key_ids=tuple(members.required("key_ids", lambda v: names(v, is_key_id, 1, KEYS_MAX))),
            auth=members.required("auth", lambda v: text(v, AUTHS.__contains__)),
            subject=members.optional("subject", lambda v: short(v, SUBJECT_MAX)),
            tenant=members.optional("tenant", lambda v: short(v, SUBJECT_MAX)),
        )
        signature = members.required("signature", lambda v: bounded(v, 1, SIGNATURE_MAX))
        return answer, signature, members.required("confirm", lambda v: bounded(v, 32, 32))


def credential_of(authorization: str | None) -> bytes:
    """The hash of an `Authorization` header's value as sent; nothing without one."""
    return b"" if authorization is None else sha256(authorization.encode("latin-1"))


def transcript(request: InitRequest, credential: bytes, answer: InitAnswer, renewed_id: str | None = None) -> bytes:
    """Returns the transcript of both messages; `renewed_id` is the session that a renewal is about."""
    head = field("sealway/3 init") if renewed_id is None else field("sealway/3 renew") + field(renewed_id)
    return (
        head
        + field(request.suite)
        + fields(request.suites)
        + field(request.share)
        + field(request.client_id)
        + optional(request.ttl_sec)
        + optional(request.proof)
        + fields(request.pinned_key_ids)
        + request.algorithms_field()
        + field(credential)
        + field(answer.session_id)
        + field(answer.suite)
        + fields(answer.suites)
        + field(answer.share)
        + number(answer.expires_in_sec)
        + number(answer.server_time_ms)
        + field(answer.key_id)
        + fields(answer.key_ids)
        + field(answer.auth)
        + optional(answer.subject)
        + optional(answer.tenant)
    )


def signed_message(th: bytes) -> bytes:
    """Returns the message that the identity key signs."""
    return b"sealway/3 signature" + th
