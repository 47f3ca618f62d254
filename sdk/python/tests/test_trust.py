"""Whom a client trusts and who it says that it is, at a real gateway: a root, tokens, DPoP proofs."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import processes
import sealway
from calling import KINDS, calling
from sealway import entropy
from sealway.crypto.curve import KeyPair

TARGET = "/transaction/purchase"
PURCHASE = {"schemeCode": "AEF", "amount": 1}


def b64u(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(key: KeyPair) -> dict[str, str]:
    return {"crv": "P-256", "kty": "EC", "x": b64u(key.public[1:33]), "y": b64u(key.public[33:])}


def jwt(header: dict[str, Any], claims: dict[str, Any], key: KeyPair) -> str:
    signed = ".".join(b64u(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{b64u(key.sign(signed.encode()))}"


@dataclass
class World:
    gateway: processes.Gateway
    root: str
    #: Of a root that signed nothing.
    other_root: str
    issuer: KeyPair

    def token(self, **claims: Any) -> str:
        return jwt({"alg": "ES256", "typ": "JWT"}, {"exp": int(time.time()) + 600, **claims}, self.issuer)

    def session(self, id: str) -> Any:
        """What the authority knows of a session."""
        headers = {"Authorization": f"Bearer {processes.SECRET}"}
        return httpx.get(f"{self.gateway.url}/v1/authority/sessions/{id}", headers=headers).json()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("trust")
    issuer = entropy.key_pair()
    (folder / "jwks.json").write_text(json.dumps({"keys": [jwk(issuer)]}))
    keys = str(folder / "a.identity")
    processes.identity("generate", keys)

    def root(name: str) -> str:
        said = processes.identity("root", str(folder / name))
        return next(line.split()[-1] for line in said.splitlines() if line.startswith("root_public_key"))

    roots = (root("root.json"), root("other.json"))
    processes.identity("sign", keys, "--root", str(folder / "root.json"), "--expires-in", "90d")
    sessions = "  tokens: { jwks_file: jwks.json }\n  authentication: { tenant_claim: tenant }\n"
    with processes.gateway(folder, sessions, "key_file: a.identity") as gateway:
        yield World(gateway, *roots, issuer)


def purchase(kind: str, url: str, **more: Any) -> tuple[Any, sealway.CallMetrics]:
    """One purchase: the session that it went in, and what it cost."""
    with calling(kind, url, **more) as (transport, send):
        response = send("POST", TARGET, json=PURCHASE)
        assert response.json()["status"] == "SUCCESS"
        return transport._parts.active.session, response.extensions["sealway"]


# --- A root


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_whose_keys_the_root_signed_is_trusted_and_the_set_is_remembered(
    world: World, kind: str, tmp_path: Path
) -> None:
    state = tmp_path / "root.state"
    session, _ = purchase(kind, world.gateway.url, trust=sealway.Root(world.root, sealway.FileTrustStore(state)))
    listed = httpx.get(world.gateway.url + "/.well-known/sealway-keys").json()
    assert session.answer.key_id == listed["keys"][0]["key_id"]
    assert json.loads(state.read_text()) == {world.gateway.url: {"issued_ms": listed["issued_ms"]}}
    # After a restart the very same set is as good as before.
    purchase(kind, world.gateway.url, trust=sealway.Root(world.root, sealway.FileTrustStore(state)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_root_that_did_not_sign_the_key_set_trusts_no_service(
    world: World, gateway: processes.Gateway, kind: str
) -> None:
    for url, root in ((world.gateway.url, world.other_root), (gateway.url, world.root)):
        with pytest.raises(sealway.ProtocolError) as error:
            purchase(kind, url, trust=sealway.Root(root))
        assert error.value.code == "key_untrusted"


def test_a_key_set_older_than_the_accepted_one_is_rejected_after_a_restart(world: World, tmp_path: Path) -> None:
    state = tmp_path / "root.state"
    purchase("sync", world.gateway.url, trust=sealway.Root(world.root, sealway.FileTrustStore(state)))
    kept = json.loads(state.read_text())
    kept[world.gateway.url]["issued_ms"] += 1
    state.write_text(json.dumps(kept))
    with pytest.raises(sealway.ProtocolError) as error:
        purchase("sync", world.gateway.url, trust=sealway.Root(world.root, sealway.FileTrustStore(state)))
    assert error.value.code == "key_untrusted"
    assert json.loads(state.read_text()) == kept


# --- Who the client is


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_at_an_init_authenticates_the_client(world: World, kind: str) -> None:
    token = world.token(sub="ann", tenant="acme")
    session, _ = purchase(
        kind, world.gateway.url, trust=sealway.Root(world.root), authorization=lambda: f"Bearer {token}"
    )
    answer = session.answer
    assert (answer.auth, answer.subject, answer.tenant) == ("bearer", "ann", "acme")
    _, metrics = purchase(kind, world.gateway.url, trust=None, wire=2, authorization=lambda: f"Bearer {token}")
    assert world.session(metrics.session_id)["subject"] == "ann"


def test_an_invalid_token_is_rejected(world: World) -> None:
    stranger = jwt({"alg": "ES256", "typ": "JWT"}, {"exp": int(time.time()) + 600, "sub": "ann"}, entropy.key_pair())
    with pytest.raises(sealway.ProblemError) as error:
        purchase("sync", world.gateway.url, trust=sealway.Root(world.root), authorization=lambda: f"Bearer {stranger}")
    assert (error.value.status, error.value.code) == (401, "unauthenticated")
    assert stranger not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_proof_binds_the_share_to_the_owner_of_the_token(world: World, kind: str) -> None:
    owner = entropy.key_pair()
    members = json.dumps(jwk(owner), sort_keys=True, separators=(",", ":"))
    token = world.token(sub="ann", cnf={"jkt": b64u(hashlib.sha256(members.encode()).digest())})
    flip = [0]

    def prove(init_hash: bytes) -> str:
        claims = {
            "jti": secrets.token_hex(16),
            "htm": "POST",
            "htu": world.gateway.url + "/v3/sessions",
            "iat": int(time.time()),
            "ath": b64u(hashlib.sha256(token.encode()).digest()),
            "init_hash": b64u(init_hash[:-1] + bytes([init_hash[-1] ^ flip[0]])),
        }
        return jwt({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk(owner)}, claims, owner)

    more: dict[str, Any] = {"trust": sealway.Root(world.root), "authorization": lambda: f"DPoP {token}", "proof": prove}
    session, _ = purchase(kind, world.gateway.url, **more)
    assert (session.answer.auth, session.answer.subject) == ("dpop", "ann")
    # A proof of another share is good for nothing.
    flip[0] = 1
    with pytest.raises(sealway.ProblemError) as error:
        purchase(kind, world.gateway.url, **more)
    assert error.value.code == "unauthenticated"
