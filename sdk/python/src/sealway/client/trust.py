"""Whose word a client takes for who the service is: `spec/session-3.md#identity-keys`. It sends nothing."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..crypto.p256 import check_point, key_id
from ..errors import Refused, UsageError
from ..session.three.key_set import KeySet, parse_key_set
from ..session.three.message import InitAnswer
from ..wire.encoding import decode_base64, encode_base64
from ..wire.identifier import is_key_id

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PINS_MAX: Final = 16
_FILE_MAX = 1_048_576
_WRITING = threading.Lock()


def _public_key(text: str) -> bytes:
    try:
        public = decode_base64(text)
        check_point(public)
    except (ValueError, Refused):
        raise UsageError("a pin is a key id (32 hexadecimal digits) or a public key (base64 of 65 bytes)") from None
    return public


class Pins:
    """These identity keys and no others: key ids or public keys in base64, 1 to 16."""

    def __init__(self, pins: Iterable[str]) -> None:
        self.keys: dict[str, bytes | None] = {}
        for pin in pins:
            text = pin.strip()
            if is_key_id(text):
                self.keys.setdefault(text, None)
            else:
                public = _public_key(text)
                self.keys[key_id(public)] = public
        if not 1 <= len(self.keys) <= PINS_MAX:
            raise UsageError(f"1 to {PINS_MAX} keys are pinned")


class Root:
    """The keys that this root says. `state` is a file that keeps when the newest set was issued, so that an older one is
    not taken after a restart."""

    def __init__(self, public_key: str, state: Path | None = None) -> None:
        self.public: Final = _public_key(public_key.strip())
        self.state: Final = state


@dataclass(frozen=True, slots=True)
class FirstUse:
    """What is met at first use, kept in this file; in memory alone without one. Who stands in between at the first use
    is not found out."""

    file: Path | None = None


Trust = Pins | Root | FirstUse


def _read(file: Path | None, origin: str) -> dict[str, Any]:
    if file is None or not file.exists():
        return {}
    try:
        if file.stat().st_size > _FILE_MAX:
            raise ValueError
        found = json.loads(file.read_text("utf-8")).get(origin, {})
        if not isinstance(found, dict):
            raise ValueError
    except (ValueError, AttributeError, OSError):
        # To go on without it would be to trust anew whoever is met.
        raise UsageError(f"{file} is not a file of what was trusted before") from None
    return found


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Keeps other threads from writing meanwhile and, where the system can, other processes. One would undo what the other
    keeps, and an origin that is lost is trusted anew."""
    with _WRITING, file.with_name(file.name + ".lock").open("a") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(file: Path, origin: str, value: dict[str, Any]) -> None:
    with _alone(file):
        known = json.loads(file.read_text("utf-8")) if file.exists() else {}
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump({**known, origin: value}, out, indent=1)
                out.flush()
                os.fsync(out.fileno())
            os.replace(name, file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


class Keyring:
    """The keys that a client trusts for the service at one origin. Safe to use from several threads."""

    def __init__(self, trust: Trust, origin: str) -> None:
        self._trust = trust
        self._origin = origin
        self._lock = threading.Lock()
        self._issued_ms: int | None = None
        self._expires_ms = 0
        self._keys: dict[str, bytes] = {}
        if isinstance(trust, Pins):
            self._keys = {id: public for id, public in trust.keys.items() if public is not None}
        elif isinstance(trust, Root):
            issued = _read(trust.state, origin).get("issued_ms")
            self._issued_ms = issued if isinstance(issued, int) else None
        else:
            for id, text in _read(trust.file, origin).items():
                public = _public_key(str(text))
                if key_id(public) != id:
                    raise UsageError(f"{trust.file} holds a key under another's id")
                self._keys[id] = public

    def pinned_ids(self) -> tuple[str, ...]:
        """What is sent as `pinned_key_ids`."""
        if isinstance(self._trust, Pins):
            return tuple(sorted(self._trust.keys))
        if isinstance(self._trust, Root):
            return ()
        with self._lock:
            return tuple(sorted(self._keys))[:PINS_MAX]

    def key(self, id: str, now_ms: int) -> bytes | None:
        """The trusted key with this id, as far as it is known already."""
        with self._lock:
            if isinstance(self._trust, Root) and now_ms >= self._expires_ms:
                return None
            return self._keys.get(id)

    def trusted(self, now_ms: int) -> dict[str, bytes]:
        """All that are trusted and known."""
        with self._lock:
            return {} if isinstance(self._trust, Root) and now_ms >= self._expires_ms else dict(self._keys)

    def may_learn(self, id: str) -> bool:
        """Whether a key set could make this key trusted."""
        if isinstance(self._trust, Pins):
            return id in self._trust.keys
        return isinstance(self._trust, Root) or not self.pinned_ids()

    def look_up(self, id: str, data: bytes, now_ms: int) -> bytes | None:
        """The key with this id of a key set, if the set makes it trusted. At first use the signature with this very key
        is still to come.

        Raises:
            Refused: as `spec/session-3.md#identity-keys` has it.
        """
        found = parse_key_set(data)
        if isinstance(self._trust, Root):
            self._take(self._trust, found, now_ms)
            return self.key(id, now_ms)
        if not self.may_learn(id):
            return None
        public = found.find(id)
        if isinstance(self._trust, Pins) and public is not None:
            with self._lock:
                self._keys[id] = public
        return public

    def retired(self, key_set: Any, now_ms: int) -> bool:
        """What a `key_retired` is good for: whether it holds new keys on the word of a root that is pinned."""
        if not isinstance(self._trust, Root) or not isinstance(key_set, dict):
            return False
        self._take(self._trust, parse_key_set(json.dumps(key_set).encode()), now_ms)
        return True

    def _take(self, root: Root, found: KeySet, now_ms: int) -> None:
        with self._lock:
            found.verify(root.public, now_ms, self._issued_ms)
            if root.state is not None and self._issued_ms != found.issued_ms:
                _write(root.state, self._origin, {"issued_ms": found.issued_ms})
            self._issued_ms, self._expires_ms = found.issued_ms, found.expires_ms
            self._keys = {key.key_id: key.public for key in found.keys}

    def wants_set(self, answer: InitAnswer) -> bool:
        """Whether a verified answer names keys that are to be kept and are not known."""
        return isinstance(self._trust, FirstUse) and any(id not in self._keys for id in answer.key_ids)

    def remember(self, answer: InitAnswer, identity: bytes, data: bytes | None) -> None:
        """Keeps what was met at first use: the keys that a verified answer names, from a key set if there is one.

        Raises:
            Refused: for a key set that is none.
        """
        if not isinstance(self._trust, FirstUse):
            return
        found = parse_key_set(data) if data is not None else None
        with self._lock:
            kept = {answer.key_id: identity}
            for id in answer.key_ids:
                public = self._keys.get(id) or (found.find(id) if found else None)
                if public is not None:
                    kept[id] = public
            # A key that is not live any more may come back: it is the service's own, said so under a trusted signature.
            for id, public in self._keys.items():
                if len(kept) < PINS_MAX:
                    kept.setdefault(id, public)
            is_new, self._keys = kept != self._keys, kept
            if is_new and self._trust.file is not None:
                _write(self._trust.file, self._origin, {id: encode_base64(key) for id, key in kept.items()})
