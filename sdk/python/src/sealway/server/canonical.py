"""The canonical forms of a path: what stands for all spellings that services read as one path (`spec/routes.md`)."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_KEPT_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2}|[uU][0-9A-Fa-f]{4})")
_HIDDEN_SLASH = re.compile(r";.*[/\\]", re.DOTALL)
_UPPER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

# SPEC routes.md#characters
_FOLDED: Final = str.maketrans(
    {
        **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
        **dict.fromkeys(["\u00a0", *map(chr, range(0x2000, 0x200B)), "\u202f", "\u205f", "\u3000"], " "),
        **dict.fromkeys("\u2044\u2215\u29f8", "/"),
        **dict.fromkeys("\u2216\u29f5", "\\"),
        **{"\u2024": ".", "\u2025": "..", "\u2026": "...", "\u017f": "s", "\u212a": "k", "\u0130": "i", "\u0131": "i"},
        **{"\u00df": "ss", "\u1e9e": "ss", "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl"},
        **{"\ufb03": "ffi", "\ufb04": "ffl"},
        **{"\ufb05": "st", "\ufb06": "st", "\u00aa": "a", "\u00ba": "o", "\u00b2": "2", "\u00b3": "3", "\u00b9": "1"},
    }
)
#: What is folded is gone by then.
_REFUSED = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\u0132\u0133\u01c7-\u01cc\u01f1-\u01f3\u02b0-\u02b8\u02e0-\u02e4\u037e\u1d2c-\u1d6a\u1d9b-\u1dbf"
    "\u1fef\u203c\u2047-\u2049\u2070-\u209f\u20a8\u2100-\u218f\u2460-\u24ff\u2a74-\u2a76\u2c7c\u2c7d\u3250-\u33ff"
    "\ua7f2-\ua7f4\ufb29\ufe10-\ufe6f\U000107a5\U0001d400-\U0001d7ff\U0001f100-\U0001f1e5\U0001fbf0-\U0001fbf9]"
)


# SPEC routes.md#canonical-form
def forms(path: bytes) -> list[str] | None:
    """One form, or two where a decoder may have uncovered a query; None for a path on which services differ too much."""
    segments = [_read(segment) for segment in path.split(b"/")]
    if None in segments:
        return None
    text = "/".join(segment or "" for segment in segments).replace("\\", "/")
    if text.startswith("//"):
        return None
    whole, bare = _form(text), _form(re.split("[?#]", text, maxsplit=1)[0])
    if whole is None or bare is None:
        return None
    return [whole] if whole == bare else [whole, bare]


def decoded(data: bytes) -> bytes:
    """With its escapes undone once; what is none stays."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), data)


def _read(segment: bytes) -> str | None:
    for _ in range(3):
        segment = decoded(segment)
    try:
        text = segment.decode("utf-8").translate(_FOLDED)
    except UnicodeDecodeError:
        return None
    return None if _REFUSED.search(text) or _KEPT_ESCAPE.search(text) or _HIDDEN_SLASH.search(text) else text


def _form(text: str) -> str | None:
    form = ""
    for segment in text.split("/"):
        name = segment.partition(";")[0]
        bare = name.rstrip(" .")
        if not bare and name.count(".") > 1:
            # Which segment a step up takes away depends on the service.
            return None
        if bare:
            form += "/" + bare.translate(_UPPER)
    return form
