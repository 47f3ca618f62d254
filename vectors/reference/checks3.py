"""Who checks what on wire 3, and in which order: spec/session-3.md, both sides. What is refused raises `Refused`."""

import hmac
import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import identity3
import session3 as s3
import stream3
from identity3 import Identity
from session3 import InitAnswer, InitRequest, Keys, Refused, unb64

SUITE_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
ALG_NAME = re.compile(r"[A-Za-z0-9_+-]{1,32}")
KEY_ID = re.compile(r"[0-9a-f]{32}")
SESSION_ID = re.compile(r"S-[0-9a-f]{32}")
CLIENT_ID = re.compile(r"[\x20-\x7b\x7d\x7e]{1,256}")
NONCE = re.compile(r"[A-Za-z0-9_-]{16,128}")
STAMP = re.compile(r"[0-9]{1,15}")
ANSWER_NONCE = re.compile(r"[rR]-.*")
SAFE_METHODS = ("GET", "HEAD")
WINDOW_MAX_MS = 300_000
# A stamp that was this old when its request left is too old for each server, even for one whose clock is minutes behind.
STALE_MS = 2 * WINDOW_MAX_MS
INIT_MAX, PROOF_MAX, SUBJECT_MAX, SEALED_MAX, NESTING_MAX = 16_384, 8_192, 256, 8_192, 127
SIGNATURE_MAX, PUBLIC_MAX, KEY_SET_MAX = 8_192, 8_192, 65_536
U32, U64 = 2**32 - 1, 2**64 - 1
AUTH = ("none", "bearer", "dpop", "certificate")


# --- JSON ---

class _Pairs(list):
    """An object's members in order, repeated ones and all."""


def _depth(value) -> int:
    parts = [part for _, part in value] if isinstance(value, _Pairs) else value
    return 1 + max((_depth(part) for part in parts), default=0) if isinstance(value, list) else 0


def _no_constant(name):
    raise ValueError(name)


def parse_object(data: bytes) -> dict[str, list]:
    """An object's members: name and the values it was given, in order."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_Pairs, parse_float=Decimal, parse_constant=_no_constant)
        deep = _depth(value) > NESTING_MAX
    except (ValueError, RecursionError) as error:
        raise Refused("json_invalid") from error
    if deep:
        raise Refused("json_invalid")
    if not isinstance(value, _Pairs):
        raise Refused("field_invalid")
    out = {}
    for name, part in value:
        out.setdefault(name, []).append(part)
    return out


def whole(value, top: int) -> int | None:
    """A number of integer value, however written."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    try:
        return int(value) if value == int(value) and 0 <= value <= top else None
    except (InvalidOperation, OverflowError):
        return None


def text(value, form: re.Pattern | None = None) -> str | None:
    if not isinstance(value, str) or (form is not None and not form.fullmatch(value)):
        return None
    return value


def short(value, top: int) -> str | None:
    """A text that is not empty: the transcript could not tell that from none."""
    return value if isinstance(value, str) and 1 <= len(value.encode()) <= top else None


def base64_bytes(value, top: int | None = None) -> bytes | None:
    try:
        found = unb64(value) if isinstance(value, str) and value else None
    except ValueError:
        return None
    return found if found is None or top is None or len(found) <= top else None


def public_key(value, alg: str) -> bytes | None:
    """An identity key by its form; a point may be off the curve. One of an unknown algorithm has the length of no other."""
    found = base64_bytes(value, PUBLIC_MAX)
    named = alg if alg in identity3.PARTS else None
    if found is None or identity3.alg_of(found) != named:
        return None
    return found if named is None or identity3.starts_with_point(alg, found) else None


def names(value, form: re.Pattern, least: int, most: int) -> list[str] | None:
    """Different names of a form."""
    if not isinstance(value, list) or isinstance(value, _Pairs) or not least <= len(value) <= most:
        return None
    if any(text(part, form) is None for part in value) or len(set(value)) != len(value):
        return None
    return value


class Members:
    """Reads the members of an object one after the other; `code` is what a fault is called."""

    def __init__(self, data: bytes, code: str | None = None):
        self.code = code
        try:
            self.members = parse_object(data)
        except Refused as error:
            raise Refused(code or error.code) from error

    def take(self, name: str, read, required: bool = True):
        values = self.members.get(name, [])
        # Of a repeated member the last counts.
        value = values[-1] if values else None
        if value is None:
            if required:
                raise self.fault(name)
            return None
        found = read(value)
        if found is None:
            raise self.fault(name)
        return found

    def fault(self, name: str) -> Refused:
        return Refused(self.code) if self.code else Refused("field_invalid", name)


# --- Init, the server ---

def read_init(data: bytes) -> InitRequest:
    if len(data) > INIT_MAX:
        raise Refused("body_too_large")
    m = Members(data)
    return InitRequest(
        suite=m.take("suite", lambda v: text(v, SUITE_NAME)),
        suites=m.take("suites", lambda v: names(v, SUITE_NAME, 1, 8)),
        share=m.take("share", base64_bytes),
        client_id=m.take("client_id", lambda v: text(v, CLIENT_ID)),
        ttl_sec=m.take("ttl_sec", lambda v: whole(v, U32), False),
        proof=m.take("proof", lambda v: short(v, PROOF_MAX), False),
        pinned_key_ids=m.take("pinned_key_ids", lambda v: names(v, KEY_ID, 0, 16), False) or [],
        signature_algorithms=m.take("signature_algorithms", lambda v: names(v, ALG_NAME, 1, 8), False),
    )


def signing_key(request: InitRequest, identities: list[Identity], now_ms: int) -> tuple[Identity, list[Identity]]:
    """The key that signs, and all that are live, the latest first."""
    live = sorted((key for key in identities if key.live(now_ms)), key=lambda key: -key.not_before_ms)
    fit = [key for key in live if (not request.pinned_key_ids or key.id in request.pinned_key_ids)
           and identity3.accepted(key.alg, request.signature_algorithms, key.id in request.pinned_key_ids)]
    if not fit:
        raise Refused("key_retired")
    return fit[0], live


def accept_init(request: InitRequest, credential: bytes, answer: dict, suites: list[str], identities: list[Identity],
                keys: s3.ServerKeys, renewed: tuple[str, bytes] | None = None):
    """The server's answer, signature, confirm and keys. `answer` has what the server draws, decides or is told."""
    if s3.chosen_suite(request.suites, suites) != request.suite:
        raise Refused("suite_required")
    signer, live = signing_key(request, identities, answer["server_time_ms"])
    share, secret = s3.server_agree(request.suite, request.share, keys)
    said = InitAnswer(suite=request.suite, suites=suites, share=share, key_id=signer.id, key_ids=[key.id for key in live],
                      **answer)
    old_id, exporter = renewed or (None, b"")
    th = s3.sha256(s3.transcript(request, credential, said, old_id))
    made = s3.schedule(th, secret, exporter)
    return said, signer.sign(s3.signed(th)), s3.hmac256(made.confirm_key, th), made


# --- Init, the client ---

def read_init_answer(status: int, data: bytes) -> tuple[InitAnswer, bytes, bytes]:
    if status != 201:
        raise Refused("answer_mismatch")
    m = Members(data, "answer_mismatch")
    fixed = lambda length: lambda v: found if (found := base64_bytes(v)) is not None and len(found) == length else None
    answer = InitAnswer(
        session_id=m.take("session_id", lambda v: text(v, SESSION_ID)),
        suite=m.take("suite", lambda v: text(v, SUITE_NAME)),
        suites=m.take("suites", lambda v: names(v, SUITE_NAME, 1, 8)),
        share=m.take("share", base64_bytes),
        expires_in_sec=m.take("expires_in_sec", lambda v: whole(v, U32)),
        server_time_ms=m.take("server_time_ms", lambda v: whole(v, U64)),
        key_id=m.take("key_id", lambda v: text(v, KEY_ID)),
        key_ids=m.take("key_ids", lambda v: names(v, KEY_ID, 1, 16)),
        auth=m.take("auth", lambda v: v if v in AUTH else None),
        subject=m.take("subject", lambda v: short(v, SUBJECT_MAX), False),
        tenant=m.take("tenant", lambda v: short(v, SUBJECT_MAX), False),
    )
    return answer, m.take("signature", lambda v: base64_bytes(v, SIGNATURE_MAX)), m.take("confirm", fixed(32))


def finish_init(request: InitRequest, credential: bytes, keys: s3.ClientKeys, trusted: dict[str, bytes], status: int,
                data: bytes, renewed: tuple[str, bytes] | None = None) -> tuple[InitAnswer, Keys]:
    """The client's checks, in their order. `trusted` are public keys by their ids."""
    answer, signature, confirm = read_init_answer(status, data)
    if answer.suite != request.suite:
        raise Refused("answer_mismatch")
    if s3.chosen_suite(request.suites, answer.suites) != answer.suite:
        raise Refused("suite_downgraded")
    public = trusted.get(answer.key_id)
    if public is None or not identity3.accepted(identity3.alg_of(public), request.signature_algorithms,
                                                answer.key_id in request.pinned_key_ids):
        raise Refused("key_untrusted")
    old_id, exporter = renewed or (None, b"")
    th = s3.sha256(s3.transcript(request, credential, answer, old_id))
    if not identity3.verify(public, s3.signed(th), signature):
        raise Refused("signature_invalid")
    made = s3.schedule(th, s3.client_agree(request.suite, answer.share, keys), exporter)
    if not hmac.compare_digest(s3.hmac256(made.confirm_key, th), confirm):
        raise Refused("unconfirmed")
    return answer, made


# --- Sealed calls ---

@dataclass(frozen=True)
class Session:
    id: str
    wire: int
    keys: Keys
    expires_ms: int

    @property
    def kid(self) -> str:
        return "session:" + self.id


def header(headers, name: str) -> str:
    found = [value for key, value in headers if key.lower() == name.lower()]
    if not found or (len(found) == 1 and not found[0]):
        raise Refused("header_missing")
    if len(found) > 1 or not re.fullmatch(r"[\t\x20-\x7e]+", found[0]):
        raise Refused("header_invalid")
    return found[0]


def optional(headers, name: str) -> str | None:
    found = [value for key, value in headers if key.lower() == name.lower()]
    if len(found) > 1 or not re.fullmatch(r"[\t\x20-\x7e]*", "".join(found)):
        raise Refused("header_invalid")
    return found[0] if found else None


def stamp_and_nonce(key: str) -> tuple[str, str]:
    parts = key.split(".")
    if len(parts) != 2 or not all(parts):
        raise Refused("idempotency_key_shape")
    if not NONCE.fullmatch(parts[1]):
        raise Refused("nonce_invalid")
    return parts[0], parts[1]


def sealed_stream(headers, body: bytes) -> bytes:
    """Check 6: the bytes of the stream, from the one place where they are. Neither is a stream of no bytes."""
    if (value := optional(headers, "X-Sealed")) is None:
        return body
    if body or len(value) > SEALED_MAX:
        raise Refused("header_invalid")
    try:
        return unb64(value)
    except ValueError as error:
        raise Refused("header_invalid") from error


def open_stream(opener: stream3.Opener, data: bytes):
    """Inner headers, and what each frame holds of the body."""
    frames = opener.feed(data)
    if frames:
        inner, first = stream3.decode_inner(frames[0])
    opener.finish()
    return inner, [first, *frames[1:]]


def open_request(session: Session, method: str, path: str, headers, body: bytes, now_ms: int, window_ms: int):
    kid, key = header(headers, "X-Kid"), header(headers, "X-Idempotency-Key")
    if header(headers, "X-Seal") != "3":
        raise Refused("header_invalid")
    stamp, nonce = stamp_and_nonce(key)
    if ANSWER_NONCE.fullmatch(nonce):
        raise Refused("nonce_reserved")
    if not STAMP.fullmatch(stamp):
        raise Refused("timestamp_invalid")
    if not kid.startswith("session:"):
        raise Refused("kid_prefix")
    if kid != session.kid:
        raise Refused("session_unknown")
    if now_ms >= session.expires_ms:
        raise Refused("session_expired")
    if session.wire != 3:
        raise Refused("wire_mismatch")
    if abs(int(stamp) - now_ms) > min(window_ms, WINDOW_MAX_MS):
        raise Refused("timestamp_outside_window")
    data = sealed_stream(headers, body)
    context = stream3.request_context(method, path, optional(headers, "Content-Type") or "", stamp, nonce, session.id)
    keys = stream3.request_keys(session.keys.c2s, nonce, stamp)
    return open_stream(stream3.Opener(keys, context, optional(headers, "X-Sealed") is not None), data)


def answer_opener(session: Session, method: str, path: str, request_nonce: str, status: int, headers) -> stream3.Opener:
    """The client's checks of an answer's headers, and what opens its stream."""
    if not any(name.lower() == "x-seal" for name, _ in headers):
        raise Refused("unsealed")
    if header(headers, "X-Seal") != "3":
        raise Refused("header_invalid")
    kid = header(headers, "X-Kid")
    if not kid.startswith("session:"):
        raise Refused("kid_prefix")
    if kid != session.kid:
        raise Refused("answer_mismatch")
    stamp, nonce = stamp_and_nonce(header(headers, "X-Idempotency-Key"))
    if not nonce.startswith("r-"):
        raise Refused("answer_mismatch")
    if not STAMP.fullmatch(stamp):
        raise Refused("timestamp_invalid")
    context = stream3.answer_context(status, method, path, optional(headers, "Content-Type") or "", stamp, nonce, session.id)
    keys = stream3.answer_keys(session.keys.s2c, request_nonce, nonce)
    return stream3.Opener(keys, context, optional(headers, "X-Sealed") is not None)


def open_answer(session: Session, method: str, path: str, request_nonce: str, status: int, headers, body: bytes):
    opener = answer_opener(session, method, path, request_nonce, status, headers)
    return open_stream(opener, sealed_stream(headers, body))


# --- Key sets and problems ---

@dataclass(frozen=True)
class RootKeys:
    """The keys of a set that the pinned root signed, each with its public key and its times; without those of unknown
    algorithms, which are never trusted."""

    issued_ms: int
    expires_ms: int
    keys: dict[str, tuple[bytes, int, int]]
    algorithms: list[str] | None = None

    def live(self, server_time_ms: int, now_ms: int) -> dict[str, bytes]:
        """The keys that may have signed an init's answer with this `server_time_ms`. The client's own clock counts for every
        end, and so does when the set was issued: the thief of a key that is over says what time he likes."""
        latest_ms = max(server_time_ms, now_ms, self.issued_ms)
        if latest_ms >= self.expires_ms:
            return {}
        return {id: public for id, (public, not_before_ms, not_after_ms) in self.keys.items()
                if not_before_ms <= server_time_ms and latest_ms < not_after_ms
                and identity3.accepted(identity3.alg_of(public), self.algorithms, False)}


def take_key_set(data: bytes, root: bytes, now_ms: int, taken_issued_ms: int | None, algorithms: list[str] | None = None) -> RootKeys:
    """What a client takes that pins `root` and accepts `algorithms`."""
    if len(data) > KEY_SET_MAX:
        raise Refused("body_too_large")
    m = Members(data)
    issued, expires = (m.take(name, lambda v: whole(v, U64)) for name in ("issued_ms", "expires_ms"))
    listed = m.take("keys", lambda v: v if isinstance(v, list) and not isinstance(v, _Pairs) and len(v) <= 16 else None)
    keys = []
    for each in listed:
        if not isinstance(each, _Pairs):
            raise Refused("field_invalid", "keys")
        part = Members.__new__(Members)
        part.code, part.members = None, {}
        for name, value in each:
            part.members.setdefault(name, []).append(value)
        try:
            alg = part.take("alg", lambda v: text(v, ALG_NAME))
            keys.append((part.take("key_id", lambda v: text(v, KEY_ID)), part.take("public_key", lambda v: public_key(v, alg)),
                         *(part.take(name, lambda v: whole(v, U64)) for name in ("not_before_ms", "not_after_ms"))))
        except Refused as error:
            raise Refused("field_invalid", "keys") from error
    root_id = m.take("root_key_id", lambda v: text(v, KEY_ID), False)
    signature = m.take("root_signature", base64_bytes, False)
    for name, given, other in (("root_key_id", root_id, signature), ("root_signature", signature, root_id)):
        if given is None and other is not None:
            raise Refused("field_invalid", name)
    for id, public, _, _ in keys:
        # Else a root's word for one key could be taken for its word for another.
        if id != s3.key_id(public):
            raise Refused("field_invalid", "keys")
    if root_id != s3.key_id(root) or not identity3.accepted(identity3.alg_of(root), algorithms, True):
        raise Refused("key_untrusted")
    if not identity3.verify(root, s3.key_set_message(issued, expires, keys), signature):
        raise Refused("signature_invalid")
    if now_ms >= expires or (taken_issued_ms is not None and issued < taken_issued_ms):
        raise Refused("key_untrusted")
    known = {id: (public, begin, end) for id, public, begin, end in keys if identity3.alg_of(public)}
    return RootKeys(issued, expires, known, algorithms)


def clock_proven(problem: dict, session: Session, nonce: str, stamp: str) -> bool:
    """Whether a client may take the time of a `clock_skew`."""
    time, mac = whole(problem.get("server_time_ms"), U64), base64_bytes(problem.get("mac"))
    return (problem.get("code") == "clock_skew" and time is not None and mac is not None
            and hmac.compare_digest(mac, s3.clock_mac(session.keys.s2c, nonce, stamp, time)))


def sends_again(problem: dict, proven: bool, method: str, stamp: str, elapsed_ms: int) -> bool:
    """Whether a client sends what was refused once more. A method that is not safe: only where the stamp was too old for
    every server before the request left, `elapsed_ms` ago."""
    is_safe = method in SAFE_METHODS
    if problem["code"] == "clock_skew":
        return proven and (is_safe or int(stamp) + STALE_MS < problem["server_time_ms"] - elapsed_ms)
    return problem["code"] == "session_expired" and is_safe
