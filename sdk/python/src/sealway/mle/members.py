"""A strict reader of JSON objects (RFC 8259): each name once, at most 64 deep, numbers as they are written."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from ..wire.members import depth_exceeds
from .refusal import MleClass, MleRefusal

_DEPTH_MAX: Final = 64
#: A text of JSON without half of a surrogate pair, which is no character.
_WHOLE: Final = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)


class Number:
    """A number of JSON, as it is written."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text


class Pairs(list[tuple[str, Any]]):
    """The members of an object in their order, of which two may have one name."""


def _no_constant(_: str) -> NoReturn:
    raise ValueError("not a number of JSON")


# SPEC mle.md#header
def members_of(data: bytes | Pairs | Any, refused_as: MleClass) -> dict[str, Any]:
    """Reads the members of an object, which is a text or was read with one.

    Raises:
        MleRefusal: `refused_as`, for every defect.
    """
    value = _parse(data, refused_as) if isinstance(data, bytes) else data
    if not isinstance(value, Pairs):
        raise MleRefusal(refused_as, "the JSON is not an object")
    found: dict[str, Any] = {}
    for name, member in value:
        if name in found:
            raise MleRefusal(refused_as, "a member is there twice", name)
        found[name] = member
    return found


def _parse(data: bytes, refused_as: MleClass) -> Any:
    try:
        text = data.decode("utf-8")
        if depth_exceeds(text, _DEPTH_MAX):
            raise MleRefusal(refused_as, "the JSON is nested more than 64 deep")
        value = json.loads(
            text, object_pairs_hook=Pairs, parse_float=Number, parse_int=Number, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        # The library's error quotes its input.
        raise MleRefusal(refused_as, "the text is not JSON in UTF-8") from None
    if _WHOLE.fullmatch(text) is None:
        raise MleRefusal(refused_as, "the text has half of a surrogate pair")
    return value
