"""The form of messages on either side: what is a token, and the headers of a body that changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from .. import check
from ..wire.header import Headers
from .codec import MleCodec, token_of
from .profile import Message, Profile
from .refusal import MleRefusal

RawHeaders = list[tuple[bytes, bytes]]
#: Messages in clear that pass: none that has a body, or answers with a status of 400 and more.
PlainAnswers = Literal["none", "errors"]

#: Media types of a bare token; the second is registered for another form, and in use for this one.
_BARE_TYPES: Final = ("application/jose", "application/jose+json", "application/jose+jwe")
#: Headers that describe a body that is not sent on. A digest of a plaintext would let it be guessed.
_OF_BODY: Final = frozenset(
    b"accept-ranges content-digest content-encoding content-length content-md5 content-range content-type digest etag "
    b"last-modified repr-digest trailer transfer-encoding".split()
)


def is_token(profile: Profile, message: Message, headers: Headers, body: bytes) -> bool:
    """Returns True if a message has the form of the profile: a bare token by its media type, another by its body."""
    side = profile.side(message)
    if side.member is None:
        return (headers.first("Content-Type") or "").partition(";")[0].strip().lower() in _BARE_TYPES
    try:
        return bool(token_of(body, side))
    except MleRefusal:
        return False


def without_body(headers: Iterable[tuple[bytes, bytes]], *more: bytes) -> RawHeaders:
    """Headers without those that describe another body, and without `more`."""
    return [(name, value) for name, value in headers if name.lower() not in _OF_BODY and name.lower() not in more]


def with_body(headers: RawHeaders, content_type: str, body: bytes) -> RawHeaders:
    """Headers with those of a body."""
    return [*headers, (b"content-type", content_type.encode("latin-1")), (b"content-length", b"%d" % len(body))]


def token_type(profile: Profile, message: Message) -> str:
    """Returns the media type of a body with a token."""
    return _BARE_TYPES[0] if profile.side(message).member is None else "application/json"


def check_coding(headers: Headers) -> None:
    """Rejects a body with a coding, which can be neither sealed nor opened.

    Raises:
        MleRefusal: `json`.
    """
    if any(coding.lower() not in ("", "identity") for coding in headers.all("Content-Encoding")):
        raise MleRefusal("json", "the body has a Content-Encoding")


def check_options(codec: MleCodec, message: Message, open: object, plain_answers: str, content_type: str) -> None:
    """Checks the options that both sides have; `message` is what they seal.

    Raises:
        UsageError
    """
    check.wants(bool(open), "open", open, "at least one OpeningKey")
    codec.check_seal(message)
    check.wants(plain_answers in ("none", "errors"), "plain_answers", plain_answers, '"none" or "errors"')
    check.text("content_type", content_type, "a type such as application/json")
