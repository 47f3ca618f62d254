"""Reasons to reject a message of a scheme: `spec/mle.md#refusals`."""

from __future__ import annotations

from typing import Final, Literal

from ..errors import SealwayError

#: The classes of refusals, for logs and metrics: a peer gets one answer for all of them.
MleClass = (
    Literal["size", "shape", "base64", "header", "alg", "enc", "zip", "crit", "param", "kid", "iat", "epk", "iv"]
    | Literal["unwrap", "tag", "json", "replayed"]
)

#: Most characters of a peer's text in a message.
_QUOTE_MAX: Final = 64


class MleRefusal(SealwayError):
    """A message that is rejected. Its text holds no plaintext, no key and no token.

    Attributes:
        reason: the class of `spec/mle.md`.
    """

    code, stage = "unsealable", "call"

    def __init__(self, reason: MleClass, detail: str, quoted: str | None = None) -> None:
        """`quoted` is a public text of the peer, which is cut and escaped."""
        self.reason = reason
        super().__init__(f"{reason}: {detail}" if quoted is None else f"{reason}: {detail}: {_quote(quoted)}")


def _quote(text: str) -> str:
    return ascii(text[:_QUOTE_MAX]) + ("…" if len(text) > _QUOTE_MAX else "")
