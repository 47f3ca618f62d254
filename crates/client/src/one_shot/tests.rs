//! Keys and clock of a client of wire 4, against forged documents and a thief of a key.

use sealway_proto::hpke::{Aead, Kem, PrivateKey};
use sealway_proto::one_shot::DocumentKey;

use super::*;
use crate::Client;

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
    let pending = client.0.begin(&config(1), &line, true).unwrap().pending;
    let problem = Problem::new("clock_skew").with("server_time_ms", server_time_ms);
    pending.problem(StatusCode::BAD_REQUEST, problem.encode().as_bytes())
}

#[test]
fn a_key_ends_by_the_own_clock_wherever_a_sealed_skew_moves_the_stamps() {
    let client = client("http://127.0.0.1:1");
    let (over, lasting) = (document(1, 1, now_ms() - 1), document(1, 1, now_ms() + HOUR_MS));
    for server_time_ms in [0, now_ms() - 24 * HOUR_MS, now_ms() + 24 * HOUR_MS, TIME_MS_MAX] {
        assert!(skew(&client, server_time_ms).err.is_retryable());
        assert!(client.0.stamp_ms().abs_diff(server_time_ms) < HOUR_MS);
        assert_eq!(client.0.choose(&over), None);
        assert_eq!(client.0.choose(&lasting), Some(config(1)));
    }
}

#[test]
fn a_skew_to_a_time_that_no_stamp_can_have_moves_nothing() {
    let client = client("http://127.0.0.1:1");
    for server_time_ms in [TIME_MS_MAX + 1, u64::MAX] {
        let Failure { err, remedy } = skew(&client, server_time_ms);
        assert!(remedy.is_none() && !err.is_retryable(), "{err}");
        assert!(client.0.stamp_ms().abs_diff(now_ms()) < HOUR_MS);
    }
}
