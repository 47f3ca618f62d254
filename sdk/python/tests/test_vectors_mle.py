"""All of `vectors/mle/`: messages that open, and messages that are refused with a class."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from forging import reason_of
from sealway.mle import MleCodec, OpeningKey, Profile, generic_jwe
from vectors import COUNTED, ROOT, load, scenarios

FOLDER = ROOT / "mle"
RAN: Counter[str] = Counter()
FOUND = scenarios("mle") if FOLDER.is_dir() else []


@pytest.mark.parametrize(("type", "path"), FOUND, ids=[Path(path).stem for _, path in FOUND])
def test_scenario(type: str, path: str) -> None:
    node = load(path)
    held = json.loads(Path(path).read_bytes())
    profile: Profile | str = node["profile"]
    if profile == "generic-jwe":
        given: dict[str, Any] = {name: node["generic"][name] for name in held["generic"]}
        profile = generic_jwe(**given)
    key = node["key"]
    certificate = key["certificate_pem"] if "certificate_pem" in held["key"] else None
    opening = OpeningKey(key["private_key_pem"], certificate=certificate, alg=key["alg"], kid=key["kid"])
    now_ms: int = node["now_ms"]
    codec = MleCodec(profile, open=[opening], now_ms=lambda: now_ms)
    body = node["body"].encode("utf-8")
    if type == "mle-open":
        assert codec.open(node["message"], body) == base64.b64decode(node["plaintext_base64"])
    else:
        assert type == "mle-refused", f"unknown type {type}"
        assert reason_of(lambda: codec.open(node["message"], body)) == node["class"]
    assert list(node.unread()) == []
    RAN[type] += 1


def test_there_are_scenarios_of_both_types() -> None:
    types = Counter(type for type, _ in FOUND)
    assert types["mle-open"] > 0 and types["mle-refused"] > 0, f"{FOLDER} is missing or empty"
    COUNTED.append(f"vectors/mle: {dict(RAN)}")
