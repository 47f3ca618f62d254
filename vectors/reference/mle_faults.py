"""The scenarios of vectors/mle that are refused, each for one fault.

The first faults of each class, and those that profiles differ in, are played on every profile that can spell them; the rest on one
profile in turn, since there would be too many files."""

import json
from collections import Counter

import mle
from mle import ACCEPTANCE, ENCS, GENERIC, GENERIC_SECONDS, KID, MASTERCARD, NOW_MS, OTHER, VISA, WINDOW_MS, b64url, token, wrap
from mle_cases import scenario

EPK = '"epk":{"kty":"EC","crv":"P-256","x":"%s","y":"%s"}' % ("A" * 43, "A" * 43)
# Profile, its `enc` here, and the algorithms that a generic one allows.
BASES = ((MASTERCARD, "A256GCM", None), (VISA, "A128GCM", None), (ACCEPTANCE, "A256GCM", None),
         (GENERIC_SECONDS, "A128CBC-HS256", ["A128CBC-HS256", "A192GCM"]))
# Faults of each class that every profile plays.
EVERYWHERE = 2
# The faults that profiles differ in.
PROFILES_DIFFER = ("base64-plus", "base64-slash", "iv-16", "param-x5t-s256-of-another", "unwrap-recipient", "unwrap-other-hash", "tag-length-15",
                   "header-alg-twice", "json-beside", "json-twice", "json-clear", "iat-other-unit", "iat-old", "iat-early", "iat-absent")


class Refused:
    """Adds scenarios of one profile that are refused."""

    def __init__(self, add, profile, enc, encs, message="request", turn=None):
        self.add, self.profile, self.enc, self.encs, self.message, self.turn = add, profile, enc, encs, message, turn
        self.count = Counter()

    def is_due(self, kind, name) -> bool:
        """Whether the fault is played on this profile."""
        number = self.count[kind]
        self.count[kind] += 1
        return self.turn is None or number < EVERYWHERE or f"{kind}-{name}" in PROFILES_DIFFER or number % len(BASES) == self.turn

    @property
    def is_generic(self) -> bool:
        return self.profile.name == "generic-jwe"

    def good(self, name, **change):
        return token(f"{self.profile.name}-{name}", self.profile, self.message, self.enc, **change)

    def of(self, kind, name, comment, text, body=None, **more):
        if not self.is_due(kind, name):
            return
        body = wrap(text, self.profile.side(self.message).member) if body is None else body
        given = scenario(self.profile, self.message, more.pop("alg", "RSA-OAEP-256"), body, encs=self.encs, **more)
        self.add("mle-refused", f"mle-refused-{self.profile.name}-{kind}-{name}", comment, given | {"class": kind})

    def header(self, kind, name, comment, old, new):
        self.of(kind, name, comment, self.good(f"{kind}-{name}").replacing(old, new).text())

    def member(self, kind, name, comment, members):
        self.of(kind, name, comment, self.good(f"{kind}-{name}").adding(members).text())


def add_all(add):
    for turn, (profile, enc, encs) in enumerate(BASES):
        faults = Refused(add, profile, enc, encs, turn=turn)
        for part in (forms, headers, algorithms, names, parameters, times, lengths, keys, tags, wrappers):
            part(faults)
    profiles(add)


def forms(no):
    good = no.good("forms")
    text, parts = good.text(), good.parts()
    for name, wrong in {"nothing": "", "no-dots": "a", "jws": ".".join(parts[:3]), "four-parts": ".".join(parts[:4]),
                        "six-parts": f"{text}.{parts[4]}", "dot-behind": f"{text}.", "dot-before": f".{text}",
                        "two-tokens": f"{text}{text}"}.items():
        no.of("shape", name, "Not five parts.", wrong)
    no.of("shape", "key-absent", "The encrypted key is empty.", good.with_part(1, lambda key: b""))
    no.of("shape", "key-short", "The encrypted key is one byte shorter than the modulus.", good.with_part(1, lambda key: key[:-1]))
    no.of("shape", "key-long", "The encrypted key is one byte longer than the modulus.", good.with_part(1, lambda key: b"\0" + key))
    for number, part in enumerate(("header", "key", "iv", "ciphertext", "tag")):
        no.of("base64", f"padding-{part}", "Padding, which no part has.", good.with_text(number, lambda text: text + "=="))
    no.of("base64", "space", "A space within a part.", good.with_text(3, lambda text: f"{text[:4]} {text[4:]}"))
    no.of("base64", "letter", "A character of no alphabet.", good.with_text(3, lambda text: f"*{text[1:]}"))
    # A tag of 16 bytes leaves four bits in its last character.
    no.of("base64", "bits", "Bits that are not zero behind the last byte.", good.with_text(4, lambda text: text[:-1] + "B"))
    no.of("base64", "length", "A length that no bytes have.", good.with_text(4, lambda text: text[:-1]) if len(parts[4]) % 4 == 2
          else good.with_text(4, lambda text: text + "AAA"))
    if not no.profile.is_mixed:
        for name, old, new in (("plus", "-", "+"), ("slash", "_", "/")):
            assert old in parts[1]
            no.of("base64", name, f"{new} in place of {old}.", good.with_text(1, lambda text, old=old, new=new: text.replace(old, new)))
    long = no.good("size-header").adding('"pad":""')
    long = long.replacing('"pad":""', f'"pad":"{"p" * (4097 - len(long.header))}"')
    assert len(long.header) == 4097
    no.of("size", "header", "A header of 4097 bytes.", long.text())


def headers(no):
    header = no.good("headers").header
    inner = header[1:-1]
    deep = "[" * 65 + "]" * 65
    for name, wrong in {
            "empty": b"", "array": f"[{header}]".encode(), "string": b'"alg"', "null": b"null", "cut": header[:-1].encode(),
            "bytes-behind": f"{header}x".encode(), "twice": (header + header).encode(), "nul-behind": f"{header}\0".encode(),
            "byte-order-mark": f"\ufeff{header}".encode(), "utf-16": header.encode("utf-16-le"), "utf-8-invalid": header.encode() + b"\xff",
            "comma": f"{{{inner},}}".encode(), "comment": f"{{{inner}/**/}}".encode(), "quotes": header.replace('"', "'").encode(),
            "deep": f'{{{inner},"x":{deep}}}'.encode()}.items():
        no.of("header", name, "The header is not one JSON object.", no.good(f"header-{name}").with_(header_bytes=wrong).text())
    no.member("header", "alg-twice", "A member twice.", '"alg":"RSA-OAEP-256"')
    no.member("header", "alg-twice-escaped", "A member twice, its name once with an escape.", '"\\u0061lg":"RSA-OAEP-256"')
    no.member("header", "unknown-twice", "A member twice that nobody reads.", '"x":1,"x":1')
    no.member("header", "typ", "typ is no string.", '"typ":1')
    if no.profile.cty:
        no.header("header", "cty", "cty is no string.", f'"cty":"{no.profile.cty}"', '"cty":null')
    else:
        no.member("header", "cty", "cty is no string.", '"cty":null')
    no.member("crit", "unknown", "An extension that must be understood.", '"crit":["x"],"x":1')
    no.member("crit", "empty", "An empty crit.", '"crit":[]')
    no.member("crit", "b64", "The parameter b64, which needs crit.", '"b64":true')
    no.member("zip", "deflate", "A compressed plaintext.", '"zip":"DEF"')
    no.member("zip", "null", "zip in any form.", '"zip":null')


def algorithms(no):
    for name, value in {"none": '"none"', "rsa1_5": '"RSA1_5"', "case": '"rsa-oaep-256"', "dir": '"dir"', "key-wrap": '"A256KW"',
                        "gcm-key-wrap": '"A256GCMKW"', "password": '"PBES2-HS512+A256KW"', "null": "null", "list": '["RSA-OAEP-256"]',
                        "other-hash": '"RSA-OAEP"', "sha-512": '"RSA-OAEP-512"', "signature": '"RS256"'}.items():
        no.header("alg", name, "An alg that is not the key's.", '"RSA-OAEP-256"', value)
    no.header("alg", "absent", "No alg.", '"alg":"RSA-OAEP-256",', "")
    no.header("alg", "letter-case", "Names have their letter case.", '"alg"', '"Alg"')
    no.header("alg", "agreement", "ECDH-ES, for which there are no keys.", '"RSA-OAEP-256"', f'"ECDH-ES",{EPK}')
    no.header("epk", "absent", "ECDH-ES without its ephemeral key.", '"RSA-OAEP-256"', '"ECDH-ES"')
    no.header("epk", "curve", "An ephemeral key of another curve.", '"RSA-OAEP-256"', f'"ECDH-ES",{EPK.replace("P-256", "P-384")}')
    no.header("epk", "private", "An ephemeral key with its private half.", '"RSA-OAEP-256"', f'"ECDH-ES",{EPK[:-1]},"d":"AA"}}')
    enc = f'"enc":"{no.enc}"'
    for name, value in {"none": '"none"', "case": f'"{no.enc.lower()}"', "no-mac": '"A256CBC"', "null": "null", "list": f'["{no.enc}"]'}.items():
        no.header("enc", name, "An enc that does not exist.", enc, f'"enc":{value}')
    no.header("enc", "absent", "No enc.", f"{enc},", "")
    allowed = no.encs or no.profile.side(no.message).encs
    for other in (other for other in ENCS if other not in allowed):
        made = no.good(f"enc-{other}").replacing(enc, f'"enc":"{other}"').with_(enc=other)
        no.of("enc", other, "An enc that the profile does not allow.", made.text())


def names(no):
    for name, value in {"empty": '""', "unknown": '"unknown"', "case": f'"{KID.upper()}"', "space": f'"{KID} "', "nul": f'"{KID}\\u0000"',
                        "number": "7", "null": "null", "list": f'["{KID}"]', "long": json.dumps("k" * 257)}.items():
        no.header("kid", name, "A kid that names no key.", f'"{KID}"', value)
    no.header("kid", "absent", "No kid.", f',"kid":"{KID}"', "")


def parameters(no):
    for name, member in {"jku": '"jku":"https://127.0.0.1/"', "x5u": '"x5u":"file:///dev/null"', "jwk": '"jwk":{"kty":"RSA","n":"AQAB","e":"AQAB"}',
                         "x5c": '"x5c":["MIIB"]', "x5t": '"x5t":"AAAA"', "apu": '"apu":"QQ"', "epk": EPK, "iv": '"iv":"AAAAAAAAAAAAAAAA"',
                         "tag": '"tag":"AAAAAAAAAAAAAAAAAAAAAA"', "p2c": '"p2c":1000', "p2s": '"p2s":"QQ"'}.items():
        no.member("param", name, "A parameter that is not taken.", member)
    zeros = b64url(bytes(32))
    no.member("param", "x5t-s256-of-none", "x5t#S256, and the key has no certificate.", f'"x5t#S256":"{zeros}"')
    no.member("param", "x5t-s256-short", "x5t#S256 of 3 bytes.", '"x5t#S256":"AAAA"')
    made = no.good("param-x5t-s256").adding(f'"x5t#S256":"{zeros}"')
    no.of("param", "x5t-s256-of-another", "x5t#S256 of another certificate.", made.text(), certificate=mle.CERTIFICATE)


def times(no):
    if not no.profile.iat:
        return
    now, window = no.profile.iat_at(NOW_MS), no.profile.iat_at(WINDOW_MS)
    iat = f'"iat":{now}'
    other = NOW_MS if no.profile.iat == "seconds" else NOW_MS // 1000
    for name, value in {"text": f'"{now}"', "fraction": f"{now}.0", "exponent": f"{now}e0", "sign": f"-{now}", "null": "null", "list": f"[{now}]",
                        "beyond-64-bits": "18446744073709551616", "greatest": "18446744073709551615", "zero": "0", "other-unit": str(other),
                        "old": str(now - window - 1), "early": str(now + window + 1)}.items():
        no.header("iat", name, "A time that is none, or is outside of the window.", iat, f'"iat":{value}')
    if not no.is_generic:
        no.header("iat", "absent", "No time in a request.", f",{iat}", "")
    no.header("header", "iat-leading-zero", "A number with a zero before it is not JSON.", iat, f'"iat":0{now}')


def lengths(no):
    good = no.good("lengths")
    due = ENCS[no.enc][1]
    for length in (0, due - 1, due + 1, 24):
        no.of("iv", str(length), "An IV of another length.", good.with_part(2, lambda iv, length=length: (iv * 3)[:length]))
    if due == 12 and not no.profile.is_mixed:
        no.of("iv", "16", "An IV of 16 bytes under a tag that is right for it.", no.good("iv-16", iv=bytes(range(16))).text())
    if due == 16:
        no.of("iv", "12", "An IV of GCM's length.", good.with_part(2, lambda iv: iv[:12]))
    for length in (0, 4, 8, 12, 15, 17, 32):
        no.of("tag", f"length-{length}", "A tag of another length.", good.with_part(4, lambda tag, length=length: (tag * 2)[:length]))


def keys(no):
    good = no.good("keys")
    cek_len = ENCS[no.enc][0]
    for name, change in {"zeros": lambda key: bytes(256), "one": lambda key: bytes(255) + b"\1", "ones": lambda key: b"\xff" * 256,
                         "bit": lambda key: bytes([key[0], key[1] ^ 1, *key[2:]])}.items():
        no.of("unwrap", name, "An encrypted key that does not decrypt.", good.with_part(1, change))
    no.of("unwrap", "recipient", "Encrypted to another key.", no.good("unwrap-recipient", recipient=OTHER).text())
    no.of("unwrap", "pkcs1", "The padding of RSA1_5.", no.good("unwrap-pkcs1", wrapping="RSA1_5").text())
    no.of("unwrap", "other-hash", "OAEP with another hash.", no.good("unwrap-other-hash", wrapping="RSA-OAEP").text())
    for length in (0, 1, cek_len - 1, cek_len + 1, cek_len // 2, cek_len + 16):
        made = no.good(f"unwrap-content-key-{length}", cek=bytes(range(1, length + 1)))
        no.of("unwrap", f"content-key-{length}", "A content key of another length.", made.text())


def tags(no):
    good = no.good("tags")
    header = good.header.encode()
    other = no.good("tags-other", plaintext=b"{}").parts()
    for name, text in {
            "zeros": good.with_part(4, lambda tag: bytes(len(tag))), "bit": good.with_part(4, lambda tag: tag[:-1] + bytes([tag[-1] ^ 1])),
            "of-another": good.with_text(4, lambda tag: other[4]), "ciphertext-absent": good.with_part(3, lambda data: b""),
            "ciphertext-bit": good.with_part(3, lambda data: bytes([data[0] ^ 1]) + data[1:]),
            "ciphertext-cut": good.with_part(3, lambda data: data[:-1]), "ciphertext-longer": good.with_part(3, lambda data: data + b"\0"),
            "iv": good.with_part(2, lambda iv: bytes(len(iv))),
            "header": good.with_part(0, lambda head: head + b" "),
            "data-decoded": good.with_(aad=header).text(), "data-absent": good.with_(aad=b"").text(),
            "data-padded": good.with_(aad=b64url(header).encode() + b"=").text()}.items():
        no.of("tag", name, "The tag does not verify.", text)


def wrappers(no):
    member = no.profile.side(no.message).member
    if member is None:
        return
    good = wrap(no.good("wrappers").text(), member)
    text = good[len(f'{{"{member}":"'):-2]
    for name, body in {
            "empty": "", "bare": text, "object": "{}", "array": f"[{good}]", "string": f'"{text}"', "beside": f'{good[:-1]},"pan":"4111"}}',
            "before": f'{{"pan":"4111",{good[1:]}', "twice": f"{good[:-1]},{good[1:]}", "letter-case": good.replace(member, member.upper()),
            "other-member": good.replace(member, "data"), "null": f'{{"{member}":null}}', "nested": f'{{"{member}":{good}}}',
            "list": f'{{"{member}":["{text}"]}}', "behind": f"{good}x", "cut": good[:-1], "byte-order-mark": f"\ufeff{good}",
            "clear": '{"pan":"4111111111111111"}'}.items():
        no.of("json", name, "The body is not an object with the token as its sole member.", "", body)


def profiles(add):
    """What one profile or direction takes and another does not."""
    no = Refused(add, ACCEPTANCE, "A256GCM", None)
    made = token("acceptance-sha-1", ACCEPTANCE, "request", "A256GCM", "RSA-OAEP")
    no.of("alg", "sha-1-request", "Answers may have RSA-OAEP, requests may not.", made.text(), alg="RSA-OAEP")
    for message, profile, enc in (("answer", VISA, "A128GCM"), ("answer", ACCEPTANCE, "A256GCM")):
        no = Refused(add, profile, enc, None, message)
        now, window = profile.iat_at(NOW_MS), profile.iat_at(WINDOW_MS)
        for name, value in (("answer-old", now - window - 1), ("answer-text", f'"{now}"')):
            no.header("iat", name, "A time in an answer is checked.", f'"iat":{now}', f'"iat":{value}')
        member = {"encData": "encryptedData", "encryptedResponse": "encryptedRequest"}[profile.answer.member]
        no.of("json", "answer-member", "The member of another message.", "", wrap(no.good("json-answer-member").text(), member))
        no.of("tag", "answer-zeros", "The tag of an answer does not verify.", no.good("answer").with_part(4, lambda tag: bytes(16)))
    no = Refused(add, GENERIC, "A256GCM", ["A256GCM"], "answer")
    no.of("iv", "16-answer", "Bare tokens have IVs of 12 bytes.", no.good("iv-16-answer", iv=bytes(range(16))).text())
    # CBC decrypts only what the MAC covers: the padding is never looked at.
    for profile, enc in ((MASTERCARD, "A128CBC-HS256"), (GENERIC, "A256CBC-HS512")):
        no = Refused(add, profile, enc, None)
        good = no.good("cbc")
        no.of("tag", f"cbc-last-block-{enc}", "A changed last block, whose padding is wrong too.",
              good.with_part(3, lambda data: data[:-16] + bytes(16)))
        no.of("tag", f"cbc-no-block-{enc}", "A ciphertext that is no whole block.", good.with_part(3, lambda data: data[:-1]))
        no.of("tag", f"cbc-halves-{enc}", "The halves of the content key in the wrong order.", halves(good, enc))


def halves(good, enc):
    cek = mle.fixed(f"mle/{good.label}/cek", ENCS[enc][0])
    head, encrypted_key, *_ = good.parts()
    half = len(cek) // 2
    iv = bytes(16)
    ciphertext, tag = mle.seal_content(enc, cek[half:] + cek[:half], iv, head.encode(), good.plaintext)
    return ".".join([head, encrypted_key, *map(b64url, (iv, ciphertext, tag))])
