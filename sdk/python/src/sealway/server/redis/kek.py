"""Key-encryption keys: `spec/redis-store.md#sessions`."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Final

from ... import check
from ...crypto.aead import KEY_LEN, Aes256Gcm
from ...errors import UsageError
from ...wire.encoding import decode_base64

KEYS_MAX: Final = 16
_FILE_MAX = 65_536
_AGAIN_SEC = 1.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)


def _parse(text: str, name: str) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        id, _, encoded = line.partition(" ")
        try:
            key = decode_base64(encoded.strip())
        except ValueError:
            key = b""
        if _ID.fullmatch(id) is None or len(key) != KEY_LEN or id in keys:
            raise UsageError(f"{name}:{number}: expected an id that stands once, and 32 bytes in base64")
        keys[id] = key
    if not 1 <= len(keys) <= KEYS_MAX:
        raise UsageError(f"{name}: expected 1 to {KEYS_MAX} keys")
    return keys


class KeyRing:
    """The keys that session keys are wrapped with, by their ids. Printing shows none. Safe to use from several threads."""

    def __init__(self, *, file: Path | None = None, text: str | None = None) -> None:
        """The keys of a file, the authority's `kek_file`, or of a text, the value of `SEALWAY_KEK`.

        Raises:
            UsageError: for both or neither, a file that cannot be read, and lines that are none.
        """
        if (file is None) == (text is None):
            raise UsageError("key-encryption keys come from a file or from a text: give one of the two")
        check.file("file", file)
        check.text("text", text, "the keys, or None", is_optional=True)
        self._file: Final = file
        self._lock = threading.Lock()
        self._read_sec = time.monotonic()
        self._keys = _parse(text, "SEALWAY_KEK") if text is not None else self._load()
        self._ready = {id: Aes256Gcm(key) for id, key in self._keys.items()}

    def _load(self) -> dict[str, bytes]:
        if self._file is None:
            return {}
        try:
            with self._file.open("rb") as source:
                data = source.read(_FILE_MAX + 1)
            if len(data) > _FILE_MAX:
                raise UsageError(f"{self._file} is longer than a file of keys")
            return _parse(data.decode("utf-8"), str(self._file))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self._file} cannot be read: {type(error).__name__}") from None

    def find(self, id: str) -> Aes256Gcm | None:
        """The key with this id. A file is read again when it is unknown, at most once a second."""
        with self._lock:
            now = time.monotonic()
            if id not in self._ready and self._file is not None and now - self._read_sec >= _AGAIN_SEC:
                self._read_sec = now
                self._take_new()
            return self._ready.get(id)

    def _take_new(self) -> None:
        try:
            found = self._load()
        except UsageError:
            # Half-written, or not there for a moment: the keys that are known stay good.
            return
        if any(found.get(id, key) != key for id, key in self._keys.items()):
            return
        self._keys, self._ready = found, {id: Aes256Gcm(key) for id, key in found.items()}

    def __repr__(self) -> str:
        return f"KeyRing({sorted(self._keys)}, redacted)"
