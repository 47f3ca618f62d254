"""A process of its own that keeps what it trusts in a file which others keep theirs in too: for `test_trust_store.py`.

    trust_store_process.py first-use FILE ORIGIN    reads the file; then, for each line with a key's number, meets that key
    trust_store_process.py root FILE ORIGIN         the same, with a set of a root that was issued at each line's time
    trust_store_process.py many FILE PREFIX N       meets a key at each of N origins

It says `ready` when it has read the file, and for each line the outcome.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sealway import FileTrustStore, FirstUse, Root
from sealway.client.trust import Keyring
from sealway.crypto.curve import KeyPair
from sealway.errors import ProtocolError
from sealway.session.identity import key_id
from sealway.session.native.key_set import ListedKey, key_set_message
from sealway.wire.encoding import encode_base64

ROOT = KeyPair(bytes(31) + b"\x63")
EXPIRES_MS = 4_000_000_000_000


def pair(n: int) -> KeyPair:
    return KeyPair(n.to_bytes(32, "big"))


def key_set(issued_ms: int) -> bytes:
    public = pair(1).public
    keys = [ListedKey(key_id(public), public, 0, EXPIRES_MS)]
    listed = {"alg": "ES256", "not_before_ms": 0, "not_after_ms": EXPIRES_MS}
    return json.dumps(
        {
            "issued_ms": issued_ms,
            "expires_ms": EXPIRES_MS,
            "keys": [{"key_id": key_id(public), "public_key": encode_base64(public), **listed}],
            "root_key_id": key_id(ROOT.public),
            "root_signature": encode_base64(ROOT.sign(key_set_message(issued_ms, EXPIRES_MS, keys))),
        }
    ).encode()


def meet(ring: Keyring, n: int) -> None:
    public = pair(n).public
    answer: Any = SimpleNamespace(key_id=key_id(public), key_ids=(key_id(public),))
    ring.remember(answer, public, None)


def main(what: str, file: Path, origin: str, *more: str) -> None:
    if what == "many":
        for n in range(int(more[0])):
            meet(Keyring(FirstUse(FileTrustStore(file)), f"{origin}{n}"), 1)
        return
    store = FileTrustStore(file)
    trust = FirstUse(store) if what == "first-use" else Root(encode_base64(ROOT.public), store)
    ring = Keyring(trust, origin)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            if what == "first-use":
                meet(ring, int(line))
            else:
                ring.look_up(key_id(pair(1).public), key_set(int(line)), 1, 1)
            print("kept", flush=True)
        except ProtocolError as refused:
            print(refused.code, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
