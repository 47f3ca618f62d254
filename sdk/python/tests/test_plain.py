"""Headers of plain requests, as handlers see them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from sealway.asgi import Route, SealedApp
from sealway.server import MemoryStore

#: One of each kind of `stripped_headers`, in its own spelling.
ORIGIN = [
    b"forwarded",
    b"x-forwarded-for",
    b"x-real-ip",
    b"x-client-ip",
    b"x-cluster-client-ip",
    b"true-client-ip",
    b"cf-connecting-ip",
    b"fastly-client-ip",
    b"client-cert",
    b"client-cert-chain",
    b"x-client-cert",
    b"x-client-cert-subject",
    b"x-ssl-client-verify",
    b"ssl-client-cert",
    b"x-amzn-mtls-clientcert",
    b"x-arr-clientcert",
    b"via",
]
#: Spellings that a reader of variables takes for the same, and no proxy in front removes.
DISGUISED = [b"x_forwarded_for", b"x-real_ip"]
CLAIMED = [b"x-sealway-client-id", b"x_sealway_subject"]
KEPT = [b"traceparent", b"x-own", b"authorization"]


def seen(type: str, path: str, trust_forwarded: bool) -> list[bytes]:
    """The names of the headers that reach a handler."""
    names: list[bytes] = []

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        names.extend(name for name, _ in scope["headers"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError("neither read nor answered")

    routes = [Route("/off", "off"), Route("/either", "optional")]
    app = SealedApp(handler, store=MemoryStore(), routes=routes, trust_forwarded=trust_forwarded)
    headers = [(name, b"203.0.113.9") for name in [*ORIGIN, *DISGUISED, *CLAIMED, *KEPT]]
    scope = {"type": type, "method": "GET", "path": path, "raw_path": path.encode(), "headers": headers}
    anyio.run(app, scope, nothing, nothing)
    return names


PLAIN = pytest.mark.parametrize(("type", "path"), [("http", "/off"), ("http", "/either"), ("websocket", "/off")])


@PLAIN
def test_origin_headers_of_a_plain_request_are_removed(type: str, path: str) -> None:
    assert seen(type, path, trust_forwarded=False) == KEPT


@PLAIN
def test_origin_headers_pass_in_their_own_spelling_from_a_trusted_proxy(type: str, path: str) -> None:
    assert seen(type, path, trust_forwarded=True) == [*ORIGIN, *KEPT]
