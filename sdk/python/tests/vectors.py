"""Reads the project's vectors, and notices members that a test did not look at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sealway.crypto.secret import Secret
from sealway.exchange.request import Exchange, PlainRequest
from sealway.session.claim import Claim, ReplayGuard, SessionRecord
from sealway.wire.header import Headers

ROOT = Path(__file__).resolve().parents[3] / "vectors"
#: What ran, for the end of the run.
COUNTED: list[str] = []
#: What tells readers about a scenario and implementations nothing.
PROSE = {"type", "name", "comment", "spec"}


class Node:
    """An object of a scenario, which notes what was read of it."""

    def __init__(self, value: dict[str, Any]) -> None:
        self._value = value
        self._read: set[str] = set()
        self._children: dict[str, list[Node]] = {}

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        value = self._value[name]
        if isinstance(value, dict) and not is_bytes(value):
            return self._children.setdefault(name, [Node(value)])[0]
        if isinstance(value, list) and value and all(isinstance(part, dict) and not is_bytes(part) for part in value):
            return self._children.setdefault(name, [Node(part) for part in value])
        return value

    def hex(self, name: str) -> bytes:
        return bytes.fromhex(self[name])

    def get(self, name: str, default: Any) -> Any:
        return self[name] if name in self._value else default

    def names(self, name: str) -> tuple[str, ...] | None:
        """A list of names, or None where it is absent."""
        names = self.get(name, None)
        return None if names is None else tuple(names)

    def optional_hex(self, name: str) -> bytes:
        """Bytes that are empty where they are absent."""
        return bytes.fromhex(self.get(name, ""))

    def bytes(self, name: str) -> bytes:
        return to_bytes(self[name])

    def headers(self, name: str = "headers") -> Headers:
        return Headers((key, value) for key, value in self[name])

    def unread(self, prefix: str = "") -> Iterator[str]:
        for name in self._value:
            if name not in self._read and not (not prefix and name in PROSE):
                yield prefix + name
        for name, nodes in self._children.items():
            for node in nodes:
                yield from node.unread(f"{prefix}{name}.")


def is_bytes(value: dict[str, Any]) -> bool:
    return set(value) in ({"text"}, {"hex"}, {"repeat", "count"}, {"sha256_hex", "count"})


def to_bytes(value: dict[str, Any]) -> bytes:
    if "text" in value:
        return str(value["text"]).encode("utf-8")
    if "hex" in value:
        return bytes.fromhex(value["hex"])
    return repeated(value["repeat"]) * int(value["count"])


def repeated(value: Any) -> bytes:
    return bytes([value]) if isinstance(value, int) else bytes.fromhex(value)


def is_same(value: dict[str, Any], data: bytes) -> bool:
    """Whether these are the bytes that a scenario gives, or those of its hash."""
    if "sha256_hex" in value:
        return len(data) == int(value["count"]) and hashlib.sha256(data).hexdigest() == str(value["sha256_hex"])
    return to_bytes(value) == data


def scenarios(folder: str) -> list[tuple[str, str]]:
    """Type and path of every scenario: the folder is listed, no file is named."""
    found = []
    for path in sorted((ROOT / folder).iterdir()):
        value = json.loads(path.read_bytes())
        assert path.suffix == ".json", f"{path.name} is no scenario"
        assert value["name"] == path.stem, f"{path.name} has another name within"
        found.append((value["type"], str(path)))
    return found


def load(path: str) -> Node:
    return Node(json.loads(Path(path).read_bytes()))


def record_of(node: Node, key: str = "key_hex") -> SessionRecord:
    return SessionRecord(
        node["id"], node["wire"], node["client_id"], Secret(node.hex(key)), node["created_ms"], node["expires_ms"]
    )


def open_server(
    record: SessionRecord, method: str, path: str, headers: Headers, body: bytes, now_ms: int, window_ms: int
) -> tuple[ReplayGuard[PlainRequest], list[bytes]]:
    """Opens a request all of which is there, as a server does: it, and the parts of its body behind the first."""
    opening, stream = Exchange.begin(method, path, headers, now_ms, window_ms).session(record)
    first, *others = stream.read(body) + stream.end()
    return opening.open(first), others


def assert_claim(node: Node, claim: Claim, now_ms: int) -> None:
    assert claim.key.hex() == node["key_hex"]
    assert claim.is_sealed is node["sealed"]
    assert claim.stamp_ms == node["stamp_ms"]
    assert claim.expires_ms(now_ms) == node["expires_ms"]


def same_headers(one: Any, other: Any) -> bool:
    """As a set; names have no case."""
    return sorted((k.lower(), v) for k, v in one) == sorted((k.lower(), v) for k, v in other)
