#!/usr/bin/env python3
"""Tokens and DPoP proofs (RFC 7519, RFC 7638, RFC 9449) for wire 3's client, with ES256 alone.

    tokens3.py jwks HEX    prints the JWKS of the issuer whose private scalar this is
"""

import base64
import hashlib
import json
import secrets
import sys
import time

import session3 as s3
from session3 import InitRequest


def b64u(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(scalar: bytes) -> dict:
    public = s3.p256_public(scalar)
    return {"crv": "P-256", "kty": "EC", "x": b64u(public[1:33]), "y": b64u(public[33:])}


def thumbprint(scalar: bytes) -> str:
    return b64u(hashlib.sha256(json.dumps(jwk(scalar), sort_keys=True, separators=(",", ":")).encode()).digest())


def jwt(header: dict, claims: dict, scalar: bytes) -> str:
    signed = ".".join(b64u(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{b64u(s3.sign(scalar, signed.encode()))}"


def token(issuer: bytes, **claims) -> str:
    return jwt({"alg": "ES256", "typ": "JWT"}, {"exp": int(time.time()) + 600} | claims, issuer)


def proof(scalar: bytes, url: str, of_token: str, request: InitRequest, **claims) -> str:
    """A DPoP proof of one init. `request` is what is sent, but for the proof itself."""
    said = {"jti": secrets.token_hex(16), "htm": "POST", "htu": url, "iat": int(time.time()),
            "ath": b64u(hashlib.sha256(of_token.encode()).digest()), "init_hash": b64u(s3.init_hash(request))}
    return jwt({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk(scalar)}, said | claims, scalar)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "jwks":
        raise SystemExit(__doc__)
    print(json.dumps({"keys": [jwk(bytes.fromhex(sys.argv[2]))]}))
