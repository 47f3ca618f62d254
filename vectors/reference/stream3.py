"""Streams, frames and inner headers of spec/session-3.md, and the keys and contexts of requests and answers of wires 3 and 4."""

import hmac
import re
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from session3 import Refused, expand, field, number, sha256

FRAME_MAX, TAG, COMMIT = 65_536, 16, 16
INNER_MAX, INNER_COUNT = 16_384, 64
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
FORBIDDEN = {b"content-length", b"transfer-encoding", b"host", b"expect", b"te", b"trailer", b"upgrade", b"connection",
             b"keep-alive", b"http2-settings", b"x-kid", b"x-idempotency-key", b"x-clientid", b"x-nonce", b"x-timestamp", b"x-enc-alg", b"x-iv",
             b"x-tag", b"x-aad", b"x-seal", b"x-sealed"}


# --- Keys and contexts ---

def request_keys(c2s: bytes, nonce: str, timestamp: str, wire: int = 3) -> tuple[bytes, bytes, bytes]:
    """Key, IV and commit."""
    out = expand(c2s, field(f"sealway/{wire} request") + field(nonce) + field(timestamp), 60)
    return out[:32], out[32:44], out[44:]


def answer_keys(s2c: bytes, request_nonce: str, nonce: str, wire: int = 3) -> tuple[bytes, bytes, bytes]:
    out = expand(s2c, field(f"sealway/{wire} answer") + field(request_nonce) + field(nonce), 60)
    return out[:32], out[32:44], out[44:]


def request_context(method: str, path: str, content_type: str, timestamp: str, nonce: str, session_id: str,
                    wire: int = 3) -> bytes:
    """On wire 4 the key name takes the place of the session id, here and below."""
    return sha256(field(f"sealway/{wire} request context") + field(method) + field(path) + field(content_type) + field(timestamp)
                  + field(nonce) + field(session_id))


def answer_context(status: int, method: str, path: str, content_type: str, timestamp: str, nonce: str,
                   session_id: str, wire: int = 3) -> bytes:
    """Timestamp and nonce are the answer's own."""
    return sha256(field(f"sealway/{wire} answer context") + number(status) + field(method) + field(path) + field(content_type)
                  + field(timestamp) + field(nonce) + field(session_id))


# --- Frames ---

def frame_nonce(iv: bytes, count: int, last: bool) -> bytes:
    return bytes(a ^ b for a, b in zip(iv, struct.pack(">IQ", last, count)))


def seal_frame(keys, context: bytes, count: int, last: bool, plaintext: bytes) -> bytes:
    key, iv, _ = keys
    sealed = AESGCM(key).encrypt(frame_nonce(iv, count, last), plaintext, context)
    return struct.pack(">I", last << 31 | len(sealed)) + sealed


def seal_frames(keys, context: bytes, frames: list[bytes]) -> list[bytes]:
    return [seal_frame(keys, context, n, n == len(frames) - 1, plain) for n, plain in enumerate(frames)]


def seal_stream(keys, context: bytes, frames: list[bytes]) -> bytes:
    """The whole stream of these plaintexts, the first of which begins with the inner headers."""
    return keys[2] + b"".join(seal_frames(keys, context, frames))


class Opener:
    """Opens a stream as it comes. `feed` gives the plaintexts of the frames that are complete, `finish` refuses an end that
    is none."""

    def __init__(self, keys, context: bytes, is_single: bool = False):
        """`is_single` is true for a stream in X-Sealed, which has one frame."""
        (self.key, self.iv, self.commit), self.context, self.is_single = keys, context, is_single
        self.pending, self.count, self.done, self.commit_sent = b"", 0, False, None

    def feed(self, data: bytes) -> list[bytes]:
        self.pending += data
        opened = []
        while (plaintext := self._next()) is not None:
            opened.append(plaintext)
        return opened

    def finish(self) -> None:
        if not self.done:
            raise Refused("stream_truncated")

    def _next(self) -> bytes | None:
        if self.done:
            if self.pending:
                raise Refused("frame_invalid")
            return None
        if self.commit_sent is None:
            if len(self.pending) < COMMIT:
                return None
            self.commit_sent, self.pending = self.pending[:COMMIT], self.pending[COMMIT:]
        if len(self.pending) < 4:
            return None
        word = struct.unpack(">I", self.pending[:4])[0]
        last, length = word >> 31, word & 0x7FFF_FFFF
        if not TAG <= length <= FRAME_MAX + TAG or (length == TAG and not last):
            raise Refused("frame_invalid")
        if len(self.pending) < 4 + length:
            return None
        sealed, self.pending = self.pending[4:4 + length], self.pending[4 + length:]
        # The tag is computed whether or not the commit is right: no answer comes sooner for it.
        try:
            plaintext = AESGCM(self.key).decrypt(frame_nonce(self.iv, self.count, bool(last)), sealed, self.context)
        except InvalidTag:
            plaintext = None
        if plaintext is None or not hmac.compare_digest(self.commit_sent, self.commit):
            raise Refused("unsealable")
        if self.is_single and not last:
            raise Refused("stream_truncated")
        self.count, self.done = self.count + 1, bool(last)
        return plaintext


# --- Inner headers ---

def encode_inner(headers) -> bytes:
    """`headers` are pairs of bytes or text."""
    out = b""
    for name, value in headers:
        name, value = (part.encode("latin-1") if isinstance(part, str) else part for part in (name, value))
        out += struct.pack(">B", len(name)) + name + struct.pack(">H", len(value)) + value
    return struct.pack(">H", len(out)) + out


def decode_inner(plaintext: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The inner headers and what follows them, of the first frame."""
    fault = Refused("inner_headers_invalid")
    if len(plaintext) < 2:
        raise fault
    length = struct.unpack(">H", plaintext[:2])[0]
    block, body = plaintext[2:2 + length], plaintext[2 + length:]
    if length > INNER_MAX or len(block) < length:
        raise fault
    headers = []
    while block:
        name, block = block[1:1 + block[0]], block[1 + block[0]:]
        if len(block) < 2:
            raise fault
        length = struct.unpack(">H", block[:2])[0]
        value, block = block[2:2 + length], block[2 + length:]
        if len(value) < length or not TOKEN.fullmatch(name):
            raise fault
        if any((byte < 0x20 and byte != 9) or byte == 0x7F for byte in value):
            raise fault
        if name in FORBIDDEN or name.startswith((b"proxy-", b"x-sealway-")):
            raise fault
        headers.append((name, value))
    if len(headers) > INNER_COUNT:
        raise fault
    return headers, body
