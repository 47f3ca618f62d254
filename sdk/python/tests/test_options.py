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
    given = {"url": URL, "options": options(), **more}
    return kind(given.pop("url"), given.pop("options"), **given)


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
            "wire": [None, 0, 5, "3", True],
            "client_id": [None, "", *TEXTS, "a|b", "x" * 257],
            "suites": [None, "", "P256", 1, [], ["P256"], (None,)],
            "ttl_sec": [*NUMBERS, 1.5],
            "authorization": ["Bearer x", *FUNCTIONS],
            "proof": FUNCTIONS,
            "on_metrics": FUNCTIONS,
            "authority_url": WRONG_URLS[1:],
            "init_path": [None, "", *TEXTS, "session/init", "/v1/session/init", "/session/init/anon"],
            "connect_timeout_sec": [0, *NUMBERS],
            "head_timeout_sec": [0, *NUMBERS],
            "total_timeout_sec": [0, *NUMBERS],
            "idle_timeout_sec": [0, *NUMBERS],
            "request_max_bytes": [None, *NUMBERS, 1.5],
            "answer_max_bytes": [0, *NUMBERS, 1.5],
            "window_ms": [None, 0, *NUMBERS],
        },
    ),
    ("pins", lambda pins: sealway.Pins(pins), {"pins": [None, 1, "", PIN, [], [None], [1], [""], ["x"], [PIN] * 0]}),
    ("root", lambda public_key: sealway.Root(public_key), {"public_key": [None, "", "x", *TEXTS]}),
    ("root", lambda store: sealway.Root("x", store), {"store": ["", "root.json", Path("root.json"), 1]}),
    ("first use", sealway.FirstUse, {"store": ["", "met.json", Path("met.json"), 1]}),
    ("trust store", sealway.FileTrustStore, {"file": [None, "", "met.json", 1]}),
    (
        "transport",
        lambda **more: transport(sealway.Transport, **more),
        {
            "url": WRONG_URLS,
            "options": [None, 1, "", {}],
            "inner": [1, "", {}],
        },
    ),
    (
        "async transport",
        lambda **more: transport(sealway.AsyncTransport, **more),
        {"url": WRONG_URLS, "options": [None, {}], "inner": [1, "", {}]},
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
            "buffered_max_bytes": [None, 0, *NUMBERS, (1 << 20) - 1, 2.0**21],
            "body_max_bytes": [None, *NUMBERS],
            "on_refusal": FUNCTIONS,
            "now_ms": [None, *FUNCTIONS],
        },
    ),
    (
        "route",
        lambda **more: Route(**{"path": "/x", **more}),
        {
            "path": [None, *TEXTS],
            "mode": [None, "", "on", 1],
            "body_max_bytes": NUMBERS,
            "answer_max_bytes": [None, *NUMBERS],
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
            "timeout_sec": [None, 0, *NUMBERS],
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
            "timeout_sec": [None, 0, *NUMBERS],
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


def test_valid_options_are_accepted(tmp_path: Path) -> None:
    options(ttl_sec=0, total_timeout_sec=None, answer_max_bytes=None, authorization=str, proof=lambda _: "x")
    sealway.Pins(pin for pin in [PIN])
    transport(sealway.Transport, options=options(authority_url="https://other.test:8443"))
    options(trust=None, wire=1, init_path="/session/init/anon")
    options(trust=None, wire=2, init_path="/v1/session/init")
    sealed(routes=iter([Route("/x")]), anonymous_paths={"/y"}, allow=lambda *_: True)
    sealway.FirstUse(sealway.FileTrustStore(tmp_path / "met.json"))


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        (1, "/x"),
        (1, "/v1/session/init"),
        (2, "/gateway/session/init"),
        (2, "/session/init/anon"),
        (3, "/v3/sessions"),
    ],
)
def test_an_init_path_of_none_or_another_wire_is_named_with_the_allowed_ones(wire: int, path: str) -> None:
    with pytest.raises(sealway.UsageError) as error:
        options(wire=wire, init_path=path)
    allowed = "/session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)"
    assert str(error.value) == f"init_path: {path} is not {allowed}"


def test_no_part_of_a_url_is_printed() -> None:
    with pytest.raises(sealway.UsageError) as error:
        transport(sealway.Transport, url="ftp://user:hidden@shop.test/?token=hidden")
    assert "hidden" not in str(error.value)


FORMER: list[tuple[Make, str, str]] = [
    (options, "deadline_sec", "total_timeout_sec"),
    (options, "request_max", "request_max_bytes"),
    (options, "answer_max", "answer_max_bytes"),
    (options, "prove", "proof"),
    (options, "is_anonymous", 'init_path="/session/init/anon"'),
    (options, "is_v1", 'init_path="/v1/session/init"'),
    (lambda **given: transport(sealway.Transport, **given), "session_url", "Options.authority_url"),
    (lambda **given: transport(sealway.AsyncTransport, **given), "session_url", "Options.authority_url"),
    (lambda **given: sealway.Root("x", **given), "state", "FileTrustStore"),
    (sealway.FirstUse, "file", "FileTrustStore"),
    (sealed, "trusts_origin", "trust_forwarded"),
    (sealed, "buffered_bytes_max", "buffered_max_bytes"),
    (lambda **given: Route("/x", **given), "sealed", "mode"),
    (lambda **given: Route("/x", **given), "body_max", "body_max_bytes"),
    (lambda **given: Route("/x", **given), "answer_max", "answer_max_bytes"),
    (authority, "deadline_sec", "timeout_sec"),
    (redis, "deadline_sec", "timeout_sec"),
]


@pytest.mark.parametrize(("make", "former", "present"), FORMER)
def test_a_former_name_is_rejected_with_the_present_one(make: Make, former: str, present: str) -> None:
    with pytest.raises(sealway.UsageError) as error:
        make(**{former: "x"})
    assert str(error.value).startswith(f"{former} is not an option any more") and present in str(error.value)
    with pytest.raises(TypeError, match="unheard_of"):
        make(unheard_of=1)


def test_defaults_are_those_of_all_sdks() -> None:
    given = options()
    timeouts = given.connect_timeout_sec, given.head_timeout_sec, given.total_timeout_sec, given.idle_timeout_sec
    assert timeouts == (10, 30, 60, 60)
    assert given.answer_max_bytes == given.request_max_bytes == 16 * 1024 * 1024
    assert (given.wire, given.init_path, given.authorization, given.on_metrics) == (3, "/session/init", None, None)
