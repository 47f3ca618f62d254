"""An application's answer, sealed as it comes or when all of it is there: `spec/session.md#answer`,
`spec/session-3.md#sealed-answers`."""

from __future__ import annotations

from collections.abc import Callable

from .. import entropy
from ..exchange.refusal import Refusal
from ..exchange.reply import AnswerSeal, Reply
from .body import Message, Send
from .headers import RawHeaders, seal_inner, seal_outer, seal_whole
from .open import Reader
from .reject import OnRefusal, reject, report
from .timing import Timing


class Sealing:
    """The answer to one request."""

    def __init__(
        self,
        reply: Reply,
        reader: Reader,
        most: int,
        now_ms: Callable[[], int],
        timing: Timing,
        send: Send,
        on_refusal: OnRefusal | None,
    ) -> None:
        """`most` bounds the bytes of an answer that is sealed as a whole."""
        self._on_refusal = on_refusal
        self._reply, self._reader, self._now_ms = reply, reader, now_ms
        self._timing, self._send = timing, send
        self._seal: AnswerSeal | None = None
        self._headers: RawHeaders = []
        self._parts: list[bytes] = []
        self._left = most
        self._is_begun = False
        #: True once the application has given all of its answer.
        self.is_done = False

    async def send(self, message: Message) -> None:
        """Takes a message of the application.

        Raises:
            Refusal: `unanswered` for an answer that is over its bound, so that an endless one ends.
        """
        if self.is_done or self._reader.fault is not None:
            return
        if message["type"] == "http.response.start" and self._seal is None:
            self._seal, self._headers = self._reply.answer(message["status"]), list(message.get("headers", ()))
        elif message["type"] == "http.response.body" and self._seal is not None:
            part, self.is_done = bytes(message.get("body", b"")), not message.get("more_body", False)
            try:
                await self._go_on(self._seal, part)
            except Refusal as refusal:
                self.is_done = self._is_begun = True
                # All 400s of wires 1 and 2 look the same: a step would say that the request opened.
                timing = None if refusal.code == "plaintext_rejected" else self._timing
                await reject(self._on_refusal, self._send, self._reply.record.wire, refusal, timing)
                if self._left < 0:
                    raise

    async def _go_on(self, seal: AnswerSeal, part: bytes) -> None:
        if self._is_begun:
            await self._send_body(seal.more(part, self.is_done))
            return
        if seal.is_whole:
            self._parts.append(part)
            self._left -= len(part)
            if self._left < 0:
                raise Refusal("unanswered")
            if not self.is_done:
                return
            part = b"".join(self._parts)
        self.is_done = self.is_done or seal.is_bodyless
        self._timing.lap("upstream")
        randoms = entropy.nonce_random(), entropy.iv()
        marks, data = seal.begin(seal_inner(self._headers), part, self.is_done, self._now_ms(), *randoms)
        self._timing.lap("aes-gcm-encrypt")
        headers = seal_whole(self._headers) if seal.is_whole else seal_outer(self._headers)
        headers += [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in marks]
        if self.is_done and not seal.is_bodyless:
            headers.append((b"content-length", b"%d" % len(data)))
        headers.append(self._timing.header())
        self._is_begun = True
        await self._send({"type": "http.response.start", "status": seal.status, "headers": headers})
        await self._send_body(data)

    async def _send_body(self, data: bytes) -> None:
        if data or self.is_done:
            await self._send({"type": "http.response.body", "body": data, "more_body": not self.is_done})

    async def finish(self) -> None:
        """Ends the answer. A stream that broke off has no last frame; without an answer the request is rejected."""
        fault, wire = self._reader.fault, self._reply.record.wire
        if not self._is_begun:
            refusal, timing = fault or Refusal("unanswered"), None if fault else self._timing
            await reject(self._on_refusal, self._send, wire, refusal, timing)
        elif fault is not None:
            report(self._on_refusal, wire, fault)
