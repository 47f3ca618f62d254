"""Calls of wire 4, without a session: `spec/one-shot.md`. The key in use stands where a call of wire 3 has its session.
Nothing here sends."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Final

from .. import entropy
from ..errors import KeyRetiredError, ProblemError, ProtocolError
from ..session.native.call import PendingAnswer
from ..session.native.problem import SAFE_METHODS, parse_problem
from ..session.one_shot import (
    DOCUMENT_PATH,
    PROBLEM_PREFIX,
    SEALED_PROBLEMS,
    KeyConfig,
    KeyDocument,
    ListedKey,
    choose,
    parse_document,
    seal,
    sends_again,
)
from ..wire.header import X_IDEMPOTENCY_KEY, Headers
from ..wire.identifier import split_idempotency_key
from ..wire.members import time_ms
from .active import ActiveSession
from .clock import Moment, now_ms
from .establish import Flow, Request, Response, rejection
from .exchange import Call, NativeAttempt, Verdict
from .options import Options
from .trust import KeyPins, Psk, Root, read_entry

_FOREVER_MS = 2**53


class OneShotKey:
    """A key of the service, and the PSK of this client: it seals one request after the other. Printing shows no secret."""

    __slots__ = ("_config", "_psk", "prefix_len", "suite")

    def __init__(self, config: KeyConfig, psk: Psk | None) -> None:
        if config.kem is None:
            raise ValueError("the key is of an unknown mechanism")
        self._config, self._psk = config, psk
        self.suite: Final[str] = config.kem.value
        #: Bytes before the stream of a request.
        self.prefix_len: Final = 2 + (len(psk.id) if psk is not None else 0) + config.kem.enc_len

    @property
    def id(self) -> str:
        """The kid."""
        return self._config.kid

    def seal(self, method: str, target: str, content_type: str, stamp: str, nonce: str) -> PendingAnswer:
        """Begins a sealed request, as `Session.seal`."""
        if self._config.kem is None:
            raise ValueError("the key is of an unknown mechanism")
        psk = None if self._psk is None else (self._psk.id, self._psk.reveal())
        draws = entropy.hpke_draws(self._config.kem)
        return seal(self._config, psk, draws, method, target, content_type, stamp, nonce)

    def wipe(self) -> None:
        """Holds no secret of its own."""


class ActiveKey(ActiveSession):
    """A key in use. Its stamps are those of the wall clock, corrected by what the service said last under a seal."""

    def __init__(self, key: ListedKey, psk: Psk | None, keys: OneShotKeys) -> None:
        at_ms = now_ms()
        super().__init__(OneShotKey(key.config, psk), 0.0, Moment(), at_ms, Moment())
        self._key, self._keys = key, keys

    def stamp_ms(self, at_sec: float) -> int:
        """Returns the timestamp of a request at a monotonic time."""
        return self._keys.now_ms() - int((time.monotonic() - at_sec) * 1000)

    def set_clock(self, clock_ms: int, at_sec: float) -> None:
        """Takes the server's time, which a seal has proven."""
        self._keys.offset_ms = clock_ms - now_ms()

    def left_sec(self) -> float:
        """Returns the seconds until clients use it no longer."""
        return (self._key.use_until_ms - now_ms()) / 1000

    def is_usable(self) -> bool:
        """Returns True while clients use it."""
        return self._key.is_in_use(now_ms())


class OneShotKeys:
    """The keys that a client trusts for the service at one origin. Safe to use from several threads."""

    def __init__(self, options: Options, origin: str) -> None:
        self._options, self._origin = options, origin
        trust = options.trust
        if not isinstance(trust, (KeyPins, Root)):
            raise TypeError("wire 4 trusts pinned keys or a root")
        self._trust: KeyPins | Root = trust
        self._lock = threading.Lock()
        self._issued_ms: int | None = None
        self._keys: tuple[ListedKey, ...] = ()
        #: The server's clock less this machine's, in milliseconds.
        self.offset_ms = 0
        if isinstance(trust, Root):
            issued = read_entry(trust.store, self._entry).get("issued_ms")
            self._issued_ms = issued if isinstance(issued, int) else None
        elif trust.configs:
            self._keys = tuple(ListedKey(config, 0, _FOREVER_MS, _FOREVER_MS) for config in trust.configs)

    @property
    def _entry(self) -> str:
        # The store keeps the time of a key set under the origin itself.
        return self._origin + DOCUMENT_PATH

    def now_ms(self) -> int:
        """The server's time, as far as it is known."""
        return now_ms() + self.offset_ms

    def _choose(self) -> ActiveKey | None:
        with self._lock:
            # By the machine's own clock: the holder of a stolen key could move the other one back.
            found = choose(self._keys, now_ms(), self._options.usable_kems())
        return None if found is None else ActiveKey(found, self._options.psk, self)

    def establish(self) -> Flow[ActiveSession]:
        """Returns a key in use; fetches the document if no key is at hand.

        Raises:
            ProtocolError: as `spec/session-3.md#trust` has it; `key_untrusted` if the document has no key for this client.
        """
        found = self._choose()
        if found is None and not (isinstance(self._trust, KeyPins) and self._trust.configs):
            response = yield Request("GET", DOCUMENT_PATH, [], b"")
            if response.status != 200:
                raise rejection(response)
            self._take(parse_document(response.body))
            found = self._choose()
        if found is None:
            raise ProtocolError("key_untrusted")
        return found

    def retired(self, document: Any) -> tuple[bool, tuple[str, ...]]:
        """Takes the document of a `key_retired`. Returns whether the trusted root signed it, and the kids that it names."""
        if isinstance(self._trust, KeyPins) and self._trust.kids:
            with self._lock:
                # Nothing proves the times of the held document: the next call fetches it anew.
                self._keys = ()
        if not isinstance(document, dict):
            return False, ()
        try:
            found = parse_document(json.dumps(document).encode())
            if isinstance(self._trust, Root):
                self._take(found)
        except ProtocolError:
            return False, ()
        return isinstance(self._trust, Root), tuple(key.config.kid for key in found.keys)

    def _take(self, found: KeyDocument) -> None:
        with self._lock:
            if isinstance(self._trust, KeyPins):
                kids = self._trust.kids
                self._keys = tuple(key for key in found.keys if key.config.kid in kids)
                return
            found.verify(self._trust.public, now_ms(), self._issued_ms, self._options.algorithm_names())

            def newest(kept: dict[str, Any]) -> dict[str, Any]:
                # Another process may have taken a newer one.
                issued = kept.get("issued_ms")
                if isinstance(issued, int) and issued > found.issued_ms:
                    self._issued_ms = issued
                    raise ProtocolError("key_untrusted")
                return {"issued_ms": found.issued_ms}

            if self._trust.store is not None:
                self._trust.store.change(self._entry, newest)
            self._issued_ms, self._keys = found.issued_ms, found.keys


class OneShotAttempt(NativeAttempt):
    """A call sealed to a key."""

    def __init__(self, active: ActiveSession, key: OneShotKey, call: Call, keys: OneShotKeys) -> None:
        super().__init__(active, key, call)
        self._keys = keys

    def is_problem(self, headers: Headers) -> bool:
        """Returns True for the headers of a sealed problem: its nonce says so, and its key hangs on the nonce."""
        _, nonce = split_idempotency_key(headers.single(X_IDEMPOTENCY_KEY))
        return nonce.startswith(PROBLEM_PREFIX)

    def judge(self, response: Response) -> Verdict:
        """Decides about an answer without a seal, which any machine on the path can write."""
        call, error = self._call, rejection(response)
        if not isinstance(error, ProblemError):
            return Verdict(error)
        is_again, is_retired = False, error.code == "key_retired"
        if is_retired:
            is_taken, kids = self._keys.retired(error.more.get("key_document"))
            error = KeyRetiredError(error.status, error.more, kids)
            is_again = is_taken and not call.has_healed_session and sends_again(error.more, False, call.method, 0, 0)
            call.has_healed_session = True
        # The caller's stream is consumed.
        is_again = is_again and call.body is not None
        call.is_unproven |= is_again
        if not is_again and call.method not in SAFE_METHODS:
            error.note_unknown()
        return Verdict(error, is_again, is_retired)

    def judge_sealed(self, status: int, plaintext: bytes) -> Verdict:
        """Decides about a problem that was sealed for this request."""
        call, problem = self._call, parse_problem(plaintext)
        if problem is None or problem["code"] not in SEALED_PROBLEMS:
            return Verdict(ProtocolError("answer_mismatch"))
        error = ProblemError(status, problem["code"], problem)
        is_proven = sends_again(problem, True, call.method, self._stamp_ms, self._sent.elapsed_ms())
        is_first = not call.has_healed_clock
        if error.code == "clock_skew":
            server_ms = time_ms(problem.get("server_time_ms"))
            if server_ms is not None:
                self.active.set_clock(server_ms, time.monotonic())
            call.has_healed_clock = True
        # A copy that was delivered before this one may have been served, whatever this one meets.
        error.retryable = is_proven
        is_again = is_proven and is_first and call.body is not None
        if not error.retryable and call.method not in SAFE_METHODS:
            error.note_unknown()
        return Verdict(error, is_again)
