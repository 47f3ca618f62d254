"""Parsers under input that nobody meant: a typed refusal, or a value; never another exception."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealway.client.metrics import parse_server_timing
from sealway.crypto.suite import PrivateKeys, Suite
from sealway.errors import ProtocolError
from sealway.session.compat.call import parse_call
from sealway.session.compat.init import Family, parse_init
from sealway.session.identity import SignatureAlgorithm, is_public_key, verify
from sealway.session.native.call import parse_request, sealed_header
from sealway.session.native.key_set import parse_key_set
from sealway.session.native.message import InitAnswer, InitRequest
from sealway.session.native.problem import parse_problem, proven_clock
from sealway.session.native.stream import FrameOpener, FrameSealer, StreamKeys, open_whole
from sealway.wire.encoding import decode_base64, encode_base64
from sealway.wire.header import SEALING, Headers
from sealway.wire.inner import decode_inner, encode_inner, may_be_inner
from sealway.wire.members import whole

QUICK = settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=40),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=12), part, max_size=4),
    max_leaves=5,
)
NAMES = st.sampled_from([
    "suite", "suites", "share", "client_id", "ttl_sec", "proof", "pinned_key_ids", "session_id", "key_id", "key_ids",
    "auth", "signature", "confirm", "keys", "issued_ms", "expires_ms", "root_key_id", "clientPublicKey", "ttlSec",
    "keyAgreement", "code", "server_time_ms", "mac",
])  # fmt: skip
OBJECTS = st.dictionaries(NAMES, JSON, max_size=8).map(lambda value: json.dumps(value).encode())
BODIES = st.binary(max_size=400) | OBJECTS
HEADERS = st.lists(
    st.tuples(st.sampled_from(sorted(SEALING)) | st.text(max_size=9), st.text(max_size=60)), max_size=9
).map(Headers)
KEYS = StreamKeys(bytes(32), b"label", "n", "0")


@QUICK
@given(BODIES)
def test_bodies_are_read_or_rejected(data: bytes) -> None:
    for read in (InitRequest.parse, InitAnswer.parse, parse_key_set):
        with suppress(ProtocolError):
            read(data)
    found = parse_problem(data)
    if found is not None:
        assert proven_clock(found, bytes(32), "n", "0") is None


@QUICK
@given(st.sampled_from(list(Family)), HEADERS, BODIES)
def test_compat_inits_are_read_or_rejected(family: Family, headers: Headers, data: bytes) -> None:
    with suppress(ProtocolError):
        parse_init(family, headers, data, 0, 300_000)


@QUICK
@given(HEADERS, st.text(max_size=30))
def test_headers_of_calls_are_read_or_rejected(headers: Headers, target: str) -> None:
    with suppress(ProtocolError):
        parse_call(target, headers, 0, 300_000)
    with suppress(ProtocolError):
        parse_request("GET", target, headers)
    with suppress(ProtocolError):
        sealed_header(headers)


@QUICK
@given(st.binary(max_size=300))
def test_inner_headers_are_rejected_or_survive_a_round_trip(data: bytes) -> None:
    with suppress(ProtocolError):
        inner, at = decode_inner(data)
        assert encode_inner(inner) == data[:at]
        assert all(may_be_inner(name) for name, _ in inner)


@QUICK
@given(st.binary(max_size=200), st.integers(1, 40))
def test_streams_of_noise_do_not_open(data: bytes, step: int) -> None:
    opener = FrameOpener(KEYS, b"context")
    with pytest.raises(ProtocolError):
        for at in range(0, len(data), step):
            opener.feed(data[at : at + step])
        opener.finish()


@QUICK
@given(st.lists(st.binary(min_size=1, max_size=90), max_size=5), st.binary(max_size=20), st.integers(1, 60))
def test_a_stream_opens_whatever_pieces_it_comes_in(parts: list[bytes], last: bytes, step: int) -> None:
    sealer, opener = FrameSealer(KEYS, b"context"), FrameOpener(KEYS, b"context")
    stream = b"".join(sealer.seal(part, False) for part in parts) + sealer.seal(last, True)
    opened: list[bytes] = []
    for at in range(0, len(stream), step):
        opened += opener.feed(stream[at : at + step])
    opener.finish()
    assert opened == [*parts, last]


@QUICK
@given(st.binary(max_size=200_000), st.lists(st.tuples(st.just(b"x-a"), st.binary(max_size=9)), max_size=3))
def test_a_stream_sealed_whole_opens_whole(body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    with suppress(ProtocolError):
        inner = encode_inner(headers)
        stream = FrameSealer(KEYS, b"context").seal_all(inner, body)
        found, frames = open_whole(FrameOpener(KEYS, b"context"), stream)
        assert (found, b"".join(frames)) == (headers, body)


@QUICK
@given(st.binary(max_size=70))
def test_base64_has_one_spelling(data: bytes) -> None:
    text = encode_base64(data)
    assert decode_base64(text) == data
    for other in (text + "\n", " " + text, text[:-1], text + "=", text.replace("+", "-")):
        if other != text:
            with suppress(ValueError):
                assert encode_base64(decode_base64(other)) == other


@QUICK
@given(st.binary(max_size=1700))
def test_shares_and_signatures_are_accepted_or_rejected(data: bytes) -> None:
    for suite in Suite:
        with suppress(ProtocolError):
            keys = PrivateKeys(suite, bytes(31) + b"\1", bytes(31) + b"\1", p384_scalar=bytes(47) + b"\1")
            keys.server_agree(data, lambda key: (b"", b""))
    for algorithm in SignatureAlgorithm:
        public = data[: algorithm.public_len].ljust(algorithm.public_len, b"\4")
        is_public_key(public)
        assert not verify(public, b"message", data[: algorithm.signature_len].ljust(algorithm.signature_len, b"\1"))
        assert not verify(public, b"message", data)


@QUICK
@given(st.text(max_size=200))
def test_server_timing_is_read_or_ignored(value: str) -> None:
    assert all(milliseconds >= 0 for milliseconds in parse_server_timing(value).values())


@QUICK
@given(JSON)
def test_only_whole_numbers_are_accepted(value: Any) -> None:
    found = whole(value, 2**64)
    assert found is None or (isinstance(found, int) and 0 <= found <= 2**64 and found == value)


def test_a_stream_in_single_bytes_takes_linear_time() -> None:
    body = bytes(300_000)
    stream = FrameSealer(KEYS, b"context").seal_all(encode_inner([]), body)
    opener, opened = FrameOpener(KEYS, b"context"), 0
    began = time.perf_counter()
    for at in range(0, len(stream), 2):
        opened += sum(map(len, opener.feed(stream[at : at + 2])))
    opener.finish()
    assert opened == len(body) + 2
    # Copying what is pending for each crumb would take minutes.
    assert time.perf_counter() - began < 10
