"""Opens and seals the bodies of one scheme: `spec/mle.md#opening`, `#sealing`."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final

from .. import check
from ..errors import UsageError
from ..server.store import wall_clock_ms
from ..session.claim import WINDOW_MS, Admission, Claim, ReplayGuard
from ..wire.encoding import encode_base64url
from .content import ENCS
from .keys import OpeningKey, SealingKey
from .members import members_of
from .profile import Message, Profile, Side, profile_of
from .refusal import MleRefusal
from .token import Header, decode, parse_header, split

TOKEN_MAX: Final = 2 << 20
#: The domain of a token's fingerprint among claims; the scopes of sessions have 1 to 4.
_FINGERPRINT_DOMAIN: Final = b"\5"
#: Below this number of milliseconds a time is from before 1973: the sender counts seconds.
_MILLISECONDS_MIN: Final = 100_000_000_000


class MleCodec:
    """Opens and seals messages with the keys of one party. Safe to use from several threads."""

    def __init__(
        self,
        profile: Profile | str,
        *,
        open: Sequence[OpeningKey] = (),
        seal: SealingKey | None = None,
        window_ms: int = WINDOW_MS,
        token_max_bytes: int = TOKEN_MAX,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Checks the settings.

        Args:
            profile: `mastercard-jwe`, `visa`, `visa-acceptance`, or what `generic_jwe` makes.
            open: the keys that open, all of them live.
            seal: the recipient's key.
            window_ms: the largest difference between `iat` and the clock; that of the store as well.
            token_max_bytes: the longest token; 2 MiB by default.
            now_ms: the clock, in milliseconds of the epoch.

        Raises:
            UsageError: for a wrong option, with its name; for two keys with one name.
        """
        self.profile: Final = profile_of(profile)
        keys = check.listed("open", open, "a list of OpeningKey")
        check.wants(all(isinstance(key, OpeningKey) for key in keys), "open", open, "a list of OpeningKey")
        check.wants(seal is None or isinstance(seal, SealingKey), "seal", seal, "a SealingKey")
        check.number("window_ms", window_ms, 1, "milliseconds", is_whole=True)
        check.number("token_max_bytes", token_max_bytes, 1, "bytes", is_whole=True)
        check.callback("now_ms", now_ms, "a function")
        self._keys: Final[dict[str, OpeningKey]] = {key.kid: key for key in keys}
        kids = [key.kid for key in keys]
        for kid in self._keys:
            if kids.count(kid) > 1:
                raise UsageError(f"open: two keys have the kid {kid!r}")
        self._seal, self._window_ms, self._token_max, self._now_ms = seal, window_ms, token_max_bytes, now_ms

    def open(self, message: Message, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> bytes:
        """Opens a body. It claims nothing: a request that comes again opens again. See `guard`.

        Raises:
            MleRefusal
        """
        guard = self.guard(message, body, headers)
        return guard.release(Admission(guard.claim))

    # SPEC mle.md#opening
    def guard(self, message: Message, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> ReplayGuard[bytes]:
        """Opens a body, whose plaintext is released when a store has admitted its claim. It blocks for a private operation.

        Args:
            headers: those of the message: `keyId`, where it is there, must be the token's `kid`.

        Raises:
            MleRefusal
        """
        profile, side = self.profile, self.profile.side(message)
        token = token_of(body, side)
        if len(token) > self._token_max:
            raise MleRefusal("size", f"the token has {len(token)} bytes")
        encoded = split(token)
        data = decode(encoded[0], profile.has_mixed_letters)
        header = parse_header(data)
        key, now_ms = self._key(header, side), self._now_ms()
        iat_ms = self._time(header, side, now_ms)
        encrypted_key, iv, ciphertext, tag = (decode(part, profile.has_mixed_letters) for part in encoded[1:])
        enc = ENCS[header.enc]
        if len(encrypted_key) != key.modulus_len:
            raise MleRefusal(
                "shape", f"the encrypted key has {len(encrypted_key)} bytes, and {key.modulus_len} are due"
            )
        if len(iv) != enc.iv_len and not (profile.has_long_iv and enc.iv_len == 12 and len(iv) == 16):
            raise MleRefusal("iv", f"the IV has {len(iv)} bytes")
        if len(tag) != enc.tag_len:
            raise MleRefusal("tag", f"the tag has {len(tag)} bytes, and {enc.tag_len} are due")
        if message == "request" and any(name.lower() == "keyid" and value != key.kid for name, value in headers):
            raise MleRefusal("kid", "the header keyId is not the kid of the token")
        # Drawn for every token: the work does not show whether it was needed.
        decoy = os.urandom(enc.key_len)
        unwrapped = key.unwrap(encrypted_key)
        is_right = unwrapped is not None and len(unwrapped) == enc.key_len
        # The header as it was received: it is never encoded anew.
        plaintext = enc.open((unwrapped if is_right else None) or decoy, iv, encoded[0], ciphertext, tag)
        if not is_right:
            raise MleRefusal("unwrap", "the encrypted key did not decrypt to a key of the right length")
        if plaintext is None:
            raise MleRefusal("tag", "the tag does not verify")
        # Without a time the claim is stamped ahead, so that no restart's floor covers it.
        stamp_ms = now_ms + self._window_ms // 2 if iat_ms is None else iat_ms
        # A tag that verifies says nothing of the sender: anybody can make a token.
        claim = Claim(_fingerprint(data, encrypted_key, iv, ciphertext, tag), False, stamp_ms, self._window_ms)
        return ReplayGuard(claim, plaintext)

    # SPEC mle.md#sealing
    def seal(self, message: Message, plaintext: bytes) -> bytes:
        """Seals a plaintext to the recipient, and returns the body.

        Raises:
            UsageError: no key, algorithms outside of the profile, or a certificate that is not valid now.
        """
        key, side, now_ms = self.check_seal(message), self.profile.side(message), self._now_ms()
        header: dict[str, str | int] = {"alg": key.alg, "enc": key.enc, "kid": key.kid}
        if side.cty is not None:
            header["cty"] = side.cty
        if self.profile.iat is not None:
            header["iat"] = now_ms if self.profile.iat == "milliseconds" else now_ms // 1000
        encoded = _encode(json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))
        enc = ENCS[key.enc]
        content_key, iv = os.urandom(enc.key_len), os.urandom(enc.iv_len)
        ciphertext, tag = enc.seal(content_key, iv, encoded, plaintext)
        parts = (key.wrap(content_key), iv, ciphertext, tag)
        token = b".".join([encoded, *map(_encode, parts)])
        if side.member is None:
            return token
        return b'{%s:"%s"}' % (json.dumps(side.member).encode("ascii"), token)

    def check_seal(self, message: Message) -> SealingKey:
        """Returns the key that seals messages of a direction now.

        Raises:
            UsageError: as `seal` does.
        """
        key, side = self._seal, self.profile.side(message)
        if key is None:
            raise UsageError("seal is None: give a SealingKey, the recipient's")
        if key.alg not in side.algs or key.enc not in side.encs:
            raise UsageError(f"seal: the profile {self.profile.name} has no {message} with {key.alg} and {key.enc}")
        if not key.is_valid(self._now_ms()):
            raise UsageError("seal: the certificate is not valid now")
        return key

    def _key(self, header: Header, side: Side) -> OpeningKey:
        """Finds the one key that a token may be opened with. Keys are never tried."""
        if header.alg not in side.algs:
            raise MleRefusal("alg", "the profile does not allow this alg", header.alg)
        if header.enc not in side.encs:
            raise MleRefusal("enc", "the profile does not allow this enc", header.enc)
        if header.kid is None:
            if not self.profile.is_kid_optional or len(self._keys) != 1:
                raise MleRefusal("kid", "kid is absent")
            key = next(iter(self._keys.values()))
        elif header.kid in self._keys:
            key = self._keys[header.kid]
        else:
            raise MleRefusal("kid", "no live key has this kid", header.kid)
        if key.alg != header.alg:
            raise MleRefusal("alg", "the key has another algorithm than alg", header.alg)
        own = key.certificate_sha256
        if header.x5t_s256 is not None and (own is None or not hmac.compare_digest(own, header.x5t_s256)):
            raise MleRefusal("param", "x5t#S256 is not the hash of the key's certificate")
        return key

    def _time(self, header: Header, side: Side, now_ms: int) -> int | None:
        """Returns the time of a token in milliseconds, if the profile has times and the token has one."""
        unit, iat = self.profile.iat, header.iat
        if unit is None:
            return None
        if iat is None:
            if side.is_iat_required:
                raise MleRefusal("iat", "iat is absent")
            return None
        if (iat < _MILLISECONDS_MIN) != (unit == "seconds"):
            raise MleRefusal("iat", f"iat is in another unit: the profile has {unit}")
        iat_ms = iat * 1000 if unit == "seconds" else iat
        if abs(iat_ms - now_ms) > self._window_ms:
            raise MleRefusal("iat", f"iat is {iat_ms - now_ms} ms from the clock, outside of the window")
        return iat_ms


# SPEC mle.md#bodies
def token_of(body: bytes, side: Side) -> bytes:
    """Takes the token out of a body.

    Raises:
        MleRefusal: `json` unless the token is the sole member of its object: what stands beside it is not protected.
    """
    if side.member is None:
        return body
    members = members_of(bytes(body), "json")
    token = members.get(side.member)
    if len(members) != 1 or not isinstance(token, str):
        raise MleRefusal("json", "the body is not an object whose sole member is the text", side.member)
    return token.encode("utf-8")


def _fingerprint(*parts: bytes) -> bytes:
    """The first 16 bytes of SHA-256 over the decoded parts, each behind its length."""
    data = sha256(_FINGERPRINT_DOMAIN)
    for part in parts:
        data.update(len(part).to_bytes(8, "big"))
        data.update(part)
    return data.digest()[:16]


def _encode(data: bytes) -> bytes:
    return encode_base64url(data).encode("ascii")
