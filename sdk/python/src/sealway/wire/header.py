"""Header names of the wires, and reading them: `spec/session.md#encodings`, `spec/registry.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..errors import ProtocolError

X_KID: Final = "X-Kid"
X_IDEMPOTENCY_KEY: Final = "X-Idempotency-Key"
X_CLIENT_ID: Final = "X-ClientId"
X_NONCE: Final = "X-Nonce"
X_TIMESTAMP: Final = "X-Timestamp"
X_ENC_ALG: Final = "X-Enc-Alg"
X_IV: Final = "X-IV"
X_TAG: Final = "X-Tag"
X_AAD: Final = "X-AAD"
X_SEAL: Final = "X-Seal"
X_SEALED: Final = "X-Sealed"

#: All of them, in lower case: none reaches the service behind.
SEALING: Final = frozenset(
    name.lower()
    for name in (
        X_KID,
        X_IDEMPOTENCY_KEY,
        X_CLIENT_ID,
        X_NONCE,
        X_TIMESTAMP,
        X_ENC_ALG,
        X_IV,
        X_TAG,
        X_AAD,
        X_SEAL,
        X_SEALED,
    )
)
#: Headers of a hop and of framing, in lower case; `proxy-…` are of a hop as well.
OF_HOP: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

_PRINTABLE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)

#: A header block: pairs of name and value. A byte beyond ASCII is a character beyond ASCII (ISO 8859-1).
HeaderPairs = Iterable[tuple[str, str]]


class Headers:
    """A header block whose names compare without case and which knows what was sent twice."""

    __slots__ = ("_values",)

    def __init__(self, pairs: HeaderPairs) -> None:
        values: dict[str, list[str]] = {}
        for name, value in pairs:
            values.setdefault(name.lower(), []).append(value)
        self._values: Mapping[str, list[str]] = values

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def first(self, name: str) -> str | None:
        """The first value of this name, if there is one."""
        values = self._values.get(name.lower())
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """All values of this name, in order."""
        return list(self._values.get(name.lower(), ()))

    def optional(self, name: str) -> str | None:
        """The one value of a header that may be absent.

        Raises:
            ProtocolError: `header_invalid` for a repeated header and for bytes beyond printable ASCII and tab: two readers
                could read two values.
        """
        values = self._values.get(name.lower())
        if values is None:
            return None
        if len(values) > 1 or _PRINTABLE.fullmatch(values[0]) is None:
            raise ProtocolError("header_invalid", name)
        return values[0]

    def single(self, name: str) -> str:
        """The one value of a header that the wire needs.

        Raises:
            ProtocolError: `header_missing`; `header_invalid` as `optional` has it.
        """
        value = self.optional(name)
        if not value:
            raise ProtocolError("header_missing", name)
        return value


def compat_wire_of(headers: Headers) -> int:
    """The wire, 1 or 2, that headers without a seal of wire 3 speak."""
    return 1 if X_NONCE in headers and X_IDEMPOTENCY_KEY not in headers else 2
