#!/usr/bin/env python3
"""The cost of the SDK beside bare cryptography: seal and open beside AES-256-GCM, inits beside ECDH and HKDF.

Both sides of each comparison take turns in one run; medians are told. crypto.py [--rounds N]
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sealway import entropy
from sealway.crypto.curve import KeyPair
from sealway.crypto.suite import Suite
from sealway.session.claim import Admission, SessionRecord
from sealway.session.compat.call import ClientSession
from sealway.session.compat.init import PATHS, Family, parse_init
from sealway.session.compat.init import ClientInit as CompatInit
from sealway.session.native import server
from sealway.session.native.call import ParsedRequest
from sealway.session.native.client import ClientInit, Session
from sealway.session.native.stream import FrameOpener, open_whole
from sealway.wire.header import Headers
from sealway.wire.inner import encode_inner

SIZES = (256, 1024, 65_536)
IDENTITY = server.Identity(KeyPair(bytes(31) + b"\7"), 0, 2**53)
NOW_MS = 1_750_000_000_000


def compare(name: str, rounds: int, ours: Callable[[], object], bare: Callable[[], object]) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, kept in zip((ours, bare), times, strict=True):
            began = time.perf_counter()
            call()
            kept.append((time.perf_counter() - began) * 1e6)
    one, other = map(statistics.median, times)
    print(f"{name:<34}{one:>10.1f} us{other:>10.1f} us{one / other:>8.2f}x")


def agree(suite: Suite) -> tuple[Session, SessionRecord]:
    init = ClientInit(entropy.private_keys(suite), (suite.value,), "bench")
    body, record = server.accept(
        init.request, b"", [suite], [IDENTITY], entropy.server_draws(), NOW_MS, 600, server.Caller()
    )
    return init.finish(init.unverified(201, body), IDENTITY.signer.public), record


def agree_compat() -> None:
    init = CompatInit(2, PATHS[Family.SESSION], "bench", None, entropy.key_pair(), NOW_MS, entropy.nonce())
    pending = parse_init(Family.SESSION, Headers(init.headers), init.body, NOW_MS, 300_000)
    body, _ = pending.release(Admission(pending.claim)).accept(entropy.key_pair(), entropy.nonce_random(), NOW_MS)
    init.finish(body, NOW_MS)


def bare_ecdh() -> None:
    """Both sides: two key pairs, two agreements, two derivations."""
    one, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    for mine, theirs in ((one, other), (other, one)):
        secret = mine.exchange(ec.ECDH(), theirs.public_key())
        HKDF(hashes.SHA256(), 32, b"salt", b"info").derive(secret)


def bare_signed(suite: Suite) -> None:
    """As much for wire 3: the agreement of the suite, and a signature that is made and verified."""
    if suite is Suite.P256:
        bare_ecdh()
    else:
        kem = mlkem.MLKEM768PrivateKey.generate()
        _, ciphertext = kem.public_key().encapsulate()
        kem.decapsulate(ciphertext)
        one, other = x25519.X25519PrivateKey.generate(), x25519.X25519PrivateKey.generate()
        for mine, theirs in ((one, other), (other, one)):
            HKDF(hashes.SHA256(), 32, b"salt", b"info").derive(mine.exchange(theirs.public_key()))
    signature = SIGNER.sign(b"message", ec.ECDSA(hashes.SHA256()))
    SIGNER.public_key().verify(signature, b"message", ec.ECDSA(hashes.SHA256()))


SIGNER = ec.derive_private_key(7, ec.SECP256R1())


Opening = Callable[[], FrameOpener]


def opening(record: SessionRecord, stamp: str, nonce: str) -> Opening:
    """Returns a function that makes openers of one request."""
    octets = "application/octet-stream"
    request = ParsedRequest("POST", "/transaction/purchase", record.id, stamp, nonce, octets, False)
    return lambda: request.opener(record)


def main() -> None:
    rounds = int(sys.argv[2]) if sys.argv[1:2] == ["--rounds"] else 2000
    print(f"{'':<34}{'ours':>13}{'bare':>13}{'ratio':>9}")
    session, record = agree(Suite.P256)
    compat = ClientSession("S-" + "0" * 32, 2, "bench", os.urandom(32), 2**50)
    gcm, iv, aad = AESGCM(os.urandom(32)), os.urandom(12), os.urandom(32)
    inner = encode_inner([])
    for size in SIZES:
        data = os.urandom(size)
        sealed_bare = gcm.encrypt(iv, data, aad)

        def seal_native(data: bytes = data) -> tuple[str, str, bytes]:
            stamp, nonce = str(NOW_MS), entropy.nonce()
            pending = session.seal("POST", "/transaction/purchase", "application/octet-stream", stamp, nonce)
            return stamp, nonce, pending.sealer.seal_all(inner, data)

        stamp, nonce, stream = seal_native()
        parsed = opening(record, stamp, nonce)

        def seal_bare(data: bytes = data) -> bytes:
            return gcm.encrypt(os.urandom(12), data, aad)

        def open_native(stream: bytes = stream, parsed: Opening = parsed) -> object:
            return open_whole(parsed(), stream)

        def open_bare(sealed: bytes = sealed_bare) -> bytes:
            return gcm.decrypt(iv, sealed, aad)

        def seal_compat(data: bytes = data) -> object:
            return compat.seal("/transaction/purchase", data, str(NOW_MS), entropy.nonce(), entropy.iv())

        compare(f"wire 3 seal {size} B", rounds, seal_native, seal_bare)
        compare(f"wire 3 open {size} B", rounds, open_native, open_bare)
        compare(f"wire 2 seal {size} B", rounds, seal_compat, seal_bare)
    few = max(50, rounds // 10)
    compare("wire 2 init, both sides", few, agree_compat, bare_ecdh)
    for suite in (Suite.P256, Suite.X25519MLKEM768):
        compare(f"wire 3 init {suite.value}", few, partial(agree, suite), partial(bare_signed, suite))


if __name__ == "__main__":
    main()
