//! `wire-parse`: every text format of the protocols. An accepted text encodes to itself.
//!
//! Input: lines. Every parser gets each line; together, as `name: value`, the lines are the headers of a call.

use sealway_proto::limits::{CLIENT_ID_LEN_MAX, NONCE_LEN_MAX, NONCE_LEN_MIN, NONCE_LEN_MIN_V1, TIMESTAMP_DIGITS_MAX};
use sealway_proto::session::SealedCall;
use sealway_proto::wire::header::{A256GCM, X_CLIENT_ID, X_ENC_ALG, X_IDEMPOTENCY_KEY, X_KID, X_NONCE, X_TIMESTAMP};
use sealway_proto::wire::{ClientId, Nonce, ReplayPolicy, SessionId, Timestamp, Wire, base64, idempotency, nonce};

use crate::party::NOW_MS;

/// The fuzz target for text formats.
pub fn wire_parse(data: &[u8]) {
    assert_eq!(base64::decode(base64::encode(data)).as_deref(), Ok(data));
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut headers = Vec::new();
    for line in text.split('\n') {
        let value = match line.split_once(": ") {
            Some((name, value)) => {
                headers.push((name, value));
                value
            }
            None => line,
        };
        alone(value);
        if let Ok((stamp, nonce)) = idempotency::split(value) {
            assert_eq!(format!("{stamp}.{nonce}"), value);
            assert!(!stamp.is_empty() && !nonce.is_empty() && value.matches('.').count() == 1);
            alone(stamp);
            alone(nonce);
        }
    }
    together(&headers);
}

fn is_nonce(text: &str, len_min: usize) -> bool {
    let alphabet = |c: char| matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-');
    text.len() >= len_min && text.len() <= NONCE_LEN_MAX && text.chars().all(alphabet)
}

/// Checks one text against a plain description of its format.
fn alone(text: &str) {
    for len_min in [NONCE_LEN_MIN, NONCE_LEN_MIN_V1] {
        let reserved = text.starts_with("r-") || text.starts_with("R-");
        let parsed = Nonce::parse(text, len_min);
        assert_eq!(parsed.is_ok(), is_nonce(text, len_min) && !reserved);
        let of_answer = nonce::check_answer(text, len_min);
        assert_eq!(of_answer.is_ok(), is_nonce(text, len_min) && text.starts_with("r-"));
        assert!(parsed.is_err() || of_answer.is_err(), "a nonce of both kinds");
    }

    let digits = (1..=TIMESTAMP_DIGITS_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_digit());
    let stamp = Timestamp::parse(text);
    assert_eq!(stamp.is_ok(), digits);
    if let Ok(stamp) = stamp {
        assert_eq!(stamp.as_str(), text);
        assert_eq!(format!("{:0width$}", stamp.ms(), width = text.len()), text);
        let policy = ReplayPolicy::new(stamp.ms() / 2, 0);
        assert_eq!(policy.nonce_ttl_ms(), policy.window_ms() * 2);
        let early = NOW_MS.saturating_sub(stamp.ms()) > policy.window_ms();
        let late = stamp.ms().saturating_sub(NOW_MS) > policy.window_ms();
        assert_eq!(policy.check(&stamp, NOW_MS).is_err(), early || late);
    }

    if let Ok(bytes) = base64::decode(text) {
        assert_eq!(base64::encode(&bytes), text, "base64 that is not canonical");
        assert_eq!(base64::decode_array::<12>(text).is_ok(), bytes.len() == 12);
        assert_eq!(base64::decode_array::<16>(text).is_ok(), bytes.len() == 16);
    }

    let client_id = (1..=CLIENT_ID_LEN_MAX).contains(&text.len())
        && text.chars().all(|c| (c == ' ' || c.is_ascii_graphic()) && c != '|');
    assert_eq!(ClientId::parse(text).is_ok(), client_id);

    let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    let is_id = |id: &str| id.len() == 32 && id.chars().all(hex);
    let id = SessionId::parse(text);
    assert_eq!(id.is_ok(), text.strip_prefix("S-").or(text.strip_prefix("A-")).is_some_and(is_id));
    if let Ok(id) = id {
        assert_eq!(id.as_str(), text);
        assert_eq!(id.is_anonymous(), text.starts_with('A'));
        assert_eq!(SessionId::from_kid(&id.kid()), Ok(Ok(id)));
    }
    match SessionId::from_kid(text) {
        Ok(Ok(id)) => assert_eq!(id.kid(), text),
        Ok(Err(_)) => assert!(text.starts_with("session:")),
        Err(_) => assert!(!text.starts_with("session:")),
    }
}

/// Checks the headers of a call: an accepted call has each of its headers once, in the right format.
fn together(headers: &[(&str, &str)]) {
    let headers: Vec<_> = headers.to_vec();
    let count = |name: &str| headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count();
    let once = |name: &str| {
        assert_eq!(count(name), 1, "{name}");
        headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| *value)
    };
    let Ok(call) = SealedCall::parse(&headers, "/path", NOW_MS, &ReplayPolicy::default()) else { return };
    let kid = once(X_KID);
    assert_eq!(call.session_id().map(SessionId::kid).ok(), kid.strip_prefix("session:").and_then(kid_of));
    let (stamp, nonce) = if count(X_NONCE) > 0 && count(X_IDEMPOTENCY_KEY) == 0 {
        assert_eq!(Wire::of(&headers), Wire::V1);
        assert_eq!(once(X_ENC_ALG), A256GCM);
        (once(X_TIMESTAMP), once(X_NONCE))
    } else {
        assert_eq!(Wire::of(&headers), Wire::V2);
        assert!(ClientId::parse(once(X_CLIENT_ID)).is_ok());
        once(X_IDEMPOTENCY_KEY).split_once('.').expect("the key was split")
    };
    assert!(Nonce::parse(nonce, NONCE_LEN_MIN).is_ok());
    let stamp = Timestamp::parse(stamp).expect("the stamp was read");
    assert!(stamp.ms().abs_diff(NOW_MS) <= ReplayPolicy::default().window_ms());
}

fn kid_of(id: &str) -> Option<String> {
    SessionId::parse(id).ok().map(|id| id.kid())
}
