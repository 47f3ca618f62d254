"""A client of a scheme, or a double of the scheme, by the published libraries for Python.

    main.py call SPEC     sends requests, and opens their answers
    main.py serve SPEC    prints its address, opens requests, and seals answers

SPEC is described in ../README.md. It ends at the first difference, with the reason on standard error.
"""

import base64
import hashlib
import http.client
import json
import os
import sys
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from client_encryption.api_encryption import ApiEncryption
from client_encryption.field_level_encryption_config import FieldLevelEncryptionConfig
from client_encryption.jwe_encryption import decrypt_payload, encrypt_payload
from client_encryption.jwe_encryption_config import JweEncryptionConfig
from jwcrypto import jwe, jwk

from signatures import Signatures, without_claims

# The service's answer to a request, in turn; the number is prime, so that every body meets each of them.
TURNS = ["echo", "echo", "empty", "echo", "error", "echo", "get"]
STATUS = {"echo": 200, "get": 200, "empty": 204, "error": 400}
# The body of the service's error, and of its answer to a request without a body.
ERROR = '{"error":"DECLINED","reason":"nicht gedeckt 💳","code":51}'.encode()
FOUND = '{"found":["é",1],"by":"get","card":{"pan":"5555555555554444"}}'.encode()

# The member that holds the token, by profile and message. The body of generic-jwe is the token itself.
MEMBERS = {
    "mastercard-jwe": {"request": "encryptedData", "answer": "encryptedData"},
    "visa": {"request": "encData", "answer": "encData"},
    "visa-acceptance": {"request": "encryptedRequest", "answer": "encryptedResponse"},
    "generic-jwe": {"request": None, "answer": None},
    "open-banking": {"request": None, "answer": None},
}
UNITS = {"visa": 1, "visa-acceptance": 1000}


def check(holds, *why):
    """Ends the program if something does not hold."""
    if not holds:
        raise AssertionError(" ".join(str(part)[:400] for part in why))


class Library:
    """What the libraries have in common."""

    type = answer_type = "application/json"
    opens_all = False
    signatures = None

    def __init__(self, spec):
        self.spec = spec

    def sign(self, body, headers):
        """Puts the signature beside what is sent into its headers."""
        if self.signatures:
            self.signatures.beside(body, headers)

    def verify(self, body, headers):
        """Verifies the signature beside what came."""
        if self.signatures:
            self.signatures.check(body, headers)

    def token(self, body, message):
        """Returns the token of a body, which must have nothing beside it."""
        name = MEMBERS[self.spec["profile"]][message]
        if name is None:
            return body.decode("ascii")
        value = json.loads(body)
        check(list(value) == [name], "the token is not alone:", list(value))
        return value[name]

    def check_sealed(self, content_type, body, message):
        """Checks what a library does not: the media type, the names in the header, and the time."""
        check((content_type or "").startswith(self.answer_type), "type:", content_type)
        parts = self.token(body, message).split(".")
        check(len(parts) == 5, "parts:", parts)
        header = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
        if self.spec["open"].get("kid"):
            check(header["kid"] == self.spec["open"]["kid"], "kid:", header)
        unit = UNITS.get(self.spec["profile"])
        if unit and message == "request":
            check(abs(header["iat"] * unit - time.time() * 1000) < 120_000, "iat:", header)


FIELDS = {
    "toEncrypt": {"card": "secret", "customer.address": "hidden"},
    "toDecrypt": {"secret": "card", "hidden": "customer.address"},
}


class Mastercard(Library):
    """Mastercard's client-encryption. It takes values and returns values."""

    opens_all = True

    def __init__(self, spec):
        super().__init__(spec)
        paths = {"whole": {"toEncrypt": {"$": "$"}, "toDecrypt": {"encryptedData": "$"}}, "fields": FIELDS}
        self.config = JweEncryptionConfig({
            "paths": {"$": paths[spec["shape"]]},
            "encryptedValueFieldName": "encryptedData",
            "encryptionCertificate": spec["seal"]["certificate"],
            "decryptionKey": spec["open"]["key"],
        })

    def sent(self, text):
        return json.dumps(json.loads(text)).encode()

    def seal(self, text, _message, _headers):
        return json.dumps(encrypt_payload(json.loads(text), self.config)).encode()

    def open(self, body, _message, _headers):
        return json.dumps(decrypt_payload(json.loads(body), self.config)).encode()

    def is_same(self, one, other):
        # Unlike values, texts tell 1 from 1.0 and from true.
        return json.dumps(json.loads(one), sort_keys=True) == json.dumps(json.loads(other), sort_keys=True)


class FieldLevel(Mastercard):
    """Mastercard's client-encryption in its field-level form."""

    def __init__(self, spec):
        Library.__init__(self, spec)
        fle, names = spec["fle"], spec["fle"]["names"]
        self.opens_all = spec["shape"] == "fields"
        paths = {"whole": {"toEncrypt": {"$": "$"}, "toDecrypt": {"$": "$"}}, "fields": FIELDS}
        self.config = FieldLevelEncryptionConfig({
            "paths": {"$": paths[spec["shape"]]},
            "encryptionCertificate": spec["seal"]["certificate"],
            "decryptionKey": spec["open"]["key"],
            "oaepPaddingDigestAlgorithm": fle["digest"],
            "dataEncoding": fle["encoding"],
            "encryptedValueFieldName": names["value"],
            "ivFieldName": names["iv"],
            "encryptedKeyFieldName": names["encryptedKey"],
            "oaepPaddingDigestAlgorithmFieldName": names["digest"],
            "encryptionKeyFingerprintFieldName": names["keyFingerprint"],
            "encryptionCertificateFingerprintFieldName": names["certificateFingerprint"],
            "useHttpHeaders": fle["place"] == "headers",
        })

    def check_sealed(self, content_type, body, _message):
        check((content_type or "").startswith("application/json"), "type:", content_type)
        check(self.spec["fle"]["names"]["value"] in json.loads(body), "no value:", body)

    def seal(self, text, _message, headers):
        return json.dumps(ApiEncryption.encrypt_field_level_payload(headers, self.config, json.loads(text))).encode()

    def open(self, body, _message, headers):
        headers = {name.lower(): value for name, value in headers.items()}
        opened = ApiEncryption.decrypt_field_level_payload(headers, self.config, json.loads(body))
        return opened if isinstance(opened, bytes) else json.dumps(opened).encode()


class Jwcrypto(Library):
    """The package jwcrypto. Any bytes can be sealed."""

    def __init__(self, spec):
        super().__init__(spec)
        with open(spec["seal"]["certificate"], "rb") as file:
            self.public = jwk.JWK.from_pem(file.read())
        with open(spec["open"]["key"], "rb") as file:
            self.private = jwk.JWK.from_pem(file.read())
        self.sealed = 0
        if spec["profile"] == "generic-jwe":
            self.type = self.answer_type = "application/jose"
        if spec.get("signature"):
            self.signatures = Signatures(spec["signature"])
            self.type = self.answer_type = self.signatures.type

    def sent(self, text):
        return self.signatures.payload(text) if self.signatures else text.encode()

    def seal(self, text, message, _headers):
        seal, profile = self.spec["seal"], self.spec["profile"]
        header = {"enc": seal["encs"][self.sealed % len(seal["encs"])], "kid": seal["kid"], "alg": seal["alg"]}
        self.sealed += 1
        if profile == "visa":
            header["iat"] = time.time_ns() // 1_000_000
        if profile == "visa-acceptance":
            header["iat"] = int(time.time())
        plaintext = text.encode() if isinstance(text, str) else text
        if self.signatures:
            plaintext = self.signatures.inside(plaintext)
        if self.signatures and self.signatures.is_nested:
            header["cty"] = "JWT"
        token = jwe.JWE(plaintext, protected=json.dumps(header), recipient=self.public).serialize(compact=True)
        name = MEMBERS[profile][message]
        return (token if name is None else json.dumps({name: token})).encode()

    def open(self, body, message, _headers):
        opened = jwe.JWE(algs=[self.spec["open"]["alg"], *self.spec["open"]["encs"]])
        opened.deserialize(self.token(body, message), self.private)
        return self.signatures.open(opened.payload) if self.signatures else opened.payload

    def is_same(self, one, other):
        if self.signatures and self.signatures.is_nested:
            return without_claims(one) == without_claims(other)
        return one == other


def call(spec, library):
    with open(spec["bodies"], encoding="utf-8") as file:
        bodies = json.load(file)
    url = urlsplit(spec["url"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    for index in range(spec["count"]):
        turn, text = TURNS[index % len(TURNS)], bodies[index % len(bodies)]
        what = f"round {index}, {turn}, {text[:200]}:"
        headers, body, sent = {"x-answer": turn}, None, None
        if turn != "get":
            sent, body = library.sent(text), library.seal(text, "request", headers)
            headers["content-type"] = library.type
            library.sign(body, headers)
            # In the shape `fields` the service gets its members in another order.
            if spec["shape"] == "whole":
                headers["x-sent-sha256"] = hashlib.sha256(sent).hexdigest()
            if spec["profile"] == "visa":
                headers["keyId"] = spec["seal"]["kid"]
        connection.request("GET" if turn == "get" else "POST", url.path, body, headers)
        answer = connection.getresponse()
        received = answer.read()
        check(answer.status == STATUS[turn], what, "status", answer.status, received)
        if turn == "empty" or (turn == "echo" and not sent):
            check(not received, what, "the answer has a body", received)
            continue
        library.verify(received, answer.headers)
        in_clear = turn == "error" and spec["errors"] == "clear"
        if in_clear:
            check(received == ERROR, what, received)
        elif spec["shape"] == "whole":
            library.check_sealed(answer.headers["content-type"], received, "answer")
        # A library of a scheme gets errors in clear too, and must leave them as they are.
        opened = ERROR if in_clear and not library.opens_all else library.open(received, "answer", answer.headers)
        expected = {"echo": sent, "error": ERROR, "get": FOUND}[turn]
        check(library.is_same(opened, expected), what, opened, "instead of", expected)
    print(f"{spec['count']} round trips")


def serve(spec, library):
    class Double(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer_to(self, body):
            turn = self.headers["x-answer"]
            self.metadata = {}
            library.verify(body, self.headers)
            if self.command == "GET":
                return 200, self.sealed(FOUND.decode())
            if spec["shape"] == "whole" and body:
                library.check_sealed(self.headers["content-type"], body, "request")
            opened = library.open(body, "request", self.headers) if body else b""
            if spec["shape"] == "fields":
                check(b'"card"' not in body, "a field is in clear:", body)
            if turn == "empty":
                return 204, None
            if turn == "error":
                return 400, self.sealed(ERROR.decode())
            if turn == "clear-error":
                return 400, ERROR
            return 200, self.sealed(opened)

        def sealed(self, text):
            token = library.seal(text, "answer", self.metadata)
            library.sign(token, self.metadata)
            return token

        def do_POST(self):
            try:
                status, sealed = self.answer_to(self.rfile.read(int(self.headers.get("content-length", 0))))
            except Exception:
                traceback.print_exc()
                os._exit(1)
            self.send_response(status)
            if sealed is not None:
                self.send_header("content-type", "application/json" if sealed == ERROR else library.type)
                self.send_header("content-length", str(len(sealed)))
                for name, value in self.metadata.items():
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sealed or b"")

        do_GET = do_POST

    server = ThreadingHTTPServer(("127.0.0.1", 0), Double)
    print(f"127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


def main():
    mode, spec = sys.argv[1], json.loads(sys.argv[2])
    kind = FieldLevel if spec["profile"] == "mastercard-field-level" else Mastercard
    library = {"mastercard": kind, "jwcrypto": Jwcrypto}[spec["library"]](spec)
    {"call": call, "serve": serve}[mode](spec, library)


if __name__ == "__main__":
    main()
