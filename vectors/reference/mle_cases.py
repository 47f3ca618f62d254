"""The scenarios of vectors/mle that open: every profile, direction and pair of algorithms, and what real senders write."""

import base64
import json

import mle
from mle import ACCEPTANCE, CERTIFICATE, ENCS, GENERIC, GENERIC_SECONDS, KID, MASTERCARD, NOW_MS, OWN, PUBLISHED, VISA, WINDOW_MS, token, wrap
from session import fixed

BODIES = {
    "empty": ("A plaintext of no bytes.", b""),
    "one-byte": ("A plaintext of one byte.", b"0"),
    "digits": ("Numbers keep each of their digits.", b'{"id":12345678901234567890,"amount":1.00,"big":1e400,"small":-0}'),
    "astral": ("Characters beyond the basic plane.", '{"name":"\U0001f600\U00020000é"}'.encode()),
    "bytes": ("Bytes that are no UTF-8.", bytes(range(256))),
}


def scenario(profile, message, alg, body, pem=OWN, kid=KID, certificate=None, now_ms=NOW_MS, encs=None, algs=None):
    """The members that every scenario has."""
    key = {"private_key_pem": pem, "alg": alg, "kid": kid}
    if certificate:
        key["certificate_pem"] = certificate
    given = {"profile": profile.name, "message": message, "now_ms": now_ms, "key": key, "body": body}
    if profile.name == "generic-jwe":
        side = profile.side(message)
        given["generic"] = {"algs": list(algs or side.algs), "encs": list(encs or side.encs)}
        if profile.iat:
            given["generic"]["iat"] = profile.iat
    return given


class Opened:
    """Adds scenarios that open, each after a check with the library."""

    def __init__(self, add):
        self.add = add

    def of(self, name, comment, profile, message, made, text=None, body=None, **more):
        text = made.text() if text is None else text
        assert mle.open_rightly(text, more.get("pem", OWN), made.alg, made.enc) == made.plaintext, name
        body = wrap(text, profile.side(message).member) if body is None else body
        self.add("mle-open", f"mle-open-{name}", comment, scenario(profile, message, made.alg, body, **more)
                 | {"plaintext_base64": base64.b64encode(made.plaintext).decode()})


def add_all(add):
    opened = Opened(add)
    algorithms(opened)
    bodies(opened)
    mastercard(opened)
    headers(opened)
    times(opened)
    wrappers(opened)
    published(opened)


def algorithms(opened):
    for profile in (MASTERCARD, VISA, ACCEPTANCE, GENERIC):
        for message in ("request", "answer"):
            side = profile.side(message)
            for alg, enc in ((alg, enc) for alg in side.algs for enc in side.encs):
                # The one `alg` of most profiles needs no name.
                part = f"{alg}-{enc}" if len(side.algs) > 1 else enc
                name = f"{profile.name}-{message}-{part}"
                opened.of(name, f"{alg} with {enc}.", profile, message, token(name, profile, message, enc, alg))


def bodies(opened):
    for profile, enc in ((MASTERCARD, "A256GCM"), (MASTERCARD, "A128CBC-HS256"), (VISA, "A128GCM"), (ACCEPTANCE, "A256GCM"),
                         (GENERIC_SECONDS, "A256CBC-HS512")):
        for kind, (comment, plaintext) in BODIES.items():
            name = f"{profile.name}-body-{kind}-{enc}"
            opened.of(name, comment, profile, "request", token(name, profile, "request", enc, plaintext=plaintext))
    for length in (15, 16, 17):
        name = f"generic-jwe-body-{length}-A128CBC-HS256"
        made = token(name, GENERIC, "answer", "A128CBC-HS256", plaintext=b"x" * length)
        opened.of(name, "A plaintext around the length of a block.", GENERIC, "answer", made)
    long = json.dumps({"text": "0123456789abcdef" * 4095}, separators=(",", ":")).encode().ljust(65536)
    for profile, enc in ((MASTERCARD, "A256GCM"), (GENERIC, "A256CBC-HS512")):
        name = f"{profile.name}-body-64KiB-{enc}"
        opened.of(name, "A plaintext of 64 KiB.", profile, "answer", token(name, profile, "answer", enc, plaintext=long))


def mastercard(opened):
    for enc in ("A128GCM", "A192GCM", "A256GCM"):
        for message in ("request", "answer"):
            name = f"mastercard-jwe-iv-16-{message}-{enc}"
            made = token(name, MASTERCARD, message, enc, iv=fixed(f"mle/{name}/iv", 16))
            opened.of(name, "An IV of 16 bytes, as Mastercard's libraries for Node, Python and Java send it.", MASTERCARD, message, made)
    # Long enough that each letter stands in the key and in the ciphertext.
    letters = token("mastercard-jwe-letters", MASTERCARD, "request", "A256GCM", plaintext=b'"%s"' % (b"0123456789" * 60)).adding('"x":"~~~>>>???"')
    head = letters.parts()[0]
    assert "-" in head or "_" in head
    standard = letters.with_(header_text=head.replace("-", "+").replace("_", "/"))
    assert all("_" in part and "-" in part for part in (letters.parts()[1], letters.parts()[3]))

    def rest(made, change):
        parts = made.parts()
        return ".".join([parts[0], *map(change, parts[1:])])

    both = {"plus": "+ in place of - in each part but the header.", "slash": "/ in place of _, as Mastercard's library for Node sends it.",
            "both": "+ and / in each part but the header."}
    swaps = {"plus": (("-", "+"),), "slash": (("_", "/"),), "both": (("-", "+"), ("_", "/"))}
    for kind, pairs in swaps.items():
        def change(part, pairs=pairs):
            for old, new in pairs:
                part = part.replace(old, new)
            return part
        opened.of(f"mastercard-jwe-letters-{kind}", both[kind], MASTERCARD, "request", letters, rest(letters, change))
    # Half of the letters in one alphabet, half in the other.
    opened.of("mastercard-jwe-letters-mixed", "Both alphabets within one part.", MASTERCARD, "request", letters,
              rest(letters, lambda part: part[:len(part) // 2].replace("_", "/").replace("-", "+") + part[len(part) // 2:]))
    opened.of("mastercard-jwe-letters-header", "The additional data is the header as received, letters + and / included.",
              MASTERCARD, "request", standard)
    node = token("mastercard-jwe-node", MASTERCARD, "answer", "A256GCM", iv=fixed("mle/node/iv", 16))
    opened.of("mastercard-jwe-node", "An IV of 16 bytes and the letter /, as Mastercard's library for Node sends both.", MASTERCARD,
              "answer", node, rest(node, lambda part: part.replace("_", "/")))


def headers(opened):
    for profile, enc in ((MASTERCARD, "A256GCM"), (VISA, "A128GCM"), (ACCEPTANCE, "A256GCM"), (GENERIC_SECONDS, "A192CBC-HS384")):
        def good(label, profile=profile, enc=enc):
            return token(f"{profile.name}-{label}", profile, "request", enc)

        def opens(label, comment, made, profile=profile, **more):
            opened.of(f"{profile.name}-{label}", comment, profile, "request", made, **more)

        plain = good("header-spaced")
        spaced = json.dumps(json.loads(plain.header), indent=2).replace("\n", "\r\n")
        opens("header-spaced", "A header with white space and line ends.", plain.with_(header=spaced + "\n"))
        turned = dict(reversed(json.loads(plain.header).items()))
        opens("header-order", "Members of the header in another order.",
              good("header-order").with_(header=json.dumps(turned, separators=(",", ":"))))
        opens("header-escapes", "Escapes in a name and in values of the header.",
              good("header-escapes").replacing('"kid"', '"\\u006bid"').replacing("RSA-OAEP", "RSA\\u002dOAEP"))
        opens("header-unknown", "Parameters that nobody reads, nested ones too.",
              good("header-unknown").adding('"typ":"JOSE","x":[{"alg":"none"},null,true,1e400],"Alg":"none"'))
        cty = good("header-cty")
        cty = cty.replacing('"cty":"application/json"', '"cty":"JWT"') if profile.cty else cty.adding('"cty":"JWT"')
        opens("header-cty", "cty decides nothing, whatever it says.", cty)
        opens("header-x5t-s256", "x5t#S256 is the hash of the key's certificate.",
              good("header-x5t-s256").adding(f'"x5t#S256":"{mle.x5t_s256(CERTIFICATE)}"'), certificate=CERTIFICATE)
        for kind, kid in (("kid-longest", "k" * 256), ("kid-characters", 'a"\\\u0001é\U0001f600/../'), ("kid-one", "0")):
            made = good(kind).with_(header=good(kind).header.replace(f'"{KID}"', json.dumps(kid)))
            opens(kind, "A key name of any characters, from 1 to 256 bytes.", made, kid=kid)
        # Exactly 4096 bytes.
        made = good("header-longest").adding('"pad":""')
        made = made.replacing('"pad":""', f'"pad":"{"p" * (4096 - len(made.header))}"')
        assert len(made.header) == 4096
        opens("header-longest", "A header of 4096 bytes.", made)


def times(opened):
    for profile, enc, unit in ((VISA, "A128GCM", 1), (ACCEPTANCE, "A256GCM", 1000), (GENERIC_SECONDS, "A256GCM", 1000)):
        now = profile.iat_at(NOW_MS)
        # In seconds the clock stands 123 ms into its second.
        edges = {"oldest": now - WINDOW_MS // unit + (unit > 1), "newest": now + WINDOW_MS // unit}
        for kind, iat in edges.items():
            name = f"{profile.name}-iat-{kind}"
            made = token(name, profile, "request", enc).replacing(f'"iat":{now}', f'"iat":{iat}')
            opened.of(name, "A time at the edge of the window of 300 seconds.", profile, "request", made)
        if profile is not GENERIC_SECONDS:
            name = f"{profile.name}-iat-absent-answer"
            made = token(name, profile, "answer", enc).replacing(f',"iat":{now}', "")
            opened.of(name, "An answer needs no time.", profile, "answer", made)
    made = token("mastercard-jwe-iat", MASTERCARD, "request", "A256GCM").adding('"iat":1')
    opened.of("mastercard-jwe-iat", "A time in a profile without times decides nothing.", MASTERCARD, "request", made)


def wrappers(opened):
    for profile, message, enc in ((MASTERCARD, "answer", "A128GCM"), (VISA, "answer", "A256GCM"), (ACCEPTANCE, "answer", "A128GCM")):
        member = profile.side(message).member
        name = f"{profile.name}-wrapper-spaced"
        made = token(name, profile, message, enc)
        opened.of(name, "White space around the members of the body.", profile, message, made,
                  body=f' {{\r\n\t"{member}" : "{made.text()}"\n}} \n')
        name = f"{profile.name}-wrapper-escapes"
        made = token(name, profile, message, enc)
        body = json.dumps({member: "@"}).replace(member[0], f"\\u{ord(member[0]):04x}", 1).replace("@", made.text().replace(".", "\\u002e"))
        opened.of(name, "The name and the token written with escapes.", profile, message, made, body=body)


def published(opened):
    """Examples that the standards publish. One has no kid, so it is sealed anew with the same content key and IV."""
    a1 = PUBLISHED["rfc7516_a1"]
    made = token("rfc7516-a1", GENERIC, "request", "A256GCM", "RSA-OAEP", plaintext=a1["plaintext"].encode(),
                 cek=bytes.fromhex(a1["cek_hex"]), iv=bytes.fromhex(a1["iv_hex"]))
    assert mle.open_rightly(a1["token"], a1["private_key_pem"], "RSA-OAEP", "A256GCM") == made.plaintext
    opened.of("rfc7516-a1", "The key, content key, IV and text of RFC 7516 appendix A.1, with a kid.", GENERIC, "request", made,
              encs=["A256GCM"], algs=["RSA-OAEP"])
    cookbook = PUBLISHED["rfc7520_5_2"]
    made = mle.Token("rfc7520-5.2", "", "A256GCM", "RSA-OAEP", plaintext=bytes.fromhex(cookbook["plaintext_hex"]))
    opened.of("rfc7520-5.2", "RFC 7520 section 5.2, byte for byte; its key has 4096 bits.", GENERIC, "request", made, cookbook["token"],
              pem=cookbook["private_key_pem"], kid=cookbook["kid"], encs=["A256GCM"], algs=["RSA-OAEP"])
    assert set(ENCS) == set(GENERIC.request.encs)
