"""Reading JSON bodies strictly: `spec/session.md#encodings`, `spec/session-3.md#init`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from ..errors import ProtocolError
from .encoding import decode_base64

#: Levels of nesting that are read.
NESTING_MAX: Final = 127
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1
#: The last time that a stamp can carry: 15 digits, in milliseconds of the epoch.
TIME_MS_MAX: Final = 999_999_999_999_999

T = TypeVar("T")

# Digits that Python turns into an int cost the square of their count; no member is anywhere near this.
_DIGITS_MAX = 400


class Number(float):
    """A JSON number with a fraction or an exponent, and its spelling: a float alone would round it."""

    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made


def _no_constant(_: str) -> NoReturn:
    raise ValueError("not a number of JSON")


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= 20 else Number(text)


def depth_exceeds(text: str, most: int) -> bool:
    """Returns True if brackets nest deeper, without recursion. The parser finds malformed text."""
    depth = 0
    for token in _BRACKETS.finditer(text):
        first = token.group()[0]
        if first in "[{":
            depth += 1
            if depth > most:
                return True
        elif first in "]}":
            depth -= 1
    return False


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def parse_json(data: bytes, is_server: bool = True) -> Any:
    """The value of a JSON text. Of a repeated member the last one counts.

    A server also refuses nesting of 128 levels, numbers beyond a double and text that is not UTF-8.

    Raises:
        ProtocolError: `json_invalid`.
    """
    try:
        text = data.decode("utf-8")
        if depth_exceeds(text, NESTING_MAX):
            raise ProtocolError("json_invalid")
        value = json.loads(text, parse_float=Number, parse_int=_integer, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ProtocolError("json_invalid") from None
    if is_server and _has_infinity(value):
        raise ProtocolError("json_invalid")
    return value


def _has_infinity(value: Any) -> bool:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float) and math.isinf(part):
            return True
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return False


def whole(value: Any, top: int) -> int | None:
    """A number of integer value from 0 to `top`, however written (`1800.0`, `1e3`); else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, Number):
        exact = _exact(value.text)
        return exact if exact is not None and 0 <= exact <= top else None
    return value if isinstance(value, int) and 0 <= value <= top else None


def time_ms(value: Any) -> int | None:
    """Returns a time in milliseconds of the epoch, 0 to `TIME_MS_MAX`."""
    return whole(value, TIME_MS_MAX)


def _exact(text: str) -> int | None:
    """The integer that a spelling of a number means, without rounding; None for a fraction or beyond all bounds."""
    mantissa, _, exponent_text = text.lower().partition("e")
    sign = -1 if mantissa.startswith("-") else 1
    digits, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = fraction.rstrip("0")
    significant = (digits + fraction).lstrip("0")
    if not significant:
        return 0
    if len(exponent_text) > 20 or len(significant) > _DIGITS_MAX:
        return None
    shift = int(exponent_text or "0") - len(fraction)
    if shift < 0:
        if significant[shift:].strip("0"):
            return None
        return sign * int(significant[:shift])
    return sign * int(significant) * 10**shift if shift + len(significant) <= _DIGITS_MAX else None


def text(value: Any, is_good: Callable[[str], bool]) -> str | None:
    """A text of a form; else None."""
    return value if isinstance(value, str) and is_good(value) else None


def short(value: Any, top: int) -> str | None:
    """A text of 1 to `top` bytes: the transcript could not tell an empty one from none."""
    if not isinstance(value, str) or not value:
        return None
    try:
        return value if len(value.encode("utf-8")) <= top else None
    except UnicodeEncodeError:  # half a surrogate pair
        return None


def base64_bytes(value: Any) -> bytes | None:
    """The bytes of a text of canonical base64 that is not empty; else None."""
    if not isinstance(value, str) or not value:
        return None
    try:
        return decode_base64(value)
    except ValueError:
        return None


def names(value: Any, is_good: Callable[[str], bool], least: int, most: int) -> list[str] | None:
    """A list of so many different texts of a form; else None."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        return None
    if not all(isinstance(part, str) and is_good(part) for part in value) or len(set(value)) != len(value):
        return None
    return value


class Members:
    """Reads the members of an object one by one; with `code` every fault is called that."""

    __slots__ = ("_code", "_members")

    def __init__(self, value: Any, code: str | None = None) -> None:
        self._code = code
        if not isinstance(value, dict):
            raise ProtocolError(code or "field_invalid")
        self._members: dict[str, Any] = value

    @classmethod
    def parse(cls, data: bytes, code: str | None = None) -> Members:
        """The members of a body.

        Raises:
            ProtocolError: `json_invalid`, `field_invalid`, or `code`.
        """
        try:
            return cls(parse_json(data), code)
        except ProtocolError as refused:
            raise ProtocolError(code or refused.code) from None

    def optional(self, name: str, read: Callable[[Any], T | None]) -> T | None:
        """A member that may be absent or null.

        Raises:
            ProtocolError: if it is there and `read` gives None.
        """
        value = self._members.get(name)
        if value is None:
            return None
        found = read(value)
        if found is None:
            raise self.fault(name)
        return found

    def required(self, name: str, read: Callable[[Any], T | None]) -> T:
        """A member that has to be there.

        Raises:
            ProtocolError: if it is not, or `read` gives None.
        """
        found = self.optional(name, read)
        if found is None:
            raise self.fault(name)
        return found

    def fault(self, name: str) -> ProtocolError:
        """Returns the error of this member."""
        return ProtocolError(self._code) if self._code else ProtocolError("field_invalid", name)
