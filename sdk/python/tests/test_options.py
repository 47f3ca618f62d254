"""Options that are absent or wrong: one error of the SDK's own, which names the option; nothing raw."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sealway
from sealway.asgi import Route, SealedApp
from sealway.server import AuthorityStore, MemoryStore
from sealway.server.redis import KeyRing, RedisStore

PIN = "00" * 16
URL = "https://shop.test"
KEK = f"k {'A' * 43}="
TRUST = sealway.FirstUse()
NUMBERS = [-1, "1", "", {}, math.nan, math.inf, True]
TEXTS = [1, {}, b"x", []]
FUNCTIONS = [1, "", "x", {}]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers nothing."""


def options(**more: Any) -> Any:
    return sealway.Options(**{"trust": TRUST, **more})


def transport(kind: Any, **more: Any) -> Any:
    given = {"server_url": URL, "options": options(), **more}
    return kind(given.pop("server_url"), given.pop("options"), **given)


def redis(**more: Any) -> Any:
    given = {"url": "redis://127.0.0.1", "keys": KeyRing(text=KEK), **more}
    return RedisStore(given.pop("url"), given.pop("keys"), **given)


def sealed(**more: Any) -> Any:
    given = {"app": app, "store": MemoryStore(), **more}
    return SealedApp(given.pop("app"), **given)


def authority(**more: Any) -> Any:
    return AuthorityStore(**{"url": URL, "secret": "s" * 16, **more})


WRONG_URLS = [None, "", *TEXTS, "shop.test", "ftp://shop.test", "https://shop.test/path", "https://[", "https://a:b"]
Make = Callable[..., Any]
CASES: list[tuple[str, Make, dict[str, list[Any]]]] = [
    (
        "options",
        options,
        {
            "trust": [None, 1, "", "x", {}, [PIN]],
            "wire": [None, 0, 4, "3", True],
            "client_id": [None, "", *TEXTS, "a|b", "x" * 257],
            "suites": [None, "", "P256", 1, [], ["P256"], (None,)],
            "ttl_sec": [*NUMBERS, 1.5],
            "authorization": ["", *TEXTS],
            "prove": FUNCTIONS,
            "deadline_sec": [0, *NUMBERS],
            "request_max": [None, *NUMBERS, 1.5],
            "answer_max": [0, *NUMBERS, 1.5],
            "window_ms": [None, 0, *NUMBERS],
        },
    ),
    ("pins", lambda pins: sealway.Pins(pins), {"pins": [None, 1, "", PIN, [], [None], [1], [""], ["x"], [PIN] * 0]}),
    ("root", lambda public_key: sealway.Root(public_key), {"public_key": [None, "", "x", *TEXTS]}),
    ("root", lambda state: sealway.Root("x", state), {"state": ["", "root.json", 1]}),
    ("first use", sealway.FirstUse, {"file": ["", "met.json", 1]}),
    (
        "transport",
        lambda **more: transport(sealway.Transport, **more),
        {
            "server_url": WRONG_URLS,
            "session_url": WRONG_URLS[1:],
            "options": [None, 1, "", {}],
            "inner": [1, "", {}],
        },
    ),
    (
        "async transport",
        lambda **more: transport(sealway.AsyncTransport, **more),
        {"server_url": WRONG_URLS, "session_url": WRONG_URLS[1:], "options": [None, {}], "inner": [1, "", {}]},
    ),
    (
        "middleware",
        sealed,
        {
            "app": [None, 1, ""],
            "store": [None, 1, "", {}],
            "routes": [None, 1, "/x", [1], ["/x"], [None]],
            "anonymous_paths": [None, 1, "/x", [1]],
            "allow": FUNCTIONS,
            "window_ms": [None, 0, *NUMBERS],
            "buffered_bytes_max": [None, 0, *NUMBERS, (1 << 20) - 1, 2.0**21],
            "now_ms": [None, *FUNCTIONS],
        },
    ),
    (
        "route",
        lambda **more: Route(**{"path": "/x", **more}),
        {
            "path": [None, *TEXTS],
            "sealed": [None, "", "on", 1],
            "body_max": [None, *NUMBERS],
            "answer_max": [None, *NUMBERS],
            "content_type": [None, "", *TEXTS],
        },
    ),
    (
        "memory",
        MemoryStore,
        {
            "sessions_max": [None, 0, *NUMBERS],
            "claims_max": [None, 0, *NUMBERS],
            "window_ms": [None, 0, *NUMBERS],
            "now_ms": [None, *FUNCTIONS],
        },
    ),
    (
        "authority",
        authority,
        {
            "url": [*WRONG_URLS, "http://shop.test"],
            "secret": [None, "", *TEXTS, "short"],
            "deadline_sec": [None, 0, *NUMBERS],
        },
    ),
    (
        "redis",
        redis,
        {
            "url": [None, "", *TEXTS],
            "keys": [None, 1, "k"],
            "prefix": [None, "", *TEXTS],
            "ca_file": ["ca.pem", 1],
            "username": ["", *TEXTS],
            "password": ["", *TEXTS],
            "window_ms": [None, 0, *NUMBERS],
            "nonce_lifetime_ms": [None, *NUMBERS],
            "deadline_sec": [None, 0, *NUMBERS],
            "accept_unauthenticated_rows_until": [1, "2030-01-01"],
        },
    ),
    ("key ring", lambda file: KeyRing(file=file), {"file": [None, "", "keks", 1]}),
    ("key ring", lambda text: KeyRing(text=text), {"text": [None, "", *TEXTS]}),
]


@pytest.mark.parametrize(
    ("make", "name", "values"),
    [pytest.param(make, name, values, id=f"{of}-{name}") for of, make, more in CASES for name, values in more.items()],
)
def test_an_option_that_is_absent_or_wrong_is_named(make: Make, name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(sealway.UsageError) as error:
            make(**{name: value})
        assert name in str(error.value), value
        assert error.value.blame == "caller"


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    options(ttl_sec=0, deadline_sec=None, answer_max=None, authorization="Bearer x", prove=lambda _: "x")
    sealway.Pins(pin for pin in [PIN])
    transport(sealway.Transport, session_url="https://other.test:8443")
    sealed(routes=iter([Route("/x")]), anonymous_paths={"/y"}, allow=lambda *_: True)
    sealway.FirstUse(tmp_path / "met.json")


def test_nothing_of_a_url_is_shown() -> None:
    with pytest.raises(sealway.UsageError) as error:
        transport(sealway.Transport, server_url="ftp://user:hidden@shop.test/?token=hidden")
    assert "hidden" not in str(error.value)
