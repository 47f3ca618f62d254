"""Signatures of open banking by the package jwcrypto: beside a body, or inside of a token."""

import base64
import json
import time
import uuid

from jwcrypto import jwk, jws, jwt
from jwcrypto.common import JWSEHeaderParameter

CLAIMS = ("iss", "aud", "sub", "iat", "exp", "jti")
OPEN_BANKING = [f"http://openbanking.org.uk/{name}" for name in ("iat", "iss", "tan")]
REGISTRY = {name: JWSEHeaderParameter("open banking", True, True, None) for name in OPEN_BANKING}


def check(holds, *why):
    """Ends the program if something does not hold."""
    if not holds:
        raise AssertionError(" ".join(str(part)[:400] for part in why))


def without_claims(text):
    """Returns the value of a JSON object without the claims that its signer put there."""
    return {name: value for name, value in json.loads(text).items() if name not in CLAIMS}


class Signatures:
    """The keys and the names of both sides."""

    def __init__(self, settings):
        self.settings = settings
        self.is_nested = settings["form"] == "nested"
        self.type = "application/jwt" if self.is_nested else "application/jose+jwe"
        with open(settings["key"], "rb") as file:
            self.private = jwk.JWK.from_pem(file.read())
        with open(settings["certificate"], "rb") as file:
            self.public = jwk.JWK.from_pem(file.read())
        self.made = {}

    def sign(self, payload, header):
        token = jws.JWS(payload, header_registry=REGISTRY)
        token.add_signature(self.private, protected=json.dumps(header))
        return token.serialize(compact=True)

    def payload(self, text):
        """Returns what is signed: the service receives the very bytes, so that a text has one payload."""
        data = text.encode() if isinstance(text, str) else text
        if not self.is_nested:
            return data
        if data not in self.made:
            now = int(time.time())
            claims = {"jti": str(uuid.uuid4()), "exp": now + 300, "iat": now}
            claims |= {"aud": [self.settings["audience"], "another"], "iss": self.settings["issuer"]}
            self.made[data] = json.dumps({**without_claims(data), **claims}).encode()
        return self.made[data]

    def inside(self, plaintext):
        if not self.is_nested:
            return plaintext
        header = {"alg": "PS256", "kid": self.settings["kid"], "typ": "JWT"}
        token = self.sign(self.payload(plaintext), header)
        self.made.pop(plaintext, None)
        return token.encode()

    def open(self, plaintext):
        if not self.is_nested:
            return plaintext
        expected = {"iss": self.settings["audience"], "aud": self.settings["issuer"], "exp": None, "iat": None, "jti": None}
        token = jwt.JWT(algs=["PS256"], check_claims=expected)
        token.deserialize(plaintext.decode(), self.public)
        check(json.loads(token.header)["kid"] == self.settings["peer_kid"], "kid:", token.header)
        return token.token.payload

    def beside(self, body, headers):
        if self.is_nested:
            return
        iat, iss, tan = OPEN_BANKING
        header = {"alg": "PS256", "kid": self.settings["kid"], "crit": [tan, iat, iss]}
        header |= {iat: int(time.time()), iss: self.settings["issuer"], tan: self.settings["trust_anchor"]}
        first, _, last = self.sign(body, header).split(".")
        headers["x-jws-signature"] = f"{first}..{last}"

    def check(self, body, headers):
        if self.is_nested:
            return
        verified = jws.JWS(header_registry=REGISTRY)
        verified.allowed_algs = ["PS256"]
        first, empty, last = headers["x-jws-signature"].split(".")
        payload = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
        verified.deserialize(f"{first}.{payload}.{last}", self.public)
        header = json.loads(verified.objects["protected"])
        check(empty == "" and header["kid"] == self.settings["peer_kid"], "kid:", header)
        check(abs(header[OPEN_BANKING[0]] - time.time()) < 60, "time:", header)
        expected = [self.settings["audience"], self.settings["trust_anchor"]]
        check([header[name] for name in OPEN_BANKING[1:]] == expected, "signer:", header)
