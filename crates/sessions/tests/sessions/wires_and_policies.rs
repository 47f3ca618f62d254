//! Disabled wires, and permissions of clients by their identity.

use std::sync::Arc;

use crate::desk::{ANON, Call, Desk, SESSION, V1};
use metrics_exporter_prometheus::PrometheusBuilder;
use sealway_exchange::Sessions;
use sealway_proto::Error;
use sealway_proto::session::{SealBuffer, Session};
use sealway_proto::wire::Wire;
use sealway_sessions::policies::{ClientMatch, ClientPolicy, PolicyTable, Wires};
use sealway_sessions::{Policy, Refusal};
use sealway_testkit::store_contract::claims::{START_MS, SessionPair, agree, provider, random};

const OFF: &str = r#"{"error":"WIRE_DISABLED"}"#;
const FORBIDDEN: &str = r#"{"error":"SESSION_FORBIDDEN"}"#;

/// Sends a sealed call to `path`, up to its opening.
async fn call(desk: &Desk, agreed: &SessionPair, path: &str) -> Result<(), Refusal> {
    let iv = random()[..12].try_into().unwrap();
    let nonce = crate::desk::nonce();
    let plaintext = SealBuffer::from(b"{}".as_slice());
    let sealed = agreed.client.seal_as(path, plaintext, &START_MS.to_string(), &nonce, &iv, &mut |_| ());
    let (message, _) = sealed.unwrap();
    crate::desk::open(&desk.authority, path, &message.headers, message.body).await.map(drop)
}

/// Stores a session as if another process had agreed it.
async fn keep(desk: &Desk, agreed: SessionPair, tenant: Option<&str>) -> SessionPair {
    let record = agreed.server.record().clone();
    let auth = record.auth;
    let session = Session::new(provider(), record).unwrap().recognised(auth, tenant.map(Into::into));
    let agreed = SessionPair { client: agreed.client, server: Arc::new(session) };
    desk.authority.store().put(agreed.server.clone()).await.unwrap();
    agreed
}

#[tokio::test]
async fn a_wire_that_is_off_agrees_nothing_and_opens_nothing() {
    let desk = Desk::new(Policy { wires: Wires::of([Wire::V2, Wire::Native]), ..Policy::default() });
    desk.send(Call::wire1(SESSION)).await.is("wire 1", 403, OFF);
    desk.send(Call::init(ANON)).await.is("anonymous, wire 1", 403, OFF);
    desk.send(Call::init(SESSION)).await.agreed();
    // Sessions that were agreed before the wire was disabled.
    let (one, two) = (agree(None, 600, START_MS), agree(Some("web"), 600, START_MS));
    let (one, two) = (keep(&desk, one, None).await, keep(&desk, two, None).await);
    assert_eq!(call(&desk, &one, "/orders").await, Err(Refusal::WireOff(Wire::V1)));
    assert_eq!(call(&desk, &two, "/orders").await, Ok(()));

    let desk = Desk::new(Policy { wires: Wires::of([Wire::V1]), ..Policy::default() });
    desk.send(Call::init(SESSION)).await.is("wire 2", 403, OFF);
    desk.send(Call::init(V1)).await.is_v1("wire 2", (403, "Forbidden", "This wire is disabled"));
    desk.send(Call::wire1(SESSION)).await.agreed();
    // Rejected before anything else of the request is checked.
    desk.send(Call::init(SESSION).body("no JSON")).await.is("wire 2", 403, OFF);
}

#[tokio::test]
async fn the_use_of_each_wire_is_counted_and_dated() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let desk = metrics::with_local_recorder(&recorder, || Desk::new(Policy::default()));
    desk.send(Call::init(SESSION)).await.agreed();
    desk.clock.set(START_MS + 5000);
    desk.send(Call::wire1(SESSION)).await.agreed();
    desk.authority.admitted(Wire::Native);
    desk.authority.maintain().await;
    let text = handle.render();
    for line in [
        "sealway_inits_total{wire=\"1\"} 1",
        "sealway_inits_total{wire=\"2\"} 1",
        "sealway_inits_total{wire=\"3\"} 0",
        "sealway_sealed_calls_total{wire=\"3\"} 1",
        "sealway_last_init_seconds{wire=\"1\"} 1800000005",
        "sealway_last_init_seconds{wire=\"2\"} 1800000000",
        "sealway_last_init_seconds{wire=\"3\"} 0",
        "sealway_last_call_seconds{wire=\"3\"} 1800000005",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    let used = desk.authority.wire_use(Wire::V1);
    assert_eq!((used.inits, used.calls, used.last_init_ms, used.last_call_ms), (1, 0, START_MS + 5000, 0));
}

#[tokio::test]
async fn a_policy_bounds_lives_wires_and_paths_of_those_that_it_matches() {
    let whom = |client_id: Option<&str>, tenant: Option<&str>| ClientMatch {
        client_id: client_id.map(Into::into),
        tenant: tenant.map(Into::into),
        subject: None,
    };
    let pay = ClientPolicy {
        ttl_max_sec: Some(400),
        routes: Some(vec!["/pay".into()]),
        wires: Wires::of([Wire::V2]),
        ..ClientPolicy::OPEN
    };
    let none = ClientPolicy { wires: Wires::of([]), ..ClientPolicy::OPEN };
    let longer = ClientPolicy { ttl_min_sec: Some(2000), ..ClientPolicy::OPEN };
    let policies = PolicyTable::new(vec![
        (whom(None, Some("acme")), pay),
        (whom(Some("old-*"), None), none),
        (whom(Some("web"), None), longer),
    ]);
    let desk = Desk::new(Policy { policies, ..Policy::default() });
    assert_eq!(desk.send(Call::init(SESSION)).await.agreed().1, 2000);
    assert_eq!(desk.send(Call::init(SESSION).with("x-clientid", "app")).await.agreed().1, 1800);
    desk.send(Call::init(SESSION).with("x-clientid", "old-7")).await.is("an init", 403, FORBIDDEN);
    let refused = (403, "Forbidden", "Not authorized");
    desk.send(Call::init(V1).with("x-clientid", "old-7")).await.is_v1("an init", refused);

    let policy = Err(Refusal::Wire(Error::Policy));
    let acme = keep(&desk, agree(Some("any"), 600, START_MS), Some("acme")).await;
    assert_eq!(call(&desk, &acme, "/pay/1").await, Ok(()));
    for path in ["/payments", "/orders", "/pay/../orders", "/pay/%2e%2e/orders"] {
        assert_eq!(call(&desk, &acme, path).await, policy, "{path}");
    }
    let acme = keep(&desk, agree(None, 600, START_MS), Some("acme")).await;
    assert_eq!(call(&desk, &acme, "/pay/1").await, policy, "wire 1 is not its own");
    let other = keep(&desk, agree(Some("any"), 600, START_MS), Some("other")).await;
    assert_eq!(call(&desk, &other, "/payments").await, Ok(()));
    // A session from before the policy.
    let old = keep(&desk, agree(Some("old-1"), 600, START_MS), None).await;
    assert_eq!(call(&desk, &old, "/payments").await, policy);
}
