"""Identity keys and roots of every algorithm, and every suite, at a real gateway with keys that its own tool made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import processes
import sealway
from calling import KINDS, calling
from sealway import SignatureAlgorithm as Algorithm
from sealway import Suite

PURCHASE = {"schemeCode": "AEF", "amount": 1}
SUITES = ", ".join(Suite)


@dataclass
class World:
    algorithm: Algorithm
    url: str
    root: str

    @property
    def key(self) -> dict[str, Any]:
        [listed] = httpx.get(self.url + "/.well-known/sealway-keys").json()["keys"]
        return dict(listed)


@pytest.fixture(scope="module", params=list(Algorithm))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A gateway whose identity key and root are of one algorithm."""
    folder: Path = tmp_path_factory.mktemp("identity")
    keys, root = str(folder / "a.identity"), str(folder / "root.json")
    processes.identity("generate", keys, "--alg", request.param)
    said = processes.identity("root", root, "--alg", request.param)
    public = next(line.split()[-1] for line in said.splitlines() if line.startswith("root_public_key"))
    processes.identity("sign", keys, "--root", root, "--expires-in", "90d")
    with processes.gateway(folder, f"  wire3: {{ suites: [{SUITES}] }}\n", "key_file: a.identity") as gateway:
        yield World(request.param, gateway.url, public)


def purchase(kind: str, world: World, **options: Any) -> str:
    """Makes one purchase and returns the suite of its session."""
    with calling(kind, world.url, **options) as (_, send):
        response = send("POST", "/transaction/purchase", json=PURCHASE)
        assert response.json()["status"] == "SUCCESS"
        return str(response.extensions["sealway"].suite)


@pytest.mark.parametrize("kind", KINDS)
def test_pins_roots_and_first_use_trust_keys_of_the_algorithm(world: World, kind: str, tmp_path: Path) -> None:
    key, accepted = world.key, (world.algorithm,)
    assert key["alg"] == world.algorithm
    for pin in (key["key_id"], key["public_key"]):
        purchase(kind, world, trust=sealway.Pins([pin]))
        purchase(kind, world, trust=sealway.Pins([pin]), signature_algorithms=accepted)
    purchase(kind, world, trust=sealway.Root(world.root), signature_algorithms=accepted)
    for _ in range(2):
        store = sealway.FileTrustStore(tmp_path / "trust.json")
        purchase(kind, world, trust=sealway.FirstUse(store), signature_algorithms=accepted)


@pytest.mark.parametrize("suite", list(Suite))
def test_every_suite_agrees_and_is_renewed(world: World, suite: Suite) -> None:
    trust = sealway.Pins([world.key["key_id"]])
    assert purchase("sync", world, trust=trust, suites=(suite,)) == suite
    with calling("sync", world.url, trust=trust, suites=(suite,)) as (transport, send):
        send("POST", "/transaction/purchase", json=PURCHASE)
        active = transport._parts.active
        before = active.session.id
        active._sent._day_ns -= int((active._life_sec - 5) * 1e9)
        send("POST", "/transaction/purchase", json=PURCHASE)
        assert transport._parts.active.session.answer.suite == suite.value
        assert transport._parts.active.session.id != before


def test_a_client_that_accepts_another_algorithm_gets_no_session(world: World) -> None:
    other = Algorithm.ES256 if world.algorithm is not Algorithm.ES256 else Algorithm.ES384
    with pytest.raises(sealway.ProblemError) as error:
        purchase("sync", world, trust=sealway.FirstUse(), signature_algorithms=(other,))
    assert error.value.code == "key_retired"
