//! Keys and clock of a client of wire 4, against forged documents and a thief of a key.

use sealway_proto::crypto::default_provider;
use sealway_proto::exchange::SEALED_PROBLEMS;
use sealway_proto::hpke::{Aead, Kem, PrivateKey};
use sealway_proto::one_shot::DocumentKey;
use sealway_proto::session::native::Problem;
use sealway_proto::session::native::key_set::TIME_MS_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::Client;
use crate::clock::now_ms;
use crate::native::AnswerOpening;

const HOUR_MS: u64 = 3_600_000;

fn config(byte: u8) -> KeyConfig {
    let private = PrivateKey::from_bytes(default_provider(), Kem::X25519, &[byte; 32]).unwrap();
    KeyConfig::new(byte, private.public_key().clone(), &[Aead::Aes256Gcm]).unwrap()
}

/// A client that pins the kid of the key 1.
fn client(url: &str) -> OneShot {
    let trust = OneShotTrust::Kids(vec![config(1).kid(default_provider())]);
    Client::builder(url).one_shot(trust).unwrap()
}

/// A document of one key, which clients use until `use_until_ms`.
fn document(byte: u8, issued_ms: u64, use_until_ms: u64) -> KeyDocument {
    let key = DocumentKey { config: config(byte).encode(), not_before_ms: 0, use_until_ms, not_after_ms: TIME_MS_MAX };
    KeyDocument { issued_ms, expires_ms: TIME_MS_MAX, keys: vec![key], root: None }
}

/// Gives the client a sealed `clock_skew` with this time, as the holder of the key can.
fn skew(client: &OneShot, server_time_ms: u64) -> Failure {
    let line = Line { method: &Method::GET, path: "/", headers: &HeaderMap::new() };
    let pending = client.0.keys.begin(&config(1), &line, true).unwrap().pending;
    let problem = Problem::new("clock_skew").with("server_time_ms", server_time_ms);
    pending.problem(StatusCode::BAD_REQUEST, problem.encode().as_bytes())
}

#[test]
fn a_key_ends_by_the_own_clock_wherever_a_sealed_skew_moves_the_stamps() {
    let client = client("http://127.0.0.1:1");
    let (over, lasting) = (document(1, 1, now_ms() - 1), document(1, 1, now_ms() + HOUR_MS));
    for server_time_ms in [0, now_ms() - 24 * HOUR_MS, now_ms() + 24 * HOUR_MS, TIME_MS_MAX] {
        assert!(skew(&client, server_time_ms).err.is_retryable());
        assert!(client.0.keys.stamp_ms().abs_diff(server_time_ms) < HOUR_MS);
        assert_eq!(client.0.keys.choose(&over), None);
        assert_eq!(client.0.keys.choose(&lasting).map(|(key, _)| key), Some(config(1)));
    }
}

#[test]
fn a_skew_to_a_time_that_no_stamp_can_have_moves_nothing() {
    let client = client("http://127.0.0.1:1");
    for server_time_ms in [TIME_MS_MAX + 1, u64::MAX] {
        let Failure { err, remedy } = skew(&client, server_time_ms);
        assert!(remedy.is_none() && !err.is_retryable(), "{err}");
        assert!(client.0.keys.stamp_ms().abs_diff(now_ms()) < HOUR_MS);
    }
}

#[test]
fn with_pinned_kids_a_forged_time_of_issue_shuts_no_document_out_and_none_without_a_pinned_key_is_taken() {
    let client = client("http://127.0.0.1:1");
    let take = |held: &mut Option<KeyDocument>, document: &KeyDocument| {
        client.0.keys.take(held, document.encode().as_bytes()).unwrap();
        held.as_ref().map(|held| (held.issued_ms, held.keys[0].config[0]))
    };
    let lasts_until_ms = now_ms() + HOUR_MS;
    let mut held = None;
    assert_eq!(take(&mut held, &document(2, TIME_MS_MAX, lasts_until_ms)), None);
    assert_eq!(take(&mut held, &document(1, TIME_MS_MAX, lasts_until_ms)), Some((TIME_MS_MAX, 1)));
    assert_eq!(take(&mut held, &document(1, 5, lasts_until_ms)), Some((5, 1)));
    assert_eq!(take(&mut held, &document(2, 6, lasts_until_ms)), Some((5, 1)));
    assert_eq!(take(&mut held, &document(1, 6, now_ms() - 1)), Some((5, 1)));
}

/// Answers each request with an unsealed problem, but those of the key document with the genuine one.
async fn rejecting(code: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let len = stream.read(&mut head).await.unwrap();
            let is_document = head[..len].starts_with(format!("GET {KEY_DOCUMENT_PATH} ").as_bytes());
            let (status, body) = match is_document {
                true => ("200 OK", document(1, 1, now_ms() + HOUR_MS).encode()),
                false => ("409 Conflict", Problem::new(code).encode()),
            };
            let answer =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

async fn error(client: &OneShot, method: Method) -> Error {
    let request = Request::builder().method(method).uri("/pay").body(Body::empty()).unwrap();
    client.send(request).await.map(drop).unwrap_err()
}

#[tokio::test]
async fn with_pinned_kids_a_retired_key_is_looked_up_anew() {
    let client = client(&rejecting("key_retired").await);
    // The forger gave the key a life without end.
    *client.0.document.lock().await = Some(document(1, 1, TIME_MS_MAX));
    let err = error(&client, Method::GET).await;
    assert_eq!((err.code(), err.is_retryable()), ("key_retired", false));
    assert_eq!(*client.0.document.lock().await, None);
    let key = client.0.key().await.unwrap();
    assert_eq!(key, config(1));
    assert!(client.0.document.lock().await.as_ref().unwrap().keys[0].use_until_ms < TIME_MS_MAX);
}

#[tokio::test]
async fn an_error_of_a_request_that_may_have_been_executed_says_so_whatever_its_code() {
    let unknown = "It is unknown whether the service has executed this request.";
    for (code, shown) in [
        ("key_retired", "key_retired"),
        ("unsealable", "unsealable"),
        ("rate_limited", "rate_limited"),
        ("session_expired", "session_expired"),
        // Codes of sealed problems, which were forged.
        ("policy", "unsealed"),
        ("clock_skew", "unsealed"),
        ("some_day", "some_day"),
    ] {
        let client = client(&rejecting(code).await);
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let err = error(&client, method).await;
            assert_eq!((err.stage(), err.code(), err.is_retryable()), (Stage::Call, shown, false));
            assert_eq!(err.to_string().matches(unknown).count(), 1, "{err}");
        }
        let err = error(&client, Method::GET).await;
        assert!(code == "session_expired" || !err.to_string().contains(unknown), "{err}");
    }
    // Nothing was sent where no connection is.
    let client = client("http://127.0.0.1:1");
    for (held, stage) in [(None, Stage::Agreement), (Some(document(1, 1, TIME_MS_MAX)), Stage::Call)] {
        *client.0.document.lock().await = held;
        let err = error(&client, Method::POST).await;
        assert_eq!((err.stage(), err.code(), err.is_retryable()), (stage, "unreachable", true));
        assert!(!err.to_string().contains(unknown), "{err}");
    }
}

#[test]
fn a_sealed_problem_but_a_skew_that_proves_the_stamp_too_old_may_follow_a_copy_that_was_served() {
    let client = client("http://127.0.0.1:1");
    for method in [Method::POST, Method::GET] {
        let line = Line { method: &method, path: "/", headers: &HeaderMap::new() };
        for code in SEALED_PROBLEMS {
            let pending = client.0.keys.begin(&config(1), &line, true).unwrap().pending;
            let Failure { err, remedy } = pending.problem(StatusCode::CONFLICT, Problem::new(code).encode().as_bytes());
            assert_eq!((err.code(), err.is_retryable(), remedy.is_some()), (code, false, false));
        }
    }
}
