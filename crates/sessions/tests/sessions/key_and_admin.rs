//! The key endpoint, health, readiness and the admin listener.

use std::sync::Arc;

use crate::desk::{Answer, Call, Desk, SESSION, V1};
use metrics_exporter_prometheus::PrometheusBuilder;
use sealway_proto::session::{Auth, Session, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire, base64};
use sealway_sessions::Policy;
use sealway_sessions::authority::KeyEndpoint;
use sealway_testkit::store_contract::claims::{START_MS, provider, random};
use serde_json::json;

const TOKEN: &str = "an-admin-token-of-some-length";
const SECRET: &str = "a-secret-of-the-api-side";
const CLIENT_REQUIRED: (u16, &str, &str) = (400, "Bad Request", "X-ClientId header is required");
const ID_FORMAT: (u16, &str, &str) = (400, "Bad Request", "Invalid session ID format");
const UNKNOWN: (u16, &str, &str) = (404, "Not Found", "Session not found");
const FOREIGN: (u16, &str, &str) = (403, "Forbidden", "Not authorized to access this session");
const GONE: (u16, &str, &str) = (410, "Gone", "Session has expired");
const NOT_FOUND: &str = r#"{"error":"NOT_FOUND"}"#;

fn desk(key_endpoint: KeyEndpoint) -> Desk {
    Desk::new(Policy { key_endpoint, ..Policy::default() })
}

async fn agreed(desk: &Desk) -> String {
    desk.send(Call::init(V1)).await.agreed().0
}

fn key_call(id: &str) -> Call {
    Call::get(&format!("/v1/session/{id}")).with("x-clientid", "web")
}

async fn is_the_key(desk: &Desk, id: &str, answer: &Answer) {
    let session = desk.authority.store().get(&SessionId::parse(id).unwrap()).await.unwrap().unwrap();
    let key = base64::encode(session.record().key.expose());
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json(), json!({"sessionId": id, "sessionKey": key, "expiresAt": START_MS + 1_800_000}));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn an_open_key_endpoint_answers_by_the_order_of_its_table() {
    let desk = desk(KeyEndpoint::Open);
    let id = agreed(&desk).await;
    is_the_key(&desk, &id, &desk.send(key_call(&id)).await).await;

    let unknown = SessionId::from_random(&random(), false);
    desk.send(key_call("nonsense").without("x-clientid")).await.is_v1("no client id", CLIENT_REQUIRED);
    desk.send(key_call(&id).with("x-clientid", "")).await.is_v1("an empty one", CLIENT_REQUIRED);
    let malformed = ["nonsense", "S-", &id[..33], &id.to_uppercase(), &id.replacen("S-", "A-", 1), &format!("{id}0")];
    for malformed in malformed {
        desk.send(key_call(malformed).with("x-clientid", "app")).await.is_v1(malformed, ID_FORMAT);
    }
    desk.send(key_call(unknown.as_str()).with("x-clientid", "app")).await.is_v1("unknown", UNKNOWN);
    desk.send(key_call(&id).with("x-clientid", "app")).await.is_v1("another client's", FOREIGN);
    let (wire1, _) = desk.send(Call::wire1(SESSION)).await.agreed();
    desk.send(key_call(&wire1)).await.is_v1("wire 1 has no client", FOREIGN);

    // Expired and not yet swept; the client id is checked first.
    desk.clock.set(START_MS + 1_799_999);
    assert_eq!(desk.send(key_call(&id)).await.status, 200);
    desk.clock.set(START_MS + 1_800_000);
    desk.send(key_call(&id).with("x-clientid", "app")).await.is_v1("another client's", FOREIGN);
    desk.send(key_call(&id)).await.is_v1("expired", GONE);
    desk.authority.maintain().await;
    desk.send(key_call(&id)).await.is_v1("swept", UNKNOWN);
}

#[tokio::test]
async fn a_session_of_wire_3_is_unknown_to_every_key_endpoint() {
    let desk = desk(KeyEndpoint::Open);
    let record = SessionRecord {
        id: SessionId::from_random(&random(), false),
        wire: Wire::Native,
        client_id: Some("web".into()),
        subject: None,
        tenant: None,
        auth: Auth::None,
        lineage: None,
        created_ms: START_MS,
        expires_ms: START_MS + 600_000,
        key: SessionKey::from_bytes([7; 32]),
    };
    let id = record.id;
    desk.authority.store().put(Arc::new(Session::new(provider(), record).unwrap())).await.unwrap();
    // The answer reveals neither the owner nor the expiry.
    for client_id in ["web", "app"] {
        let call = key_call(id.as_str()).with("x-clientid", client_id);
        desk.send(call.clone()).await.is_v1("open", UNKNOWN);
        let call = call.with("authorization", &format!("Bearer {TOKEN}"));
        desk.admin(call, TOKEN, "").await.is_v1("on the admin listener", UNKNOWN);
    }
    desk.clock.set(START_MS + 600_000);
    desk.send(key_call(id.as_str())).await.is_v1("over", UNKNOWN);
}

#[tokio::test]
async fn revoking_any_session_of_a_chain_ends_all_of_it_also_when_its_first_is_long_over() {
    let desk = desk(KeyEndpoint::Closed);
    let put = async |lineage: Option<SessionId>| {
        let record = SessionRecord {
            id: SessionId::from_random(&random(), false),
            wire: Wire::Native,
            client_id: Some("web".into()),
            subject: None,
            tenant: None,
            auth: Auth::None,
            lineage,
            created_ms: START_MS,
            expires_ms: START_MS + 600_000,
            key: SessionKey::from_bytes([7; 32]),
        };
        let id = record.id;
        desk.authority.store().put(Arc::new(Session::new(provider(), record).unwrap())).await.unwrap();
        id
    };
    for revoked in ["the first", "a renewed one", "the first, which is over"] {
        let first = put(None).await;
        let (second, third, other) = (put(Some(first)).await, put(Some(first)).await, put(None).await);
        if revoked.ends_with("over") {
            desk.authority.store().delete(&first).await.unwrap();
        }
        let id = if revoked == "a renewed one" { second } else { first };
        assert_eq!(desk.authority.revoke(&id).await.unwrap(), !revoked.ends_with("over"), "{revoked}");
        for id in [first, second, third] {
            assert!(desk.authority.store().get(&id).await.unwrap().is_none(), "{revoked}: {id} goes on");
        }
        assert!(desk.authority.store().get(&other).await.unwrap().is_some(), "{revoked}: another chain ended");
    }
}

#[tokio::test]
async fn a_closed_key_endpoint_is_404_and_a_guarded_one_needs_its_secret() {
    let closed = desk(KeyEndpoint::Closed);
    let id = agreed(&closed).await;
    for call in [key_call(&id), key_call(&id).with("authorization", &format!("Bearer {SECRET}")), key_call("x")] {
        closed.send(call).await.is("closed", 404, NOT_FOUND);
    }

    let guarded = desk(KeyEndpoint::Secret(SECRET.to_owned().into()));
    let id = agreed(&guarded).await;
    let refused = (401, "Unauthorized", "A valid bearer secret is required");
    let longer = format!("Bearer {SECRET}x");
    for secret in ["", "Bearer", "Bearer ", "Bearer wrong", &longer, &longer[..20], SECRET, "Basic YTpi"] {
        guarded.send(key_call(&id).with("authorization", secret)).await.is_v1(secret, refused);
    }
    guarded.send(key_call(&id)).await.is_v1("none", refused);
    // Without the secret the answer reveals nothing, not even the existence of ids.
    guarded.send(key_call("nonsense").without("x-clientid")).await.is_v1("none", refused);
    let good = key_call(&id).with("authorization", &format!("bearer {SECRET}"));
    is_the_key(&guarded, &id, &guarded.send(good.clone()).await).await;
    guarded.send(good.and("authorization", "Bearer x")).await.is_v1("two", refused);
    assert!(!format!("{:?}", guarded.authority).contains(SECRET));
}

#[tokio::test]
async fn health_and_readiness_report_the_servers_behind_the_store() {
    let closed = desk(KeyEndpoint::Closed);
    let timestamp = "2027-01-15T08:00:00.000Z";
    let health = closed.send(Call::get("/health")).await;
    assert_eq!(health.status, 200);
    let common =
        json!({"status": "ok", "timestamp": timestamp, "redis": "unused", "postgres": "unused", "store": "memory"});
    assert_eq!(health.json(), common);
    let ready = closed.send(Call::get("/ready")).await;
    assert_eq!(ready.status, 200);
    let pool = json!({"totalCount": 1, "idleCount": 1, "waitingCount": 0});
    let want = json!({"status": "ready", "database": "up", "cache": "up", "pool": pool, "timestamp": timestamp});
    assert_eq!(ready.json(), want);
    for path in ["/health", "/ready"] {
        let answer = closed.send(Call::new("POST", path)).await;
        answer.is(path, 405, r#"{"error":"METHOD_NOT_ALLOWED"}"#);
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(closed.send(Call::new("HEAD", path)).await.status, 200);
    }
    // An open key endpoint shows as a warning.
    let open = desk(KeyEndpoint::Open).send(Call::get("/health")).await.json();
    assert!(open["warnings"][0].as_str().unwrap().contains("open_key_endpoint"), "{open}");
}

#[tokio::test]
async fn the_admin_listener_requires_its_token_except_for_probes() {
    let desk = desk(KeyEndpoint::Closed);
    let id = agreed(&desk).await;
    let calls = || {
        [
            Call::get("/metrics"),
            Call::new("DELETE", &format!("/admin/sessions/{id}")),
            Call::get("/anything"),
            Call::new("POST", "/health"),
        ]
    };
    for authorization in [None, Some("Bearer wrong"), Some(TOKEN), Some("Basic YTpi"), Some("Bearer ")] {
        for mut call in calls() {
            if let Some(value) = authorization {
                call = call.with("authorization", value);
            }
            let answer = desk.admin(call, TOKEN, "").await;
            answer.is("no token", 401, r#"{"error":"UNAUTHORIZED"}"#);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    for path in ["/health", "/ready"] {
        assert_eq!(desk.admin(Call::get(path), TOKEN, "").await.status, 200);
    }
    assert_eq!(desk.authority.store().status().sessions, 1);
}

#[tokio::test]
async fn the_admin_token_revokes_and_reads_no_session_key() {
    let desk = desk(KeyEndpoint::Secret(SECRET.to_owned().into()));
    let id = agreed(&desk).await;
    let call = |call: Call| call.with("authorization", &format!("Bearer {TOKEN}"));
    let needs_secret = (401, "Unauthorized", "A valid bearer secret is required");
    desk.admin(call(key_call(&id)), TOKEN, "").await.is_v1("the admin token", needs_secret);
    let with_secret = |call: Call| call.with("authorization", &format!("Bearer {SECRET}"));
    is_the_key(&desk, &id, &desk.admin(with_secret(key_call(&id)), TOKEN, "").await).await;
    desk.admin(with_secret(key_call(&id).with("x-clientid", "app")), TOKEN, "").await.is_v1("foreign", FOREIGN);
    // The secret of the key endpoint allows nothing else.
    desk.admin(with_secret(Call::get("/metrics")), TOKEN, "").await.is("metrics", 401, r#"{"error":"UNAUTHORIZED"}"#);

    let delete = |id: &str| call(Call::new("DELETE", &format!("/admin/sessions/{id}")));
    desk.admin(delete("S-1"), TOKEN, "").await.is("malformed", 400, r#"{"error":"INVALID_SESSION_ID"}"#);
    desk.admin(delete(&id), TOKEN, "").await.is("revoked", 200, &format!(r#"{{"revoked":"{id}"}}"#));
    desk.admin(delete(&id), TOKEN, "").await.is("again", 404, NOT_FOUND);
    desk.admin(with_secret(key_call(&id)), TOKEN, "").await.is_v1("gone", UNKNOWN);

    let not_allowed = r#"{"error":"METHOD_NOT_ALLOWED"}"#;
    desk.admin(call(Call::new("POST", "/metrics")), TOKEN, "").await.is("metrics", 405, not_allowed);
    desk.admin(call(Call::new("DELETE", "/v1/session/x")), TOKEN, "").await.is("key", 405, not_allowed);
    desk.admin(call(Call::get("/admin/sessions/x")), TOKEN, "").await.is("revoke", 405, not_allowed);
    desk.admin(call(Call::get("/elsewhere")), TOKEN, "").await.is("elsewhere", 404, NOT_FOUND);
}

#[tokio::test]
async fn metrics_count_inits_refusals_and_what_is_held() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let desk = desk(KeyEndpoint::Closed);
    let call = Call::init(SESSION);
    desk.send(call.clone()).await.agreed();
    assert_eq!(desk.send(call).await.status, 400);
    desk.send(Call::init(V1)).await.agreed();
    desk.send(Call::wire1(SESSION)).await.agreed();
    let metrics = Call::get("/metrics").with("authorization", &format!("Bearer {TOKEN}"));
    let answer = desk.admin(metrics, TOKEN, "what the process rendered").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "what the process rendered"));
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = handle.render();
    for line in [
        r#"sealway_inits_total{wire="1"} 1"#,
        r#"sealway_inits_total{wire="2"} 2"#,
        r#"sealway_refusals_total{on="init",class="replayed"} 1"#,
        "sealway_sessions 3",
        r#"sealway_nonces{scope="init"} 3"#,
        r#"sealway_nonces{scope="sealed"} 0"#,
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
}
