"""The conformance driver as a process, playing both sides against itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sealway.crypto.curve import KeyPair

DRIVER = Path(__file__).resolve().parents[1] / "driver.py"
NOW_MS = 1_750_000_000_000
IDENTITY = KeyPair(bytes(31) + b"\7")
IDENTITY_HEX = (bytes(31) + b"\7").hex()
SUITES = ["X25519MLKEM768", "SecP256r1MLKEM768", "P256"]


class Process:
    def __init__(self) -> None:
        self.child = subprocess.Popen([sys.executable, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, op: str, **members: Any) -> Any:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(json.dumps({"op": op, **members}).encode() + b"\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def ok(self, op: str, **members: Any) -> Any:
        return self.ask(op, **members)["ok"]


@pytest.fixture
def driver() -> Iterator[Process]:
    process = Process()
    with process.child:
        yield process
        assert process.child.stdin is not None
        process.child.stdin.close()
        assert process.child.wait(10) == 0


def agree(driver: Process, wire: int, path: str, suite: str | None) -> tuple[Any, Any]:
    more: dict[str, Any] = (
        {"suite": suite, "suites": [suite], "trusted_hex": [IDENTITY.public.hex()]} if wire == 3 else {}
    )
    init = driver.ok("client.init", wire=wire, path=path, client_id="c", ttl_sec=None, now_ms=NOW_MS, **more)
    server = {"suites": SUITES, "identity_hex": IDENTITY_HEX} if wire == 3 else {}
    answer = driver.ok(
        "server.init", path=path, headers=init["headers"], body_hex=init["body_hex"], now_ms=NOW_MS, **server
    )
    finished = driver.ok(
        "client.finish",
        handle=init["handle"],
        status=answer["status"],
        headers=answer["headers"],
        body_hex=answer["body_hex"],
        now_ms=NOW_MS,
    )
    assert finished["session_id"] == answer["session"]["id"]
    return finished["session"], answer["session"]


CASES = [
    (1, "/session/init", None),
    (1, "/session/init/anon", None),
    (2, "/session/init", None),
    (2, "/v1/session/init", None),
    *((3, "/v3/sessions", suite) for suite in SUITES),
]


@pytest.mark.parametrize(("wire", "path", "suite"), CASES)
def test_both_sides_of_the_driver_agree_and_call(driver: Process, wire: int, path: str, suite: str | None) -> None:
    session, record = agree(driver, wire, path, suite)
    inner = [["x-tried", "1"]] if wire == 3 else []
    sealed = driver.ok(
        "client.seal", session=session, method="POST", target="/a?b=c", headers=inner, body_hex="00ff", now_ms=NOW_MS
    )
    message = {"headers": sealed["headers"], "body_hex": sealed["body_hex"]}
    asked = {"session": record, "method": "POST", "target": "/a?b=c", "now_ms": NOW_MS}
    opened = driver.ok("server.open", **asked, **message)
    assert (opened["body_hex"], opened["headers"]) == ("00ff", inner)
    answer = driver.ok(
        "server.seal", call=opened["call"], status=200, headers=inner, body_hex="0102", now_ms=NOW_MS + 1
    )
    got = driver.ok("client.open", call=sealed["call"], now_ms=NOW_MS + 2, **answer)
    assert (got["body_hex"], got["headers"]) == ("0102", inner)
    assert "fault" in driver.ask("client.open", call=sealed["call"], now_ms=NOW_MS + 2, **answer)
    broken = {**message, "body_hex": sealed["body_hex"][:-2] + ("00" if sealed["body_hex"][-2:] != "00" else "01")}
    wrong = driver.ask("server.open", **asked, **broken)
    assert wrong["error"] in ("unsealable", "base64_invalid")
    late = driver.ask("server.open", **{**asked, "now_ms": NOW_MS + 300_001}, **message)
    assert late["error"] in ("timestamp_outside_window", "session_expired")


def test_a_renewal_gives_a_session_that_works(driver: Process) -> None:
    session, record = agree(driver, 3, "/v3/sessions", "P256")
    renewal = driver.ok("client.renew", session=session, suite="P256", suites=["P256"], now_ms=NOW_MS)
    answer = driver.ok(
        "server.renew",
        session=record,
        body_hex=renewal["body_hex"],
        now_ms=NOW_MS,
        suites=SUITES,
        identity_hex=IDENTITY_HEX,
    )
    finished = driver.ok(
        "client.finish",
        handle=renewal["handle"],
        status=answer["status"],
        headers=[],
        body_hex=answer["body_hex"],
        now_ms=NOW_MS,
    )
    assert finished["session_id"] == answer["session"]["id"] != record["id"]
    asked = {"method": "GET", "target": "/", "now_ms": NOW_MS}
    sealed = driver.ok("client.seal", session=finished["session"], headers=[], body_hex="", **asked)
    assert sealed["body_hex"] == ""
    driver.ok("server.open", session=answer["session"], headers=sealed["headers"], body_hex=sealed["body_hex"], **asked)


def test_an_unknown_operation_is_a_fault(driver: Process) -> None:
    assert driver.ok("hello")["language"] == "python"
    assert driver.ask("dance") == {"fault": "no such op"}
    assert "fault" in driver.ask("client.seal")
    assert driver.ok("reset") == {}
