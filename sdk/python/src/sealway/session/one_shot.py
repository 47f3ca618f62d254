"""One sealed request without a session (wire 4), the client's side: `spec/one-shot.md`. Streams, inner headers and answers
are those of wire 3."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as member
from typing import Any, Final

from ..crypto.digest import sha256
from ..crypto.hpke import SUITE, Draws, Exporter, Kem, encap
from ..crypto.secret import Secret
from ..errors import ProtocolError
from ..wire.encoding import field, fields, number
from ..wire.identifier import ANSWER_PREFIX, is_key_id
from ..wire.members import Members, base64_bytes, text, time_ms
from .identity import accepts, key_id, root_signature, verify
from .native.call import Labels, PendingAnswer, seal_request
from .native.problem import SAFE_METHODS, is_too_old

DOCUMENT_PATH: Final = "/.well-known/sealway-hpke-keys"
DOCUMENT_MAX: Final = 65_536
KEYS_MAX: Final = 16
PSK_LEN: Final = 32
KID_PREFIX: Final = "hpke:"
#: What the nonce of a problem of the server begins with.
PROBLEM_PREFIX: Final = "p-"
WIRE_4: Final = Labels(4, KID_PREFIX, ANSWER_PREFIX, PROBLEM_PREFIX)
#: Problems that a server seals; it never seals another, and never sends these without a seal.
SEALED_PROBLEMS: Final = frozenset(
    {"clock_skew", "policy", "replayed", "store_unavailable", "upstream_unreachable", "upstream_timeout"}
)
_PSK_ID = re.compile(r"[\x21-\x7e]{1,64}", re.ASCII)
_KID = re.compile(KID_PREFIX + r"[0-9a-f]{32}", re.ASCII)
_HEAD_LEN = 3
_TAIL = b"\0\x04" + SUITE


def is_kid(text: str) -> bool:
    """Returns True for `hpke:` and 32 lower-case hexadecimal digits."""
    return _KID.fullmatch(text) is not None


def is_psk_id(text: str) -> bool:
    """Returns True for 1 to 64 characters of visible ASCII."""
    return _PSK_ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class KeyConfig:
    """A key configuration of RFC 9458 section 3.1 with one suite.

    Attributes:
        data: its bytes.
        kem: the mechanism; None for one that wire 4 does not have.
        name: the key name.
    """

    data: bytes
    kem: Kem | None = member(init=False)
    name: str = member(init=False)

    def __post_init__(self) -> None:
        """Checks the form.

        Raises:
            ProtocolError: `field_invalid`.
        """
        data = self.data
        kem = Kem.of_id(int.from_bytes(data[1:_HEAD_LEN], "big"))
        is_formed = data.endswith(_TAIL) and len(data) > _HEAD_LEN + len(_TAIL)
        if not is_formed or (kem is not None and len(self.public) != kem.public_len):
            raise ProtocolError("field_invalid", "config")
        object.__setattr__(self, "kem", kem)
        object.__setattr__(self, "name", sha256(data)[:16].hex())

    @property
    def public(self) -> bytes:
        """The public key."""
        return self.data[_HEAD_LEN : -len(_TAIL)]

    @property
    def kid(self) -> str:
        """The value of `X-Kid`."""
        return KID_PREFIX + self.name


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key of a document, with its times in milliseconds of the epoch: a client uses it from `not_before_ms` up to and
    without `use_until_ms`."""

    config: KeyConfig
    not_before_ms: int
    use_until_ms: int
    not_after_ms: int

    def is_in_use(self, now_ms: int) -> bool:
        """Returns True if a client uses the key at this time."""
        return self.not_before_ms <= now_ms < self.use_until_ms


@dataclass(frozen=True, slots=True)
class KeyDocument:
    """A document as it was read. Without a root that is pinned it proves nothing."""

    issued_ms: int
    expires_ms: int
    keys: tuple[ListedKey, ...]
    root_key_id: str | None
    root_signature: bytes | None

    def signed_message(self) -> bytes:
        """Returns the message that a root signs."""
        listed = (
            field(key.config.data) + number(key.not_before_ms) + number(key.use_until_ms) + number(key.not_after_ms)
            for key in self.keys
        )
        return b"sealway/4 keys" + sha256(number(self.issued_ms) + number(self.expires_ms) + fields(listed))

    def verify(
        self,
        root: bytes,
        now_ms: int,
        taken_issued_ms: int | None,
        signature_algorithms: Collection[str] | None = None,
    ) -> None:
        """Makes the checks of a client that trusts `root`; `taken_issued_ms` is of the newest document so far, and
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


def choose(keys: Iterable[ListedKey], now_ms: int, kems: Iterable[Kem]) -> ListedKey | None:
    """Returns the first key in use of one of these mechanisms."""
    known = frozenset(kems)
    return next((key for key in keys if key.config.kem in known and key.is_in_use(now_ms)), None)


def parse_document(data: bytes) -> KeyDocument:
    """Reads a document.

    Raises:
        ProtocolError: `body_too_large`, `json_invalid`, `field_invalid`.
    """
    if len(data) > DOCUMENT_MAX:
        raise ProtocolError("body_too_large")
    members = Members.parse(data)
    issued = members.required("issued_ms", time_ms)
    expires = members.required("expires_ms", time_ms)
    keys = members.required("keys", _listed)
    root = members.optional("root_key_id", lambda v: text(v, is_key_id))
    signature = members.optional("root_signature", root_signature)
    if (root is None) != (signature is None):
        raise ProtocolError("field_invalid", "root_key_id" if root is None else "root_signature")
    return KeyDocument(issued, expires, keys, root, signature)


def _listed(value: Any) -> tuple[ListedKey, ...] | None:
    if not isinstance(value, list) or len(value) > KEYS_MAX:
        return None
    keys: dict[str, ListedKey] = {}
    for part in value:
        try:
            members = Members(part)
            config = KeyConfig(members.required("config", base64_bytes))
            times = [members.required(name, time_ms) for name in ("not_before_ms", "use_until_ms", "not_after_ms")]
        except ProtocolError:
            return None
        if times != sorted(times) or config.name in keys:
            return None
        keys[config.name] = ListedKey(config, *times)
    return tuple(keys.values())


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """The two secrets of one request. Printing shows nothing."""

    enc: bytes
    c2s: Secret
    s2c: Secret


def secrets_of(config: KeyConfig, psk: tuple[str, bytes] | None, draws: Draws) -> Secrets:
    """Makes `enc` and the secrets of one request to a key; `psk` is its name and its 32 bytes.

    Raises:
        ProtocolError: `public_key_invalid`.
        ValueError: for a key of a mechanism that wire 4 does not have.
    """
    if config.kem is None:
        raise ValueError("the key is of an unknown mechanism")
    psk_id, key = psk or ("", b"")
    enc, shared = encap(config.kem, config.public, draws)
    info = field("sealway/4") + field(config.name) + field(psk_id)
    exporter = Exporter(config.kem, shared, info, key, psk_id.encode("ascii"))
    return Secrets(enc, Secret(exporter.export(b"sealway/4 c2s")), Secret(exporter.export(b"sealway/4 s2c")))


def seal(
    config: KeyConfig,
    psk: tuple[str, bytes] | None,
    draws: Draws,
    method: str,
    target: str,
    content_type: str,
    stamp: str,
    nonce: str,
) -> PendingAnswer:
    """Begins a sealed request to a key. `content_type` is that of the outer header, empty without one; `nonce` holds 128
    random bits.

    Raises:
        ProtocolError: `public_key_invalid`, `nonce_invalid`, `nonce_reserved`.
    """
    made = secrets_of(config, psk, draws)
    psk_id = psk[0].encode("ascii") if psk is not None else b""
    prefix = bytes([psk is not None, len(psk_id)]) + psk_id + made.enc
    return seal_request(made.c2s, made.s2c, config.name, method, target, content_type, stamp, nonce, WIRE_4, prefix)


def sends_again(problem: Mapping[str, Any], is_sealed: bool, method: str, stamp_ms: int, elapsed_ms: int) -> bool:
    """Returns True if a client sends a rejected request once more: `spec/one-shot.md#problems`.

    A problem without a seal can come from anybody on the path, so after `key_retired` only a safe request is sent again. A
    sealed `clock_skew` is the server's: then any request is that was too old for every server when it left.

    Args:
        problem: its members.
        is_sealed: whether it was sealed.
        method: of the refused request.
        stamp_ms: its timestamp.
        elapsed_ms: milliseconds since it was sent, rounded up.
    """
    is_safe = method in SAFE_METHODS
    code, server_ms = problem.get("code"), time_ms(problem.get("server_time_ms"))
    if code == "clock_skew":
        return is_sealed and server_ms is not None and (is_safe or is_too_old(stamp_ms, server_ms, elapsed_ms))
    return code == "key_retired" and not is_sealed and is_safe
