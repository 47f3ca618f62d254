"""The rule sets, targets and decisions of `vectors/routes`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import anyio
import pytest

from sealway.asgi import Route, SealedApp
from sealway.errors import UsageError
from sealway.server import MemoryStore
from sealway.server.route import Rules

VECTORS = [
    json.loads(path.read_text("utf-8"))
    for path in (Path(__file__).resolve().parents[3] / "vectors" / "routes").iterdir()
]


def can_be_said(vector: dict[str, Any]) -> bool:
    """Whether routes can say the rules: whole paths and prefixes differ in the slash at their ends."""
    rules = vector["rules"]
    return all(rule.get("prefix", "/").endswith("/") and not rule.get("exact", "").endswith("/") for rule in rules)


def of_type(name: str) -> list[Any]:
    return [pytest.param(each, id=each["name"]) for each in VECTORS if each["type"] == name and can_be_said(each)]


def routes_of(vector: dict[str, Any]) -> list[Route]:
    return [Route(rule.get("exact") or rule["prefix"], rule["sealed"]) for rule in vector["rules"]]


async def decision(routes: list[Route], target: str) -> str:
    """From what is done with a plain request, and with one that carries a header of a seal."""

    async def status_of(headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
        raw, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": "POST",
            # As uvicorn has it.
            "path": unquote_to_bytes(raw).decode("utf-8", "replace"),
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        sent: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            sent.append({"status": 200, "body": b""})

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await SealedApp(app, store=MemoryStore(), routes=routes)(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)

    plain, _ = await status_of([])
    compat, _ = await status_of([(b"x-kid", b"x")])
    native, body = await status_of([(b"x-seal", b"3")])
    if plain == 200:
        return "plain" if (compat, native) == (200, 200) else "optional"
    # A disguise is refused alike whatever it carries; of a sealed path a seal of wire 3 has a problem of its own.
    return "refused" if b"CRYPTO_ERROR" in body else "sealed"


@pytest.mark.parametrize("vector", of_type("routes"))
def test_each_target_has_the_decision_of_its_vector(vector: dict[str, Any]) -> None:
    async def run() -> None:
        routes = routes_of(vector)
        wrong = []
        for case in vector["cases"]:
            made = await decision(routes, case["target"])
            if made != case["decision"]:
                wrong.append((case["target"], made, case["decision"]))
        assert wrong == []

    anyio.run(run)


@pytest.mark.parametrize("vector", of_type("routes-rejected"))
def test_a_wrong_rule_is_an_error_that_names_it(vector: dict[str, Any]) -> None:
    routes = routes_of(vector)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    SealedApp(app, store=MemoryStore(), routes=routes[: vector["rule"]])
    with pytest.raises(UsageError) as caught:
        SealedApp(app, store=MemoryStore(), routes=routes)
    assert repr(routes[vector["rule"]].path) in str(caught.value)
    assert ("never reached" in str(caught.value)) is (vector["reason"] == "unreachable")


def test_all_vectors_are_played() -> None:
    assert {each["type"] for each in VECTORS} == {"routes", "routes-rejected"}
    sets = [each for each in VECTORS if each["type"] == "routes"]
    assert len(sets) - len(of_type("routes")) <= 2
    assert sum(len(each["cases"]) for each in sets if can_be_said(each)) > 300


@pytest.mark.parametrize("raw_path", [b"/mounted/api/x", b"/mounted/%61pi/x"])
def test_a_mounted_application_is_routed_by_its_own_path(raw_path: bytes) -> None:
    rules = Rules([Route("/api/", "required"), Route("/", "off")])
    assert rules.find("/api/x", raw_path) == Route("/api/", "required")
    assert rules.find("/x", b"/mounted/x") == Route("/", "off")
    assert rules.find("/x", b"/mounted/%2e%2e/api/x") is None
