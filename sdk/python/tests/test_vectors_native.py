"""All of `vectors/session3/`: wire 3, both sides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sealway import entropy
from sealway.crypto.digest import sha256
from sealway.crypto.suite import KEM_CIPHERTEXT_LEN, MLKEM1024, KemKey, PrivateKeys, SeedKemKey, Suite
from sealway.errors import ProtocolError
from sealway.server.headers import unseal_inner
from sealway.session.claim import Admission, SessionRecord
from sealway.session.identity import IdentityKey, SignatureAlgorithm, algorithm_of, key_id, verify
from sealway.session.native import message, problem, schedule
from sealway.session.native.call import ParsedRequest
from sealway.session.native.client import ClientInit, Session
from sealway.session.native.key_set import parse_key_set
from sealway.session.native.server import Caller, Draws, Identity, accept
from sealway.session.native.stream import open_whole
from sealway.wire.encoding import decode_base64, encode_base64
from sealway.wire.header import X_SEALED, Headers
from sealway.wire.inner import encode_inner
from vectors import (
    COUNTED,
    Node,
    assert_claim,
    is_same,
    load,
    open_server,
    record_of,
    same_headers,
    scenarios,
    to_bytes,
)

RAN: Counter[str] = Counter()
RESENDS: Counter[bool] = Counter()
#: Signatures with ML-DSA that a server made, by their algorithms.
ALGORITHMS: Counter[SignatureAlgorithm] = Counter()


class GivenKem:
    """A decapsulation key of ML-KEM-768 in its expanded form, which the library below does not read, with the one secret
    that the scenario tells. Of another ciphertext comes another secret, as FIPS 203 has it."""

    def __init__(self, expanded: bytes, ciphertext: bytes, secret: bytes) -> None:
        self.public = expanded[1152 : 1152 + 1184]
        self._known = {ciphertext: secret}

    def decapsulate(self, ciphertext: bytes) -> bytes:
        assert len(ciphertext) == KEM_CIPHERTEXT_LEN
        return self._known.get(ciphertext, sha256(ciphertext))


def client_keys(suite: str, node: Node, ciphertext: bytes = b"", secret: bytes = b"") -> PrivateKeys:
    scalar, x25519, kem = node.hex("p256_scalar_hex"), node.hex("x25519_hex"), node.hex("kem_private_hex")
    given: KemKey | None = GivenKem(kem, ciphertext, secret) if kem else None
    if seed := node.optional_hex("kem_seed_hex"):
        given = SeedKemKey(seed, MLKEM1024)
        assert given.public == kem[1536 : 1536 + 1568]
    return PrivateKeys(Suite(suite), scalar, x25519, given, node.optional_hex("p384_scalar_hex"))


def client_init(
    keys: PrivateKeys, body: dict[str, Any], authorization: str | None, renewed: Session | None
) -> ClientInit:
    init = ClientInit(
        keys,
        tuple(body["suites"]),
        body["client_id"],
        ttl_sec=body.get("ttl_sec"),
        pinned_key_ids=tuple(body.get("pinned_key_ids") or ()),
        authorization=authorization,
        renewed=renewed,
        signature_algorithms=tuple(body["signature_algorithms"]) if "signature_algorithms" in body else None,
    )
    if body.get("proof") is not None:
        init.prove(body["proof"])
    assert json.loads(init.body()) == body
    return init


def finish(init: ClientInit, status: int, answer: bytes, trusted: dict[str, bytes]) -> Session:
    unverified = init.unverified(status, answer)
    return init.finish(unverified, trusted.get(unverified.answer.key_id))


def trusted_of(keys: list[str]) -> dict[str, bytes]:
    return {key_id(bytes.fromhex(key)): bytes.fromhex(key) for key in keys}


def session_of(node: Node) -> Session:
    """Finishes the init of suite P256 that a call's client made."""
    body = json.loads(node["body"])
    keys = PrivateKeys(Suite.P256, node.hex("p256_scalar_hex"))
    return finish(client_init(keys, body, None, None), 201, node["answer"].encode(), trusted_of([node["trusted_hex"]]))


class GivenSigner:
    """A signer of a key of the scenario. ML-DSA is hedged in the library, so the signature is the given one; that which the
    key makes is verified."""

    def __init__(self, node: Node, answer: bytes | None) -> None:
        self._key = IdentityKey(
            SignatureAlgorithm(node.get("alg", "ES256")),
            node.hex("scalar_hex"),
            node.optional_hex("seed_hex"),
        )
        self.public = self._key.public
        assert node.optional_hex("public_hex") in (b"", self.public)
        self._answer = answer

    def sign(self, message: bytes) -> bytes:
        signature = self._key.sign(message)
        assert verify(self.public, message, signature)
        if self._answer is None or "ML-DSA" not in self._key.algorithm:
            return signature
        given = decode_base64(json.loads(self._answer)["signature"])
        assert len(given) == len(signature) and verify(self.public, message, given)
        ALGORITHMS[self._key.algorithm] += 1
        return given


def identities_of(nodes: list[Node], answer: bytes | None = None) -> list[Identity]:
    return [Identity(GivenSigner(node, answer), node["not_before_ms"], node["not_after_ms"]) for node in nodes]


def renewed_session(node: Node) -> Session:
    session = session_of(node["client"])
    assert session.id == node["session_id"]
    assert session.prk_bytes().hex() == node["prk_hex"]
    assert session.exporter().hex() == node["exporter_hex"]
    return session


def renewed_record(session: Session, who: Caller) -> SessionRecord:
    from sealway.crypto.secret import Secret

    return SessionRecord(
        session.id,
        3,
        session.client_id,
        Secret(session.prk_bytes()),
        0,
        session.expires_ms,
        who.subject,
        who.tenant,
        who.auth,
    )


def run_agreement(s: Node, renewed: Session | None) -> None:
    data, server, answer = s.bytes("body"), s["server"], s["answer"].encode()
    request = message.InitRequest.parse(data)
    assert request.proof_hash().hex() == s["init_hash_hex"]
    credential = b"" if renewed else message.credential_of(s["authorization"])
    assert (s["authorization"] is None or renewed is None) and credential.hex() == s["credential_hex"]
    ciphertext, kem_secret = server.hex("kem_ciphertext_hex"), server.hex("kem_secret_hex")
    who = Caller(server["auth"], server["subject"], server["tenant"])
    draws = Draws(
        server.hex("p256_scalar_hex"),
        server.optional_hex("p384_scalar_hex"),
        server.hex("x25519_hex"),
        server.hex("session_id_random_hex"),
        lambda key: (ciphertext, kem_secret),
    )
    suites = [Suite(name) for name in server["suites"]]
    body, record = accept(
        request,
        credential,
        suites,
        identities_of(server["identities"], answer),
        draws,
        s["now_ms"],
        server["expires_in_sec"],
        who,
        renewed_record(renewed, who) if renewed else None,
    )
    assert json.loads(body) == json.loads(answer)
    prk = bytes(record.key.reveal())
    assert prk.hex() == s["prk_hex"]
    assert schedule.c2s_of(prk).hex() == s["c2s_hex"]
    assert schedule.s2c_of(prk).hex() == s["s2c_hex"]
    assert schedule.exporter_of(prk).hex() == s["exporter_hex"]
    assert schedule.confirm_key_of(prk).hex() == s["confirm_key_hex"]
    said, _, _ = message.InitAnswer.parse(answer)
    transcript = message.transcript(request, credential, said, renewed.id if renewed else None)
    assert transcript.hex() == s["transcript_hex"]
    assert sha256(transcript).hex() == s["th_hex"]
    exporter = renewed.exporter() if renewed else b""
    assert schedule.prk_of(s.hex("th_hex"), s.hex("secret_hex"), exporter) == prk
    trusted = trusted_of(s["trusted_hex"])
    if s["client"] is not None:
        keys = client_keys(request.suite, s["client"], ciphertext, kem_secret)
        session = finish(client_init(keys, json.loads(data), s["authorization"], renewed), 201, answer, trusted)
        assert session.prk_bytes() == prk


def run_init(s: Node) -> None:
    run_agreement(s, None)


def run_renew(s: Node) -> None:
    run_agreement(s, renewed_session(s["old"]))


def run_init_refused(s: Node) -> None:
    renewed = renewed_session(s["old"]) if s["old"] is not None else None
    body = json.loads(s.bytes("body"))
    init = client_init(client_keys(body["suite"], s["client"]), body, s["authorization"], renewed)
    with pytest.raises(ProtocolError) as refused:
        finish(init, s["status"], s.bytes("answer"), trusted_of(s["trusted_hex"]))
    assert refused.value.code == s["code"]


def run_init_request_refused(s: Node) -> None:
    server, now_ms = s["server"], s["now_ms"]
    suites, identities = [Suite(name) for name in server["suites"]], identities_of(server["identities"])
    draws = entropy.server_draws()
    with pytest.raises(ProtocolError) as refused:
        request = message.InitRequest.parse(s.bytes("body"))
        accept(request, b"", suites, identities, draws, now_ms, 1800, Caller())
    assert refused.value.code == s["code"]
    if s["field"] is not None:
        assert refused.value.field == s["field"]


def native_record(node: Node) -> SessionRecord:
    record = record_of(node, "prk_hex")
    assert schedule.c2s_of(record.key.reveal()).hex() == node["c2s_hex"]
    assert schedule.s2c_of(record.key.reveal()).hex() == node["s2c_hex"]
    return record


def given_inner(s: Node) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), to_bytes(value)) for name, value in s["inner"]]


def seal_frames(sealer: Any, s: Node) -> bytes:
    frames = [to_bytes(frame) for frame in s["frames"]]
    frames[0] = encode_inner(given_inner(s)) + frames[0]
    return b"".join(sealer.seal(frame, n == len(frames) - 1) for n, frame in enumerate(frames))


def assert_keys(sealer: Any, s: Node) -> None:
    assert sealer._keys.commit.hex() == s["commit_hex"]
    assert sealer._keys.iv.to_bytes(12, "big").hex() == s["iv_hex"]
    assert sealer._context.hex() == s["context_hex"]
    assert len(s.hex("key_hex")) == 32


def assert_message(s: Node, headers: list[tuple[str, str]], stream: bytes) -> tuple[Headers, bytes]:
    """Holds what was sealed against the scenario, and gives what is sent."""
    given = s["sealed"]
    is_in_header = any(name.lower() == "x-sealed" for name, _ in given["headers"])
    if s["content_type"] is not None:
        headers = [*headers, ("Content-Type", s["content_type"])]
    if is_in_header:
        headers, stream = [*headers, (X_SEALED, encode_base64(stream))], b""
    assert same_headers(headers, given["headers"])
    assert is_same(given["body"], stream)
    return given.headers(), stream


def assert_opened(s: Node, inner: Any, frames: list[bytes]) -> None:
    assert inner == given_inner(s)
    given = s["frames"]
    assert len(given) == len(frames)
    assert all(is_same(one, other) for one, other in zip(given, frames, strict=True))


def run_request(s: Node) -> None:
    session, record = session_of(s["client"]), native_record(s["session"])
    pending = session.seal(s["method"], s["path"], s["content_type"] or "", s["stamp"], s["nonce"])
    assert_keys(pending.sealer, s)
    headers, body = assert_message(s, pending.headers, seal_frames(pending.sealer, s))
    shut, others = open_server(record, s["method"], s["path"], headers, body, s["now_ms"], s["window_ms"])
    plain = shut.release(Admission(shut.claim))
    assert_opened(s, plain.inner, [plain.first, *others])
    assert_claim(s["claim"], shut.claim, s["now_ms"])


def run_request_refused(s: Node) -> None:
    record = native_record(s["session"])
    with pytest.raises(ProtocolError) as refused:
        open_server(record, s["method"], s["path"], s.headers(), s.bytes("body"), s["now_ms"], s["window_ms"])
    assert refused.value.code == s["code"]


def pending_of(session: Session, request: Node) -> Any:
    return session.seal(request["method"], request["path"], "application/octet-stream", "0", request["nonce"])


def open_client(session: Session, s: Node, headers: Headers, body: bytes) -> Any:
    opener, sealed = pending_of(session, s["request"]).open(s["status"], headers)
    if sealed is not None and body:
        raise ProtocolError("header_invalid")
    return open_whole(opener, body if sealed is None else sealed)


def run_answer(s: Node) -> None:
    session, record, request = session_of(s["client"]), native_record(s["session"]), s["request"]
    parsed = ParsedRequest(request["method"], request["path"], record.id, "0", request["nonce"], "", False)
    assert s["nonce"].startswith("r-")
    headers, sealer = parsed.seal_answer(record, s["status"], s["content_type"] or "", s["stamp"], s["nonce"])
    assert_keys(sealer, s)
    received, body = assert_message(s, headers, seal_frames(sealer, s))
    inner, frames = open_client(session, s, received, body)
    assert_opened(s, inner, frames)


def run_answer_refused(s: Node) -> None:
    session = session_of(s["client"])
    with pytest.raises(ProtocolError) as refused:
        open_client(session, s, s.headers(), s.bytes("body"))
    assert refused.value.code == s["code"]


def run_key_set(s: Node) -> None:
    found, algorithms = parse_key_set(s["body"].encode()), s.names("signature_algorithms")
    found.verify(s.hex("root_public_hex"), s["now_ms"], s["taken_issued_ms"], algorithms)
    assert found.issued_ms == s["issued_ms"]
    assert [(key.key_id, key.public.hex()) for key in found.keys if algorithm_of(key.public)] == [
        (key["key_id"], key["public_hex"]) for key in s["keys"]
    ]
    request = message.InitRequest("P256", ("P256",), b"", "tests", signature_algorithms=algorithms)
    for case in s["signers"]:
        public = found.live(case["key_id"], case["server_time_ms"], case["now_ms"])
        assert public is None or public == found.find(case["key_id"])
        assert (public is not None and request.accepts(public)) is case["trusted"], case


def test_a_key_set_has_a_key_once_and_a_signature_of_8192_bytes_at_most() -> None:
    def code(signature: int, *publics: bytes) -> str | None:
        times = {"not_before_ms": 0, "not_after_ms": 1}
        keys = [{"key_id": key_id(each), "alg": "x", "public_key": encode_base64(each), **times} for each in publics]
        root = {"root_key_id": key_id(b"root"), "root_signature": encode_base64(bytes(signature))}
        try:
            parse_key_set(json.dumps({"issued_ms": 1, "expires_ms": 2, "keys": keys, **root}).encode())
        except ProtocolError as error:
            return error.code
        return None

    assert code(8192, b"1", b"2") is None
    assert code(8192, b"1", b"2", b"1") == "field_invalid"
    assert code(8193) == "field_invalid"


def run_headers(s: Node) -> None:
    inner, outer = ([(name.encode(), value.encode()) for name, value in s[member]] for member in ("inner", "outer"))
    seen = unseal_inner(outer, inner, s["front_trusted"])
    assert [[name.decode(), value.decode()] for name, value in seen] == [list(pair) for pair in s["service"]]


def run_key_set_refused(s: Node) -> None:
    with pytest.raises(ProtocolError) as refused:
        root, now_ms, taken_issued_ms = s.hex("root_public_hex"), s["now_ms"], s["taken_issued_ms"]
        parse_key_set(s["body"].encode()).verify(root, now_ms, taken_issued_ms, s.names("signature_algorithms"))
    assert refused.value.code == s["code"]


def run_problem(s: Node) -> None:
    session, record, request = session_of(s["client"]), native_record(s["session"]), s["request"]
    found = problem.parse_problem(s["body"].encode())
    assert found is not None
    stamp, nonce = request["stamp"], request["nonce"]
    clock = problem.proven_clock(found, session.s2c(), nonce, stamp)
    assert (clock is not None) is s["proven"]
    if clock is not None:
        mac = problem.clock_mac(schedule.s2c_of(record.key.reveal()), nonce, stamp, clock)
        assert encode_base64(mac) == found["mac"]
    for case in s["resends"]:
        given = (found["code"], clock, case["method"], int(stamp), case["elapsed_ms"])
        assert problem.sends_again(*given) is case["again"], given
        RESENDS[case["again"]] += 1


RUN: dict[str, Callable[[Node], None]] = {
    "init3": run_init,
    "renew3": run_renew,
    "init3-refused": run_init_refused,
    "init3-request-refused": run_init_request_refused,
    "request3": run_request,
    "request3-refused": run_request_refused,
    "answer3": run_answer,
    "answer3-refused": run_answer_refused,
    "key-set3": run_key_set,
    "key-set3-refused": run_key_set_refused,
    "problem3": run_problem,
    "headers3": run_headers,
}


def test_every_vector_has_its_outcome() -> None:
    failed = []
    for kind, path in scenarios("session3"):
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
    assert set(ALGORITHMS) == {algorithm for algorithm in SignatureAlgorithm if "ML-DSA" in algorithm}
    assert RESENDS[True] >= 10 and RESENDS[False] >= 10
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(RAN.items()))
    COUNTED.append(f"vectors/session3: {sum(RAN.values())} ran, none skipped ({counts})")


def test_a_kem_key_of_a_seed_decapsulates_its_ciphertext() -> None:
    from cryptography.hazmat.primitives.asymmetric import mlkem

    key = SeedKemKey(bytes(range(64)))
    secret, ciphertext = mlkem.MLKEM768PublicKey.from_public_bytes(key.public).encapsulate()
    assert key.decapsulate(ciphertext) == secret
