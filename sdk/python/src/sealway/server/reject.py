"""Refusals on their way to the client and into the log."""

from __future__ import annotations

import logging

from ..errors import SealwayError
from ..exchange.rejection import ErrorAnswer, Form, Rejection
from .body import Send
from .timing import Timing

log = logging.getLogger("sealway")


def report(wire: int, error: SealwayError) -> None:
    """Logs the class of a refusal; no value of the request."""
    log.info("refused a call of wire %d: %s", wire, error.code)


async def reject(send: Send, wire: int, error: SealwayError, timing: Timing | None = None) -> None:
    """Reports a refusal and tells the client; by default without the steps that there were, as they say how far it came."""
    report(wire, error)
    await send_error(send, Rejection(error).answer(Form.of(wire)), timing or Timing())


async def send_error(send: Send, answer: ErrorAnswer, timing: Timing) -> None:
    """Sends an error."""
    headers = [*answer.headers, timing.header()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
