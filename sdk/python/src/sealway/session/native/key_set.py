"""Key sets: `spec/session-3.md#identity-keys`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ...crypto.digest import sha256
from ...errors import ProtocolError
from ...wire.encoding import field, fields, number
from ...wire.identifier import is_key_id
from ...wire.members import Members, base64_bytes, text, time_ms
from ..identity import PUBLIC_MAX, SignatureAlgorithm, accepts, algorithm_of, key_id, root_signature, verify
from .message import KEYS_MAX, is_algorithm_name

KEY_SET_PATH: Final = "/.well-known/sealway-keys"
KEY_SET_MAX: Final = 65_536
_KNOWN: Final = frozenset(algorithm.value for algorithm in SignatureAlgorithm)


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key of a set, of an algorithm known here or not; live from `not_before_ms` up to and without `not_after_ms`, of
    the epoch."""

    key_id: str
    public: bytes
    not_before_ms: int
    not_after_ms: int


@dataclass(frozen=True, slots=True)
class KeySet:
    """A set as it was read: its keys' ids are their own. Without a root that is pinned it proves nothing."""

    issued_ms: int
    expires_ms: int
    keys: tuple[ListedKey, ...]
    root_key_id: str | None
    root_signature: bytes | None

    def find(self, id: str) -> bytes | None:
        """The public key with this id."""
        return next((key.public for key in self.keys if key.key_id == id), None)

    def live(self, id: str, server_time_ms: int, now_ms: int) -> bytes | None:
        """The key with this id, if it may have signed an answer which says `server_time_ms`.

        The thief of a key that is over says an earlier time: for every end the client's own clock counts too, and when the
        set was issued.
        """
        latest_ms = max(server_time_ms, now_ms, self.issued_ms)
        for key in self.keys:
            if key.key_id == id and key.not_before_ms <= server_time_ms:
                return key.public if latest_ms < min(key.not_after_ms, self.expires_ms) else None
        return None

    def signed_message(self) -> bytes:
        """Returns the message that a root signs."""
        return key_set_message(self.issued_ms, self.expires_ms, self.keys)

    def verify(
        self,
        root: bytes,
        now_ms: int,
        taken_issued_ms: int | None,
        signature_algorithms: Collection[str] | None = None,
    ) -> None:
        """Makes the checks of a client that trusts `root`; `taken_issued_ms` is of the newest set so far, and
        `signature_algorithms` are those that the client accepts, None without a restriction.

        Raises:
            ProtocolError: `key_untrusted`, `signature_invalid`.
        """
        is_named = self.root_key_id == key_id(root) and accepts(signature_algorithms, root, is_pinned=True)
        if not is_named or self.root_signature is None:
            raise ProtocolError("key_untrusted")
        if not verify(root, self.signed_message(), self.root_signature):
            raise ProtocolError("signature_invalid")
        if now_ms >= self.expires_ms or (taken_issued_ms is not None and self.issued_ms < taken_issued_ms):
            raise ProtocolError("key_untrusted")


def key_set_message(issued_ms: int, expires_ms: int, keys: Sequence[ListedKey]) -> bytes:
    """Returns the message that a root signs for a set."""
    listed = (
        field(key.key_id) + field(key.public) + number(key.not_before_ms) + number(key.not_after_ms) for key in keys
    )
    return b"sealway/3 keys" + sha256(number(issued_ms) + number(expires_ms) + fields(listed))


def _public(value: Any, name: str) -> bytes | None:
    """Returns a public key of its form, which may be off the curve. A key of an unknown algorithm has the length of no
    known one."""
    public = base64_bytes(value)
    if public is None or len(public) > PUBLIC_MAX:
        return None
    algorithm = algorithm_of(public)
    if algorithm is None:
        return public if name not in _KNOWN else None
    return public if name == algorithm.value and (public[0] == 4 or not algorithm.has_point) else None


def _listed(value: Any) -> tuple[ListedKey, ...] | None:
    if not isinstance(value, list) or len(value) > KEYS_MAX:
        return None
    keys = []
    for part in value:
        try:
            members = Members(part)
            alg = members.required("alg", lambda v: text(v, is_algorithm_name))
            key = ListedKey(
                members.required("key_id", lambda v: text(v, is_key_id)),
                members.required("public_key", partial(_public, name=alg)),
                members.required("not_before_ms", time_ms),
                members.required("not_after_ms", time_ms),
            )
        except ProtocolError:
            return None
        # Else a root's word for one key could be taken for its word for another.
        if key.key_id != key_id(key.public):
            return None
        keys.append(key)
    if len({key.key_id for key in keys}) < len(keys):
        return None
    return tuple(keys)


def parse_key_set(data: bytes) -> KeySet:
    """Reads a set.

    Raises:
        ProtocolError: `body_too_large`, `json_invalid`, `field_invalid`.
    """
    if len(data) > KEY_SET_MAX:
        raise ProtocolError("body_too_large")
    members = Members.parse(data)
    issued = members.required("issued_ms", time_ms)
    expires = members.required("expires_ms", time_ms)
    keys = members.required("keys", _listed)
    root = members.optional("root_key_id", lambda v: text(v, is_key_id))
    signature = members.optional("root_signature", root_signature)
    if (root is None) != (signature is None):
        raise ProtocolError("field_invalid", "root_key_id" if root is None else "root_signature")
    return KeySet(issued, expires, keys, root, signature)
