"""Noise (revision 34), as much as channels use: four patterns, their pre-shared keys, SHA-256."""

import hashlib
import hmac

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

PATTERNS = {
    "NN": ([], [["e"], ["e", "ee"]]),
    "KK": (["s", "rs"], [["e", "es", "ss"], ["e", "ee", "se"]]),
    "IK": (["rs"], [["e", "es", "s", "ss"], ["e", "ee", "se"]]),
    "XX": ([], [["e"], ["e", "ee", "s", "es"], ["s", "se"]]),
}


def hmac256(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def hkdf(chaining: bytes, data: bytes, count: int) -> list[bytes]:
    key, out, last = hmac256(chaining, data), [], b""
    for i in range(1, count + 1):
        last = hmac256(key, last, bytes([i]))
        out.append(last)
    return out


def public(curve: str, private: bytes) -> bytes:
    if curve == "25519":
        key = x25519.X25519PrivateKey.from_private_bytes(private).public_key()
        return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    key = ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1()).public_key()
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)


def agree(curve: str, private: bytes, peer: bytes) -> bytes:
    if curve == "25519":
        peer = x25519.X25519PublicKey.from_public_bytes(peer)
        return x25519.X25519PrivateKey.from_private_bytes(private).exchange(peer)
    peer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), peer)
    return ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1()).exchange(ec.ECDH(), peer)


class Side:
    """One side of a handshake: keys by name (s, e, rs as private, private, public), psks by place."""

    def __init__(self, name, initiator, prologue, psks, s=None, e=None, rs=None):
        _, pattern, self.curve, self.cipher, _ = name.split("_")
        base, modifiers = pattern[:2], [int(part[3:]) for part in pattern[2:].split("+") if part]
        before, messages = PATTERNS[base]
        self.messages = [list(message) for message in messages]
        for place in modifiers:
            if place == 0:
                self.messages[0].insert(0, "psk0")
            else:
                self.messages[place - 1].append(f"psk{place}")
        self.initiator, self.psks, self.s, self.e, self.rs, self.re = initiator, psks, s, e, rs, None
        self.h = name.encode().ljust(32, b"\0") if len(name) <= 32 else hashlib.sha256(name.encode()).digest()
        self.ck, self.k, self.n = self.h, None, 0
        self.mix_hash(prologue)
        for key in before:
            # Named from the initiator's side.
            own = (key == "s") == initiator
            self.mix_hash(public(self.curve, s) if own else rs)

    def mix_hash(self, data):
        self.h = hashlib.sha256(self.h + data).digest()

    def mix_key(self, data):
        self.ck, self.k = hkdf(self.ck, data, 2)
        self.n = 0

    def aead(self):
        nonce = self.n.to_bytes(8, "big" if self.cipher == "AESGCM" else "little")
        self.n += 1
        return (AESGCM if self.cipher == "AESGCM" else ChaCha20Poly1305)(self.k), bytes(4) + nonce

    def seal(self, data):
        if self.k:
            key, nonce = self.aead()
            data = key.encrypt(nonce, data, self.h)
        self.mix_hash(data)
        return data

    def open(self, data):
        plain = data
        if self.k:
            key, nonce = self.aead()
            plain = key.decrypt(nonce, data, self.h)
        self.mix_hash(data)
        return plain

    def mix(self, token):
        """A token that nothing is sent for."""
        if token.startswith("psk"):
            self.ck, mixed, self.k = hkdf(self.ck, self.psks[int(token[3:])], 3)
            self.mix_hash(mixed)
            self.n = 0
            return
        own, peer = token if self.initiator else token[::-1]
        private = self.s if own == "s" else self.e
        self.mix_key(agree(self.curve, private, self.rs if peer == "s" else self.re))

    def write(self, payload):
        out = b""
        for token in self.messages.pop(0):
            if token == "e":
                key = public(self.curve, self.e)
                out += key
                self.mix_hash(key)
                self.mix_key(key)
            elif token == "s":
                out += self.seal(public(self.curve, self.s))
            else:
                self.mix(token)
        return out + self.seal(payload)

    def read(self, message):
        length = 32 if self.curve == "25519" else 33
        for token in self.messages.pop(0):
            if token == "e":
                self.re, message = message[:length], message[length:]
                self.mix_hash(self.re)
                self.mix_key(self.re)
            elif token == "s":
                sealed = length + (16 if self.k else 0)
                self.rs, message = self.open(message[:sealed]), message[sealed:]
            else:
                self.mix(token)
        return self.open(message)

    def split(self):
        """The initiator's sending key, and the responder's."""
        return hkdf(self.ck, b"", 2)
