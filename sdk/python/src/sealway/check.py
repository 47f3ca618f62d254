"""Checks of what a caller gives to constructors, before anything is done with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import UsageError


def _shown(value: Any) -> str:
    """Describes a value without showing a text, which may be a secret."""
    if value is None or isinstance(value, (int, float)):
        return str(value)
    return "empty" if value == "" else f"of the type {type(value).__name__}"


def wants(holds: bool, name: str, value: Any, what: str) -> None:
    """Checks an option.

    Raises:
        UsageError: with the option's name, and what it should be.
    """
    if not holds:
        raise UsageError(f"{name} is {_shown(value)}: give {what}")


def renamed(given: Iterable[str], names: Mapping[str, str]) -> None:
    """Rejects former names of options.

    Raises:
        UsageError: with the present name.
    """
    for name in given:
        if name in names:
            raise UsageError(f"{name} is not an option any more: give {names[name]}")


def unknown(owner: str, given: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Rejects all keyword arguments that are left; `names` are the present ones by former ones."""
    renamed(given, names)
    if given:
        raise TypeError(f"{owner}() got an unexpected keyword argument {next(iter(given))!r}")


def number(
    name: str, value: Any, least: float, what: str, *, is_whole: bool = False, is_optional: bool = False
) -> None:
    """Checks a number, of at least `least`; it may be absent if `is_optional`."""
    kinds = int if is_whole else (int, float)
    holds = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value) and value >= least
    wants(holds or (is_optional and value is None), name, value, what)


def text(name: str, value: Any, what: str, *, is_optional: bool = False) -> None:
    """Checks a text that is not empty; it may be absent if `is_optional`."""
    wants((isinstance(value, str) and value != "") or (is_optional and value is None), name, value, what)


def callback(name: str, value: Any, what: str, *, is_optional: bool = False) -> None:
    """Checks a function; it may be absent if `is_optional`."""
    wants(callable(value) or (is_optional and value is None), name, value, what)


def file(name: str, value: Any) -> None:
    """Checks the path of a file, or None."""
    wants(value is None or isinstance(value, Path), name, value, "a pathlib.Path, or None")


def listed(name: str, value: Any, what: str) -> tuple[Any, ...]:
    """Returns the members of a list or another iterable, which a text is not."""
    wants(isinstance(value, Iterable) and not isinstance(value, (str, bytes)), name, value, what)
    return tuple(value)
