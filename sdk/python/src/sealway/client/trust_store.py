"""Stores in which a client keeps its trust over restarts."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Protocol

from .. import check
from ..errors import UsageError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:
    msvcrt = None  # type: ignore[assignment]

_FILE_MAX: Final = 1_048_576
_RETRY_SEC: Final = 0.05
_WRITING = threading.Lock()


def _load(file: Path) -> dict[str, Any]:
    try:
        if not file.exists():
            return {}
        if file.stat().st_size > _FILE_MAX:
            raise ValueError
        found = json.loads(file.read_text("utf-8"))
        if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
            raise ValueError
    except (ValueError, OSError):
        # Without the file the client would trust the next service that it meets.
        raise UsageError(f"{file} is not a trust store: restore it, or remove it to trust anew") from None
    return found


def _lock(handle: IO[str]) -> None:
    """Locks a file for this process alone, until it is closed."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return
    if msvcrt is None:
        raise OSError("there is no module for file locks")
    while True:
        try:
            handle.seek(0)
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
            return
        except PermissionError:
            time.sleep(_RETRY_SEC)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    with _WRITING, file.with_name(file.name + ".lock").open("a") as handle:
        try:
            _lock(handle)
        except OSError as error:
            warnings.warn(
                f"{file} cannot be locked here ({error}): keep it for one process alone, or on a file system with locks",
                RuntimeWarning,
                stacklevel=2,
            )
        yield


def _replace(file: Path, content: dict[str, Any]) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(content, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class TrustStore(Protocol):
    """Keeps trust over restarts: JSON objects by the origin of a service."""

    def read(self, origin: str) -> dict[str, Any]:
        """Returns the entry of an origin, empty if there is none.

        Raises:
            UsageError: if the entry cannot be read.
        """

    def change(self, origin: str, merge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replaces the present entry of an origin with what `merge` makes of it, as one step for all users of the store.
        An error of `merge` leaves the entry as it is.

        Raises:
            UsageError: if the entry cannot be written.
        """


class FileTrustStore:
    """A trust store in a file, which threads and processes may share."""

    def __init__(self, file: Path) -> None:
        """Keeps trust in `file`, which may not exist yet. A file beside it serves as its lock."""
        check.wants(isinstance(file, Path), "file", file, "a pathlib.Path")
        self._file: Final = file

    def read(self, origin: str) -> dict[str, Any]:
        """Returns the entry of an origin, empty if there is none."""
        found: dict[str, Any] = _load(self._file).get(origin, {})
        return found

    def change(self, origin: str, merge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replaces the entry of an origin with what `merge` makes of the present one."""
        file = self._file
        try:
            with _alone(file):
                known = _load(file)
                found = known.get(origin, {})
                value = merge(found)
                if value != found:
                    _replace(file, {**known, origin: value})
        except OSError as error:
            reason = f"{file} cannot be written ({error.strerror})"
            raise UsageError(f"{reason}: name a file in a folder of your own") from None

    def __str__(self) -> str:
        return str(self._file)
