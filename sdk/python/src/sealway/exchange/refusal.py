"""Reasons for which a server refuses a sealed request, beside the wire's own (`ProtocolError`) and a store's."""

from __future__ import annotations

from typing import Final

from ..errors import SealwayError

_REASONS: Final = {
    "anonymous_path": ("peer", "anonymous sessions may not use this path"),
    "body_no_room": ("limit", "no room is left for the body"),
    "body_too_slow": ("peer", "the body came too slowly"),
    "disguised_path": ("peer", "the path is another spelling of a sealed one"),
    "method": ("peer", "another method may not be used here"),
    "plaintext_rejected": ("peer", "the application answered 400 or 422, which wires 1 and 2 tell as their own"),
    "unanswered": ("service", "the application gave no answer that can be sealed"),
}


class Refusal(SealwayError):
    """A reason to refuse a request beside `ProtocolError`, `StoreFull` and `StoreUnavailable`. The log has its code;
    the client receives the coarser word of `Rejection.answer`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.blame, meaning = _REASONS[code]
        super().__init__(f"{code}: {meaning}")
