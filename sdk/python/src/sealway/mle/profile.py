"""Profiles: what the messages of each scheme may be (`spec/mle.md#profiles`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from .. import check
from .content import ENCS

#: The direction of a message.
Message = Literal["request", "answer"]
#: The unit of the header parameter `iat`.
IatUnit = Literal["seconds", "milliseconds"]

#: Algorithms of RSA keys (RFC 7518 section 4.3): RSAES-OAEP with SHA-256, and with SHA-1.
ALGS: Final = ("RSA-OAEP-256", "RSA-OAEP")


@dataclass(frozen=True, slots=True)
class Side:
    """The rules of one direction.

    Attributes:
        member: the member that is the token, the sole one of the body; None if the body is the token and nothing else.
        cty: the parameter `cty` of messages that are sealed; it is never read.
    """

    algs: tuple[str, ...]
    encs: tuple[str, ...]
    member: str | None = None
    is_iat_required: bool = False
    cty: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules for the messages of one scheme.

    Attributes:
        has_mixed_letters: reads `+` and `/` as `-` and `_`, as Mastercard's library for Node sends `/`.
        has_long_iv: opens AES-GCM with IVs of 16 bytes too, which Mastercard's libraries send.
        iat: None if `iat` is ignored, and none is sent.
        is_kid_optional: opens tokens without `kid` by the only key that there is.
    """

    name: str
    request: Side
    answer: Side
    has_mixed_letters: bool = False
    has_long_iv: bool = False
    iat: IatUnit | None = None
    is_kid_optional: bool = False

    def side(self, message: Message) -> Side:
        """Returns the rules of a direction."""
        return self.request if message == "request" else self.answer


_RSA = ("RSA-OAEP-256",)
_MASTERCARD = Side(_RSA, ("A256GCM", "A128GCM", "A192GCM", "A128CBC-HS256"), "encryptedData", cty="application/json")
_VISA = Side(_RSA, ("A128GCM", "A256GCM"), "encData")

#: The profiles of schemes, by name.
PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        "mastercard-jwe": Profile("mastercard-jwe", _MASTERCARD, _MASTERCARD, True, True),
        "visa": Profile("visa", replace(_VISA, is_iat_required=True), _VISA, iat="milliseconds"),
        "visa-acceptance": Profile(
            "visa-acceptance",
            Side(_RSA, ("A256GCM",), "encryptedRequest", is_iat_required=True),
            Side(ALGS, ("A256GCM", "A128GCM"), "encryptedResponse"),
            iat="seconds",
        ),
    }
)


def generic_jwe(
    *,
    algs: Sequence[str] = _RSA,
    encs: Sequence[str] = ("A256GCM",),
    iat: IatUnit | None = None,
    request_member: str | None = None,
    answer_member: str | None = None,
    cty: str | None = None,
    is_kid_optional: bool = False,
) -> Profile:
    """Makes the profile `generic-jwe`: strict base64url, IVs of the standard's lengths.

    Args:
        iat: the unit of `iat`, which requests then must have.
        request_member, answer_member: the member that is the token; None is the bare token.
        is_kid_optional: opens tokens without `kid` where exactly one key is live.

    Raises:
        UsageError
    """
    names = check.listed("algs", algs, "a list of RSA-OAEP-256 and RSA-OAEP")
    check.wants(bool(names) and set(names) <= set(ALGS), "algs", algs, "a list of RSA-OAEP-256 and RSA-OAEP")
    known = f"a list of {', '.join(ENCS)}"
    ciphers = check.listed("encs", encs, known)
    check.wants(bool(ciphers) and set(ciphers) <= set(ENCS), "encs", encs, known)
    check.wants(iat in (None, "seconds", "milliseconds"), "iat", iat, '"seconds", "milliseconds" or None')
    for option, name in (("request_member", request_member), ("answer_member", answer_member), ("cty", cty)):
        check.text(option, name, "a name, or None", is_optional=True)
    request = Side(names, ciphers, request_member, iat is not None, cty)
    answer = Side(names, ciphers, answer_member, cty=cty)
    return Profile("generic-jwe", request, answer, iat=iat, is_kid_optional=is_kid_optional)


def profile_of(profile: Profile | str) -> Profile:
    """Returns the profile of a name, or the profile itself.

    Raises:
        UsageError
    """
    found = PROFILES.get(profile) if isinstance(profile, str) else profile
    known = ", ".join(f'"{name}"' for name in PROFILES)
    if not isinstance(found, Profile):
        check.wants(False, "profile", profile, f"{known}, or what generic_jwe() makes")
        raise AssertionError
    return found
