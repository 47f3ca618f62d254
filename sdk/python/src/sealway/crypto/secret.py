"""Keys in memory that are not shown and can be wiped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class Secret:
    """Bytes of a key. Printing shows none of them, pickling is refused, `wipe` overwrites them.

    Python and the libraries below may have made copies that nobody can reach; wiping shortens the life of this one.
    """

    __slots__ = ("_data", "_made")

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = bytearray(data)
        self._made: dict[Callable[[bytearray], Any], Any] = {}

    def reveal(self) -> bytearray:
        """The bytes themselves, not a copy.

        Raises:
            ValueError: if they were wiped.
        """
        if not self._data:
            raise ValueError("the key was wiped")
        return self._data

    def made(self, make: Callable[[bytearray], T]) -> T:
        """Returns what `make` derives from the bytes; derived once, and released when they are wiped.

        Raises:
            ValueError: if they were wiped.
        """
        found = self._made.get(make)
        if found is None:
            found = self._made[make] = make(self.reveal())
        made: T = found
        return made

    def wipe(self) -> None:
        """Overwrites the bytes; `reveal` fails from then on."""
        self._made.clear()
        self._data[:] = bytes(len(self._data))
        self._data.clear()

    def __repr__(self) -> str:
        return "Secret(redacted)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")
