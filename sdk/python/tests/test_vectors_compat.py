"""All of `vectors/session/`: wires 1 and 2, both sides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sealway.crypto.curve import KeyPair
from sealway.errors import ProtocolError
from sealway.exchange.request import PlainRequest
from sealway.session.claim import Admission
from sealway.session.compat.call import ClientSession, SealedCall
from sealway.session.compat.init import PATHS, ClientInit, Family, derive_key, parse_init
from vectors import COUNTED, Node, assert_claim, is_same, load, open_server, record_of, same_headers, scenarios

RAN: Counter[str] = Counter()


def path_of(is_anonymous: bool) -> str:
    return PATHS[Family.ANONYMOUS if is_anonymous else Family.SESSION]


def client_session(node: Node) -> ClientSession:
    """Finishes the init that the scenario's client made."""
    init = ClientInit(
        node["wire"],
        path_of(node["anonymous"]),
        node["client_id"],
        None,
        KeyPair(node.hex("scalar_hex")),
        0,
        "0" * 32,
    )
    return init.finish(node["init_answer"].encode(), 0)


def seal_client(session: ClientSession, message: Node) -> SealedCall:
    return session.seal(
        message["path"], message.bytes("plaintext"), message["stamp"], message["nonce"], message.hex("iv_hex")
    )


def assert_sealed(message: Node, headers: Any, body: bytes) -> None:
    assert same_headers(headers, message["sealed"]["headers"])
    assert is_same(message["sealed"]["body"], body)


def run_init(s: Node) -> None:
    family, now_ms = Family(s["family"]), s["now_ms"]
    pending = parse_init(family, s.headers(), s.bytes("body"), now_ms, s["window_ms"], s["authenticated"])
    assert_claim(s["claim"], pending.claim, now_ms)
    call, keys = pending.release(Admission(pending.claim)), KeyPair(s.hex("server_scalar_hex"))
    body, record = call.accept(keys, s.hex("session_id_random_hex"), now_ms)
    assert body.decode() == s["answer"]
    session = s["session"]
    assert (record.id, record.wire, record.client_id) == (session["id"], session["wire"], session["client_id"])
    assert record.key.reveal().hex() == session["key_hex"]
    assert (record.created_ms, record.expires_ms) == (session["created_ms"], session["expires_ms"])
    secret = KeyPair(s.hex("client_scalar_hex")).agree(keys.public)
    assert secret.hex() == s["shared_secret_hex"]
    assert derive_key(secret, record.id, record.wire, record.client_id) == bytes(record.key.reveal())
    assert s["key_info"].startswith("SESSION|A256GCM|")


def run_init_refused(s: Node) -> None:
    with pytest.raises(ProtocolError) as refused:
        pending = parse_init(Family(s["family"]), s.headers(), s.bytes("body"), s["now_ms"], s["window_ms"])
        pending.release(Admission(pending.claim)).accept(KeyPair(bytes(31) + b"\1"), bytes(16), s["now_ms"])
    assert refused.value.code == s["code"]


def run_client_init(s: Node) -> None:
    wire = s["wire"]
    init = ClientInit(
        wire,
        path_of(s["anonymous"]),
        s["client_id"],
        s["ttl_sec"],
        KeyPair(s.hex("scalar_hex")),
        s["sent_ms"],
        s["nonce_random_hex"],
    )
    request = s["request"]
    assert same_headers(init.headers, request["headers"])
    assert json.loads(init.body) == json.loads(request.bytes("body"))
    session = init.finish(s.bytes("answer"), s["received_ms"])
    assert (session.id, session.expires_ms) == (s["session_id"], s["expires_ms"])
    assert session.key_bytes().hex() == s["key_hex"]
    probe = s["probe"]
    sealed = seal_client(session, probe)
    assert_sealed(probe, sealed.headers, sealed.body)


def run_client_init_refused(s: Node) -> None:
    init = ClientInit(
        s["wire"], path_of(s["anonymous"]), s["client_id"], None, KeyPair(s.hex("scalar_hex")), 0, "0" * 32
    )
    with pytest.raises(ProtocolError) as refused:
        init.finish(s.bytes("answer"), 0)
    assert refused.value.code == s["code"]


def assert_aad(wire: int, what: str, message: Node, session: ClientSession, client_id: str | None) -> None:
    parts = [message["stamp"], message["nonce"], f"session:{session.id}"]
    path = message["path"].split("?")[0]
    parts = [what, path, *parts] if wire == 1 else [*parts, client_id or ""]
    assert message["aad"] == "|".join(parts)


def open_scenario(s: Node) -> tuple[SealedCall, PlainRequest]:
    client, request, now_ms = s["client"], s["request"], s["now_ms"]
    session = client_session(client)
    assert session.key_bytes().hex() == s["session"]["key_hex"]
    sealed = seal_client(session, request)
    assert_sealed(request, sealed.headers, sealed.body)
    assert_aad(session.wire, "POST", request, session, client["client_id"])
    headers, record = request["sealed"].headers(), record_of(s["session"])
    pending, _ = open_server(record, "POST", request["path"], headers, sealed.body, now_ms, s["window_ms"])
    plain = pending.release(Admission(pending.claim))
    assert is_same(request["plaintext"], plain.first)
    if "claim" in s._value:
        assert_claim(s["claim"], pending.claim, now_ms)
    return sealed, plain


def run_request(s: Node) -> None:
    open_scenario(s)


def run_request_refused(s: Node) -> None:
    record = record_of(s["session"])
    with pytest.raises(ProtocolError) as refused:
        open_server(record, "POST", s["path"], s.headers(), s.bytes("body"), s["now_ms"], s["window_ms"])
    assert refused.value.code == s["code"]


def run_answer(s: Node) -> None:
    sealed, plain = open_scenario(s)
    answer, record = s["answer"], plain.reply.record
    seal, random, iv = plain.reply.answer(answer["status"]), answer.hex("nonce_random_hex"), answer.hex("iv_hex")
    # The vectors seal 201 as it is; a server sends 200 in its place.
    seal.status = answer["status"]
    headers, body = seal.begin([], answer.bytes("plaintext"), True, answer["stamp_ms"], random, iv)
    assert_sealed(answer, [pair for pair in headers if pair[0] != "Content-Type"], body)
    assert_aad(record.wire, str(answer["status"]), answer, sealed._session, s["client"]["client_id"])
    received = answer["sealed"].headers()
    plaintext = sealed.open(answer["status"], received, body, s["received_ms"], s["window_ms"])
    assert is_same(answer["plaintext"], plaintext)


def run_answer_refused(s: Node) -> None:
    client, request = s["client"], s["request"]
    session = client_session(client)
    sealed = seal_client(session, request)
    assert_sealed(request, sealed.headers, sealed.body)
    assert_aad(session.wire, "POST", request, session, client["client_id"])
    with pytest.raises(ProtocolError) as refused:
        sealed.open(s["status"], s.headers(), s.bytes("body"), s["received_ms"], s["window_ms"])
    assert refused.value.code == s["code"]


RUN: dict[str, Callable[[Node], None]] = {
    "init": run_init,
    "init-refused": run_init_refused,
    "client-init": run_client_init,
    "client-init-refused": run_client_init_refused,
    "request": run_request,
    "request-refused": run_request_refused,
    "answer": run_answer,
    "answer-refused": run_answer_refused,
}


def test_every_vector_of_wires_1_and_2_has_its_outcome() -> None:
    failed = []
    for kind, path in scenarios("session"):
        scenario = load(path)
        try:
            RUN[kind](scenario)
            unread = list(scenario.unread())
            assert not unread, f"not read: {unread}"
        except Exception as error:
            failed.append(f"{path.rsplit('/', 1)[1]}: {type(error).__name__} {error}")
        RAN[kind] += 1
    assert not failed, "\n".join(failed)
    assert set(RAN) == set(RUN)
    assert all(count >= 4 for count in RAN.values())
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(RAN.items()))
    COUNTED.append(f"vectors/session: {sum(RAN.values())} ran, none skipped ({counts})")
