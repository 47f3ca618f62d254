"""Bounds the bytes of sealed bodies that have arrived and are not opened yet: in all, and by address."""

from __future__ import annotations

import threading
from ipaddress import IPv6Address, ip_address
from typing import Final

from ..exchange.refusal import Refusal

BUFFERED_BYTES_MAX: Final = 64 << 20
BUFFERED_BYTES_MIN: Final = 1 << 20
_ADDRESS_PART: Final = 16
#: One frame of wire 3 and what was read behind it.
_FRAME_ROOM: Final = 128 << 10


class Room:
    """Safe to use from several threads."""

    def __init__(self, most: int, longest: int) -> None:
        """`longest` is the longest body that is held whole: no address's share is less than that, nor than a sixteenth."""
        self.max: Final = most
        self.share: Final = min(most, max(most // _ADDRESS_PART, longest, _FRAME_ROOM))
        self.taken = 0
        self.by_client: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, client: str | None, count: int) -> None:
        """Takes bytes. `client` is None where nobody's share counts.

        Raises:
            Refusal: `body_no_room`, and nothing is taken.
        """
        with self._lock:
            own = 0 if client is None else self.by_client.get(client, 0)
            if self.taken + count > self.max or (client is not None and own + count > self.share):
                raise Refusal("body_no_room")
            self.taken += count
            if client is not None and count:
                self.by_client[client] = own + count

    def give_back(self, client: str | None, count: int) -> None:
        """Gives back bytes that were taken."""
        with self._lock:
            self.taken -= count
            if client is None or not count:
                return
            self.by_client[client] -= count
            if not self.by_client[client]:
                del self.by_client[client]


class Holding:
    """The part of a room that one request holds."""

    def __init__(self, room: Room, remote: str | None) -> None:
        """An address that is no IP address (of a Unix socket) has no bound of its own."""
        self._room, self._client = room, client_of(remote)
        self._held = 0
        self._is_over = False

    def grow(self, count: int) -> None:
        """Takes bytes.

        Raises:
            Refusal: `body_no_room`, and nothing is taken.
        """
        if self._is_over:
            return
        self._room.take(self._client, count)
        self._held += count

    def keep(self, count: int) -> None:
        """Gives back all but so many bytes."""
        if self._held > count:
            less, self._held = self._held - count, count
            self._room.give_back(self._client, less)

    def close(self) -> None:
        """Gives back all. Nothing of the request is counted any more."""
        self.keep(0)
        self._is_over = True


def client_of(remote: str | None) -> str | None:
    """Returns what a share is of: an IPv4 address, or an IPv6 /64."""
    try:
        address = ip_address(remote or "")
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"
