"""Options of a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from .. import check
from ..crypto.hpke import Kem
from ..crypto.suite import DEFAULT_SUITES, Suite, is_supported
from ..errors import UsageError
from ..session.claim import WINDOW_MS
from ..session.compat.init import PATHS, Family
from ..session.identity import SignatureAlgorithm, algorithm_of
from ..wire.identifier import is_client_id
from .metrics import CallMetrics
from .timer import TIMEOUTS
from .trust import FirstUse, KeyPins, Pins, Psk, Root, Trust

BODY_MAX: Final = 16 * 1024 * 1024
_SESSION, _ANONYMOUS, _V1 = PATHS[Family.SESSION], PATHS[Family.ANONYMOUS], PATHS[Family.V1]
#: Former names of options.
_RENAMED: Final = {
    "deadline_sec": "total_timeout_sec",
    "request_max": "request_max_bytes",
    "answer_max": "answer_max_bytes",
    "prove": "proof",
    "is_anonymous": f'init_path="{_ANONYMOUS}"',
    "is_v1": f'init_path="{_V1}"',
}


def origin_of(url: Any, name: str = "url") -> str:
    """Returns scheme, host and port of a URL without a path. `name` is the option's, for errors.

    Raises:
        UsageError: for anything else.
    """
    check.text(name, url, "http(s)://host:port, without a path")
    # The URL is not shown: it may hold a secret.
    wrong = UsageError(f"{name} is not the URL of a service: give http(s)://host:port, without a path")
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
    """Options of a client.

    Attributes (None switches a timeout off):
        trust: verification of the service's identity: `Pins`, `Root` or `FirstUse`, needed on wire 3; `KeyPins` or `Root`
            on wire 4.
        psk: on wire 4, the pre-shared key by which the service knows this client.
        kems: on wire 4, the mechanisms that this client takes; those that the `cryptography` package lacks are left out.
        authority_url: where sessions are agreed and identity keys published; by default the service's URL.
        connect_timeout_sec: seconds to connect, TCP and TLS.
        head_timeout_sec: seconds from the last sent part of the request to the answer's head, its first frame included.
        total_timeout_sec: seconds for the whole call: agreement, retries, request and the answer's body. None for a stream
            without an end.
        idle_timeout_sec: seconds between two parts of a streamed answer, and for each part of a request.
        answer_max_bytes: the longest sealed body of an answer. None for no bound, on wire 3.
        request_max_bytes: the longest body of a request that is not a stream.
        authorization: returns the value of `Authorization` (`Bearer …`, `DPoP …`) for each init. `AsyncTransport` awaits an
            async function.
        proof: returns a DPoP proof (RFC 9449) for a hash, the `init_hash` of `spec/session-3.md#who-the-client-is`, which
            the proof carries in base64url; on wire 3. `AsyncTransport` awaits an async function.
        ttl_sec: the life of sessions to ask for, in seconds; by default the service's.
        client_id: name of the client, 1 to 256 characters of printable ASCII without a vertical bar. Wire 1 has none.
        suites: suites of wire 3, in order of preference. Those that the `cryptography` package lacks are left out.
        signature_algorithms: algorithms of identity keys and roots that the client accepts, and no others, on wires 3 and
            4; the service must sign with one of them. By default ES256, and pinned keys of any algorithm.
        wire: 1, 2 or 3; 4 seals each request to a key of the service, without a session.
        init_path: path of inits: `/session/init`, `/session/init/anon` (wire 1) or `/v1/session/init` (wire 2).
        window_ms: the largest difference between an answer's timestamp and this machine's clock on wires 1 and 2.
        on_metrics: receives the measurements of each call when its answer has ended, or the call has failed.

    The timeouts and `answer_max_bytes` of one call: `extensions={"sealway_total_timeout_sec": None}`.
    """

    trust: Trust | KeyPins | None = None
    psk: Psk | None = None
    kems: tuple[Kem, ...] = tuple(Kem)
    authority_url: str | None = None
    connect_timeout_sec: float | None = 10.0
    head_timeout_sec: float | None = 30.0
    total_timeout_sec: float | None = 60.0
    idle_timeout_sec: float | None = 60.0
    answer_max_bytes: int | None = BODY_MAX
    request_max_bytes: int = BODY_MAX
    authorization: Callable[[], str | Awaitable[str]] | None = None
    proof: Callable[[bytes], str | Awaitable[str]] | None = None
    ttl_sec: int | None = None
    client_id: str = "sealway-python"
    suites: tuple[Suite, ...] = DEFAULT_SUITES
    signature_algorithms: tuple[SignatureAlgorithm, ...] | None = None
    wire: int = 3
    init_path: str = _SESSION
    window_ms: int = WINDOW_MS
    on_metrics: Callable[[CallMetrics], None] | None = None

    def __new__(cls, **given: Any) -> Options:
        """Rejects former names, which `__init__` does not know."""
        check.renamed(given, _RENAMED)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check.wants(self.wire in (1, 2, 3, 4) and not isinstance(self.wire, bool), "wire", self.wire, "1, 2, 3 or 4")
        self._check_trust()
        self._check_algorithms()
        if self.authority_url is not None:
            origin_of(self.authority_url, "authority_url")
        for name in TIMEOUTS:
            check_timeout(name, getattr(self, name))
        check_answer_max(self.answer_max_bytes, self.wire)
        check.number("request_max_bytes", self.request_max_bytes, 0, "bytes", is_whole=True)
        for name in ("authorization", "proof", "on_metrics"):
            check.callback(name, getattr(self, name), "a function, or None", is_optional=True)
        check.number("ttl_sec", self.ttl_sec, 0, "whole seconds, or None", is_whole=True, is_optional=True)
        is_id = isinstance(self.client_id, str) and is_client_id(self.client_id)
        check.wants(is_id, "client_id", self.client_id, "1 to 256 characters of printable ASCII without a vertical bar")
        suites = check.listed("suites", self.suites, "a tuple of Suite")
        check.wants(all(isinstance(each, Suite) for each in suites), "suites", self.suites, "a tuple of Suite")
        if self.wire == 3 and not self.usable_suites():
            raise UsageError("suites: the cryptography package has none of them; P256 works everywhere")
        allowed = f"{_SESSION}, {_ANONYMOUS} (wire 1) or {_V1} (wire 2)"
        check.text("init_path", self.init_path, allowed)
        if {_SESSION: self.wire, _ANONYMOUS: 1, _V1: 2}.get(self.init_path) != self.wire:
            raise UsageError(f"init_path: {self.init_path} is not {allowed}")
        check.number("window_ms", self.window_ms, 1, "milliseconds", is_whole=True)

    def _check_trust(self) -> None:
        kinds: dict[int, tuple[tuple[type, ...], str]] = {
            3: ((Pins, Root, FirstUse), "Pins, Root or FirstUse"),
            4: ((KeyPins, Root), "KeyPins or Root"),
        }
        allowed, names = kinds.get(self.wire, ((Pins, Root, FirstUse), "Pins, Root or FirstUse"))
        if self.wire >= 3 and self.trust is None:
            raise UsageError(f"wire {self.wire} needs trust: give {names}; else any machine could answer")
        check.wants(self.trust is None or isinstance(self.trust, allowed), "trust", self.trust, names)
        check.wants(self.psk is None or isinstance(self.psk, Psk), "psk", self.psk, "a Psk, or None")
        if self.psk is not None and self.wire != 4:
            raise UsageError("psk: only wire 4 has one; a session takes authorization")
        kems = check.listed("kems", self.kems, "a tuple of Kem")
        check.wants(all(isinstance(each, Kem) for each in kems), "kems", self.kems, "a tuple of Kem")
        if self.wire == 4 and not self.usable_kems():
            raise UsageError("kems: the cryptography package has none of them; X25519 and P-256 work everywhere")

    def _check_algorithms(self) -> None:
        publics: tuple[bytes | None, ...] = ()
        if isinstance(self.trust, Root):
            publics = (self.trust.public,)
        elif isinstance(self.trust, Pins):
            publics = tuple(self.trust.keys.values())
        trusted = [algorithm for public in publics if public and (algorithm := algorithm_of(public))]
        given = self._restriction()
        for each in (*trusted, *(given or ())):
            if not each.is_supported:
                raise UsageError(f"the cryptography package has no {each}: install one with OpenSSL 3.5 or later")
        for algorithm in trusted:
            if given is not None and algorithm not in given:
                raise UsageError(
                    f"signature_algorithms: {', '.join(given)} do not include {algorithm}, the algorithm of a key in "
                    "trust: add it, or trust another key"
                )
        # A copy: what was checked is what is sent.
        object.__setattr__(self, "signature_algorithms", given)

    def _restriction(self) -> tuple[SignatureAlgorithm, ...] | None:
        if self.signature_algorithms is None:
            return None
        name, what = "signature_algorithms", "a tuple of 1 or more SignatureAlgorithm, each once, or None"
        given = check.listed(name, self.signature_algorithms, what)
        is_listed = bool(given) and all(isinstance(each, SignatureAlgorithm) for each in given)
        check.wants(is_listed and len(set(given)) == len(given), name, self.signature_algorithms, what)
        if self.wire < 3:
            raise UsageError("signature_algorithms: wires 1 and 2 have no identity keys")
        return given

    def algorithm_names(self) -> tuple[str, ...] | None:
        """Returns the member `signature_algorithms` of an init; None without a restriction."""
        return None if self.signature_algorithms is None else tuple(each.value for each in self.signature_algorithms)

    def usable_kems(self) -> tuple[Kem, ...]:
        """Returns the mechanisms that the client takes."""
        return tuple(kem for kem in self.kems if kem.is_supported)

    def usable_suites(self) -> tuple[Suite, ...]:
        """Returns the suites that the client offers."""
        return tuple(suite for suite in self.suites if is_supported(suite))


def check_timeout(name: str, value: Any) -> None:
    """Checks one of `TIMEOUTS`."""
    check.number(name, value, 0.001, "seconds above 0, or None", is_optional=True)


def check_answer_max(value: Any, wire: int) -> None:
    """Checks the bound of answers."""
    check.number("answer_max_bytes", value, 1, "bytes, or None", is_whole=True, is_optional=True)
    if value is None and wire < 3:
        raise UsageError("answer_max_bytes is None: answers of wires 1 and 2 are read whole and need a bound")
