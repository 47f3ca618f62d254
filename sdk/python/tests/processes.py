"""Starts what the tests talk to: the server `sealway`, and the examples. Each is stopped by its own process id."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SDK = Path(__file__).resolve().parents[1]
EXAMPLES = SDK / "examples"
START_SEC = 30.0

CONFIG = """
listeners:
  - address: "127.0.0.1:0"
routes:
  - match: { path_prefix: ["/session/", "/v1/session/", "/v3/"], path: ["/.well-known/sealway-keys", "/health", "/ready"] }
    sessions: {}
  - match: { path_prefix: "/v1/authority/" }
    sessions: {}
  - match: { path_prefix: "/transaction/" }
    sealed: required
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
sessions:
  authority_secret_file: "peers.secret"
  anonymous_paths: ["/transaction/purchase"]
  identity: { IDENTITY }
telemetry: { log_format: json, log_level: info }
"""
SECRET = "a secret of the tests alone".replace(" ", "-")


def binary() -> str:
    """The server, which has to be there: a test that skips tells nobody anything."""
    found = os.environ.get("SEALWAY_BIN") or str(SDK.parents[1] / "target" / "debug" / "sealway")
    if not os.access(found, os.X_OK):
        raise AssertionError(f"{found} is no program; build it (cargo build -p sealway-cli) or set SEALWAY_BIN")
    return found


def redis_binary() -> str:
    """The server of the Debian package `redis-server`, which has to be there as well."""
    found = shutil.which("redis-server")
    if found is None:
        raise AssertionError("redis-server is missing: apt-get install redis-server")
    return found


@dataclass
class Gateway:
    url: str
    secret_file: Path
    process: subprocess.Popen[bytes]


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@contextmanager
def gateway(folder: Path, sessions: str = "", identity: str = "allow_generated: true") -> Iterator[Gateway]:
    """`sealway serve` on a free port. `sessions` are more lines of that section, `identity` is what stands in it."""
    config = CONFIG.replace("IDENTITY", identity).replace("sessions:\n  authority", f"sessions:\n{sessions}  authority")
    (folder / "serve.yaml").write_text(config)
    secret = folder / "peers.secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [binary(), "serve", "--config", "serve.yaml"], cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
    with stopped(process):
        url = wait_for(log, process, rb'"addresses":"\[127\.0\.0\.1:([0-9]+)\]"')
        yield Gateway(f"http://127.0.0.1:{url}", secret, process)


def wait_for(log: Path, process: subprocess.Popen[bytes], pattern: bytes) -> str:
    until = time.monotonic() + START_SEC
    while time.monotonic() < until:
        found = re.search(pattern, log.read_bytes())
        if found:
            return found[1].decode()
        assert process.poll() is None, f"it ended: {log.read_text()[-2000:]}"
        time.sleep(0.05)
    raise AssertionError(f"it did not start: {log.read_text()[-2000:]}")


def identity(*arguments: str) -> str:
    """What `sealway identity` prints."""
    done = subprocess.run([binary(), "identity", *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Redis:
    port: int
    process: subprocess.Popen[bytes]


def free_port() -> int:
    """A free port below those that the kernel gives to connections: no connection of another test can take it."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


@contextmanager
def redis(folder: Path, tls: Sequence[str] = ()) -> Iterator[Redis]:
    """`redis-server` on a free port, which keeps nothing on the disk. With settings of TLS the port is TLS's."""
    port = free_port()
    log = folder / "redis-log"
    ports = ["--port", "0", "--tls-port", str(port), *tls] if tls else ["--port", str(port)]
    settings = [*ports, "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--appendonly", "no"]
    with log.open("wb") as out:
        process = subprocess.Popen([redis_binary(), *settings], stdout=out, stderr=subprocess.STDOUT)
    with stopped(process):
        wait_for(log, process, rb"(Ready to accept connections)")
        try:
            yield Redis(port, process)
        finally:
            process.send_signal(signal.SIGCONT)


@contextmanager
def example_server(authority: Gateway, folder: Path) -> Iterator[str]:
    """The purchase service of the examples."""
    log = folder / "example-log"
    environment = {
        **os.environ,
        "PORT": "0",
        "AUTHORITY_URL": authority.url,
        "AUTHORITY_SECRET_FILE": str(authority.secret_file),
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "server.py")], env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    with stopped(process):
        yield wait_for(log, process, rb"listening (http://127\.0\.0\.1:[0-9]+)\n")
