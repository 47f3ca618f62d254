"""Which paths are sealed (`spec/routes.md`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

from .. import check
from ..errors import UsageError
from .canonical import decoded, forms

Sealed = Literal["required", "optional", "off"]

BODY_MAX: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Route:
    """A path, or all below it where it ends with a slash.

    Attributes:
        path: as it is sent, with its escapes.
        sealed: `required` refuses what is not sealed, `optional` passes it on, `off` seals nothing.
        body_max: bytes of a sealed request's body.
        answer_max: bytes of an answer that is sealed whole, on wires 1 and 2.
        content_type: what the plaintext of wires 1 and 2 is.
    """

    path: str
    sealed: Sealed = "required"
    body_max: int = BODY_MAX
    answer_max: int = BODY_MAX
    content_type: str = "application/json"

    def __post_init__(self) -> None:
        check.wants(isinstance(self.path, str), "path", self.path, "a path, which begins with /")
        check.wants(
            self.sealed in ("required", "optional", "off"), "sealed", self.sealed, '"required", "optional" or "off"'
        )
        check.number("body_max", self.body_max, 0, "bytes", is_whole=True)
        check.number("answer_max", self.answer_max, 0, "bytes", is_whole=True)
        check.text("content_type", self.content_type, "a type such as application/json")

    def matches(self, path: str) -> bool:
        """Whether this is the route's path."""
        return path.startswith(self.path) if self.path.endswith("/") else path == self.path


#: Where no route matches: what nobody thought of is not open.
ELSEWHERE: Final = Route("/")
_SENT = re.compile("/[!-~]*")


def sent_path(path: str, raw_path: bytes | None) -> bytes:
    """The path as it was sent; where that is of another path than ASGI has (a mounted application), `path` with escapes."""
    if raw_path is not None and decoded(raw_path).decode("utf-8", "replace") == path:
        return raw_path
    return quote(path).encode("ascii")


class Rules:
    """Routes with their canonical forms, in order."""

    # SPEC routes.md#rules
    def __init__(self, routes: Sequence[Route]) -> None:
        """Looks through `routes`.

        Raises:
            UsageError: for a path without a canonical form, and for a route that is never reached.
        """
        self._rules: list[tuple[Route, str]] = []
        for route in routes:
            found = forms(route.path.encode())
            is_sent = _SENT.fullmatch(route.path) and not re.search("[?#]", route.path)
            if not is_sent or found is None or len(found) > 1 or (not found[0] and route.path != "/"):
                raise UsageError(
                    f"a route's path begins with one /, has visible ASCII characters alone, no query, no fragment, "
                    f"no .. segment and no control character, and its escapes are UTF-8: {route.path!r}"
                )
            for earlier, _ in self._rules:
                if earlier.matches(route.path):
                    raise UsageError(
                        f"the route {route.path!r} is never reached: {earlier.path!r} before it names all its paths; "
                        f"put {route.path!r} first"
                    )
            self._rules.append((route, found[0]))
        seals = [route for route, _ in self._rules if route.sealed == "required"]
        self._has_sealed = bool(seals) or not any(route.path == "/" for route, _ in self._rules)

    # SPEC routes.md#decision
    def find(self, path: str, raw_path: bytes | None = None) -> Route | None:
        """The first route that names the path; None if it may be read as one that must be sealed.

        Args:
            path: as ASGI has it, decoded.
            raw_path: as it was sent. Where it is of another path than `path` (a mounted application), both must be plain.
        """
        sent = sent_path(path, raw_path)
        found = self._find(sent)
        if raw_path is None or raw_path == sent or found is None or found.sealed == "required":
            return found
        other = self._find(raw_path)
        return None if other is None or other.sealed == "required" else found

    def _find(self, sent: bytes) -> Route | None:
        path = sent.decode("latin-1")
        found = next((route for route, _ in self._rules if route.matches(path)), ELSEWHERE)
        if found.sealed == "required" or not found.path.endswith("/") or not self._has_sealed:
            return found
        own = forms(sent)
        return found if own is not None and all(map(self._leads_to_plain, own)) else None

    def _leads_to_plain(self, form: str) -> bool:
        """Whether a form is of a route that is not `required`, and of no such route that is as narrow."""
        longest = -1
        for route, own in self._rules:
            is_prefix = route.path.endswith("/")
            if form != own and not (is_prefix and form.startswith(own + "/")):
                continue
            length = len(own.encode())
            if route.sealed == "required" and length >= longest:
                return False
            if route.sealed != "required" and is_prefix:
                longest = max(longest, length)
        return longest >= 0
