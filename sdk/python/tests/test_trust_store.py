"""Files of trust that several processes share."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sealway import FirstUse, UsageError
from sealway.client import trust_store
from sealway.client.trust import Keyring
from sealway.client.trust_store import FileTrustStore
from sealway.session.identity import key_id
from sealway.wire.encoding import encode_base64
from trust_store_process import pair

ORIGIN = "https://shop.test:443"


class Process:
    """One of `trust_store_process.py`, which has read the file."""

    def __init__(self, what: str, file: Path) -> None:
        command = [sys.executable, str(Path(__file__).with_name("trust_store_process.py")), what, str(file), ORIGIN]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, n: int) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        return self._line()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=30)


def id_of(n: int) -> str:
    return key_id(pair(n).public)


def test_a_key_that_another_process_stored_first_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "met.json"
    with Process("first-use", file) as one, Process("first-use", file) as other:
        assert one.ask(1) == "kept"
        assert other.ask(2) == "key_untrusted"
        assert list(json.loads(file.read_text())[ORIGIN]) == [id_of(1)]
        # It keeps to the pin that it found.
        assert other.ask(1) == "kept"
        assert one.ask(1) == "kept"


def test_a_key_off_the_curve_is_not_kept(tmp_path: Path) -> None:
    store = FileTrustStore(tmp_path / "met.json")
    own = pair(1).public
    off = pair(2).public[:-1] + bytes([pair(2).public[-1] ^ 1])
    listed = [
        {
            "key_id": key_id(public),
            "alg": "ES256",
            "public_key": encode_base64(public),
            "not_before_ms": 0,
            "not_after_ms": 2,
        }
        for public in (own, off)
    ]
    data = json.dumps({"issued_ms": 1, "expires_ms": 2, "keys": listed}).encode()
    answer: Any = SimpleNamespace(key_id=key_id(own), key_ids=[key_id(own), key_id(off)])
    ring = Keyring(FirstUse(store), ORIGIN)
    assert ring.wants_set(answer)
    ring.remember(answer, own, data)
    # Fetching the set again would change nothing.
    assert not ring.wants_set(answer)
    assert Keyring(FirstUse(store), ORIGIN).pinned_ids() == (key_id(own),)


def test_a_newer_key_set_of_another_process_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "root.json"
    with Process("root", file) as one, Process("root", file) as other:
        assert other.ask(5) == "kept"
        assert one.ask(7) == "kept"
        assert other.ask(6) == "key_untrusted"
        assert other.ask(5) == "key_untrusted"
        assert json.loads(file.read_text()) == {ORIGIN: {"issued_ms": 7}}
        assert other.ask(8) == "kept"


def test_concurrent_processes_lose_no_entry(tmp_path: Path) -> None:
    file = tmp_path / "met.json"
    script = str(Path(__file__).with_name("trust_store_process.py"))
    started = [
        subprocess.Popen([sys.executable, script, "many", str(file), f"https://{name}.test:", "40"]) for name in "abc"
    ]
    assert [each.wait(120) for each in started] == [0, 0, 0]
    assert len(json.loads(file.read_text())) == 120


def test_a_system_without_file_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(trust_store, "_lock", fails)
    with pytest.warns(RuntimeWarning, match=r"met\.json cannot be locked here .*Operation not supported"):
        FileTrustStore(tmp_path / "met.json").change(ORIGIN, lambda _: {"a": 1})
    assert FileTrustStore(tmp_path / "met.json").read(ORIGIN) == {"a": 1}


@pytest.mark.parametrize("content", ["{", "[]", '{"https://shop.test:443": 1}', '{"other": []}'])
def test_a_damaged_file_is_named_and_not_changed(content: str, tmp_path: Path) -> None:
    file = tmp_path / "met.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"met\.json is not a trust store"):
        Keyring(FirstUse(FileTrustStore(file)), ORIGIN)
    with pytest.raises(UsageError):
        FileTrustStore(file).change(ORIGIN, lambda _: {"a": 1})
    assert file.read_text() == content


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"met\.json cannot be written \(No such file or directory\)"):
        FileTrustStore(tmp_path / "none" / "met.json").change(ORIGIN, lambda _: {"a": 1})
