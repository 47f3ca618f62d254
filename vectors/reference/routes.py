"""Which requests are sealed: spec/routes.md, with its rule sets and targets."""

import re
import unicodedata

EXACT, PREFIX = "exact", "prefix"

# spec/routes.md#characters: what a lenient service may read one character as, and those on which services differ too much.
FOLDED = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
FOLDED |= dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
FOLDED |= dict.fromkeys([0x2044, 0x2215, 0x29F8], "/") | dict.fromkeys([0x2216, 0x29F5], "\\")
FOLDED |= {0x2024: ".", 0x2025: "..", 0x2026: "...", 0xAA: "a", 0xBA: "o", 0xB2: "2", 0xB3: "3", 0xB9: "1"}
FOLDED |= {0x17F: "s", 0x212A: "k", 0x130: "i", 0x131: "i", 0xDF: "ss", 0x1E9E: "ss"}
FOLDED |= dict(zip(range(0xFB00, 0xFB07), ["ff", "fi", "fl", "ffi", "ffl", "st", "st"]))
REFUSED = [(0, 0x1F), (0x7F, 0x9F), (0x132, 0x133), (0x1C7, 0x1CC), (0x1F1, 0x1F3), (0x2B0, 0x2B8), (0x2E0, 0x2E4), (0x37E, 0x37E),
           (0x1D2C, 0x1D6A), (0x1D9B, 0x1DBF), (0x1FEF, 0x1FEF), (0x203C, 0x203C), (0x2047, 0x2049), (0x2070, 0x209F),
           (0x20A8, 0x20A8), (0x2100, 0x218F), (0x2460, 0x24FF), (0x2A74, 0x2A76), (0x2C7C, 0x2C7D), (0x3250, 0x33FF),
           (0xA7F2, 0xA7F4), (0xFB29, 0xFB29), (0xFE10, 0xFE6F), (0x107A5, 0x107A5), (0x1D400, 0x1D7FF), (0x1F100, 0x1F1E5),
           (0x1FBF0, 0x1FBF9)]

ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
LEFT = re.compile(r"%([0-9A-Fa-f]{2}|[uU][0-9A-Fa-f]{4})")


class Ambiguous(Exception):
    """Services differ too much on the path."""


def text_of(segment: bytes) -> str:
    for _ in range(3):
        segment = ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), segment)
    try:
        text = segment.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Ambiguous("not UTF-8") from error
    if any(first <= ord(char) <= last and ord(char) not in FOLDED for char in text for first, last in REFUSED):
        raise Ambiguous("a character that is refused")
    text = text.translate(FOLDED)
    if LEFT.search(text):
        raise Ambiguous("an escape is left")
    if re.search(r";.*[/\\]", text, re.DOTALL):
        raise Ambiguous("a slash within parameters")
    return text


def canonical(path: str) -> list[str]:
    """The canonical form of all the path, and of what is before a `?` or `#` in it."""
    whole = "/".join(text_of(segment.encode()) for segment in path.split("/")).replace("\\", "/")
    if whole.startswith("//"):
        raise Ambiguous("two slashes at the start")
    return list(dict.fromkeys([form_of(whole), form_of(re.split("[?#]", whole)[0])]))


def form_of(text: str) -> str:
    out = ""
    for segment in text.split("/"):
        name = segment.partition(";")[0]
        bare = name.rstrip(" .")
        if not bare and name.count(".") > 1:
            raise Ambiguous("a step up")
        if bare:
            out += "/" + "".join(char.lower() if char.isascii() else char for char in bare)
    return out


class Rejected(Exception):
    """A rule set that nobody may serve, for the rule of this index."""

    def __init__(self, index: int, reason: str):
        super().__init__(index, reason)
        self.index, self.reason = index, reason


class Rules:
    def __init__(self, rules: list[dict]):
        self.rules = []
        for index, rule in enumerate(rules):
            kind = EXACT if EXACT in rule else PREFIX
            path = rule[kind]
            try:
                forms = canonical(path)
            except Ambiguous:
                forms = []
            is_sent = all("!" <= char <= "~" and char not in "?#" for char in path)
            if not path.startswith("/") or not is_sent or len(forms) != 1 or (not forms[0] and path != "/"):
                raise Rejected(index, "path")
            if any(covers(before, other, kind, path) for before, other, _, _ in self.rules):
                raise Rejected(index, "unreachable")
            self.rules.append((kind, path, rule["sealed"], forms[0]))

    def decide(self, target: str) -> tuple[str, list[str] | None]:
        """The decision, and the canonical forms of the path; None where it has none."""
        path = target.partition("?")[0]
        try:
            forms = canonical(path)
        except Ambiguous:
            forms = None
        return self.decide_by(path, forms), forms

    def decide_by(self, path: str, forms: list[str] | None) -> str:
        found = next((rule for rule in self.rules if names(rule, path)), None)
        if found is None or found[2] == "required":
            return "sealed"
        mode = {"optional": "optional", "off": "plain"}[found[2]]
        has_sealed = any(rule[2] == "required" for rule in self.rules) or not any(rule[:2] == (PREFIX, "/") for rule in self.rules)
        if found[0] == EXACT or not has_sealed:
            return mode
        return mode if forms is not None and all(map(self.is_plain, forms)) else "refused"

    def is_plain(self, form: str) -> bool:
        longest = None
        for kind, path, sealed, own in self.rules:
            if kind == EXACT and sealed != "required":
                continue
            if not (form == own or kind == PREFIX and form.startswith(own + "/" if path.endswith("/") else own)):
                continue
            if sealed == "required" and (longest is None or len(own.encode()) >= longest):
                return False
            if sealed != "required":
                longest = max(longest or 0, len(own.encode()))
        return longest is not None


def covers(kind: str, path: str, other_kind: str, other: str) -> bool:
    return other.startswith(path) if kind == PREFIX else other_kind == EXACT and other == path


def names(rule: tuple, path: str) -> bool:
    return covers(rule[0], rule[1], EXACT, path)


def check_characters() -> None:
    """Every character that NFKC or a change of case makes ASCII is folded or refused."""
    for code in [*range(0x80, 0xD800), *range(0xE000, 0x110000)]:
        char = chr(code)
        compatible = unicodedata.normalize("NFKC", char)
        readings = {change(each) for each in (char, compatible) for change in (str, str.lower, str.upper, str.casefold)}
        is_refused = any(first <= code <= last for first, last in REFUSED)
        if any(reading.isascii() for reading in readings) and code not in FOLDED and not is_refused:
            raise SystemExit(f"U+{code:04X} may be read as ASCII: neither folded nor refused")
