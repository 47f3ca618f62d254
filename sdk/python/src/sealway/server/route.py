"""Which paths are sealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Sealed = Literal["required", "optional", "off"]

BODY_MAX: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Route:
    """A path, or all below it where it ends with a slash.

    Attributes:
        path: as the application sees it, without escapes.
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

    def matches(self, path: str) -> bool:
        """Whether this is the route's path."""
        return path.startswith(self.path) if self.path.endswith("/") else path == self.path


#: Where no route matches: what nobody thought of is not open.
ELSEWHERE: Final = Route("/")


def find_route(routes: Sequence[Route], path: str) -> Route:
    """The first route that matches."""
    return next((route for route in routes if route.matches(path)), ELSEWHERE)
