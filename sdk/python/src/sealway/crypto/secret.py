"""Keys in memory that are not shown and can be wiped."""

from __future__ import annotations

from typing import NoReturn


class Secret:
    """Bytes of a key. Printing shows none of them, pickling is refused, `wipe` overwrites them.

    Python and the libraries below may have made copies that nobody can reach; wiping shortens the life of this one.
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = bytearray(data)

    def reveal(self) -> bytearray:
        """The bytes themselves, not a copy.

        Raises:
            ValueError: if they were wiped.
        """
        if not self._data:
            raise ValueError("the key was wiped")
        return self._data

    def wipe(self) -> None:
        """Overwrites the bytes; `reveal` fails from then on."""
        self._data[:] = bytes(len(self._data))
        self._data.clear()

    def __repr__(self) -> str:
        return "Secret(redacted)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")
