"""The example programs as processes, against a real gateway and against the example service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from processes import EXAMPLES, Gateway


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


def test_a_benchmark_tells_its_figures(gateway: Gateway, service: str) -> None:
    environment = {"SESSION_URL": gateway.url, "SERVER_URL": service, "BENCHMARK_CONCURRENCY": "4"}
    line = line_of(run("benchmark.py", "40", "--json", **environment))
    assert (line["n"], line["failed"], line["concurrency"], line["wire"]) == (40, 0, 4, 3)
    assert set(line["latency_ms"]) == {"min", "mean", "p50", "p90", "p95", "p99", "max"}


def test_a_narrated_run_shows_no_key(gateway: Gateway) -> None:
    done = run("single.py", SESSION_URL=gateway.url)
    assert done.returncode == 0
    assert "Performance Metrics Summary" in done.stdout
    assert "WARNING: SEALWAY_PINS" in done.stderr


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
        ("server.py", (), {"AUTHORITY_SECRET_FILE": "/nowhere"}),
        ("server.py", (), {"PORT": "70000"}),
    ],
)
def test_what_is_wrong_is_named_with_exit_code_2(
    program: str, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    done = run(program, *arguments, **environment)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    named = next(iter(environment), "usage" if program == "single.py" else "N")
    assert named in done.stderr


def test_a_service_that_is_not_there_is_a_failure_with_exit_code_1() -> None:
    done = run("single.py", "--json", SESSION_URL="http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "ConnectError" in done.stderr
