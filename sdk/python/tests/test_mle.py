"""Tokens of every profile, tokens that are wrong in one place each, and keys."""

from __future__ import annotations

import base64
import hmac
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

import processes
from forging import forge, make_pair, reason_of
from sealway import UsageError
from sealway.errors import ProtocolError, StoreFull
from sealway.mle import PROFILES, MleCodec, MleRefusal, OpeningKey, Profile, SealingKey, generic_jwe
from sealway.mle.content import ENCS
from sealway.mle.profile import ALGS, IatUnit, Message
from sealway.server import MemoryStore
from sealway.wire.encoding import encode_base64url

NOW_MS = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp()) * 1000
KID = "shop-2030"
OWN, OTHER = make_pair(), make_pair(())
KEY = OpeningKey(OWN.private_key, certificate=OWN.certificate, kid=KID)
MESSAGES: tuple[Message, ...] = ("request", "answer")


def everything(iat: IatUnit | None = None) -> Profile:
    return generic_jwe(algs=ALGS, encs=list(ENCS), iat=iat)


def codec(profile: Profile | str | None = None, **more: Any) -> MleCodec:
    given: dict[str, Any] = {"open": [KEY], "now_ms": lambda: NOW_MS}
    return MleCodec(profile or everything(), **{**given, **more})


def opened(token: bytes, profile: Profile | str | None = None, message: Message = "request") -> str:
    return reason_of(lambda: codec(profile).open(message, token))


def forged(**lies: Any) -> bytes:
    return forge(OWN, KID, **lies)


# --- Round trips

CASES = [
    (profile, message, alg, enc)
    for profile in (*PROFILES.values(), everything("seconds"), everything())
    for message in MESSAGES
    for alg in profile.side(message).algs
    for enc in profile.side(message).encs
]


@pytest.mark.parametrize(("profile", "message", "alg", "enc"), CASES, ids=lambda value: getattr(value, "name", value))
def test_every_pair_of_algorithms_goes_both_ways(profile: Profile, message: Message, alg: str, enc: str) -> None:
    seal = SealingKey(OWN.certificate, kid=KID, alg=alg, enc=enc)
    both = MleCodec(profile, open=[OpeningKey(OWN.private_key, kid=KID, alg=alg)], seal=seal)
    for length in (0, 1, 15, 16, 17, 5000):
        plaintext = os.urandom(length)
        assert both.open(message, both.seal(message, plaintext)) == plaintext


def test_header_and_body_have_the_form_of_the_profile() -> None:
    seal = SealingKey(OWN.public_key, kid='k"1')

    def made(name: str) -> tuple[str, str]:
        ((member, token),) = json.loads(codec(name, seal=seal).seal("request", b"{}")).items()
        header = token.partition(".")[0]
        return member, base64.urlsafe_b64decode(header + "==").decode()

    start = '{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"k\\"1"'
    assert made("mastercard-jwe") == ("encryptedData", start + ',"cty":"application/json"}')
    assert made("visa") == ("encData", f'{start},"iat":{NOW_MS}}}')
    assert made("visa-acceptance") == ("encryptedRequest", f'{start},"iat":{NOW_MS // 1000}}}')


def test_nothing_is_sealed_outside_of_the_profile_or_without_a_key_that_is_valid() -> None:
    cbc = SealingKey(OWN.public_key, kid="k", enc="A128CBC-HS256")
    with pytest.raises(UsageError, match="visa has no request with RSA-OAEP-256 and A128CBC-HS256"):
        codec("visa", seal=cbc).seal("request", b"")
    with pytest.raises(UsageError, match="seal is None"):
        codec("visa").seal("request", b"")
    # The certificate is of today, and the codec's clock is not.
    with pytest.raises(UsageError, match="not valid now"):
        codec("visa", seal=SealingKey(OWN.certificate, kid="k")).seal("request", b"")


@pytest.mark.parametrize(
    ("profile", "enc"),
    [
        ("mastercard-jwe", "A256GCM"),
        ("mastercard-jwe", "A192GCM"),
        ("mastercard-jwe", "A128CBC-HS256"),
        ("visa", "A128GCM"),
        ("visa-acceptance", "A256GCM"),
    ],
)
def test_messages_of_the_command_line_open_and_its_users_open_ours(profile: str, enc: str, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(OWN.private_key)
    (tmp_path / "certificate.pem").write_bytes(OWN.certificate)
    seal = SealingKey(OWN.certificate, kid_from="spki_sha256_hex", enc=enc)
    both = MleCodec(profile, open=[OpeningKey(OWN.private_key, kid_from="spki_sha256_hex")], seal=seal)
    text = '{"pan":"4111111111111111","amount":12.50,"name":"Zoë"}'.encode()

    def sealway(command: str, message: str, data: bytes, key: str, *more: str) -> bytes:
        flags = ["--profile", profile, "--kid-from", "spki_sha256_hex", "--message", message, "--key", key]
        return subprocess.run(
            [processes.binary(), "mle", command, *flags, *more],
            input=data,
            capture_output=True,
            check=True,
            cwd=tmp_path,
        ).stdout

    for message in MESSAGES:
        assert both.open(message, sealway("encrypt", message, text, "certificate.pem", "--enc", enc)) == text
        assert sealway("decrypt", message, both.seal(message, text), "key.pem") == text


# --- Wrong tokens

HEADER = {"alg": "RSA-OAEP-256", "enc": "A256GCM", "kid": KID}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in HEADER.items() if key != name}


def member(more: str) -> dict[str, Any]:
    return {"header": f"{json.dumps(HEADER)[:-1]},{more}}}"}


def part(at: int, change: Callable[[str], str]) -> dict[str, Any]:
    return {"parts": lambda parts: [change(each) if i == at else each for i, each in enumerate(parts)]}


def agreement(epk: str) -> dict[str, Any]:
    return {"header": f'{{"alg":"ECDH-ES","enc":"A256GCM","kid":"{KID}"{epk}}}'}


POINT = f'"kty":"EC","crv":"P-256","x":"{encode_base64url(bytes(32))}","y":"{encode_base64url(bytes(32))}"'

WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("four parts", "shape", {"parts": lambda parts: parts[1:]}),
    ("six parts", "shape", {"parts": lambda parts: [*parts, ""]}),
    ("padding", "base64", part(2, lambda text: text + "=")),
    ("a line feed", "base64", part(3, lambda text: text + "\n")),
    ("a letter beyond ASCII", "base64", part(3, lambda text: text + "éé")),
    ("a slash", "base64", part(1, lambda text: "/" + text[1:])),
    ("bits behind the last byte", "base64", part(4, lambda text: text[:-1] + "B")),
    ("a header that is too long", "size", member(f'"x":"{"x" * 4096}"')),
    ("an empty header", "header", {"header": ""}),
    ("a header that is an array", "header", {"header": "[]"}),
    ("a byte order mark", "header", {"header": "\ufeff" + json.dumps(HEADER)}),
    ("bytes behind the header", "header", {"header": json.dumps(HEADER) + "{}"}),
    ("a byte that is not UTF-8", "header", {"header": json.dumps(HEADER)[:-1] + ',"\udcff":1}'}),
    ("a member twice", "header", member('"a":1,"\\u0061":2')),
    ("a name in another member twice is fine", "opened", member('"a":{"b":1,"b":2}')),
    ("half of a surrogate pair", "header", member('"a":"\\ud83d"')),
    ("a surrogate pair is fine", "opened", member('"a":"\\ud83d\\ude00 \\\\ud83d"')),
    ("half of a pair behind an escaped backslash", "header", member('"a":"\\\\ud83d\\ude00"')),
    ("two first halves", "header", member('"a":"\\ud83d\\ud83d\\ude00"')),
    ("a raw control character", "header", member('"a\n":1')),
    ("NaN", "header", member('"a":NaN')),
    ("a large number is fine", "opened", member('"a":1e999')),
    ("nesting of 64", "opened", member(f'"x":{"[" * 63}{"]" * 63}')),
    ("nesting of 65", "header", member(f'"x":{"[" * 64}{"]" * 64}')),
    ("typ that is a number", "header", member('"typ":1')),
    ("crit", "crit", member('"crit":[]')),
    ("b64", "crit", member('"b64":true')),
    ("zip", "zip", member('"zip":"DEF"')),
    *(
        (name, "param", member(f'"{name}":"x"'))
        for name in ("jku", "jwk", "x5u", "x5c", "x5t", "epk", "apu", "apv", "iv", "tag", "p2s", "p2c")
    ),
    ("x5t#S256 of another certificate", "param", member(f'"x5t#S256":"{encode_base64url(bytes(32))}"')),
    ("x5t#S256 of 31 bytes", "param", member(f'"x5t#S256":"{encode_base64url(bytes(31))}"')),
    ("no alg", "alg", {"header": without("alg")}),
    ("Alg", "alg", {"header": {**without("alg"), "Alg": "RSA-OAEP-256"}}),
    ("alg that is a list", "alg", {"header": {**HEADER, "alg": ["RSA-OAEP-256"]}}),
    *(
        (f"alg {alg}", "alg", {"header": {**HEADER, "alg": alg}})
        for alg in ("rsa-oaep-256", "none", "RSA1_5", "dir", "A256KW", "A256GCMKW", "PBES2-HS256+A128KW", "RSA-OAEP")
    ),
    ("enc that is unknown", "enc", {"header": {**HEADER, "enc": "A256CBC"}}),
    ("no kid", "kid", {"header": without("kid")}),
    ("a kid that is empty", "kid", {"header": {**HEADER, "kid": ""}}),
    ("a kid of 257 bytes", "kid", {"header": {**HEADER, "kid": "k" * 257}}),
    ("a kid that is a number", "kid", {"header": {**HEADER, "kid": 1}}),
    ("a kid that is unknown", "kid", {"header": {**HEADER, "kid": "../../etc/passwd\0"}}),
    ("iat with a fraction", "iat", member('"iat":1.0')),
    ("iat with an exponent", "iat", member('"iat":1e3')),
    ("iat that is a text", "iat", member('"iat":"1"')),
    ("iat that is negative", "iat", member('"iat":-1')),
    ("iat of 2^64", "iat", member('"iat":18446744073709551616')),
    ("iat of 2^64 - 1, in a profile without time", "opened", member('"iat":18446744073709551615')),
    ("ECDH-ES without epk", "epk", agreement("")),
    ("ECDH-ES on another curve", "epk", agreement(f',"epk":{{{POINT.replace("P-256", "P-384")}}}')),
    ("ECDH-ES with a private key", "epk", agreement(f',"epk":{{{POINT},"d":"x"}}')),
    ("ECDH-ES with a member twice", "epk", agreement(f',"epk":{{{POINT},"x":"x"}}')),
    ("ECDH-ES, for which there are no keys", "alg", agreement(f',"epk":{{{POINT}}}')),
    ("an encrypted key that is too short", "shape", part(1, lambda text: text[:-2])),
    ("no encrypted key", "shape", part(1, lambda _: "")),
    ("an IV of 16 bytes", "iv", {"iv": bytes(16)}),
    ("an IV of 8 bytes", "iv", {"iv": bytes(8)}),
    ("no IV", "iv", part(2, lambda _: "")),
    ("a tag that is cut", "tag", part(4, lambda text: text[:16])),
    ("no tag", "tag", part(4, lambda _: "")),
    ("a header that was encoded anew", "tag", {"aad": "x"}),
    ("a content key of another length", "unwrap", {"content_key": bytes(16)}),
    ("an encrypted key of other bytes", "unwrap", part(1, lambda _: encode_base64url(bytes([7]) * 256))),
    ("a key wrapped with SHA-1", "unwrap", {"alg": "RSA-OAEP", "header": HEADER}),
]


@pytest.mark.parametrize(("wanted", "lies"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_token_is_refused_with_its_class(wanted: str, lies: dict[str, Any]) -> None:
    assert opened(forged(**lies)) == wanted


def test_a_token_over_its_bound_is_refused() -> None:
    token = forged()
    assert reason_of(lambda: codec(token_max_bytes=len(token) - 1).open("request", token)) == "size"
    assert reason_of(lambda: codec(token_max_bytes=len(token)).open("request", token)) == "opened"


@pytest.mark.parametrize("enc", ["A256GCM", "A128CBC-HS256"])
def test_each_bit_of_a_token_matters(enc: str) -> None:
    parts = [base64.urlsafe_b64decode(part + b"===") for part in forged(enc=enc, plaintext=b"").split(b".")]
    found = set()
    for at, data in enumerate(parts):
        # The encrypted key has nothing to do with the content's algorithm.
        for bit in range(8 if at == 1 and enc != "A256GCM" else 8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            token = ".".join(encode_base64url(bytes(flipped) if i == at else each) for i, each in enumerate(parts))
            reason = opened(token.encode())
            assert reason != "opened", f"part {at}, bit {bit}"
            found.add(reason)
    assert found >= {"header", "alg", "enc", "kid", "unwrap", "tag"}


def test_a_bad_padding_behind_a_right_mac_is_refused_as_a_tag() -> None:
    content_key, iv = os.urandom(32), os.urandom(16)

    def without_ciphertext(parts: list[str]) -> list[str]:
        head = parts[0].encode()
        mac = hmac.digest(content_key[:16], head + iv + (8 * len(head)).to_bytes(8, "big"), "sha256")
        return [*parts[:3], "", encode_base64url(mac[:16])]

    token = forged(enc="A128CBC-HS256", content_key=content_key, iv=iv, parts=without_ciphertext)
    assert opened(token) == "tag"


def test_what_a_refusal_quotes_is_cut_and_escaped() -> None:
    token = forged(header={**HEADER, "kid": "\u202e\n" + "k" * 200})
    with pytest.raises(MleRefusal) as caught:
        codec().open("request", token)
    assert (caught.value.code, caught.value.reason) == ("unsealable", "kid")
    assert str(caught.value) == "kid: no live key has this kid: '\\u202e\\n" + "k" * 62 + "'…"


# --- Profiles


def wrapped(name: str, token: bytes) -> bytes:
    return b'{"%s":"%s"}' % (name.encode(), token)


def test_mastercard_reads_two_more_letters_and_long_ivs_and_visa_does_not() -> None:
    for turn in range(4):
        token = forged(enc="A128GCM", iv=os.urandom(16 if turn % 2 else 12))
        mixed = token.replace(b"_", b"/").replace(b"-", b"+" if turn > 1 else b"-")
        assert codec("mastercard-jwe").open("request", wrapped("encryptedData", mixed)) == b'{"pan":"4111"}'
    timed: dict[str, Any] = {"enc": "A128GCM", "header": {**HEADER, "enc": "A128GCM", "iat": NOW_MS}}
    right = forged(**timed)
    slashed = right[: right.index(b".") - 1] + b"/" + right[right.index(b".") :]
    for token, wanted in ((slashed, "base64"), (forged(**timed, iv=bytes(16)), "iv"), (right, "opened")):
        assert opened(wrapped("encData", token), "visa") == wanted


@pytest.mark.parametrize(
    ("unit", "iat", "wanted"),
    [
        ("milliseconds", NOW_MS, "opened"),
        ("milliseconds", NOW_MS - 300_000, "opened"),
        ("milliseconds", NOW_MS - 300_001, "iat"),
        ("milliseconds", NOW_MS + 300_001, "iat"),
        ("milliseconds", NOW_MS // 1000, "iat"),
        ("milliseconds", None, "iat"),
        ("seconds", NOW_MS // 1000, "opened"),
        ("seconds", NOW_MS // 1000 + 301, "iat"),
        ("seconds", NOW_MS, "iat"),
        ("seconds", None, "iat"),
    ],
)
def test_times_have_a_unit_and_a_window(unit: IatUnit, iat: int | None, wanted: str) -> None:
    token = forged(header=HEADER if iat is None else {**HEADER, "iat": iat})
    assert opened(token, everything(unit)) == wanted
    assert opened(token, everything(unit), "answer") == ("opened" if iat is None else wanted)


def test_answers_of_visa_acceptance_may_use_what_its_requests_may_not() -> None:
    token = forged(alg="RSA-OAEP", enc="A128GCM")
    both = codec("visa-acceptance", open=[OpeningKey(OWN.private_key, kid=KID, alg="RSA-OAEP")])
    assert reason_of(lambda: both.open("answer", wrapped("encryptedResponse", token))) == "opened"
    assert reason_of(lambda: both.open("request", wrapped("encryptedRequest", token))) == "alg"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        '{"encData":"TOKEN","pan":"4111"}',
        '{"encData":"TOKEN","encData":"TOKEN"}',
        '{"encdata":"TOKEN"}',
        '{"encData":["TOKEN"]}',
        '["TOKEN"]',
        '{"encData":"TOKEN"} {',
        "TOKEN",
    ],
)
def test_a_token_is_the_sole_member_of_its_body(body: str) -> None:
    token = forged(header={**HEADER, "iat": NOW_MS}).decode()
    assert opened(body.replace("TOKEN", token).encode(), "visa") == "json"
    escaped = token.replace(".", "\\u002e")
    spaced = f' {{\n"enc\\u0044ata" : "{escaped}" }}'
    assert opened(spaced.encode(), "visa") == "opened"


def test_a_token_without_kid_opens_only_where_the_profile_allows_it_and_one_key_is_live() -> None:
    token, loose = forged(header=without("kid")), generic_jwe(is_kid_optional=True)
    assert (opened(token, loose), opened(token)) == ("opened", "kid")
    two = codec(loose, open=[KEY, OpeningKey(OTHER.private_key, kid="second")])
    assert reason_of(lambda: two.open("request", token)) == "kid"


def test_the_header_key_id_must_be_the_kid() -> None:
    for said, wanted in (([KID], "opened"), (["other"], "kid"), ([KID, "other"], "kid")):
        pairs = [("KeyId", each) for each in said]
        assert reason_of(lambda pairs=pairs: codec().open("request", forged(), pairs)) == wanted  # type: ignore[misc]


# --- Replays


def test_a_token_is_admitted_once_in_whatever_letters_it_is_written() -> None:
    store, both = MemoryStore(claims_max=2, now_ms=lambda: NOW_MS), codec("mastercard-jwe")

    def admitted(token: bytes) -> str:
        guard = both.guard("request", wrapped("encryptedData", token))
        try:
            return guard.release(anyio.run(store.admit, guard.claim)).decode()
        except (ProtocolError, StoreFull) as error:
            return error.code

    token = forged()
    while b"_" not in token:
        token = forged()
    found = [admitted(each) for each in (token, token, token.replace(b"_", b"/"), forged(), forged())]
    assert found == ['{"pan":"4111"}', "replayed", "replayed", '{"pan":"4111"}', "store_full"]


def test_the_claim_is_the_fingerprint_of_the_decoded_parts() -> None:
    iat = NOW_MS // 1000 - 7
    token = forged(header={**HEADER, "iat": iat})
    data = b"\5"
    for each in token.split(b"."):
        decoded = base64.urlsafe_b64decode(each + b"===")
        data += len(decoded).to_bytes(8, "big") + decoded
    claim = codec(everything("seconds")).guard("request", token).claim
    assert (claim.key, claim.is_sealed, claim.stamp_ms) == (sha256(data).digest()[:16], False, 1000 * iat)
    ahead = codec(window_ms=1001).guard("request", forged()).claim
    assert ahead.stamp_ms == NOW_MS + 500


def test_a_profile_of_your_own_has_members() -> None:
    own = replace(generic_jwe(request_member="in", answer_member="out"), name="own")
    both = codec(own, seal=SealingKey(OWN.public_key, kid=KID))
    assert list(json.loads(both.seal("request", b"{}"))) == ["in"]
    assert both.open("answer", both.seal("answer", b"{}")) == b"{}"
