"""Rejection of requests: the answer to the client, and the report to the log and to `on_refusal`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..errors import SealwayError
from ..exchange.rejection import ErrorAnswer, Form, Rejection
from .body import Send
from .timing import Timing

log = logging.getLogger("sealway")


#: Receives each rejected request: the error, with the code for logs and metrics, and the wire of the request.
OnRefusal = Callable[[SealwayError, int], None]


def report(on_refusal: OnRefusal | None, wire: int, error: SealwayError) -> None:
    """Logs the code of a rejection, and no value of the request."""
    log.info("rejected a request of wire %d: %s", wire, error.code)
    if on_refusal is not None:
        try:
            on_refusal(error, wire)
        except Exception as failure:
            log.warning("on_refusal failed", exc_info=failure)


async def reject(
    on_refusal: OnRefusal | None, send: Send, wire: int, error: SealwayError, timing: Timing | None = None
) -> None:
    """Reports a rejection and answers the client. Without `timing` the answer does not show how far the request came."""
    report(on_refusal, wire, error)
    await send_error(send, Rejection(error).answer(Form.of(wire)), timing or Timing())


async def send_error(send: Send, answer: ErrorAnswer, timing: Timing) -> None:
    """Sends an error answer."""
    headers = [*answer.headers, timing.header()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
