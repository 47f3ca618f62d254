"""jwcrypto as an oracle of JWE: a question in JSON a line, an answer a line.

A question has "key", a PEM of a key pair or "hex:" and a shared key, and "token", to be opened; or "alg", "enc", "kid" and
"plaintext", in hexadecimal, to be sealed. The answer has "token", "plaintext" or "error".
"""

import base64
import json
import sys

from jwcrypto import jwe, jwk

KEYS = {}


def key_of(text):
    if text not in KEYS:
        if text.startswith("hex:"):
            octets = base64.urlsafe_b64encode(bytes.fromhex(text[4:])).rstrip(b"=").decode()
            KEYS[text] = jwk.JWK(kty="oct", k=octets)
        else:
            KEYS[text] = jwk.JWK.from_pem(text.encode())
    return KEYS[text]


def answer(question):
    key = key_of(question["key"])
    if "token" in question:
        token = jwe.JWE()
        token.deserialize(question["token"], key)
        return {"plaintext": token.payload.hex()}
    header = {name: question[name] for name in ("alg", "enc", "kid")}
    token = jwe.JWE(bytes.fromhex(question["plaintext"]), json.dumps(header))
    token.add_recipient(key)
    return {"token": token.serialize(compact=True)}


for line in sys.stdin:
    try:
        result = answer(json.loads(line))
    except Exception as error:  # A library raises errors of any kind for a hostile token.
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
