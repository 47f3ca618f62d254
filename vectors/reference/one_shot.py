"""Wire 4, straight from spec/one-shot.md: key configurations and documents, the secrets of a request, who checks what and in which
order. What is refused raises `Refused`."""

import re
from dataclasses import dataclass

import checks3
import hpke
import identity3
import session3 as s3
import stream3
from checks3 import Members, base64_bytes, whole
from session3 import Refused, expand, extract, field, number, sha256

DOCUMENT_MAX, MS_MAX = 65_536, 999_999_999_999_999
PSK_ID = re.compile(rb"[\x21-\x7e]{1,64}")
KID = re.compile(r"hpke:[0-9a-f]{32}")


def psk_of(master: bytes, psk_id: str) -> bytes:
    return expand(extract(master, psk_id.encode()), "sealway/4 psk", 32)


@dataclass(frozen=True)
class Key:
    """A server's key. `private` is a seed or a private key of 32 bytes."""

    kem: hpke.Kem
    private: bytes
    key_id: int
    not_before_ms: int
    use_until_ms: int
    not_after_ms: int

    @property
    def public(self) -> bytes:
        return hpke.public_key(self.kem, self.private)

    @property
    def config(self) -> bytes:
        return config(self.kem.id, self.public, self.key_id)

    @property
    def name(self) -> str:
        return key_name(self.config)

    @property
    def kid(self) -> str:
        return "hpke:" + self.name


def config(kem_id: int, public: bytes, key_id: int) -> bytes:
    return bytes([key_id]) + hpke.i2(kem_id) + public + hpke.i2(4) + hpke.i2(hpke.KDF) + hpke.i2(hpke.AEAD)


def key_name(config: bytes) -> str:
    return sha256(config)[:16].hex()


# --- The secrets of a request ---

@dataclass(frozen=True)
class Secrets:
    c2s: bytes
    s2c: bytes


def secrets(one: hpke.Kem, name: str, shared: bytes, psk: bytes, psk_id: str) -> Secrets:
    info = field("sealway/4") + field(name) + field(psk_id)
    made = hpke.exporter(one, shared, info, psk, psk_id.encode())
    return Secrets(made.export(b"sealway/4 c2s"), made.export(b"sealway/4 s2c"))


def prefix(psk_id: str | None, enc: bytes) -> bytes:
    """What stands in front of a request's stream."""
    said = (psk_id or "").encode()
    return bytes([0 if psk_id is None else 1, len(said)]) + said + enc


# --- The server ---

def read_prefix(one: hpke.Kem, data: bytes) -> tuple[str | None, bytes, bytes]:
    """psk_id (absent in mode 0), enc, and the stream behind."""
    if len(data) < 2:
        raise Refused("stream_truncated")
    mode, length = data[0], data[1]
    psk_id, rest = data[2:2 + length], data[2 + length:]
    if mode > 1 or (mode == 0 and length) or (mode == 1 and not 1 <= length <= 64):
        raise Refused("unsealable")
    if len(rest) < one.enc_length:
        raise Refused("stream_truncated")
    if mode == 1 and not PSK_ID.fullmatch(psk_id):
        raise Refused("unsealable")
    return psk_id.decode() if mode else None, rest[:one.enc_length], rest[one.enc_length:]


def open_request(keys: list[Key], psks: dict[str, bytes], method: str, path: str, headers, body: bytes, now_ms: int, window_ms: int):
    kid, idempotency = checks3.header(headers, "X-Kid"), checks3.header(headers, "X-Idempotency-Key")
    if checks3.header(headers, "X-Seal") != "4":
        raise Refused("header_invalid")
    stamp, nonce = checks3.stamp_and_nonce(idempotency)
    if checks3.ANSWER_NONCE.fullmatch(nonce):
        raise Refused("nonce_reserved")
    if not checks3.STAMP.fullmatch(stamp):
        raise Refused("timestamp_invalid")
    if not KID.fullmatch(kid):
        raise Refused("kid_prefix")
    key = next((key for key in keys if key.kid == kid and key.not_before_ms <= now_ms < key.not_after_ms), None)
    if key is None:
        raise Refused("key_retired")
    data = checks3.sealed_stream(headers, body)
    psk_id, enc, stream = read_prefix(key.kem, data)
    # An unknown name is worked on as a known one is, with a secret that nobody has.
    psk = b"" if psk_id is None else psks.get(psk_id, psk_of(b"\0" * 32, psk_id))
    try:
        shared = hpke.decapsulate(key.kem, key.private, enc)
    except Refused as error:
        raise Refused("unsealable") from error
    made = secrets(key.kem, key.name, shared, psk, psk_id or "")
    context = stream3.request_context(method, path, checks3.optional(headers, "Content-Type") or "", stamp, nonce, key.name, 4)
    keys4 = stream3.request_keys(made.c2s, nonce, stamp, 4)
    opener = stream3.Opener(keys4, context, checks3.optional(headers, "X-Sealed") is not None)
    frames = opener.feed(stream)
    if frames:
        inner, first = stream3.decode_inner(frames[0])
        # The stamp is looked at once the first frame is open: what is said of it is sealed.
        if abs(int(stamp) - now_ms) > min(window_ms, checks3.WINDOW_MAX_MS):
            raise Refused("timestamp_outside_window")
    opener.finish()
    return inner, [first, *frames[1:]]


# --- The client ---

def open_answer(name: str, s2c: bytes, method: str, path: str, request_nonce: str, status: int, headers, body: bytes):
    """Whether it is a sealed problem, the inner headers and the frames."""
    if not any(key.lower() == "x-seal" for key, _ in headers):
        raise Refused("unsealed")
    if checks3.header(headers, "X-Seal") != "4":
        raise Refused("header_invalid")
    kid = checks3.header(headers, "X-Kid")
    if not kid.startswith("hpke:"):
        raise Refused("kid_prefix")
    if kid != "hpke:" + name:
        raise Refused("answer_mismatch")
    stamp, nonce = checks3.stamp_and_nonce(checks3.header(headers, "X-Idempotency-Key"))
    if not nonce.startswith(("r-", "p-")):
        raise Refused("answer_mismatch")
    if not checks3.STAMP.fullmatch(stamp):
        raise Refused("timestamp_invalid")
    context = stream3.answer_context(status, method, path, checks3.optional(headers, "Content-Type") or "", stamp, nonce, name, 4)
    keys = stream3.answer_keys(s2c, request_nonce, nonce, 4)
    opener = stream3.Opener(keys, context, checks3.optional(headers, "X-Sealed") is not None)
    inner, frames = checks3.open_stream(opener, checks3.sealed_stream(headers, body))
    return nonce.startswith("p-"), inner, frames


def document_message(issued_ms: int, expires_ms: int, keys) -> bytes:
    """What a root signs. `keys` are (config, not before, use until, not after)."""
    listed = [field(config) + number(begin) + number(until) + number(end) for config, begin, until, end in keys]
    return b"sealway/4 keys" + sha256(number(issued_ms) + number(expires_ms) + s3.fields(listed))


def read_config(data: bytes) -> tuple[int, hpke.Kem | None]:
    """Key id and KEM; no KEM where it is one that this side does not know. `ValueError` for another form."""
    if len(data) < 3:
        raise ValueError("no key configuration")
    kem_id = int.from_bytes(data[1:3], "big")
    one = next((kem for kem in hpke.KEMS.values() if kem.id == kem_id), None)
    suites = hpke.i2(4) + hpke.i2(hpke.KDF) + hpke.i2(hpke.AEAD)
    if not data.endswith(suites) or len(data) <= 3 + len(suites):
        raise ValueError("no single suite")
    if one is not None and len(data) != 3 + one.public_length + len(suites):
        raise ValueError("no public key")
    return data[0], one


def document_key(value):
    """(config, not before, use until, not after), or none where it is not of the form."""
    if not isinstance(value, checks3._Pairs):
        return None
    last = {name: part for name, part in value}
    found = base64_bytes(last.get("config"))
    times = [whole(last.get(name), MS_MAX) for name in ("not_before_ms", "use_until_ms", "not_after_ms")]
    if found is None or None in times or times != sorted(times):
        return None
    try:
        read_config(found)
    except ValueError:
        return None
    return (found, *times)


def take_document(data: bytes, root: bytes, now_ms: int, taken_issued_ms: int | None, algorithms: list[str] | None = None):
    """The keys of a document in their order."""
    if len(data) > DOCUMENT_MAX:
        raise Refused("body_too_large")
    m = Members(data)
    issued = m.take("issued_ms", lambda v: whole(v, MS_MAX))
    expires = m.take("expires_ms", lambda v: whole(v, MS_MAX))

    def read(value):
        if not isinstance(value, list) or isinstance(value, checks3._Pairs) or len(value) > 16:
            return None
        found = [document_key(part) for part in value]
        return None if None in found or len({key_name(key[0]) for key in found}) != len(found) else found

    keys = m.take("keys", read)
    root_id = m.take("root_key_id", lambda v: checks3.text(v, checks3.KEY_ID), False)
    signature = m.take("root_signature", base64_bytes, False)
    if (root_id is None) != (signature is None):
        raise Refused("field_invalid", "root_key_id" if root_id is None else "root_signature")
    if root_id != s3.key_id(root) or not identity3.accepted(identity3.alg_of(root), algorithms, True):
        raise Refused("key_untrusted")
    if not identity3.verify(root, document_message(issued, expires, keys), signature):
        raise Refused("signature_invalid")
    if now_ms >= expires or (taken_issued_ms is not None and issued < taken_issued_ms):
        raise Refused("key_untrusted")
    return issued, keys


def choose(keys, now_ms: int, kems: list[str]) -> str | None:
    """The kid that a client uses which has these KEMs."""
    for config, begin, until, _ in keys:
        one = read_config(config)[1]
        if one is not None and one.name in kems and begin <= now_ms < until:
            return "hpke:" + key_name(config)
    return None


def sends_again(problem: dict, sealed: bool, method: str, stamp: str, elapsed_ms: int) -> bool:
    is_safe = method in checks3.SAFE_METHODS
    if problem["code"] == "clock_skew":
        return sealed and (is_safe or int(stamp) + checks3.STALE_MS < problem["server_time_ms"] - elapsed_ms)
    return problem["code"] == "key_retired" and not sealed and is_safe
