//! The endpoints under `/v1/authority/` for callers without the secret and for a faulty API side.

use std::sync::Arc;

use crate::desk::{Call, Desk};
use sealway_proto::wire::base64;
use sealway_sessions::Policy;
use sealway_sessions::peer::PeerSecret;
use sealway_sessions::store::{Memory, MemoryLimits};
use sealway_testkit::store_contract::claims::START_MS;
use serde_json::{Value, json};

const SECRET: &str = "peer-secret-0123456789";
const ID: &str = "S-00112233445566778899aabbccddeeff";
const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const STATE: &str = "/v1/authority/state";
const NONCES: &str = "/v1/authority/nonces";

fn policy() -> Policy {
    Policy { peer_secret: Some(PeerSecret::new(zeroize::Zeroizing::new(SECRET.into()))), ..Policy::default() }
}

fn call(method: &'static str, path: &str) -> Call {
    Call::new(method, path).with("authorization", &format!("Bearer {SECRET}"))
}

fn session_path() -> String {
    format!("/v1/authority/sessions/{ID}")
}

fn session() -> Value {
    json!({"id": ID, "wire": 2, "client_id": "web", "subject": null, "created_ms": START_MS,
        "expires_ms": START_MS + 600_000, "key": base64::encode(&[5; 32])})
}

fn claim() -> Value {
    json!({"key": KEY, "sealed": true, "stamp_ms": START_MS})
}

#[tokio::test]
async fn without_a_secret_configured_there_is_nothing_there() {
    let desk = Desk::new(Policy::default());
    for (method, path) in [("GET", STATE.to_owned()), ("POST", NONCES.into()), ("GET", session_path())] {
        desk.send(call(method, &path).json(claim())).await.is(&path, 404, r#"{"error":"NOT_FOUND"}"#);
    }
}

#[tokio::test]
async fn a_caller_without_the_secret_learns_and_changes_nothing() {
    let desk = Desk::new(policy());
    let put = call("PUT", &session_path()).json(session());
    for authorization in [
        None,
        Some(String::new()),
        Some(SECRET.to_owned()),
        Some("Bearer ".into()),
        Some(format!("Basic {SECRET}")),
        Some(format!("Bearer {}", &SECRET[1..])),
        Some(format!("Bearer {SECRET}0")),
        Some(format!("Bearer {}", SECRET.to_uppercase())),
    ] {
        for call in
            [put.clone(), call("GET", STATE), call("POST", NONCES).json(claim()), call("GET", "/v1/authority/x")]
        {
            let call = call.without("authorization");
            let call = authorization.iter().fold(call, |call, value| call.and("authorization", value));
            let answer = desk.send(call).await;
            answer.is(&format!("{authorization:?}"), 401, r#"{"error":"UNAUTHORIZED"}"#);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    // A repeated secret is rejected.
    let twice = call("GET", STATE).and("authorization", &format!("Bearer {SECRET}"));
    assert_eq!(desk.send(twice).await.status, 401);
    let status = desk.authority.store().status();
    assert_eq!((status.sessions, status.nonces), (0, (0, 0)));
    desk.send(put).await.is("the secret", 200, &format!(r#"{{"id":"{ID}"}}"#));
}

#[tokio::test]
async fn a_session_is_put_got_and_deleted_and_no_answer_may_be_stored() {
    let desk = Desk::new(policy());
    let path = session_path();
    let missing = format!(r#"{{"error":"SESSION_NOT_FOUND","id":"{ID}"}}"#);
    let deleted = |was: bool| format!(r#"{{"id":"{ID}","deleted":{was}}}"#);
    let steps = [
        ("GET", 404, missing.clone()),
        ("PUT", 200, format!(r#"{{"id":"{ID}"}}"#)),
        // A retry after a lost answer.
        ("PUT", 200, format!(r#"{{"id":"{ID}"}}"#)),
        ("GET", 200, String::new()),
        ("DELETE", 200, deleted(true)),
        ("DELETE", 200, deleted(false)),
        ("GET", 404, missing),
    ];
    for (method, status, body) in steps {
        let answer = desk.send(call(method, &path).json(session())).await;
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{method}");
        if body.is_empty() {
            assert_eq!((answer.status, answer.json()), (status, session()));
        } else {
            answer.is(method, status, &body);
        }
    }
}

#[tokio::test]
async fn a_claim_is_granted_once_and_answers_name_it() {
    let desk = Desk::new(policy());
    for (stamp_ms, status, body) in [
        (START_MS - 300_001, 409, format!(r#"{{"error":"TIMESTAMP_OUTSIDE_WINDOW","key":"{KEY}"}}"#)),
        (START_MS + 300_001, 409, format!(r#"{{"error":"TIMESTAMP_OUTSIDE_WINDOW","key":"{KEY}"}}"#)),
        (u64::MAX, 409, format!(r#"{{"error":"TIMESTAMP_OUTSIDE_WINDOW","key":"{KEY}"}}"#)),
        (START_MS, 201, format!(r#"{{"key":"{KEY}"}}"#)),
        (START_MS, 409, format!(r#"{{"error":"REPLAYED","key":"{KEY}"}}"#)),
    ] {
        let body_sent = json!({"key": KEY, "sealed": true, "stamp_ms": stamp_ms});
        desk.send(call("POST", NONCES).json(body_sent)).await.is(&stamp_ms.to_string(), status, &body);
    }
}

#[tokio::test]
async fn full_stores_answer_507() {
    let limits = MemoryLimits { sessions_max: 0, nonces_max: 0, nonces_cleanup_from: 0 };
    let desk = Desk::with(Arc::new(Memory::new(limits)), policy());
    let put = desk.send(call("PUT", &session_path()).json(session())).await;
    put.is("a session", 507, r#"{"error":"SESSIONS_FULL"}"#);
    assert_eq!(put.header("retry-after"), Some("1"));
    desk.send(call("POST", NONCES).json(claim())).await.is("a claim", 507, r#"{"error":"NONCES_FULL"}"#);
}

#[tokio::test]
async fn messages_are_read_strictly_and_refused_by_the_name_of_the_member() {
    let desk = Desk::new(policy());
    let month_ms = 2_592_000_000_u64;
    let with = |name: &str, value: Value| {
        let mut session = session();
        session[name] = value;
        session
    };
    for (body, member) in [
        (with("id", json!("S-ffffffffffffffffffffffffffffffff")), "id: is not the path's"),
        (with("expires_ms", json!(START_MS)), "expires_ms: is not after created_ms"),
        (with("created_ms", json!(START_MS - 600_001)), ""),
        (with("expires_ms", json!(START_MS + month_ms + 300_000)), ""),
        (with("expires_ms", json!(START_MS + month_ms + 300_001)), "expires_ms: is more than 30 days ahead"),
        (with("expires_ms", json!(u64::MAX)), "expires_ms: is more than 30 days ahead"),
        (with("key", json!("c2hvcnQ=")), "key: expected 32 bytes"),
        (with("more", json!(1)), "more: unknown member"),
    ] {
        let answer = desk.send(call("PUT", &session_path()).json(body.clone())).await;
        let told = answer.json()["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer.status, if member.is_empty() { 200 } else { 400 }, "{body}: {told}");
        assert!(told.starts_with(member), "{body}: {told}");
    }
    desk.clock.set(START_MS + 600_000);
    let over = desk.send(call("PUT", &session_path()).json(session())).await;
    assert!(over.status == 400 && over.body.contains("is over by the authority's clock"), "{}", over.body);
    for body in ["", "[]", "null", "{", "{}{}", r#"{"key":"#, &"[".repeat(60_000)] {
        let answer = desk.send(call("POST", NONCES).body(body)).await;
        assert_eq!((answer.status, &answer.json()["error"]), (400, &json!("MESSAGE_INVALID")), "{body:.20}");
    }
    let answer = desk.send(call("POST", NONCES).body(format!("{{{}", " ".repeat(64 * 1024)))).await;
    answer.is("a long body", 413, r#"{"error":"PAYLOAD_TOO_LARGE"}"#);
    let answer = desk.send(call("GET", "/v1/authority/sessions/S-1")).await;
    assert_eq!((answer.status, &answer.json()["message"]), (400, &json!("id: expected S- or A- and 32 of 0-9a-f")));
}

#[tokio::test]
async fn other_methods_are_405_and_other_paths_404() {
    let desk = Desk::new(policy());
    for (method, path, allow) in [
        ("POST", STATE, "GET"),
        ("GET", NONCES, "POST"),
        ("PUT", NONCES, "POST"),
        ("POST", &session_path(), "GET, PUT, DELETE"),
        ("HEAD", &session_path(), "GET, PUT, DELETE"),
    ] {
        let answer = desk.send(call(method, path)).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for path in ["/v1/authority/", "/v1/authority/sessions", "/v1/authority/nonces/", "/v1/authority/State"] {
        desk.send(call("GET", path)).await.is(path, 404, r#"{"error":"NOT_FOUND"}"#);
    }
}
