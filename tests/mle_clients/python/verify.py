"""Verifies signatures of requests by jwcrypto and Python's own HMAC: verify.py FILE, which is described in ../README.md.

Mastercard's signer has no release for Python 3.13, so its signatures are verified by Node alone.
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from urllib.parse import urlsplit

from jwcrypto import jwk, jws
from jwcrypto.common import JWSEHeaderParameter

OPEN_BANKING = [f"http://openbanking.org.uk/{name}" for name in ("iat", "iss", "tan")]


def check(holds, *why):
    """Ends the program if something does not hold."""
    if not holds:
        raise AssertionError(" ".join(str(part)[:400] for part in why))


def visa_acceptance_jwt(request, body, key):
    scheme, token = request["headers"]["authorization"].split(" ")
    check(scheme == "Bearer", scheme)
    verified = jws.JWS()
    verified.allowed_algs = ["RS256"]
    verified.deserialize(token, key)
    claims, url = json.loads(verified.payload), urlsplit(request["url"])
    check(json.loads(verified.objects["protected"])["kid"] == request["kid"], "kid")
    check(abs(claims["iat"] - time.time()) < 60, "iat", claims["iat"])
    check(claims["request-host"] == url.netloc, claims["request-host"])
    check(claims["request-resource-path"] == url.path + "?" + url.query, claims["request-resource-path"])
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    check(claims.get("digest") == (None if request["method"] == "GET" else digest), "digest")


def jws_detached(request, body, key):
    parameter = JWSEHeaderParameter("open banking", True, True, None)
    verified = jws.JWS(header_registry={name: parameter for name in OPEN_BANKING})
    verified.allowed_algs = ["PS256"]
    header, _, signature = request["headers"]["x-jws-signature"].split(".")
    payload = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
    verified.deserialize(f"{header}.{payload}.{signature}", key)
    check(json.loads(verified.objects["protected"])["crit"] == OPEN_BANKING, "crit")


def x_pay_token(request, body, _key):
    version, timestamp, mac = request["headers"]["x-pay-token"].split(":")
    check(version == "xv2" and abs(int(timestamp) - time.time()) < 60, version, timestamp)
    message = (timestamp + request["resource_path"] + urlsplit(request["url"]).query).encode() + body
    check(hmac.new(request["shared_secret"].encode(), message, "sha256").hexdigest() == mac, "mac")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        requests = [request for request in json.load(file) if request["scheme"] != "oauth1"]
    verifiers = {"visa_acceptance_jwt": visa_acceptance_jwt, "jws_detached": jws_detached, "x_pay_token": x_pay_token}
    for request in requests:
        with open(request["certificate"], "rb") as file:
            key = jwk.JWK.from_pem(file.read())
        verifiers[request["scheme"]](request, base64.b64decode(request["body"]), key)
    print(f"{len(requests)} signatures")


if __name__ == "__main__":
    main()
