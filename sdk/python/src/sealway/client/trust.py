"""Verification of a service's identity: `spec/session-3.md#identity-keys`. Nothing here sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any, Final, Never

from .. import check
from ..crypto.secret import Secret
from ..errors import ProtocolError, UsageError
from ..session.identity import accepts, algorithm_of, is_public_key, key_id
from ..session.native.key_set import KeySet, parse_key_set
from ..session.native.message import InitAnswer
from ..session.one_shot import KEYS_MAX, PSK_LEN, KeyConfig, is_kid, is_psk_id
from ..wire.encoding import decode_base64, encode_base64
from ..wire.identifier import is_key_id
from .trust_store import TrustStore

PINS_MAX: Final = 16


def _public_key(text: Any, name: str = "pins") -> bytes:
    check.text(name, text, "public keys in base64, or ids of keys")
    try:
        public = decode_base64(text)
    except ValueError:
        public = b""
    if not is_public_key(public):
        raise UsageError(f"{name}: give key ids (32 hexadecimal digits) or public keys (base64)")
    return public


class Pins:
    """Trusts these identity keys and no others: key ids or public keys in base64, 1 to 16."""

    def __init__(self, pins: Iterable[str]) -> None:
        self.keys: dict[str, bytes | None] = {}
        for pin in check.listed("pins", pins, "a list of key ids or public keys"):
            text = pin.strip() if isinstance(pin, str) else pin
            check.text("pins", text, "key ids or public keys")
            if is_key_id(text):
                self.keys.setdefault(text, None)
            else:
                public = _public_key(text)
                self.keys[key_id(public)] = public
        if not 1 <= len(self.keys) <= PINS_MAX:
            raise UsageError(f"pins: give 1 to {PINS_MAX} keys")


class Root:
    """Trusts the identity keys in key sets that this root signs. `store` keeps the time of the newest set, so that an older
    one is rejected after a restart."""

    def __init__(self, public_key: str, store: TrustStore | None = None, **unknown: Never) -> None:
        check.unknown("Root", unknown, {"state": "store=FileTrustStore(path)"})
        check.text("public_key", public_key, "the root's public key in base64")
        _check_store(store)
        self.public: Final = _public_key(public_key.strip(), "public_key")
        self.store: Final = store


class FirstUse:
    """Trusts the service that it meets first, and keeps its identity keys in `store`; without a store in memory alone. A
    machine in the middle of the first use is not detected."""

    def __init__(self, store: TrustStore | None = None, **unknown: Never) -> None:
        check.unknown("FirstUse", unknown, {"file": "store=FileTrustStore(path)"})
        _check_store(store)
        self.store: Final = store


class KeyPins:
    """Trusts these keys of wire 4 and no others: key configurations in base64, or their kids (`hpke:…`), 1 to 16 of one
    kind. Kids are looked up in the service's key document."""

    def __init__(self, pins: Iterable[str]) -> None:
        self.configs: tuple[KeyConfig, ...] = ()
        self.kids: frozenset[str] = frozenset()
        texts = check.listed("pins", pins, "a list of key configurations or kids")
        if not 1 <= len(texts) <= KEYS_MAX:
            raise UsageError(f"pins: give 1 to {KEYS_MAX} keys")
        for text in texts:
            check.text("pins", text, "key configurations in base64, or kids")
        if all(is_kid(text) for text in texts):
            self.kids = frozenset(texts)
        else:
            self.configs = tuple(_config(text) for text in texts)


def _config(text: str) -> KeyConfig:
    try:
        return KeyConfig(decode_base64(text.strip()))
    except (ValueError, ProtocolError):
        raise UsageError("pins: give key configurations (base64, of one suite) or kids (hpke: and 32 digits)") from None


class Psk:
    """A pre-shared key: its public name, and its 32 bytes, or those in base64. Printing shows the name alone."""

    __slots__ = ("_key", "id")

    def __init__(self, id: str, key: bytes | str, **unknown: Never) -> None:
        check.unknown("Psk", unknown, {})
        is_named = isinstance(id, str) and is_psk_id(id)
        check.wants(is_named, "id", id, "1 to 64 characters of visible ASCII")
        try:
            data = decode_base64(key.strip()) if isinstance(key, str) else bytes(key)
        except (TypeError, ValueError):
            data = b""
        if len(data) != PSK_LEN:
            # The value is not shown: it is a secret.
            raise UsageError(f"key: give {PSK_LEN} bytes, or those in base64")
        self.id: Final = id
        self._key = Secret(data)

    def reveal(self) -> bytes:
        """The 32 bytes."""
        return bytes(self._key.reveal())

    def __repr__(self) -> str:
        return f"Psk(id={self.id!r}, redacted)"


def _check_store(store: Any) -> None:
    is_store = store is None or all(callable(getattr(store, name, None)) for name in ("read", "change"))
    check.wants(is_store, "store", store, "a TrustStore, such as FileTrustStore(path), or None")


Trust = Pins | Root | FirstUse


class Keyring:
    """The keys that a client trusts for the service at one origin. Safe to use from several threads."""

    def __init__(self, trust: Trust, origin: str, signature_algorithms: tuple[str, ...] | None = None) -> None:
        self._trust = trust
        self._algorithms = signature_algorithms
        self._origin = origin
        self._lock = threading.Lock()
        self._issued_ms: int | None = None
        #: The newest set that a pinned root signed.
        self._set: KeySet | None = None
        self._keys: dict[str, bytes] = {}
        #: Ids of the key set fetched last at first use whose keys were not kept: fetching them again changes nothing.
        self._left_out: set[str] = set()
        if isinstance(trust, Pins):
            self._keys = {id: public for id, public in trust.keys.items() if public is not None}
        elif isinstance(trust, Root):
            issued = read_entry(trust.store, origin).get("issued_ms")
            self._issued_ms = issued if isinstance(issued, int) else None
        else:
            self._keys = _keys(trust.store, read_entry(trust.store, origin))
            self.pinned_ids()

    def pinned_ids(self) -> tuple[str, ...]:
        """Returns the member `pinned_key_ids` of an init, without keys of an algorithm that the client does not accept.

        Raises:
            UsageError: if no key remains.
        """
        if isinstance(self._trust, Root):
            return ()
        with self._lock:
            ids = sorted(self._trust.keys if isinstance(self._trust, Pins) else self._keys)
            usable = [id for id in ids if id not in self._keys or self._accepts(id, self._keys[id])]
            if ids and not usable:
                raise self._none_accepted()
        return tuple(usable)[:PINS_MAX]

    def _none_accepted(self) -> UsageError:
        algorithms = sorted({str(algorithm_of(public)) for public in self._keys.values()})
        place, remedy = "trust: the pins", "pin another key"
        if isinstance(self._trust, FirstUse):
            place, remedy = f"trust: the keys of {self._origin} in {self._trust.store}", "remove them to trust anew"
        what = f"{place} are of {', '.join(algorithms)}"
        if self._algorithms is not None:
            given = ", ".join(self._algorithms)
            return UsageError(f"{what}, and signature_algorithms is {given}: name one of the former, or {remedy}")
        return UsageError(f"{what}, which this OpenSSL does not have: update cryptography, or {remedy}")

    def key(self, id: str, server_time_ms: int, now_ms: int) -> bytes | None:
        """Returns the key with this id, if it is known and trusted to sign at `server_time_ms`, the time of its answer."""
        with self._lock:
            if isinstance(self._trust, Root):
                return self._set.live(id, server_time_ms, now_ms) if self._set is not None else None
            return self._keys.get(id)

    def _accepts(self, id: str, public: bytes) -> bool:
        return accepts(self._algorithms, public, id in self._keys)

    def may_learn(self, id: str) -> bool:
        """Returns True if a key set could make this key trusted."""
        if isinstance(self._trust, Pins):
            return id in self._trust.keys
        return isinstance(self._trust, Root) or not self._keys

    def look_up(self, id: str, data: bytes, server_time_ms: int, now_ms: int) -> bytes | None:
        """Returns the key with this id of a key set, if the set makes it trusted. At first use the signature with it is
        verified later.

        Raises:
            ProtocolError: as `spec/session-3.md#identity-keys` has it.
        """
        found = parse_key_set(data)
        if isinstance(self._trust, Root):
            self._take(self._trust, found, now_ms)
            return self.key(id, server_time_ms, now_ms)
        if not self.may_learn(id):
            return None
        public = found.find(id)
        if isinstance(self._trust, Pins) and public is not None:
            with self._lock:
                self._keys[id] = public
        return public

    def retired(self, key_set: Any, now_ms: int) -> bool:
        """Takes the key set of a `key_retired`. Returns True if the trusted root signed it."""
        if not isinstance(self._trust, Root) or not isinstance(key_set, dict):
            return False
        self._take(self._trust, parse_key_set(json.dumps(key_set).encode()), now_ms)
        return True

    def _take(self, root: Root, found: KeySet, now_ms: int) -> None:
        with self._lock:
            found.verify(root.public, now_ms, self._issued_ms, self._algorithms)

            def newest(kept: dict[str, Any]) -> dict[str, Any]:
                # Another process may have taken a newer one.
                issued = kept.get("issued_ms")
                if isinstance(issued, int) and issued > found.issued_ms:
                    self._issued_ms = issued
                    raise ProtocolError("key_untrusted")
                return {"issued_ms": found.issued_ms}

            if root.store is not None:
                root.store.change(self._origin, newest)
            self._issued_ms, self._set = found.issued_ms, found

    def wants_set(self, answer: InitAnswer) -> bool:
        """Returns True if a verified answer names keys that are to be kept and are not known."""
        if not isinstance(self._trust, FirstUse):
            return False
        return any(id not in self._keys and id not in self._left_out for id in answer.key_ids)

    def remember(self, answer: InitAnswer, identity: bytes, data: bytes | None) -> None:
        """Keeps the keys that a verified answer names, at first use; from a key set if there is one.

        Raises:
            ProtocolError: for a key set that is none; `key_untrusted` where another process met another service here.
        """
        if not isinstance(self._trust, FirstUse):
            return
        store = self._trust.store
        found = parse_key_set(data) if data is not None else None
        with self._lock:

            def merged(known: dict[str, bytes]) -> dict[str, bytes]:
                kept = {answer.key_id: identity}
                for id in answer.key_ids:
                    public = self._keys.get(id) or known.get(id) or (found.find(id) if found else None)
                    # A store with a key off the curve could not be read again.
                    if public is not None and is_public_key(public) and self._accepts(id, public):
                        kept[id] = public
                # A key that is not live any more may come back: it is the service's own, said so under a trusted signature.
                for id, public in {**self._keys, **known}.items():
                    if len(kept) < PINS_MAX:
                        kept.setdefault(id, public)
                return kept

            def checked(kept: dict[str, Any]) -> dict[str, Any]:
                # Another process may have met the service since this one read the file.
                known = _keys(store, kept)
                if known and answer.key_id not in known:
                    self._keys = known
                    raise ProtocolError("key_untrusted")
                self._keys = merged(known)
                return {id: encode_base64(key) for id, key in self._keys.items()}

            if store is None:
                self._keys = merged({})
            elif merged({}) != self._keys:
                store.change(self._origin, checked)
            if found is not None:
                self._left_out = {key.key_id for key in found.keys if key.key_id not in self._keys}


def read_entry(store: TrustStore | None, origin: str) -> dict[str, Any]:
    """Returns what a store keeps for an origin."""
    return {} if store is None else store.read(origin)


def _keys(store: TrustStore | None, kept: dict[str, Any]) -> dict[str, bytes]:
    """Returns the keys of an entry of a store."""
    keys = {id: _public_key(str(text)) for id, text in kept.items()}
    if any(key_id(public) != id for id, public in keys.items()):
        raise UsageError(f"{store} holds a key under the id of another one: restore it, or remove it to trust anew")
    return keys
