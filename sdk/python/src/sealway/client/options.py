"""How a client behaves: what its transports are made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from .. import check
from ..crypto.suite import DEFAULT_SUITES, Suite, is_supported
from ..errors import UsageError
from ..session.claim import WINDOW_MS
from ..wire.identifier import is_client_id
from .trust import FirstUse, Pins, Root, Trust

DEADLINE_SEC: Final = 60.0
ANSWER_MAX: Final = 8 * 1024 * 1024


def origin_of(url: Any, name: str = "url") -> str:
    """Scheme, host and port of a URL without a path. `name` is the option's, for errors.

    Raises:
        UsageError: for anything else.
    """
    check.text(name, url, "http(s)://host:port, without a path")
    # The URL is not shown: it may hold a secret.
    wrong = UsageError(f"{name} is no service's: give http(s)://host:port, without a path")
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How a client behaves.

    Attributes:
        trust: whose word is taken for who the service is; needed on wire 3.
        wire: 1, 2 or 3.
        client_id: 1 to 256 characters of printable ASCII without a vertical bar; wire 1 has none.
        suites: of wire 3, the one liked most first. Those that the library below lacks are left out.
        ttl_sec: how long a session should last, in seconds; the server bounds it.
        authorization: the value of `Authorization` at an init.
        prove: makes a DPoP proof (RFC 9449) of a value, the `init_hash` of `spec/session-3.md#who-the-client-is`, which
            the proof carries in base64url; for `Authorization: DPoP …` on wire 3.
        deadline_sec: a whole call's time, its answer's body included, in seconds; None for streams without an end. A call
            may bring its own: `extensions={"sealway_deadline_sec": …}`.
        request_max: bytes of a request's body that is not streamed.
        answer_max: bytes of an answer's sealed body; None for none, on wire 3 where a caller streams.
        window_ms: how far an answer's stamp may be from this clock on wires 1 and 2, in milliseconds.
        is_anonymous: wire 1 alone: the anonymous family of sessions.
        is_v1: wire 2 alone: inits go to `/v1/session/init`.
    """

    trust: Trust | None = None
    wire: int = 3
    client_id: str = "sealway-python"
    suites: tuple[Suite, ...] = DEFAULT_SUITES
    ttl_sec: int | None = None
    authorization: str | None = None
    prove: Callable[[bytes], str] | None = None
    deadline_sec: float | None = DEADLINE_SEC
    request_max: int = ANSWER_MAX
    answer_max: int | None = ANSWER_MAX
    window_ms: int = WINDOW_MS
    is_anonymous: bool = False
    is_v1: bool = False

    def __post_init__(self) -> None:
        check.wants(self.wire in (1, 2, 3) and not isinstance(self.wire, bool), "wire", self.wire, "1, 2 or 3")
        if self.wire == 3 and self.trust is None:
            raise UsageError("wire 3 needs trust: Pins, Root or FirstUse; without it anybody could answer an init")
        is_trust = self.trust is None or isinstance(self.trust, (Pins, Root, FirstUse))
        check.wants(is_trust, "trust", self.trust, "Pins, Root or FirstUse")
        is_id = isinstance(self.client_id, str) and is_client_id(self.client_id)
        check.wants(is_id, "client_id", self.client_id, "1 to 256 characters of printable ASCII without a vertical bar")
        suites = check.listed("suites", self.suites, "a tuple of Suite")
        check.wants(all(isinstance(each, Suite) for each in suites), "suites", self.suites, "a tuple of Suite")
        if self.wire == 3 and not self.usable_suites():
            raise UsageError("suites: none is offered that the library below has; P256 works everywhere")
        check.number("ttl_sec", self.ttl_sec, 0, "whole seconds, or None", is_whole=True, is_optional=True)
        check.text("authorization", self.authorization, "the value of Authorization, or None", is_optional=True)
        check.callback("prove", self.prove, "a function, or None", is_optional=True)
        check.number("deadline_sec", self.deadline_sec, 0.001, "seconds above 0, or None", is_optional=True)
        check.number("request_max", self.request_max, 0, "bytes", is_whole=True)
        check.number("answer_max", self.answer_max, 1, "bytes", is_whole=True, is_optional=True)
        check.number("window_ms", self.window_ms, 1, "milliseconds", is_whole=True)
        if self.answer_max is None and self.wire != 3:
            raise UsageError("answers of wires 1 and 2 are read whole and need a bound")
        if (self.is_anonymous and self.wire != 1) or (self.is_v1 and self.wire != 2):
            raise UsageError("anonymous sessions are of wire 1, /v1 is of wire 2")

    def usable_suites(self) -> tuple[Suite, ...]:
        """The suites that are offered."""
        return tuple(suite for suite in self.suites if is_supported(suite))
