"""A sealed request at a server as a value. The tests of the middleware play it over HTTP."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sealway.errors import CODES, ProtocolError
from sealway.exchange.refusal import Refusal
from sealway.exchange.rejection import Form, Rejection
from sealway.exchange.request import Exchange, looks_sealed, wire_of
from sealway.exchange.stream import Stream
from sealway.server import MemoryStore
from sealway.session.claim import Admission, SessionRecord
from sealway.session.native.client import Session
from sealway.session.native.stream import open_whole
from sealway.wire.header import Headers
from sealway.wire.inner import encode_inner
from serving import agree_compat, agree_native

NOW_MS = 1_750_000_000_000
TARGET = "/a?b=c"
WINDOW_MS = 300_000
REGISTRY = tomllib.loads((Path(__file__).resolve().parents[3] / "spec" / "registry.toml").read_text("utf-8"))


def active() -> tuple[Session, SessionRecord]:
    store = MemoryStore()
    session = agree_native(store)
    return session, store._sessions[session.id]


def sent(session: Session, parts: list[bytes], stamp_ms: int = NOW_MS) -> tuple[Any, Headers, bytes]:
    """A request, a frame for each part: the opener of its answer, headers, body."""
    pending = session.seal("POST", TARGET, "x/y", str(stamp_ms), "0123456789abcdef")
    parts = [encode_inner([]) + parts[0], *parts[1:]]
    body = b"".join(pending.sealer.seal(part, at == len(parts) - 1) for at, part in enumerate(parts))
    return pending, Headers([*pending.headers, ("Content-Type", "x/y")]), body


def begun(headers: Headers, now_ms: int = NOW_MS, window_ms: int = WINDOW_MS) -> Exchange:
    return Exchange.begin("POST", TARGET, headers, now_ms, window_ms)


def read(stream: Stream, body: bytes, step: int) -> tuple[list[bytes], str]:
    """The pieces of a body that comes in chunks of this length, and the error that ended it."""
    pieces: list[bytes] = []
    try:
        for at in range(0, len(body), step):
            pieces += stream.read(body[at : at + step])
        pieces += stream.end()
    except ProtocolError as refused:
        return pieces, refused.code
    return pieces, ""


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_last_piece_is_released_only_at_the_end_of_the_body(step: int) -> None:
    session, record = active()
    _, headers, body = sent(session, [b"one", b"two"])

    def shown(body: bytes) -> tuple[list[bytes], str, bool]:
        stream = begun(headers).session(record)[1]
        return (*read(stream, body, step), stream.is_done)

    first = encode_inner([]) + b"one"
    assert shown(body) == ([first, b"two"], "", True)
    # One byte behind it, in the same chunk or in the next.
    assert shown(body + b"x") == ([first] if step < 1000 else [], "frame_invalid", False)
    assert shown(body[:-1]) == ([first], "stream_truncated", False)


def test_a_body_of_wires_1_and_2_is_one_piece() -> None:
    store = MemoryStore()
    compat = agree_compat(store, 2)
    call = compat.seal(TARGET, b"hello", str(NOW_MS), "n", bytes(12))
    opening, stream = begun(Headers(call.headers)).session(store._sessions[compat.id])
    pieces, _ = read(stream, call.body, 5)
    assert (opening.is_whole, pieces) == (True, [call.body])
    pending = opening.open(pieces[0])
    plain = pending.release(Admission(pending.claim))
    assert (plain.first, plain.inner) == (b"hello", None)


@pytest.mark.parametrize(("status", "sealed_as"), [(201, 200), (404, 404), (400, None), (422, None), (304, None)])
def test_an_answer_of_wires_1_and_2_is_sealed_whole_or_rejected(status: int, sealed_as: int | None) -> None:
    store = MemoryStore()
    compat = agree_compat(store, 2)
    call = compat.seal(TARGET, b"hello", str(NOW_MS), "n", bytes(12))
    opening, _ = begun(Headers(call.headers)).session(store._sessions[compat.id])
    pending = opening.open(call.body)
    seal = pending.release(Admission(pending.claim)).reply.answer(status)
    assert seal.is_whole and not seal.is_bodyless
    if sealed_as is None:
        with pytest.raises(Refusal, match="unanswered" if status == 304 else "plaintext_rejected"):
            seal.begin([], b"hello", True, NOW_MS, bytes(16), bytes(12))
    else:
        headers, sealed = seal.begin([], b"hello", True, NOW_MS, bytes(16), bytes(12))
        assert call.open(seal.status, Headers(headers), sealed, NOW_MS, WINDOW_MS) == b"hello"
        assert (seal.status, Headers(headers).first("Content-Type")) == (sealed_as, "application/octet-stream")
        with pytest.raises(ValueError, match="no frame"):
            seal.more(b"", True)


def test_a_request_of_an_anonymous_session_is_bounded() -> None:
    store = MemoryStore()
    for is_anonymous, most in ((True, 4096), (False, 9000)):
        compat = agree_compat(store, 1, is_anonymous=is_anonymous)
        call = compat.seal(TARGET, b"", str(NOW_MS), "n", bytes(12))
        opening, _ = begun(Headers(call.headers)).session(store._sessions[compat.id])
        assert opening.body_max(9000, 90_000) == most


def test_a_request_is_opened_and_answered_and_prints_no_secret() -> None:
    session, record = active()
    answered, headers, body = sent(session, [b"hello"])
    opening, stream = begun(headers).session(record)
    assert opening.body_max(9000, 90_000) == 90_000
    [first], _ = read(stream, body, 9)
    pending = opening.open(first)
    with pytest.raises(ProtocolError, match="reservation_mismatch"):
        pending.release(Admission(type(pending.claim)(bytes(16), True, NOW_MS, WINDOW_MS)))
    plain = pending.release(Admission(pending.claim))
    assert (plain.first, plain.inner) == (b"hello", [])
    assert not any("hello" in repr(value) for value in (stream, opening, pending, plain, plain.reply))
    seal = plain.reply.answer(200)
    assert not (seal.is_whole or seal.is_bodyless)
    pairs, frames = seal.begin([(b"x-a", b"1")], b"he", False, NOW_MS, bytes(16), bytes(12))
    frames += seal.more(b"", False) + seal.more(b"llo", False) + seal.more(b"", True)
    opener, _ = answered.open(200, Headers(pairs))
    assert open_whole(opener, frames) == ([(b"x-a", b"1")], [b"he", b"llo", b""])


def test_an_answer_without_a_body_is_in_a_header_and_rejected_if_too_long() -> None:
    session, record = active()
    answered, headers, body = sent(session, [b"x"])
    opening, stream = begun(headers).session(record)
    pending = opening.open(read(stream, body, 99)[0][0])
    reply = pending.release(Admission(pending.claim)).reply
    seal = reply.answer(204)
    assert seal.is_bodyless
    pairs, frames = seal.begin([], b"dropped", True, NOW_MS, bytes(16), bytes(12))
    opener, sealed = answered.open(204, Headers(pairs))
    assert (open_whole(opener, sealed), frames) == (([], [b""]), b"")
    for status, inner in ((204, [(b"x-a", b"1" * 7000)]), (200, [(b"x-a", b"1")] * 65)):
        with pytest.raises(Refusal, match="unanswered"):
            reply.answer(status).begin(inner, b"", True, NOW_MS, bytes(16), bytes(12))


def test_session_and_stamp_are_checked_again_at_the_claim() -> None:
    session, record = active()
    _, headers, _ = sent(session, [b"x"])
    opening, _ = begun(headers, window_ms=86_400_000).session(record)
    endless = SessionRecord(record.id, 3, record.client_id, record.key, 0, 2**60)

    def admitted(found: SessionRecord | None, now_ms: int) -> str:
        try:
            opening.readmit(found, now_ms)
        except ProtocolError as refused:
            return refused.code
        return ""

    assert admitted(None, NOW_MS) == "session_unknown"
    assert admitted(SessionRecord("S-" + "0" * 32, 3, "tests", record.key, 0, 2**60), NOW_MS) == "session_unknown"
    assert admitted(record, record.expires_ms) == "session_expired"
    assert admitted(record, NOW_MS) == ""
    # The window of wire 3 is five minutes at most, whatever was configured.
    assert admitted(endless, NOW_MS + WINDOW_MS) == ""
    assert admitted(endless, NOW_MS + WINDOW_MS + 1) == "timestamp_outside_window"


def test_a_stamp_that_is_off_is_rejected_with_a_proof_of_the_time() -> None:
    session, record = active()
    _, headers, _ = sent(session, [b"x"], NOW_MS - WINDOW_MS - 1)
    with pytest.raises(ProtocolError) as refused:
        begun(headers).session(record)
    rejection = Rejection(refused.value)
    told = json.loads(rejection.answer(Form.PROBLEM).body)
    assert (told["code"], told["server_time_ms"]) == ("clock_skew", NOW_MS) and told["mac"]
    assert rejection.answer(Form.PLAIN).body == b'{"error":"CRYPTO_ERROR"}'


def test_a_method_that_is_not_sealed_is_rejected_first() -> None:
    with pytest.raises(Refusal) as refusal:
        Exchange.begin("GET", "/", Headers([]), NOW_MS, WINDOW_MS)
    answer = Rejection(refusal.value).answer(Form.of(2))
    assert (answer.status, dict(answer.headers)[b"allow"]) == (405, b"POST, OPTIONS")
    with pytest.raises(ProtocolError, match="header_missing"):
        Exchange.begin("POST", "/", Headers([]), NOW_MS, WINDOW_MS)
    for method in ("CONNECT", "TRACE"):
        with pytest.raises(Refusal, match="method"):
            Exchange.begin(method, "/", Headers([("X-Seal", "3")]), NOW_MS, WINDOW_MS)


def test_a_request_is_of_one_wire() -> None:
    spoken = [[], ["X-Kid"], ["X-Nonce"], ["X-Nonce", "X-Idempotency-Key"], ["X-Seal", "X-Nonce"]]
    headers = [Headers((name, "1") for name in names) for names in spoken]
    assert [wire_of(each) for each in headers] == [2, 2, 1, 2, 3]
    assert [looks_sealed(each) for each in headers] == [False, True, False, True, True]


@pytest.mark.parametrize(("place", "form"), [("sealed", Form.PLAIN), ("sealed3", Form.PROBLEM)])
def test_the_answer_for_each_code_is_that_of_the_registry(place: str, form: Form) -> None:
    told = {code: entry[place] for code, entry in REGISTRY["errors"].items() if place in entry}
    assert len(told) > 15 and set(told) <= set(CODES)
    for code, entry in told.items():
        answer = Rejection(ProtocolError(code)).answer(form)
        value = json.loads(answer.body)
        assert (answer.status, value.get("code", value.get("error"))) == (entry["status"], entry["error"]), code
        headers = dict(answer.headers)
        assert headers[b"cache-control"] == b"no-store"
        assert headers[b"content-length"] == b"%d" % len(answer.body)
        assert (b"retry-after" in headers) is (answer.status == 503)


@pytest.mark.parametrize(
    ("name", "values"),
    [("X-Sealed", ["*"]), ("X-Sealed", ["YQ==", "YQ=="]), ("X-Sealed", ["A" * 8196]), ("Content-Type", ["a/b", "a/b"])],
)
def test_what_the_headers_say_is_checked_before_the_session_is_looked_up(name: str, values: list[str]) -> None:
    headers = [("X-Seal", "3"), ("X-Kid", "session:none"), ("X-Idempotency-Key", "1750000000000.0123456789abcdef")]
    with pytest.raises(ProtocolError) as unknown:
        Exchange.begin("GET", "/", Headers(headers), 1_750_000_000_000, 300_000)
    assert unknown.value.code == "session_unknown"
    headers += [(name, value) for value in values]
    with pytest.raises(ProtocolError) as invalid:
        Exchange.begin("GET", "/", Headers(headers), 1_750_000_000_000, 300_000)
    assert (invalid.value.code, invalid.value.field) == ("header_invalid", name)
