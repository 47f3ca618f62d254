"""Both transports against a real gateway: sessions are agreed, renewed and ended, on all wires and suites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import sealway
from processes import SECRET, Gateway
from sealway.server import AuthorityStore
from sealway.session.claim import make_claim

PURCHASE = {"schemeCode": "AEF", "amount": 1}


def options(**more: Any) -> sealway.Options:
    return sealway.Options(**{"trust": sealway.FirstUse(), "client_id": "tests", **more})


def purchase(client: httpx.Client, url: str) -> str:
    response = client.post(url + "/transaction/purchase", json=PURCHASE)
    assert response.json()["status"] == "SUCCESS"
    metrics: sealway.CallMetrics = response.extensions["sealway"]
    return metrics.session_id


@pytest.mark.parametrize("suite", sealway.DEFAULT_SUITES)
def test_every_suite_agrees_with_the_gateway(gateway: Gateway, suite: sealway.Suite) -> None:
    transport = sealway.Transport(gateway.url, options(suites=(suite,)))
    with httpx.Client(transport=transport) as client:
        purchase(client, gateway.url)
        active = transport._parts.active
        assert active is not None
        session: Any = active.session
        assert session.answer.suite == suite.value
        transport.end_session()


@pytest.mark.parametrize(("wire", "init_path"), [(1, "/session/init/anon"), (2, "/v1/session/init")])
def test_inits_succeed_on_every_path(gateway: Gateway, wire: int, init_path: str) -> None:
    given = options(trust=None, wire=wire, init_path=init_path)
    with httpx.Client(transport=sealway.Transport(gateway.url, given)) as client:
        assert purchase(client, gateway.url).startswith("A-" if wire == 1 else "S-")


def test_a_session_is_renewed_before_its_end_and_the_previous_exporter_is_in_it(gateway: Gateway) -> None:
    transport = sealway.Transport(gateway.url, options())
    with httpx.Client(transport=transport) as client:
        first = purchase(client, gateway.url)
        active = transport._parts.active
        assert active is not None
        active._sent._day_ns -= int((active._life_sec - 5) * 1e9)
        carried: list[str] = []
        send = transport._inner.handle_request

        def watch(request: httpx.Request) -> httpx.Response:
            carried.append(request.url.path)
            return send(request)

        transport._inner.handle_request = watch  # type: ignore[method-assign]
        second = purchase(client, gateway.url)
        assert second != first
        assert carried == [f"/v3/sessions/{first}/renew", "/transaction/purchase"]
        assert purchase(client, gateway.url) == second


def test_a_session_ended_elsewhere_is_replaced_for_the_next_call(gateway: Gateway) -> None:
    transport = sealway.Transport(gateway.url, options())
    with httpx.Client(transport=transport) as client:
        first = purchase(client, gateway.url)
        transport.end_session()
        assert purchase(client, gateway.url) != first
    transport = sealway.Transport(gateway.url, options())
    with httpx.Client(transport=transport) as client:
        first = purchase(client, gateway.url)
        headers = {"Authorization": f"Bearer {SECRET}"}
        assert httpx.delete(f"{gateway.url}/v1/authority/sessions/{first}", headers=headers).status_code == 200
        # Nobody knows whether a purchase was served before: it is the caller's to send again.
        with pytest.raises(sealway.ProblemError, match="whether the request was served is unknown"):
            purchase(client, gateway.url)
        assert purchase(client, gateway.url) != first


def test_a_clock_that_is_far_off_is_corrected_by_proof(gateway: Gateway) -> None:
    transport = sealway.Transport(gateway.url, options())
    with httpx.Client(transport=transport) as client:
        first = purchase(client, gateway.url)
        active = transport._parts.active
        assert active is not None
        active.set_clock(1_000_000_000_000, active._sent.monotonic_sec)
        response = client.post(gateway.url + "/transaction/purchase", json=PURCHASE)
        assert response.extensions["sealway"].attempts == 2
        assert response.extensions["sealway"].session_id == first


def test_pins_are_what_the_gateway_publishes_and_no_other(gateway: Gateway) -> None:
    keys = httpx.get(gateway.url + "/.well-known/sealway-keys").json()["keys"]
    for pin in (keys[0]["key_id"], keys[0]["public_key"]):
        with httpx.Client(transport=sealway.Transport(gateway.url, options(trust=sealway.Pins([pin])))) as client:
            purchase(client, gateway.url)
    trust = sealway.Pins(["0" * 32])
    with httpx.Client(transport=sealway.Transport(gateway.url, options(trust=trust))) as client:
        with pytest.raises(sealway.ProblemError) as error:
            purchase(client, gateway.url)
        assert error.value.code == "key_retired"
        assert error.value.more["key_set"]["keys"][0]["key_id"] == keys[0]["key_id"]


def test_keys_of_the_first_use_survive_a_restart(gateway: Gateway, tmp_path: Path) -> None:
    trust = sealway.FirstUse(sealway.FileTrustStore(tmp_path / "trust"))
    for _ in range(2):
        with httpx.Client(transport=sealway.Transport(gateway.url, options(trust=trust))) as client:
            purchase(client, gateway.url)
    assert gateway.url in json.loads((tmp_path / "trust").read_text())


def test_an_authority_serves_sessions_and_grants_each_claim_once(gateway: Gateway) -> None:
    with httpx.Client(transport=sealway.Transport(gateway.url, options(wire=2))) as client:
        id = purchase(client, gateway.url)

    async def run() -> None:
        store = AuthorityStore(gateway.url, SECRET)
        assert SECRET not in repr(store)
        record = await store.session(id)
        assert record is not None
        assert (record.id, record.wire, record.client_id) == (id, 2, "tests")
        assert await store.session(id) is record
        assert await store.session("S-" + "0" * 32) is None
        assert await store.session("no id") is None
        now_ms = record.created_ms
        claim = make_claim(3, id, "a-nonce-of-the-tests", now_ms, 300_000)
        assert (await store.admit(claim)).key == claim.key
        with pytest.raises(sealway.ProtocolError) as error:
            await store.admit(claim)
        assert error.value.code == "replayed"
        with pytest.raises(sealway.ProtocolError) as error:
            await store.admit(make_claim(3, id, "another", now_ms - 400_000, 300_000))
        assert error.value.code == "timestamp_outside_window"
        await store.aclose()
        stranger = AuthorityStore(gateway.url, "not-the-secret-of-it")
        with pytest.raises(sealway.StoreUnavailable) as unavailable:
            await stranger.session(id)
        assert "not-the-secret" not in str(unavailable.value)
        await stranger.aclose()
        nobody = AuthorityStore("http://127.0.0.1:1", SECRET)
        with pytest.raises(sealway.StoreUnavailable):
            await nobody.admit(claim)
        await nobody.aclose()

    anyio.run(run)


@pytest.mark.parametrize("url", ["http://authority.example", "ftp://localhost", "http://10.0.0.1:3000"])
def test_an_authority_is_used_over_tls_or_on_this_machine(url: str) -> None:
    with pytest.raises(sealway.UsageError):
        AuthorityStore(url, SECRET)
