"""Routes: the mode of each path (`spec/routes.md`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote

from .. import check
from ..errors import UsageError
from .canonical import decoded, forms

Mode = Literal["required", "optional", "off"]
#: Former names of options.
_RENAMED: Final = {"sealed": "mode", "body_max": "body_max_bytes", "answer_max": "answer_max_bytes"}

BODY_MAX: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Route:
    """A path, or all below it where it ends with a slash.

    Attributes:
        path: as sent, with its escapes.
        mode: `required` rejects requests without a seal, `optional` passes them on, `off` seals nothing.
        body_max_bytes: the longest body of a sealed request; by default the application's.
        answer_max_bytes: the longest answer that is sealed whole, on wires 1 and 2.
        content_type: the content type of plaintext on wires 1 and 2.
    """

    path: str
    mode: Mode = "required"
    body_max_bytes: int | None = None
    answer_max_bytes: int = BODY_MAX
    content_type: str = "application/json"

    def __new__(cls, *_: Any, **given: Any) -> Route:
        """Rejects former names, which `__init__` does not know."""
        check.renamed(given, _RENAMED)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check.wants(isinstance(self.path, str), "path", self.path, "a path, which begins with /")
        check.wants(self.mode in ("required", "optional", "off"), "mode", self.mode, '"required", "optional" or "off"')
        check.number("body_max_bytes", self.body_max_bytes, 0, "bytes, or None", is_whole=True, is_optional=True)
        check.number("answer_max_bytes", self.answer_max_bytes, 0, "bytes", is_whole=True)
        check.text("content_type", self.content_type, "a type such as application/json")

    def matches(self, path: str) -> bool:
        """Returns True if the route names this path."""
        return path.startswith(self.path) if self.path.endswith("/") else path == self.path


#: The route of a path that no other one names.
ELSEWHERE: Final = Route("/")
_SENT = re.compile("/[!-~]*")


def sent_path(path: str, raw_path: bytes | None) -> bytes:
    """Returns the path as sent; `path` with escapes if ASGI has another one (a mounted application)."""
    if raw_path is not None and decoded(raw_path).decode("utf-8", "replace") == path:
        return raw_path
    return quote(path).encode("ascii")


class Rules:
    """The routes of an application with their canonical forms, in order."""

    # SPEC routes.md#rules
    def __init__(self, routes: Sequence[Route]) -> None:
        """Checks `routes`.

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
        seals = [route for route, _ in self._rules if route.mode == "required"]
        self._has_sealed = bool(seals) or not any(route.path == "/" for route, _ in self._rules)

    # SPEC routes.md#decision
    def find(self, path: str, raw_path: bytes | None = None) -> Route | None:
        """Returns the first route that names the path; None if a service may read it as one that must be sealed.

        Args:
            path: as ASGI has it, decoded.
            raw_path: as it was sent. Where it is of another path than `path` (a mounted application), both must be plain.
        """
        sent = sent_path(path, raw_path)
        found = self._find(sent)
        if raw_path is None or raw_path == sent or found is None or found.mode == "required":
            return found
        other = self._find(raw_path)
        return None if other is None or other.mode == "required" else found

    def _find(self, sent: bytes) -> Route | None:
        path = sent.decode("latin-1")
        found = next((route for route, _ in self._rules if route.matches(path)), ELSEWHERE)
        if found.mode == "required" or not found.path.endswith("/") or not self._has_sealed:
            return found
        own = forms(sent)
        return found if own is not None and all(map(self._leads_to_plain, own)) else None

    def _leads_to_plain(self, form: str) -> bool:
        """Returns True for a form of a route that is not `required`, unless a `required` one is as narrow."""
        longest = -1
        for route, own in self._rules:
            is_prefix = route.path.endswith("/")
            if form != own and not (is_prefix and form.startswith(own + "/")):
                continue
            length = len(own.encode())
            if route.mode == "required" and length >= longest:
                return False
            if route.mode != "required" and is_prefix:
                longest = max(longest, length)
        return longest >= 0
