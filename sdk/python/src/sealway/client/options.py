"""How a client behaves: what its transports are made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ..crypto.suite import DEFAULT_SUITES, Suite, is_supported
from ..errors import UsageError
from ..session.claim import WINDOW_MS
from ..wire.identifier import is_client_id
from .trust import Trust

DEADLINE_SEC: Final = 60.0
ANSWER_MAX: Final = 8 * 1024 * 1024


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL without a path.

    Raises:
        UsageError: for anything else.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise UsageError("a service is named by http(s)://host:port, without a path")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise UsageError("a service is named by http(s)://host:port, without a path") from None
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
        if self.wire not in (1, 2, 3):
            raise UsageError("the wires are 1, 2 and 3")
        if self.wire == 3 and self.trust is None:
            raise UsageError("wire 3 needs trust: Pins, Root or FirstUse; without it anybody could answer an init")
        if not is_client_id(self.client_id):
            raise UsageError("a client id is 1 to 256 characters of printable ASCII without a vertical bar")
        if self.wire == 3 and not self.usable_suites():
            raise UsageError("no suite is offered that the library below has; P256 works everywhere")
        if self.answer_max is None and self.wire != 3:
            raise UsageError("answers of wires 1 and 2 are read whole and need a bound")
        if (self.is_anonymous and self.wire != 1) or (self.is_v1 and self.wire != 2):
            raise UsageError("anonymous sessions are of wire 1, /v1 is of wire 2")

    def usable_suites(self) -> tuple[Suite, ...]:
        """The suites that are offered."""
        return tuple(suite for suite in self.suites if is_supported(suite))
