//! The store that uses an authority: valid answers, and answers that are rejected.
#![cfg(feature = "authority")]
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use sealway_proto::session::{Claim, ClaimKey};
use sealway_proto::wire::{ReplayPolicy, SessionId};
use sealway_tower::{Authority, ReserveError, Store, StoreError};

const SECRET: &str = "hunter2-hunter2-hunter2";
const ID: &str = "S-00112233445566778899aabbccddeeff";
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

#[derive(Default)]
struct Script {
    status: u16,
    content_type: &'static str,
    body: String,
    delay: Duration,
    asked: Vec<String>,
}

async fn authority() -> (Arc<Mutex<Script>>, Authority) {
    let script: Arc<Mutex<Script>> = Arc::default();
    let told = script.clone();
    let app = Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
        let (status, content_type, answer, delay) = {
            let mut script = told.lock().unwrap();
            script.asked.push(format!("{method} {} {}", uri.path(), String::from_utf8_lossy(&body)));
            (script.status, script.content_type, script.body.clone(), script.delay)
        };
        tokio::time::sleep(delay).await;
        let mut response = Response::new(Body::from(answer));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert("content-type", content_type.parse().unwrap());
        response
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (script, Authority::new(&url, SECRET).unwrap())
}

fn say(script: &Mutex<Script>, status: u16, body: impl Into<String>) {
    let mut script = script.lock().unwrap();
    (script.status, script.content_type, script.body) = (status, "application/json", body.into());
}

fn session(id: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{id}","wire":2,"client_id":"demo-client","subject":null,"created_ms":1,"expires_ms":9,"key":"{KEY}"{more}}}"#
    )
}

fn claim() -> Claim {
    Claim::passed_on(ClaimKey([0xab; 16]), true, 1000, 1000, &ReplayPolicy::default()).unwrap()
}

#[tokio::test]
async fn a_session_is_used_for_less_than_a_second_without_asking_again() {
    let (script, store) = authority().await;
    let id = SessionId::parse(ID).unwrap();
    say(&script, 200, session(ID, r#","tenant":"acme","auth":"dpop""#));
    let found = store.get(&id).await.unwrap().unwrap();
    assert_eq!((found.record().tenant.as_deref(), found.record().auth.name()), (Some("acme"), "dpop"));
    store.get(&id).await.unwrap().unwrap();
    assert_eq!(script.lock().unwrap().asked, [format!("GET /v1/authority/sessions/{ID} ")]);
    tokio::time::sleep(Duration::from_millis(600)).await;
    say(&script, 404, format!(r#"{{"error":"SESSION_NOT_FOUND","id":"{ID}"}}"#));
    assert!(store.get(&id).await.unwrap().is_none());
    assert!(!format!("{store:?} {found:?}").contains(KEY) && !format!("{store:?}").contains(SECRET));
}

#[tokio::test]
async fn an_unintelligible_response_is_rejected_without_quoting_it() {
    let (script, store) = authority().await;
    let id = SessionId::parse(ID).unwrap();
    let other = "S-ffffffffffffffffffffffffffffffff";
    for (status, body) in [
        (200, session(other, "")),
        (200, session(ID, r#","extra":1"#)),
        (200, session(ID, &format!(r#","id":"{ID}""#))),
        (200, session(ID, "").replace("\"wire\":2", "\"wire\":4")),
        (200, session(ID, "").replace(KEY, "AQEB")),
        (200, session(ID, "").replace("\"demo-client\"", "null")),
        (200, format!("{}{}", session(ID, ""), " ".repeat(70_000))),
        (404, r#"{"error":"NOT_FOUND"}"#.into()),
        (404, format!(r#"{{"error":"SESSION_NOT_FOUND","id":"{other}"}}"#)),
        (401, r#"{"error":"UNAUTHORIZED"}"#.into()),
        (503, r#"{"error":"SERVICE_UNAVAILABLE"}"#.into()),
        (302, "{}".into()),
    ] {
        say(&script, status, body.clone());
        let err = store.get(&id).await.unwrap_err();
        let StoreError::Unavailable(text) = &err;
        assert!(!text.contains(KEY) && !text.contains(SECRET) && !text.contains("demo-client"), "{text}");
    }
    say(&script, 200, session(ID, ""));
    script.lock().unwrap().content_type = "text/html";
    assert!(store.get(&id).await.is_err());
}

#[tokio::test]
async fn a_claim_is_sent_once_and_granted_only_by_its_own_answer() {
    let (script, store) = authority().await;
    let (key, other) = ("ab".repeat(16), "cd".repeat(16));
    say(&script, 201, format!(r#"{{"key":"{key}"}}"#));
    assert!(store.reserve(&claim()).await.is_ok());
    let asked = format!(r#"POST /v1/authority/nonces {{"key":"{key}","sealed":true,"stamp_ms":1000}}"#);
    assert_eq!(script.lock().unwrap().asked, [asked]);
    for (status, body, refused) in [
        (409, format!(r#"{{"error":"REPLAYED","key":"{key}"}}"#), Some(ReserveError::Replayed)),
        (409, format!(r#"{{"error":"TIMESTAMP_OUTSIDE_WINDOW","key":"{key}"}}"#), Some(ReserveError::OutsideWindow)),
        (507, r#"{"error":"NONCES_FULL"}"#.into(), Some(ReserveError::Full)),
        (201, format!(r#"{{"key":"{other}"}}"#), None),
        (409, format!(r#"{{"error":"REPLAYED","key":"{other}"}}"#), None),
        (200, format!(r#"{{"key":"{key}"}}"#), None),
        (503, r#"{"error":"SERVICE_UNAVAILABLE"}"#.into(), None),
    ] {
        say(&script, status, body.clone());
        let before = script.lock().unwrap().asked.len();
        let err = store.reserve(&claim()).await.unwrap_err();
        match refused {
            Some(refused) => assert_eq!(err, refused, "{body}"),
            None => assert!(matches!(err, ReserveError::Unavailable(_)), "{body}"),
        }
        assert_eq!(script.lock().unwrap().asked.len(), before + 1, "{body}");
    }
}

#[tokio::test]
async fn a_silent_authority_is_reported_in_time() {
    let (script, store) = authority().await;
    say(&script, 201, format!(r#"{{"key":"{}"}}"#, "ab".repeat(16)));
    script.lock().unwrap().delay = Duration::from_secs(60);
    let began = Instant::now();
    assert!(matches!(store.reserve(&claim()).await, Err(ReserveError::Unavailable(_))));
    assert!(began.elapsed() < Duration::from_secs(4));
    assert_eq!(script.lock().unwrap().asked.len(), 1);
}

#[test]
fn keys_do_not_travel_in_plain_and_errors_hold_no_secret() {
    for url in
        ["http://10.0.0.1", "http://authority.internal", "ftp://localhost", "https://a:b@c", "https://a?x", "x", ""]
    {
        let err = Authority::new(url, SECRET).unwrap_err();
        assert!(!err.to_string().contains(SECRET));
    }
    assert!(
        Authority::new("http://localhost:1/base/", SECRET).is_ok() && Authority::new("http://[::1]:1", SECRET).is_ok()
    );
    assert!(Authority::new("http://localhost", "").is_err() && Authority::new("http://localhost", "a\nb").is_err());
}
