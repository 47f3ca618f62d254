"""All of `vectors/one-shot/`: wire 4, the client's side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sealway import entropy
from sealway.crypto import hpke
from sealway.crypto.curve import KeyPair
from sealway.crypto.hpke import Draws, Kem
from sealway.crypto.secret import Secret
from sealway.crypto.suite import SeedKemKey, X25519KeyPair
from sealway.errors import ProtocolError
from sealway.session import one_shot
from sealway.session.native.call import PendingAnswer, seal_request
from sealway.session.native.stream import FrameSealer, StreamKeys, open_whole
from sealway.wire.header import Headers
from test_vectors_native import assert_keys, assert_message, assert_opened, seal_frames
from vectors import COUNTED, Node, load, scenarios

RAN: Counter[str] = Counter()
#: Types that are a server's; this SDK seals and opens as a client.
OF_SERVERS = frozenset({"request4-refused", "psk4"})


def draws_of(s: Node, config: one_shot.KeyConfig) -> Draws:
    """The random inputs of the scenario; ML-KEM's are drawn by the library, so that its ciphertext and secret are given."""
    ciphertext, secret = s.hex("enc_hex")[:1088], s.hex("kem_secret_hex")
    key = config.public[:1184]

    def encapsulate(public: bytes) -> tuple[bytes, bytes]:
        assert public == key and secret
        return ciphertext, secret

    randomness = s.hex("randomness_hex")
    assert randomness[-32:] == s.hex("group_private_hex")
    return Draws(randomness[-32:], encapsulate)


def run_request(s: Node) -> None:
    key, psk = s["key"], s["psk"]
    config = one_shot.KeyConfig(key.hex("config_hex"))
    assert config.kem is not None and config.kem.value == key["kem"]
    assert len(key.hex("private_hex")) == hpke.PRIVATE_LEN and len(s.hex("group_secret_hex")) == 32
    enc, shared = hpke.encap(config.kem, config.public, draws_of(s, config))
    assert (enc.hex(), shared.hex()) == (s["enc_hex"], s["shared_secret_hex"])
    assert len(enc) == config.kem.enc_len
    given = None if psk is None else (psk["id"], psk.hex("psk_hex"))
    made = one_shot.secrets_of(config, given, draws_of(s, config))
    assert bytes(made.c2s.reveal()).hex() == s["c2s_hex"]
    assert bytes(made.s2c.reveal()).hex() == s["s2c_hex"]
    pending = one_shot.seal(
        config, given, draws_of(s, config), s["method"], s["path"], s["content_type"] or "", s["stamp"], s["nonce"]
    )
    assert_keys(pending.sealer, s)
    assert_message(s, pending.headers, seal_frames(pending.sealer, s))
    claim = s["claim"]  # a server's
    assert all(claim[name] is not None for name in ("key_hex", "sealed", "stamp_ms", "expires_ms"))
    assert s["now_ms"] and s["window_ms"]


def pending_of(s: Node) -> PendingAnswer:
    request, s2c = s["request"], Secret(s.hex("s2c_hex"))
    name = s["kid"].removeprefix("hpke:")
    return seal_request(s2c, s2c, name, request["method"], request["path"], "", "0", request["nonce"], one_shot.WIRE_4)


def opened(s: Node, headers: Headers, body: bytes) -> Any:
    opener, sealed = pending_of(s).open(s["status"], headers)
    if sealed is not None and body:
        raise ProtocolError("header_invalid")
    return open_whole(opener, body if sealed is None else sealed)


def run_answer(s: Node) -> None:
    # The stream is made as a server makes it.
    keys = StreamKeys(s.hex("s2c_hex"), one_shot.WIRE_4.answer, s["request"]["nonce"], s["nonce"])
    sealer = FrameSealer(keys, s.hex("context_hex"))
    assert_keys(sealer, s)
    headers = [("X-Seal", "4"), ("X-Kid", s["kid"]), ("X-Idempotency-Key", f"{s['stamp']}.{s['nonce']}")]
    received, body = assert_message(s, headers, seal_frames(sealer, s))
    inner, frames = opened(s, received, body)
    assert_opened(s, inner, frames)
    assert s["nonce"].startswith(one_shot.PROBLEM_PREFIX) is s["problem"]


def run_answer_refused(s: Node) -> None:
    with pytest.raises(ProtocolError) as refused:
        opened(s, s.headers(), s.bytes("body"))
    assert refused.value.code == s["code"]


def run_document(s: Node) -> None:
    found = one_shot.parse_document(s["body"].encode())
    found.verify(s.hex("root_public_hex"), s["now_ms"], s["taken_issued_ms"], s.names("signature_algorithms"))
    assert found.issued_ms == s["issued_ms"]
    assert [(key.config.kid, key.config.data.hex(), key.config.kem) for key in found.keys] == [
        (key["kid"], key["config_hex"], key["kem"]) for key in s["keys"]
    ]
    for case in s["choices"]:
        chosen = one_shot.choose(found.keys, case["now_ms"], [Kem(name) for name in case["kems"]])
        assert (chosen and chosen.config.kid) == case["kid"], case["now_ms"]


def run_document_refused(s: Node) -> None:
    root, now_ms, taken = s.hex("root_public_hex"), s["now_ms"], s["taken_issued_ms"]
    with pytest.raises(ProtocolError) as refused:
        one_shot.parse_document(s["body"].encode()).verify(root, now_ms, taken, s.names("signature_algorithms"))
    assert refused.value.code == s["code"]


def run_problem(s: Node) -> None:
    body = json.loads(s["body"])
    assert body["status"] == s["status"]
    for case in s["resends"]:
        again = one_shot.sends_again(body, s["sealed"], case["method"], int(s["stamp"]), case["elapsed_ms"])
        assert again is case["again"], case["method"]


RUN: dict[str, Callable[[Node], None]] = {
    "request4": run_request,
    "answer4": run_answer,
    "answer4-refused": run_answer_refused,
    "key-document4": run_document,
    "key-document4-refused": run_document_refused,
    "problem4": run_problem,
}


def test_every_vector_has_its_outcome() -> None:
    failed: list[str] = []
    of_servers: Counter[str] = Counter()
    for kind, path in scenarios("one-shot"):
        if kind in OF_SERVERS:
            of_servers[kind] += 1
            continue
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
    assert set(of_servers) == OF_SERVERS
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(RAN.items()))
    COUNTED.append(
        f"vectors/one-shot: {sum(RAN.values())} ran ({counts}); {sum(of_servers.values())} are of servers alone"
    )


def test_every_mechanism_encapsulates_with_its_own_randomness() -> None:
    for kem in Kem:
        public = {
            Kem.X_WING: X_WING_PUBLIC,
            Kem.MLKEM768_P256: X_WING_PUBLIC[:1184] + KeyPair(bytes(31) + b"\1").public,
            Kem.X25519: X_WING_PUBLIC[1184:],
            Kem.P256: KeyPair(bytes(31) + b"\1").public,
        }[kem]
        one, other = (hpke.encap(kem, public, entropy.hpke_draws(kem)) for _ in range(2))
        assert len(one[0]) == kem.enc_len and one != other
        with pytest.raises(ProtocolError, match="public_key_invalid"):
            hpke.encap(kem, public[:-1], entropy.hpke_draws(kem))


X_WING_PUBLIC = SeedKemKey(bytes(range(64))).public + X25519KeyPair(bytes(range(32))).public
