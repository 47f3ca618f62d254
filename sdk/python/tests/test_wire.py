"""The forms of the wires at their edges: what is accepted, and what is rejected with which code."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from sealway.errors import ProtocolError
from sealway.wire import encoding, identifier, inner, members
from sealway.wire.header import Headers, compat_wire_of
from sealway.wire.members import Members, Number, parse_json

DIGITS = "09af" * 8


def rejected(run: Callable[[], Any]) -> tuple[str, str | None] | None:
    """Returns the code and the field of the error that `run` raises; None if it raises none."""
    try:
        run()
    except ProtocolError as error:
        return error.code, error.field
    return None


def test_base64_has_one_spelling_for_each_length() -> None:
    every = bytes(range(256))
    for length in range(257):
        data = every[:length]
        text = encoding.encode_base64(data)
        assert text == base64.b64encode(data).decode()
        assert encoding.decode_base64(text) == encoding.decode_base64(text.encode()) == data
        assert encoding.encode_base64url(data) == text.replace("+", "-").replace("/", "_").rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "AA",
        "AAA",
        "AA=",
        "A===",
        "====",
        "=AAA",
        "AA=A",
        "AAAA=",
        "AB==",
        "AAB=",
        " AAA",
        "AA\nAA",
        "AAAA\n",
        "AA-_",
        "AA!A",
        "AAé=",
        "AAAA====",
    ],
)
def test_base64_has_no_other_spelling(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not canonical base64$"):
        encoding.decode_base64(text)


def test_fields_have_their_lengths() -> None:
    assert encoding.field(b"\1\2\3").hex() == "00000003010203"
    assert encoding.field("é").hex() == "00000002c3a9"
    assert encoding.field(bytearray(b"\xff") * 300).hex() == "0000012c" + "ff" * 300
    assert encoding.short_fields("ab", "", "x" * 255).hex() == "0000000261620000000000000" + "0ff" + "78" * 255
    assert encoding.number(0x123456789ABCDEF0).hex() == "00000008123456789abcdef0"
    assert encoding.number(2**64 - 1).hex() == "00000008" + "ff" * 8
    assert encoding.fields([b"a", "b"]).hex() == "0000000a" + "0000000161" + "0000000162"
    assert encoding.fields([]).hex() == "00000000"
    assert encoding.optional(None).hex() == encoding.optional("").hex() == "00000000"
    assert encoding.optional(1).hex() == "000000080000000000000001"
    assert encoding.optional(0).hex() == "000000080000000000000000"
    assert encoding.optional("a").hex() == "0000000161"


DEEP = "[" * 127 + "]" * 127


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            r'{"a":[1,-2.5e3,true,null,"x\"]}\\"],"b":{"c":"[[["}}',
            {"a": [1, -2500.0, True, None, 'x"]}\\'], "b": {"c": "[[["}},
        ),
        (' "1e999" ', "1e999"),
        ('{"a":1,"a":2}', {"a": 2}),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("99999999999999999999", 99999999999999999999),
        ("[{},[]]", [{}, []]),
    ],
)
def test_json_is_read(text: str, value: Any) -> None:
    assert parse_json(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        '{"a":' * 127 + "1" + "}" * 127,
        "[" + "[[]]," * 200 + "1]",
        "[" + "{}," * 200 + "1]",
        '["' + r"\"[" * 200 + '"]',
        r'["\\",' + '"{",' * 200 + "1]",
        '"' + "[" * 200 + '"',
        '["a' + "[" * 200 + '"]',
    ],
)
def test_json_is_nested_127_levels_deep_at_most(text: str) -> None:
    assert rejected(lambda: parse_json(text.encode())) is None
    assert rejected(lambda: parse_json(text.encode(), is_server=False)) is None


@pytest.mark.parametrize(
    "text",
    [
        f"[{DEEP}]",
        '{"a":' * 128 + "1" + "}" * 128,
        f'["",{DEEP}]',
        rf'["\\",{DEEP}]',
        "",
        "{",
        '{"a":1}x',
        "\ufeff{}",
        "'a'",
        '"a',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "01",
        "[" * 5000,
    ],
)
def test_json_is_rejected(text: str) -> None:
    for is_server in (True, False):
        assert rejected(lambda is_server=is_server: parse_json(text.encode(), is_server)) == ("json_invalid", None)  # type: ignore[misc]


@pytest.mark.parametrize(
    "text", ["1e999", "-1e999", "[1,[2,1e309]]", '{"a":[{"b":1e999}]}', '[{"a":1},1e999]', "9" * 400]
)
def test_a_server_takes_no_number_beyond_a_double(text: str) -> None:
    assert rejected(lambda: parse_json(text.encode())) == ("json_invalid", None)
    assert rejected(lambda: parse_json(text.encode(), is_server=False)) is None


def test_json_is_utf_8() -> None:
    assert rejected(lambda: parse_json(b'"\xff"')) == ("json_invalid", None)


def test_depth() -> None:
    for text, depth in (
        ("", 0),
        ("[]", 1),
        ("[{}]", 2),
        ("[][]", 1),
        ("[[]][[[]]]", 3),
        ('"["', 0),
        ('["[",{"]":[]}]', 3),
    ):
        assert not members.depth_exceeds(text, depth)
        assert depth == 0 or members.depth_exceeds(text, depth - 1)


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("0", 0),
        ("10", 10),
        ("1e1", 10),
        ("1E1", 10),
        ("1.0", 1),
        ("100e-1", 10),
        ("0.0", 0),
        ("-0", 0),
        ("-0.0", 0),
        ("0e99", 0),
        ("1.50e1", 15),
        ("1000e-3", 1),
        ("0.1e1", 1),
        ("0.01e3", 10),
        ("1e0", 1),
        ("1.00", 1),
        ("0e-5", 0),
        ("10e0", 10),
        ("18e0", 18),
        ("0.0e" + "9" * 30, 0),
    ],
)
def test_whole_numbers(spelling: str, value: int) -> None:
    parsed = parse_json(spelling.encode(), is_server=False)
    assert members.whole(parsed, 18) == value
    assert members.whole(parsed, value) == value
    assert members.whole(parsed, value - 1) is None


@pytest.mark.parametrize(
    "spelling",
    [
        "19",
        "1.9e1",
        "-1",
        "-1.0",
        "0.5",
        "1.5",
        "15e-1",
        "1e-1",
        "100e-3",
        "1e999",
        "1e-999",
        "1e" + "9" * 30,
        '"1"',
        "true",
        "null",
        "[]",
        "101e-1",
        "1.01e1",
        "9" * 30,
        "9" * 500,
        "1.0" + "0" * 3 + "1",
        "-5e0",
    ],
)
def test_no_whole_numbers(spelling: str) -> None:
    assert members.whole(parse_json(spelling.encode(), is_server=False), 18) is None


def test_whole_numbers_are_exact_beyond_a_double() -> None:
    assert members.whole(parse_json(b"18446744073709551615"), 2**64 - 1) == 2**64 - 1
    assert members.whole(parse_json(b"18446744073709551615.0"), 2**64 - 1) == 2**64 - 1
    assert members.whole(parse_json(b"1844674407370955161.5e1"), 2**64 - 1) == 2**64 - 1
    assert members.whole(parse_json(b"9007199254740993e0"), 2**64 - 1) == 2**53 + 1
    assert members.whole(parse_json(b"18446744073709551616"), 2**64 - 1) is None
    assert members.whole(0.0, 5) is None
    # Numbers of up to 400 digits have a value, and longer ones none: digits cost the square of their count.
    for spelling, is_read in ((f"{'9' * 400}.0", True), (f"{'9' * 401}.0", False), ("1e399", True), ("1e400", False)):
        assert (members.whole(Number(spelling), 10**500) is not None) == is_read
    for spelling, is_read in (("1e" + "0" * 19 + "1", True), ("1e" + "0" * 20 + "1", False)):
        assert (members.whole(Number(spelling), 10) is not None) == is_read
    assert members.time_ms(999_999_999_999_999) == 999_999_999_999_999
    assert members.time_ms(1_000_000_000_000_000) is None


def test_values_of_members() -> None:
    value: Any
    data: Any
    assert members.text("a", str.islower) == "a"
    assert members.text("A", str.islower) is members.text(1, lambda _: True) is None
    for value, read in (
        ("a", "a"),
        ("abcd", "abcd"),
        ("éé", "éé"),
        ("", None),
        ("abcde", None),
        ("ééa", None),
        ("\ud800", None),
        (1, None),
        (["a"], None),
    ):
        assert members.short(value, 4) == read
    for value, data in (("AAA=", b"\0\0"), ("AAB=", None), ("", None), (1, None), (b"AAA=", None), (None, None)):
        assert members.base64_bytes(value) == data
    for value in (["a"], ["b", "a"]):
        assert members.names(value, str.islower, 1, 2) == value
    for value in ([], ["a", "b", "c"], ["a", "a"], ["a", "B"], ["a", 1], [1], "a", None, {"a": 1}, ("a",)):
        assert members.names(value, str.islower, 1, 2) is None


def test_members_are_named_in_a_request_and_not_in_an_answer() -> None:
    lower = lambda value: members.text(value, str.islower)  # noqa: E731
    read = Members.parse(b'{"a":"x","b":"B","n":null,"z":0}')
    assert read.required("a", lower) == read.optional("a", lower) == "x"
    assert read.required("z", lambda value: members.whole(value, 1)) == 0
    assert read.optional("n", lower) is read.optional("away", lower) is None
    assert (
        rejected(lambda: read.optional("b", lower))
        == rejected(lambda: read.required("b", lower))
        == ("field_invalid", "b")
    )
    for name in ("n", "away"):
        assert rejected(lambda name=name: read.required(name, lower)) == ("field_invalid", name)  # type: ignore[misc]
    answer = Members.parse(b'{"b":"B"}', "answer_mismatch")
    assert (
        rejected(lambda: answer.required("b", lower))
        == rejected(lambda: answer.required("c", lower))
        == ("answer_mismatch", None)
    )
    for body, code in (
        (b"{", "json_invalid"),
        (b"[]", "field_invalid"),
        (b"null", "field_invalid"),
        (b"1e999", "json_invalid"),
    ):
        assert rejected(lambda body=body: Members.parse(body)) == (code, None)  # type: ignore[misc]
        assert rejected(lambda body=body: Members.parse(body, "answer_mismatch")) == ("answer_mismatch", None)  # type: ignore[misc]
    assert rejected(lambda: Members([])) == ("field_invalid", None)
    assert rejected(lambda: Members([], "answer_mismatch")) == ("answer_mismatch", None)


def test_identifiers() -> None:
    for is_good, good, bad in (
        (
            identifier.is_session_id,
            ["S-" + DIGITS, "A-" + DIGITS],
            [
                "",
                "B-" + DIGITS,
                f"S-{DIGITS}0",
                f"xS-{DIGITS}",
                "S-" + DIGITS[1:],
                "S-" + DIGITS.upper(),
                f"S-{DIGITS}\n",
            ],
        ),
        (
            identifier.is_client_id,
            ["a", " ", "~", "{}", "x" * 256],
            ["", "|", "a|b", "\x1f", "\x7f", "é", "a\n", "x" * 257],
        ),
        (identifier.is_key_id, [DIGITS], ["", DIGITS[1:], DIGITS + "0", DIGITS[1:] + "A", DIGITS + "\n"]),
    ):
        assert all(map(is_good, good))
        assert not any(map(is_good, bad))
    assert identifier.session_id(b"\xab" * 16) == "S-" + "ab" * 16
    assert identifier.session_id(b"\xab" * 16, is_anonymous=True) == "A-" + "ab" * 16
    for length in (15, 17):
        with pytest.raises(ValueError, match=r"^a session id is made of 16 bytes$"):
            identifier.session_id(bytes(length))
    assert identifier.id_of_kid("session:x") == identifier.id_of_kid("hpke:x", "hpke:") == "x"
    for kid in ("", "hpke:x", "Session:x", "xsession:"):
        assert rejected(lambda kid=kid: identifier.id_of_kid(kid)) == ("kid_prefix", None)  # type: ignore[misc]


def test_nonces() -> None:
    shortest, longest = "a" * 16, "azAZ09_-" + "x" * 120
    for check in (identifier.check_nonce, identifier.check_request_nonce):
        for nonce in (shortest, longest, f"ar-{shortest}", f"r_{shortest}", f"-r{shortest}"):
            assert rejected(lambda check=check, nonce=nonce: check(nonce, 16)) is None  # type: ignore[misc]
        for nonce in ("", shortest[1:], longest + "x", shortest + ".", "." + shortest, shortest + "\n", shortest + "é"):
            assert rejected(lambda check=check, nonce=nonce: check(nonce, 16)) == ("nonce_invalid", None)  # type: ignore[misc]
        for least in ((), (1,)):
            assert rejected(lambda check=check, least=least: check("a", *least)) is None  # type: ignore[misc]
            assert rejected(lambda check=check, least=least: check("", *least)) == ("nonce_invalid", None)  # type: ignore[misc]
        assert rejected(lambda check=check: check("a", 2)) == ("nonce_invalid", None)  # type: ignore[misc]
    for nonce in ("r-" + shortest, "R-" + shortest):
        assert rejected(lambda nonce=nonce: identifier.check_request_nonce(nonce, 16)) == ("nonce_reserved", None)  # type: ignore[misc]
        assert rejected(lambda nonce=nonce: identifier.check_nonce(nonce, 16)) is None  # type: ignore[misc]
    assert rejected(lambda: identifier.check_request_nonce("r-")) == ("nonce_reserved", None)


def test_stamps_and_windows() -> None:
    assert [identifier.parse_stamp(text) for text in ("0", "007", "9" * 15)] == [0, 7, 10**15 - 1]
    for text in ("", "-1", "+1", "1.5", "1e3", " 1", "1 ", "x", "1\n", "1_0", "٣", "9" * 16):
        assert rejected(lambda text=text: identifier.parse_stamp(text)) == ("timestamp_invalid", None)  # type: ignore[misc]
    for stamp in (90, 100, 110):
        assert rejected(lambda stamp=stamp: identifier.check_window(stamp, 100, 10)) is None  # type: ignore[misc]
    for stamp in (89, 111, 0, 300):
        outcome = rejected(lambda stamp=stamp: identifier.check_window(stamp, 100, 10))  # type: ignore[misc]
        assert outcome == ("timestamp_outside_window", None)
    key = identifier.split_idempotency_key("1.a")
    assert (key.stamp, key.nonce, str(key)) == ("1", "a", "1.a")
    for text in ("", ".", "1", "1.", ".a", "1.a.", "1.a.b", "..", "1..a"):
        assert rejected(lambda text=text: identifier.split_idempotency_key(text)) == ("idempotency_key_shape", None)  # type: ignore[misc]


def test_headers() -> None:
    headers = Headers(
        [("X-A", "1"), ("x-a", "2"), ("X-B", "\t ~"), ("X-Empty", ""), ("X-Bad", "a\nb"), ("X-High", "\x7f")]
    )
    assert "x-A" in headers and "X-C" not in headers
    assert headers.all("x-A") == ["1", "2"] and headers.all("X-C") == []
    assert (headers.first("x-A"), headers.first("X-Empty"), headers.first("X-C")) == ("1", "", None)
    assert (headers.optional("x-b"), headers.optional("x-EMPTY"), headers.optional("X-C")) == ("\t ~", "", None)
    assert headers.single("x-B") == "\t ~"
    for name in ("X-A", "X-Bad", "X-High"):
        for read in (headers.optional, headers.single):
            assert rejected(lambda read=read, name=name: read(name)) == ("header_invalid", name)  # type: ignore[misc]
    for name in ("X-Empty", "X-C"):
        assert rejected(lambda name=name: headers.single(name)) == ("header_missing", name)  # type: ignore[misc]
    for names, wire in ((["x-nonce"], 1), (["x-nonce", "x-idempotency-key"], 2), (["x-idempotency-key"], 2), ([], 2)):
        assert compat_wire_of(Headers((name, "a") for name in names)) == wire


class TestInnerHeaders:
    """Inner headers, encoded and decoded."""

    @staticmethod
    def both(headers: list[tuple[bytes, bytes]]) -> bytes:
        block = inner.encode_inner(headers)
        assert inner.decode_inner(block + b"body") == (headers, len(block))
        # The body may be empty.
        assert inner.decode_inner(block) == (headers, len(block))
        return block

    def test_are_encoded_with_their_lengths(self) -> None:
        assert self.both([]).hex() == "0000"
        assert (
            self.both([(b"a", b"\t ~\x80\xff"), (b"b-", b"")]).hex()
            == "000e" + "0161" + "0005" + "09207e80ff" + "02622d" + "0000"
        )
        assert len(self.both([(b"a", b"x" * 300)])) == 2 + 4 + 300

    def test_are_64_and_16_kib_at_most(self) -> None:
        assert len(self.both([(b"a", b"")] * 64)) == 2 + 64 * 4
        for headers in ([(b"a", b"")] * 65, [(b"a", b"x" * (16_384 - 3))], [(b"a", b"x" * 0x10000)]):
            assert rejected(lambda headers=headers: inner.encode_inner(headers)) is not None  # type: ignore[misc]
        assert rejected(lambda: inner.encode_inner([(b"a", b"")] * 65)) == ("inner_headers_invalid", None)
        assert len(self.both([(b"a", b"x" * (16_384 - 4))])) == 2 + 16_384
        assert rejected(lambda: inner.encode_inner([(b"a", b"x" * 0x10000)])) == ("inner_headers_invalid", "a")
        assert rejected(lambda: inner.encode_inner([(b"a", b"x" * 0xFFFF)])) == ("inner_headers_invalid", None)
        block = b"\x01a\0\0" * 65
        assert rejected(lambda: inner.decode_inner(len(block).to_bytes(2, "big") + block)) == (
            "inner_headers_invalid",
            None,
        )
        long = b"\x01a" + (16_381).to_bytes(2, "big") + b"x" * 16_381
        assert rejected(lambda: inner.decode_inner(len(long).to_bytes(2, "big") + long)) == (
            "inner_headers_invalid",
            None,
        )

    @pytest.mark.parametrize(
        "name",
        [
            b"",
            b"A",
            b"a b",
            b"a\n",
            b"\x80",
            b"x" * 256,
            b"host",
            b"connection",
            b"proxy-a",
            b"proxy-",
            b"x-sealway-a",
            b"x-kid",
            b"te",
        ],
    )
    def test_have_no_name_of_the_hop_or_the_seal(self, name: bytes) -> None:
        assert not inner.may_be_inner(name)
        code, field = rejected(lambda: inner.encode_inner([(name, b"")])) or ("", None)
        assert (code, field) == ("inner_headers_invalid", name.decode("ascii", "replace"))
        if len(name) < 256:
            block = bytes([len(name)]) + name + b"\0\0"
            assert rejected(lambda: inner.decode_inner(len(block).to_bytes(2, "big") + block)) == (
                "inner_headers_invalid",
                None,
            )

    @pytest.mark.parametrize("name", [b"a", b"!#$%&'*+.^_`|~-", b"x" * 255, b"proxyx", b"x-sealwayx", b"a-proxy-b"])
    def test_have_any_other_name(self, name: bytes) -> None:
        assert inner.may_be_inner(name)
        self.both([(name, b"v")])

    @pytest.mark.parametrize("value", [b"\x1f", b"\x7f", b"a\nb", b"\r", b"\0"])
    def test_have_no_control_characters(self, value: bytes) -> None:
        assert rejected(lambda: inner.encode_inner([(b"a", value)])) == ("inner_headers_invalid", "a")
        block = b"\x01a" + len(value).to_bytes(2, "big") + value
        assert rejected(lambda: inner.decode_inner(len(block).to_bytes(2, "big") + block)) == (
            "inner_headers_invalid",
            None,
        )

    @pytest.mark.parametrize(
        "block",
        [
            "",
            "00",
            "0001",
            "000401610000".removesuffix("00"),
            "000101",
            "00020161",
            "0003016100",
            "0004026100",
            "000401610001",
            "0005016100016100"[:12],
            "0004ff610000",
            "0008016100000161ffff",
            "400100",
            "ffff",
        ],
    )
    def test_are_not_cut(self, block: str) -> None:
        assert rejected(lambda: inner.decode_inner(bytes.fromhex(block))) == ("inner_headers_invalid", None)
