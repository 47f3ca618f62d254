"""The example programs as processes, against a real gateway and against the example service."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from processes import EXAMPLES, SECRET, Gateway, example_server
from sealway.session.native import schedule


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / program), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def line_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


@pytest.mark.parametrize("wire", [1, 2, 3])
@pytest.mark.parametrize("server", ["gateway", "service"])
def test_a_single_purchase_is_sealed_and_answered(gateway: Gateway, service: str, wire: int, server: str) -> None:
    server_url = gateway.url if server == "gateway" else service
    environment = {"SESSION_URL": gateway.url, "SERVER_URL": server_url, "SEALWAY_WIRE": str(wire)}
    line = line_of(run("single.py", "--json", **environment))
    assert (line["program"], line["language"], line["wire"], line["status"]) == ("single", "python", wire, 200)
    assert line["suite"] == ("X25519MLKEM768" if wire == 3 else None)
    assert line["body"]["status"] == "SUCCESS"
    assert line["body"]["message"] == "Purchase of 5000 in scheme AEF completed successfully"
    assert line["session_id"].startswith("S-")
    assert set(line["body"]) == {"status", "transactionId", "schemeCode", "amount", "timestamp", "message"}


def test_a_benchmark_prints_its_figures(gateway: Gateway, service: str) -> None:
    environment = {"SESSION_URL": gateway.url, "SERVER_URL": service, "BENCHMARK_CONCURRENCY": "4"}
    line = line_of(run("benchmark.py", "40", "--json", **environment))
    assert (line["n"], line["failed"], line["concurrency"], line["wire"]) == (40, 0, 4, 3)
    assert set(line["latency_ms"]) == {"min", "mean", "p50", "p90", "p95", "p99", "max"}


def session_keys(gateway: Gateway, id: str, wire: int) -> list[bytes]:
    """The keys of a session, from the authority that has them."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    found = httpx.get(f"{gateway.url}/v1/authority/sessions/{id}", headers=headers).json()
    key = base64.b64decode(found["key"])
    assert (found["id"], found["wire"], len(key)) == (id, wire, 32)
    derivations = (schedule.c2s_of, schedule.s2c_of, schedule.exporter_of, schedule.confirm_key_of)
    return [key, *(make(key) for make in derivations)] if wire == 3 else [key]


def spellings(key: bytes) -> list[str]:
    encoded = base64.b64encode(key).decode().rstrip("=")
    return [key.hex(), encoded, encoded.replace("+", "-").replace("/", "_"), repr(key)[2:-1], str(list(key))[1:-1]]


def keys_like(text: str) -> list[str]:
    """What could be 32 bytes in hexadecimal or base64."""
    hexadecimal = re.findall(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])", text)
    return hexadecimal + re.findall(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{43}(?![A-Za-z0-9+/_-])", text)


@pytest.mark.parametrize("wire", [1, 2, 3])
@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_purchase_is_printed_without_a_key_of_its_session(
    gateway: Gateway, wire: int, arguments: tuple[str, ...]
) -> None:
    done = run("single.py", *arguments, SESSION_URL=gateway.url, SEALWAY_WIRE=str(wire))
    said = done.stdout + done.stderr
    assert done.returncode == 0
    assert ("WARNING: SEALWAY_PINS" in done.stderr) is (wire == 3)
    assert arguments or "Performance Metrics Summary" in done.stdout
    [id] = set(re.findall(r"S-[0-9a-f]{32}", said))
    for key in session_keys(gateway, id, wire):
        assert not [spelling for spelling in spellings(key) if spelling.lower() in said.lower()]
    assert keys_like(said) == []


def test_a_benchmark_and_a_service_print_no_key(gateway: Gateway, tmp_path: Path) -> None:
    with example_server(gateway, tmp_path) as url:
        done = run("benchmark.py", "5", SESSION_URL=gateway.url, SERVER_URL=url)
        assert done.returncode == 0, done.stderr
        refused = httpx.post(url + "/transaction/purchase", content=b"{}")
        assert refused.status_code == 400
    said = done.stdout + done.stderr + (tmp_path / "example-log").read_text()
    assert "listening" in said and "5 calls" in said
    assert keys_like(said) == []
    assert SECRET not in said
    # What is looked for is found where it is.
    assert len(keys_like(f"{bytes(32).hex()} key={base64.b64encode(bytes(32)).decode()}")) == 2


def test_a_single_run_prints_the_times_of_the_agreement_and_the_call(gateway: Gateway) -> None:
    timings = line_of(run("single.py", "--json", SESSION_URL=gateway.url))["timings"]
    assert set(timings) == {"init", "call"}
    for part in timings.values():
        assert set(part) == {"round_trip_ms", "http_ms", "crypto_ms", "server_ms"}
        assert part["round_trip_ms"] >= part["http_ms"] > 0
        assert part["server_ms"]["total"] >= 0
    assert set(timings["init"]["crypto_ms"]) == {"agree"}
    assert set(timings["call"]["crypto_ms"]) == {"seal", "open"}


def test_an_empty_variable_counts_as_unset(gateway: Gateway, tmp_path: Path) -> None:
    names = ("SERVER_URL", "SEALWAY_PINS", "SEALWAY_WIRE", "SEALWAY_CLIENT_ID", "BENCHMARK_CONCURRENCY")
    empty = dict.fromkeys(names, "")
    line = line_of(run("single.py", "--json", **empty, SESSION_URL=gateway.url))
    assert (line["wire"], line["status"]) == (3, 200)
    line = line_of(run("benchmark.py", "1", "--json", **empty, SESSION_URL=gateway.url))
    assert (line["wire"], line["concurrency"], line["failed"]) == (3, 1, 0)
    done = run("server.py", AUTHORITY_SECRET_FILE="")
    assert (done.returncode, "AUTHORITY_SECRET_FILE" in done.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        # PORT names the port that is taken; the other one is empty, and the program came as far as that.
        port = str(taken.getsockname()[1])
        secret = tmp_path / "secret"
        secret.write_text(SECRET)
        done = run("server.py", AUTHORITY_SECRET_FILE=str(secret), AUTHORITY_URL="", PORT=port)
    assert (done.returncode, f"PORT {port}" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("program", "arguments", "environment"),
    [
        ("single.py", ("--loud",), {}),
        ("single.py", (), {"SEALWAY_WIRE": "4"}),
        ("single.py", (), {"SEALWAY_PINS": "nothing"}),
        ("single.py", (), {"SESSION_URL": "ftp://localhost"}),
        ("benchmark.py", ("0",), {}),
        ("benchmark.py", ("ten",), {}),
        ("benchmark.py", ("1",), {"BENCHMARK_CONCURRENCY": "0"}),
        ("benchmark.py", ("1",), {"BENCHMARK_CONCURRENCY": "1001"}),
        ("benchmark.py", ("1",), {"BENCHMARK_CONCURRENCY": "0000000019999"}),
        ("benchmark.py", ("1",), {"BENCHMARK_CONCURRENCY": "many"}),
        ("server.py", (), {"AUTHORITY_SECRET_FILE": "/nowhere"}),
        ("server.py", (), {"PORT": "70000"}),
    ],
)
def test_a_wrong_argument_or_variable_is_named_with_exit_code_2(
    program: str, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    done = run(program, *arguments, **environment)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    named = next(iter(environment), "usage" if program == "single.py" else "N")
    assert named in done.stderr


def test_an_unreachable_service_fails_with_exit_code_1() -> None:
    done = run("single.py", "--json", SESSION_URL="http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "UnreachableError" in done.stderr
