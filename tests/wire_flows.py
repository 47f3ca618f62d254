"""Wires 1 and 2 as an independent client speaks them: curl for HTTP, `cryptography` for the rest.

Run by wire_flows.sh with the base URL of a server as the only argument. Written from spec/session.md, not from the code.
"""

import base64
import json
import os
import re
import subprocess
import sys
import time
import uuid

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

BASE = sys.argv[1]
CLIENT_ID = "wire-flows"
PURCHASE = "/transaction/purchase"
ORDER = {"schemeCode": "AEF", "amount": 5000}
passed = 0
failed = 0


def check(step, holds, seen=""):
    global passed, failed
    if holds:
        passed += 1
        print(f"ok    {step}")
    else:
        failed += 1
        print(f"FAIL  {step}: {seen}")


def b64(data):
    return base64.b64encode(data).decode()


def curl(method, path, headers, body):
    """Status, headers (lower-case names) and body of an exchange."""
    command = ["curl", "--silent", "--show-error", "--max-time", "20", "--include", "--http1.1", "--request", method]
    for name, value in headers.items():
        command += ["--header", f"{name}: {value}"]
    # An empty value takes curl's own header out.
    command += ["--header", "Expect:", "--data-binary", "@-", BASE + path]
    done = subprocess.run(command, input=body, capture_output=True, check=True)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    names = (line.partition(":") for line in lines[1:])
    return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in names}, content


def now_ms():
    return str(time.time_ns() // 1_000_000)


def derive(private, answer, info):
    peer = ec.EllipticCurvePublicKey.from_encoded_point(
        ec.SECP256R1(), base64.b64decode(answer["serverPublicKey"], validate=True)
    )
    secret = private.exchange(ec.ECDH(), peer)
    hkdf = HKDF(algorithm=hashes.SHA256(), length=32, salt=answer["sessionId"].encode(), info=info.encode())
    return AESGCM(hkdf.derive(secret))


def init_body(more):
    private = ec.generate_private_key(ec.SECP256R1())
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return private, json.dumps({"clientPublicKey": b64(point), **more}).encode()


class Wire2:
    def __init__(self, path):
        self.name = f"wire 2, {path}"
        private, body = init_body({"ttlSec": 600})
        self.init = ("POST", path, {**self.stamped(), "Content-Type": "application/json"}, body)
        status, headers, content = curl(*self.init)
        answer = json.loads(content)
        check(f"{self.name}: init is answered 200", status == 200, (status, content))
        members = {"sessionId", "serverPublicKey", "encAlg", "expiresInSec"}
        check(f"{self.name}: the answer has exactly four members", set(answer) == members, answer)
        v1 = path.startswith("/v1")
        check(f"{self.name}: ttl", answer["expiresInSec"] == (1800 if v1 else 600), answer)
        check(f"{self.name}: encAlg", answer["encAlg"] == ("aes-256-gcm" if v1 else "A256GCM"), answer)
        check(f"{self.name}: session id", re.fullmatch(r"S-[0-9a-f]{32}", answer["sessionId"]) is not None, answer)
        if v1:
            check(f"{self.name}: X-Kid names the session, bare", headers.get("x-kid") == answer["sessionId"], headers)
        self.kid = "session:" + answer["sessionId"]
        self.key = derive(private, answer, f"SESSION|A256GCM|{CLIENT_ID}")

    @staticmethod
    def stamped():
        return {"X-Idempotency-Key": f"{now_ms()}.{uuid.uuid4()}", "X-ClientId": CLIENT_ID}

    def aad(self, idempotency_key):
        stamp, nonce = idempotency_key.split(".")
        return f"{stamp}|{nonce}|{self.kid}|{CLIENT_ID}".encode()

    def seal(self, plaintext):
        headers = {**self.stamped(), "X-Kid": self.kid, "Content-Type": "application/octet-stream"}
        iv = os.urandom(12)
        return headers, iv + self.key.encrypt(iv, plaintext, self.aad(headers["X-Idempotency-Key"]))

    def open(self, status, headers, body):
        return self.key.decrypt(body[:12], body[12:], self.aad(headers["x-idempotency-key"]))

    def reflect(self, headers, body):
        names = {"X-Idempotency-Key": headers["x-idempotency-key"], "X-Kid": headers["x-kid"]}
        return {**names, "X-ClientId": CLIENT_ID, "Content-Type": "application/octet-stream"}, body

    @staticmethod
    def tampered(headers, body):
        return headers, body[:-1] + bytes([body[-1] ^ 1])


class Wire1:
    def __init__(self, path):
        self.name = f"wire 1, {path}"
        anonymous = path.endswith("/anon")
        private, body = init_body({"keyAgreement": "ECDH_P256", "ttlSec": 600})
        self.init = ("POST", path, {**self.stamped(), "Content-Type": "application/json"}, body)
        status, _, content = curl(*self.init)
        answer = json.loads(content)
        check(f"{self.name}: init is answered 200", status == 200, (status, content))
        check(f"{self.name}: ttl", answer["expiresInSec"] == (120 if anonymous else 600), answer)
        kind = "A" if anonymous else "S"
        check(f"{self.name}: session id", re.fullmatch(kind + r"-[0-9a-f]{32}", answer["sessionId"]) is not None, answer)
        self.kid = "session:" + answer["sessionId"]
        self.key = derive(private, answer, f"SESSION|A256GCM|{'ANON' if anonymous else 'AUTH'}")

    @staticmethod
    def stamped():
        return {"X-Nonce": str(uuid.uuid4()), "X-Timestamp": now_ms()}

    def seal(self, plaintext, path=PURCHASE):
        headers = self.stamped()
        aad = f"POST|{path}|{headers['X-Timestamp']}|{headers['X-Nonce']}|{self.kid}".encode()
        iv = os.urandom(12)
        sealed = self.key.encrypt(iv, plaintext, aad)
        headers |= {"X-Kid": self.kid, "X-Enc-Alg": "A256GCM", "X-IV": b64(iv), "X-Tag": b64(sealed[-16:])}
        return headers | {"X-AAD": b64(aad), "Content-Type": "text/plain"}, b64(sealed[:-16]).encode()

    def open(self, status, headers, body):
        aad = f"{status}|{PURCHASE}|{headers['x-timestamp']}|{headers['x-nonce']}|{self.kid}".encode()
        check(f"{self.name}: X-AAD is what the answer itself gives", headers["x-aad"] == b64(aad), headers)
        tag = base64.b64decode(headers["x-tag"], validate=True)
        sealed = base64.b64decode(body, validate=True)
        return self.key.decrypt(base64.b64decode(headers["x-iv"], validate=True), sealed + tag, aad)

    @staticmethod
    def reflect(headers, body):
        names = ["X-Kid", "X-Enc-Alg", "X-IV", "X-Tag", "X-AAD", "X-Nonce", "X-Timestamp"]
        return {name: headers[name.lower()] for name in names} | {"Content-Type": "text/plain"}, body

    @staticmethod
    def tampered(headers, body):
        tag = bytearray(base64.b64decode(headers["X-Tag"]))
        tag[0] ^= 1
        return headers | {"X-Tag": b64(bytes(tag))}, body


def refused(step, exchange, status=400, error="CRYPTO_ERROR"):
    seen_status, _, content = exchange
    expected = json.dumps({"error": error}, separators=(",", ":")).encode()
    check(step, (seen_status, content) == (status, expected), (seen_status, content))


def flow(session):
    name = session.name
    status, _, content = curl(*session.init)
    check(f"{name}: the same init again is refused", status == (409 if "/v1/" in name else 400), (status, content))

    headers, body = session.seal(json.dumps(ORDER).encode())
    refused(f"{name}: a changed tag is refused", curl("POST", PURCHASE, *session.tampered(headers, body)))
    status, answer_headers, answer = curl("POST", PURCHASE, headers, body)
    check(f"{name}: and burns no nonce: the purchase goes through", status == 200, (status, answer))
    check(f"{name}: X-Kid is echoed", answer_headers.get("x-kid") == session.kid, answer_headers)
    try:
        receipt = json.loads(session.open(status, answer_headers, answer))
    except InvalidTag:
        receipt = {}
    check(f"{name}: the answer opens: SUCCESS", receipt.get("status") == "SUCCESS", receipt)
    check(f"{name}: it is about this purchase", receipt.get("amount") == ORDER["amount"], receipt)
    check(f"{name}: it has a Server-Timing", "total;dur=" in answer_headers.get("server-timing", ""), answer_headers)

    refused(f"{name}: the captured request, sent again, is refused", curl("POST", PURCHASE, headers, body))
    reflected = session.reflect(answer_headers, answer)
    refused(f"{name}: the captured answer, sent as a request, is refused", curl("POST", PURCHASE, *reflected))
    headers, body = session.seal(b'{"schemeCode":"AEF"}')
    refused(f"{name}: a purchase without an amount is refused", curl("POST", PURCHASE, headers, body))
    headers, body = session.seal(json.dumps(ORDER).encode())
    headers["X-Kid"] = "session:S-" + "0" * 32
    refused(f"{name}: an unknown session is refused", curl("POST", PURCHASE, headers, body), 401, "SESSION_EXPIRED")
    for amount in (1, 2):
        headers, body = session.seal(json.dumps(ORDER | {"amount": amount}).encode())
        status, answer_headers, answer = curl("POST", PURCHASE, headers, body)
        opened = json.loads(session.open(status, answer_headers, answer)) if status == 200 else {}
        check(f"{name}: purchase {amount} on the same session", opened.get("amount") == amount, (status, answer))


for wire, path in (
    (Wire2, "/session/init"),
    (Wire2, "/v1/session/init"),
    (Wire1, "/session/init"),
    (Wire1, "/session/init/anon"),
):
    session = wire(path)
    flow(session)
    if path.endswith("/anon"):
        path = "/transaction/other"
        exchange = curl("POST", path, *session.seal(b"{}", path))
        refused(f"{session.name}: a path that is not listed is refused", exchange, 403, "SESSION_FORBIDDEN")

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
