"""The client's side of an init and of a renewal: `spec/session-3.md#init`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...crypto.digest import hmac_sha256, is_equal, sha256
from ...crypto.secret import Secret
from ...crypto.suite import PrivateKeys, choose
from ...errors import ProtocolError
from ..identity import key_id, verify
from .call import PendingAnswer, seal_request
from .message import InitAnswer, InitRequest, credential_of, signed_message, transcript
from .schedule import c2s_of, confirm_key_of, exporter_of, prk_of, s2c_of


class Session:
    """A client's session on wire 3. Safe to use from several threads. Printing shows no key.

    Attributes:
        answer: what the service said at the init, all of it under its signature.
        client_id: whom it was agreed with.
        identity: the public key that signed.
    """

    __slots__ = ("_c2s", "_prk", "_s2c", "answer", "client_id", "identity")

    def __init__(self, answer: InitAnswer, client_id: str, prk: bytes, identity: bytes) -> None:
        self.answer: Final = answer
        self.client_id: Final = client_id
        self.identity: Final = identity
        self._prk = Secret(prk)
        self._c2s, self._s2c = Secret(c2s_of(prk)), Secret(s2c_of(prk))

    @property
    def id(self) -> str:
        """The session id."""
        return self.answer.session_id

    @property
    def expires_ms(self) -> int:
        """Its end, by the server's clock, in milliseconds of the epoch."""
        return self.answer.server_time_ms + self.answer.expires_in_sec * 1000

    @property
    def suite(self) -> str:
        """The name of its suite."""
        return self.answer.suite

    @property
    def prefix_len(self) -> int:
        """Bytes before the stream of a request: none."""
        return 0

    def seal(self, method: str, target: str, content_type: str, stamp: str, nonce: str) -> PendingAnswer:
        """Begins a sealed request. `content_type` is that of the outer header, empty without one; `nonce` is 16 to 128
        characters of `A-Z a-z 0-9 _ -` with at least 128 random bits.

        Raises:
            ProtocolError: `nonce_invalid`, `nonce_reserved`.
        """
        return seal_request(self._c2s, self._s2c, self.id, method, target, content_type, stamp, nonce)

    def s2c(self) -> bytes:
        """The key of answers, for the proof of a clock."""
        return bytes(self._s2c.reveal())

    def exporter(self) -> bytes:
        """Returns the secret for a renewal."""
        return exporter_of(self._prk.reveal())

    def prk_bytes(self) -> bytes:
        """A copy of the `prk`, for tests that compare it."""
        return bytes(self._prk.reveal())

    def wipe(self) -> None:
        """Overwrites the keys that are reachable from here."""
        for key in (self._prk, self._c2s, self._s2c):
            key.wipe()

    def __repr__(self) -> str:
        return f"Session(id={self.id!r}, wire=3, redacted)"


@dataclass(frozen=True, slots=True)
class UnverifiedAnswer:
    """A well-formed answer of the right suite, whose signature is not verified yet."""

    answer: InitAnswer
    signature: bytes
    confirm: bytes


class ClientInit:
    """An init or a renewal that waits for its answer. The private keys are for this one.

    Attributes:
        request: what is sent.
    """

    __slots__ = ("_credential", "_keys", "_renewed", "request")

    def __init__(
        self,
        keys: PrivateKeys,
        suites: tuple[str, ...],
        client_id: str,
        *,
        ttl_sec: int | None = None,
        pinned_key_ids: tuple[str, ...] = (),
        authorization: str | None = None,
        renewed: Session | None = None,
        signature_algorithms: tuple[str, ...] | None = None,
    ) -> None:
        self._keys = keys
        self._renewed = renewed
        self._credential = b"" if renewed else credential_of(authorization)
        self.request = InitRequest(
            keys.suite.value,
            suites,
            keys.client_share(),
            client_id,
            ttl_sec,
            None,
            pinned_key_ids,
            signature_algorithms,
        )

    def prove(self, proof: str) -> None:
        """Adds a DPoP proof, made for `request.proof_hash()`."""
        self.request = replace(self.request, proof=proof)

    def body(self) -> bytes:
        """Returns the body of the init; a renewal seals it."""
        return self.request.encode()

    def unverified(self, status: int, data: bytes) -> UnverifiedAnswer:
        """Parses an answer and makes the checks that need no key.

        Raises:
            ProtocolError: `answer_mismatch`, `suite_downgraded`.
        """
        if status != 201:
            raise ProtocolError("answer_mismatch")
        answer, signature, confirm = InitAnswer.parse(data)
        if answer.suite != self.request.suite:
            raise ProtocolError("answer_mismatch")
        if choose(self.request.suites, answer.suites) != answer.suite:
            raise ProtocolError("suite_downgraded")
        return UnverifiedAnswer(answer, signature, confirm)

    def finish(self, unverified: UnverifiedAnswer, identity: bytes | None) -> Session:
        """Verifies the answer and returns the session. `identity` is the trusted public key
        with the claimed id, None if there is none.

        Raises:
            ProtocolError: `key_untrusted`, `signature_invalid`, `public_key_invalid`, `unconfirmed`.
        """
        answer = unverified.answer
        if identity is None or key_id(identity) != answer.key_id or not self.request.accepts(identity):
            raise ProtocolError("key_untrusted")
        renewed_id = self._renewed.id if self._renewed else None
        th = sha256(transcript(self.request, self._credential, answer, renewed_id))
        if not verify(identity, signed_message(th), unverified.signature):
            raise ProtocolError("signature_invalid")
        previous_exporter = self._renewed.exporter() if self._renewed else b""
        prk = prk_of(th, self._keys.client_secret(answer.share), previous_exporter)
        if not is_equal(hmac_sha256(confirm_key_of(prk), th), unverified.confirm):
            raise ProtocolError("unconfirmed")
        return Session(answer, self.request.client_id, prk, identity)

    def __repr__(self) -> str:
        return f"ClientInit(suite={self.request.suite}, redacted)"
