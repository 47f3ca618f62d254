"""Tokens: the compact form of a JWE (RFC 7516 section 7.1), and its protected header, both read strictly."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..wire.encoding import encode_base64url
from .content import ENCS
from .members import Number, members_of
from .profile import ALGS
from .refusal import MleRefusal

#: Longest protected header, in bytes of its JSON.
_HEADER_LEN_MAX: Final = 4096
_KID_LEN_MAX: Final = 256
_IAT: Final = re.compile("[0-9]{1,20}", re.ASCII)
#: Algorithms that the specification has and this package has no keys for.
_OTHER_ALGS: Final = ("A128KW", "A256KW", "dir", "ECDH-ES")
_OF_AGREEMENT: Final = ("epk", "apu", "apv")


class Header(NamedTuple):
    """The protected header, as far as it decides something. `iat` is in the unit of the profile."""

    alg: str
    enc: str
    kid: str | None
    iat: int | None
    x5t_s256: bytes | None


# SPEC mle.md#compact-form
def split(token: bytes) -> list[bytes]:
    """Returns the five parts of a token, still encoded.

    Raises:
        MleRefusal: `shape`; `size` for the header.
    """
    # Counted first: a token of a million dots costs one pass and no memory.
    if token.count(b".") != 4:
        raise MleRefusal("shape", "the token has not five parts")
    parts = token.split(b".")
    if len(parts[0]) > -(-_HEADER_LEN_MAX // 3) * 4:
        raise _too_long()
    return parts


def decode(part: bytes, has_mixed_letters: bool = False) -> bytes:
    """Decodes base64url without padding, in its one spelling; or with the letters `+` and `/` as well.

    Raises:
        MleRefusal: `base64`.
    """
    data = _decoded(part.translate(_MIXED) if has_mixed_letters else part)
    if data is None:
        raise MleRefusal("base64", "a part of the token is not canonical base64url without padding")
    return data


_MIXED: Final = bytes.maketrans(b"+/", b"-_")


def _decoded(text: bytes) -> bytes | None:
    try:
        data = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        return None
    # The library skips what it does not know; another spelling does not come back.
    return data if encode_base64url(data).encode("ascii") == text else None


# SPEC mle.md#header
def parse_header(data: bytes) -> Header:
    """Reads the JSON of a protected header.

    Raises:
        MleRefusal: `size`, `header`, and the class of a parameter that is not as it should be.
    """
    if len(data) > _HEADER_LEN_MAX:
        raise _too_long()
    members = members_of(data, "header")

    def present(*names: str) -> str | None:
        return next((name for name in names if name in members), None)

    if name := present("crit", "b64"):
        raise MleRefusal("crit", "the profile has no such parameter", name)
    if "zip" in members:
        raise MleRefusal("zip", "compressed content is not opened")
    if name := present("jku", "jwk", "x5u", "x5c", "x5t"):
        raise MleRefusal("param", "a token may not bring or name key material", name)
    alg, enc = members.get("alg"), members.get("enc")
    if not isinstance(alg, str) or alg not in ALGS + _OTHER_ALGS:
        raise MleRefusal("alg", "alg is not supported", str(alg))
    if not isinstance(enc, str) or enc not in ENCS:
        raise MleRefusal("enc", "enc is not supported", str(enc))
    is_agreement = alg == "ECDH-ES"
    if name := present(*(() if is_agreement else _OF_AGREEMENT), "iv", "tag", "p2s", "p2c"):
        raise MleRefusal("param", "a parameter does not belong to alg", name)
    for each in ("typ", "cty"):
        if not isinstance(members.get(each, ""), str):
            raise MleRefusal("header", "a parameter is not a string", each)
    if is_agreement:
        _check_agreement(members)
    header = Header(alg, enc, _kid(members), _iat(members), _x5t_s256(members))
    if alg not in ALGS:
        raise MleRefusal("alg", "no key has this alg", alg)
    return header


def _kid(members: Mapping[str, Any]) -> str | None:
    if "kid" not in members:
        return None
    kid = members["kid"]
    if not isinstance(kid, str) or not is_kid(kid):
        raise MleRefusal("kid", "kid is not a string of 1 to 256 bytes")
    return kid


def is_kid(text: str) -> bool:
    """Returns True if a text can name a key: 1 to 256 bytes."""
    try:
        return 0 < len(text.encode("utf-8")) <= _KID_LEN_MAX
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def _iat(members: Mapping[str, Any]) -> int | None:
    """Reads digits alone: a sign, a fraction, an exponent or a string has two readings."""
    if "iat" not in members:
        return None
    value = members["iat"]
    iat = int(value.text) if isinstance(value, Number) and _IAT.fullmatch(value.text) else None
    if iat is None or iat >= 2**64:
        raise MleRefusal("iat", "iat is not a whole number")
    return iat


def _x5t_s256(members: Mapping[str, Any]) -> bytes | None:
    if "x5t#S256" not in members:
        return None
    found = _bytes_of(members["x5t#S256"])
    if found is None or len(found) != 32:
        raise MleRefusal("param", "x5t#S256 is not 32 bytes in base64url")
    return found


def _check_agreement(members: Mapping[str, Any]) -> None:
    """Checks the ephemeral key of `ECDH-ES` (RFC 7518 section 4.6.1), although no key for it can be loaded."""
    point = members_of(members.get("epk"), "epk")
    if point.get("kty") != "EC" or point.get("crv") != "P-256" or "d" in point:
        raise MleRefusal("epk", "epk is not a public key on P-256")
    if any(len(_bytes_of(point.get(name)) or b"") != 32 for name in ("x", "y")):
        raise MleRefusal("epk", "a coordinate of epk is not 32 bytes")
    if any(_bytes_of(members[name]) is None for name in ("apu", "apv") if name in members):
        raise MleRefusal("epk", "a parameter is not base64url")


def _bytes_of(value: Any) -> bytes | None:
    """Returns the bytes of a value that is a text of base64url."""
    return _decoded(value.encode("ascii")) if isinstance(value, str) and value.isascii() else None


def _too_long() -> MleRefusal:
    return MleRefusal("size", "the header is longer than 4096 bytes")
