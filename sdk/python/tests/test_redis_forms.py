"""What a Redis holds, without one: values of sessions, key-encryption keys, epochs, the script."""

from __future__ import annotations

import base64
import struct
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealway.crypto.aead import Aes256Gcm
from sealway.errors import ProtocolError, StoreUnavailable, UsageError
from sealway.server.redis import KeyRing, RedisStore, kek
from sealway.session import epoch
from sealway.session.claim import make_claim
from sealway.session.epoch import Answer, claim_arguments, epoch_of
from sealway.session.stored import decode_stored
from vectors import COUNTED, Node, load, scenarios

SPEC = Path(__file__).resolve().parents[3] / "spec" / "redis-store.md"
ID = "S-" + "0" * 32
KEY = bytes(range(32))
KEK = Aes256Gcm(bytes(32))


def text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack(">H", len(value.encode())) + value.encode()


def row(version: int = 3, wire: int = 3, auth: int = 1, **more: Any) -> bytes:
    given: dict[str, Any] = {
        "client_id": "tests",
        "subject": "ann é",
        "tenant": "acme",
        "lineage": None,
        "kek_id": "k",
        "id": ID,
        **more,
    }
    iv = bytes(12)
    head = struct.pack(">QBBQ", 2_000, version, wire, 1_000) + text(given["client_id"]) + text(given["subject"])
    if version >= 2:
        head += text(given["tenant"]) + bytes([auth])
    if version >= 3:
        head += text(given["lineage"])
    aad = b"sealway session row\0" + text(given["id"]) + head if version >= 3 else given["id"].encode()
    return head + text(given["kek_id"]) + iv + KEK.seal(iv, KEY, aad)


def find(id: str) -> Aes256Gcm | None:
    return KEK if id == "k" else None


def test_a_stored_session_survives_a_round_trip() -> None:
    row_ = decode_stored(ID, row(), find)
    assert row_ is not None
    found = row_.record
    assert (found.id, found.wire, found.client_id, bytes(found.key.reveal())) == (ID, 3, "tests", KEY)
    assert (found.created_ms, found.expires_ms) == (1_000, 2_000)
    assert (found.subject, found.tenant, found.auth) == ("ann é", "acme", "bearer")
    assert decode_stored(ID, b"x", find) is None


def _session_of(s: Node, given: Any) -> None:
    assert given is not None
    record, told = given.record, s["session"]
    found = {name: getattr(record, name) for name in ("id", "wire", "client_id", "subject", "tenant", "auth")}
    found |= {"created_ms": record.created_ms, "expires_ms": record.expires_ms, "lineage": given.lineage}
    assert found == {name: told[name] for name in found}
    assert record.key.reveal() == told.hex("key_hex")


def test_every_vector_of_rows_has_its_outcome() -> None:
    failed, ran = [], Counter[str]()
    for kind, path in scenarios("store"):
        s = load(path)
        keks = {key["id"]: Aes256Gcm(key.hex("key_hex")) for key in s["keks"]}
        value = s.hex("value_hex")
        try:
            if kind == "row":
                _session_of(s, decode_stored(s["session"]["id"], value, keks.get))
                # How it was wrapped is the writer's; a reader sees that it unwraps.
                assert all(s[member] for member in ("kek_id", "iv_hex", "aad_hex"))
            elif kind == "row-old":
                assert decode_stored(s["session_id"], value, keks.get) is None
                _session_of(s, decode_stored(s["session_id"], value, keks.get, s["accept_until_ms"]))
            elif s["reason"] == "unauthenticated":
                assert decode_stored(s["session_id"], value, keks.get, s["accept_until_ms"]) is None
            else:
                with pytest.raises(ValueError, match=r"[a-z]"):
                    decode_stored(s["session_id"], value, keks.get, s["accept_until_ms"])
            assert not list(s.unread())
        except Exception as error:
            failed.append(f"{path}: {type(error).__name__} {error}")
        ran[kind] += 1
    assert not failed, "\n".join(failed)
    assert set(ran) == {"row", "row-old", "row-refused"}
    COUNTED.append(f"vectors/store: {sum(ran.values())} ran, none skipped")


@pytest.mark.parametrize(("first", "is_live"), [(None, True), (b"y", True), (b"x", False)])
def test_a_session_is_revoked_by_the_first_one_of_its_chain_of_renewals(
    first: bytes | None, is_live: bool, monkeypatch: Any
) -> None:
    lineage = "S-" + "1" * 32
    rows = {f"sealway:s:{ID}": row(lineage=lineage), f"sealway:s:{lineage}": first}

    async def get(self: RedisStore, key: str) -> bytes | None:
        return rows[key]

    monkeypatch.setattr(RedisStore, "_get", get)
    store = RedisStore("redis://127.0.0.1:1", KeyRing(text="k " + base64.b64encode(bytes(32)).decode()))

    async def run() -> None:
        assert (await store.session(ID) is not None) is is_live

    anyio.run(run)


BROKEN = [
    b"", b"y", row(4), row(0), row(lineage="S-1"), row(wire=0), row(wire=4), row(auth=4), row(kek_id="other"),
    row(kek_id=None),
    row(client_id=None), row(client_id="a|b"), row(id="S-" + "1" * 32), row()[:-1], row() + b"0", row()[:30],
    row().replace("ann é".encode(), b"ann \xff\xff"),
]  # fmt: skip


@pytest.mark.parametrize("value", BROKEN)
def test_a_malformed_value_is_a_fault(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        decode_stored(ID, value, find)


@settings(max_examples=200, deadline=None, database=None)
@given(st.binary(max_size=200), st.integers(0, 150), st.booleans())
def test_any_value_is_a_session_or_a_fault(data: bytes, at: int, is_spliced: bool) -> None:
    with suppress(ValueError):
        decode_stored(ID, row()[:at] + data if is_spliced else data, find)


def line(id: str, byte: int) -> str:
    return f"{id} {base64.b64encode(bytes([byte]) * 32).decode()}\n"


def test_a_key_file_is_read_again_for_an_unknown_id_at_most_once_a_second(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "sessions.kek"
    file.write_text(line("a", 1))
    monkeypatch.setattr(kek, "_AGAIN_SEC", 0.2)
    ring = KeyRing(file=file)
    assert "AQEB" not in repr(ring)
    file.write_text(line("b", 2) + line("a", 1))
    assert ring.find("b") is None  # read a moment ago
    time.sleep(0.25)
    assert ring.find("b") is not None
    # Another key under a known id, a broken line: what is known stays.
    for changed in (line("c", 3) + line("a", 9), "c nothing", ""):
        file.write_text(changed)
        time.sleep(0.25)
        assert ring.find("c") is None
        assert ring.find("a") is not None


@pytest.mark.parametrize(
    "wrong", ["", "a", "a AQEB", line("a", 1) * 2, line("a" * 33, 1), line("é", 1), line("a", 1).replace(" ", ""),
              "".join(line(f"k{n}", n) for n in range(17))]
)  # fmt: skip
def test_malformed_keys_are_rejected_and_not_printed(wrong: str) -> None:
    with pytest.raises(UsageError) as error:
        KeyRing(text=wrong)
    assert "AQEB" not in str(error.value)
    with pytest.raises(UsageError):
        KeyRing()


def test_the_script_is_that_of_the_spec() -> None:
    found = SPEC.read_text().split("```lua\n")[1].split("```")[0]
    assert found == epoch._SCRIPT
    assert found.count("GENERATION") == 2


NODE = "b" * 40
MEMBERS: list[Any] = [b"a" * 32, b"1", b"7", NODE.encode()]
INFO = f"# Server\r\nredis_mode:standalone\r\n# Replication\r\nrole:master\r\nmaster_replid:{NODE}\r\n".encode()


def test_an_epoch_is_valid_only_on_the_server_that_began_it() -> None:
    assert epoch_of(MEMBERS, INFO).made_ms == 7
    for members, info in (
        ([None, *MEMBERS[1:]], INFO),
        ([b"-" + b"a" * 31, *MEMBERS[1:]], INFO),
        ([*MEMBERS[:3], None], INFO),
        ([*MEMBERS[:3], b"c" * 40], INFO),
        (MEMBERS, INFO.replace(b"master\r", b"slave\r")),
        (MEMBERS, INFO.replace(b"standalone", b"cluster")),
        (MEMBERS, b""),
        (None, INFO),
    ):
        with pytest.raises(StoreUnavailable):
            epoch_of(members, info)


def test_a_claim_is_kept_for_twice_the_window_at_least() -> None:
    claim = make_claim(3, ID, "nonce-of-the-tests", 1_000_000, 300_000)
    assert claim_arguments(claim, b"t", 0) == (b"t", 600_001, 1_000_000, 1_300_001)
    assert claim_arguments(claim, b"t", 900_000) == (b"t", 900_001, 1_000_000, 1_450_001)


@pytest.mark.parametrize(
    ("state", "time_ms", "floor_ms", "found"),
    [
        ("FRESH", 999_000, 0, 0), ("AHEAD", 999_000, 0, 500), ("AHEAD", 997_500, 0, 2000), ("AHEAD", 997_499, 0, None),
        ("REPLAYED", 999_000, 0, "replayed"), ("FORGOTTEN", 999_000, 0, "replayed"),
        ("FLOOR", 999_000, 998_999, "replayed"), ("FLOOR", 999_000, 999_000, None), ("OK", 999_000, 0, None),
        ("EPOCH", 999_000, 0, None), ("CLOCK", 999_000, 0, None), ("", 999_000, 0, None),
    ],
)  # fmt: skip
def test_each_answer_of_the_script_has_the_meaning_of_the_spec(
    state: str, time_ms: int, floor_ms: int, found: Any
) -> None:
    claim = make_claim(3, ID, "nonce-of-the-tests", 1_000_000, 300_000)
    answer = Answer.of([state.encode(), time_ms, floor_ms])
    if isinstance(found, int):
        assert answer.wait_ms(claim) == found
        return
    with pytest.raises(ProtocolError if found else StoreUnavailable):
        answer.wait_ms(claim)
    with pytest.raises(StoreUnavailable):
        Answer.of([state.encode(), time_ms])
