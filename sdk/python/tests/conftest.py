"""Servers that are started once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import processes
import vectors
from hostile import Hostile
from serving import served


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[processes.Gateway]:
    """A real `sealway serve`: authority, gateway and demo service."""
    with processes.gateway(tmp_path_factory.mktemp("gateway")) as started:
        yield started


@pytest.fixture(scope="session")
def service(gateway: processes.Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The example service in Python, which asks that authority."""
    with processes.example_server(gateway, tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Hostile, str]]:
    app = Hostile()
    with served(app) as url:
        yield app, url


@pytest.fixture
def hostile(started: tuple[Hostile, str]) -> Hostile:
    """The service that misbehaves, in order until a test says otherwise."""
    app = started[0]
    app.begin()
    return app


@pytest.fixture
def url(started: tuple[Hostile, str]) -> str:
    """Where it is."""
    return started[1]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many scenarios ran: a folder that was passed over would show."""
    for line in vectors.COUNTED:
        terminalreporter.write_line(line)
