"""The file in which a client keeps what it trusts, by origin. Threads and processes may share it."""

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
from typing import IO, Any, Final

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
        # To go on without it would be to trust anew whoever is met.
        raise UsageError(
            f"{file} is not a file of what was trusted before: restore it, or remove it to trust anew"
        ) from None
    return found


def read(file: Path | None, origin: str) -> dict[str, Any]:
    """Returns the entry of an origin, empty if there is none.

    Raises:
        UsageError: for a file that is damaged or not readable.
    """
    found: dict[str, Any] = {} if file is None else _load(file).get(origin, {})
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


def change(file: Path, origin: str, merge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Has `merge` make what is to be kept of an origin out of what is kept by now: another process may have written since
    this one read. What `merge` raises leaves the file as it is.

    Raises:
        UsageError: for a file that is damaged, or cannot be written.
    """
    try:
        with _alone(file):
            known = _load(file)
            found = known.get(origin, {})
            value = merge(found)
            if value != found:
                _replace(file, {**known, origin: value})
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror}): name a file in a folder of your own") from None


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
