//! Tests of writing and reading rows.

use std::sync::Arc;

use futures_util::FutureExt;
use sealway_proto::crypto::default_provider;
use sealway_proto::wire::base64;

use sealway_proto::session::{Auth, SessionKey};
use sealway_proto::wire::Wire;

use super::*;
use crate::kek::{KeyRing, UnauthenticatedUntil};

/// Decodes a row; a key ring answers at once.
fn decode(key: &[u8], row: &[u8], keys: &dyn KeyWrap) -> Result<SessionRecord, RowError> {
    super::open(keys, parse(key, row)?).now_or_never().unwrap()
}

fn ring() -> KeyRing {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kek");
    KeyRing::generate(default_provider(), &file).unwrap();
    KeyRing::load(default_provider(), &file).unwrap()
}

fn record(wire: Wire, client_id: Option<&str>, subject: Option<&str>) -> SessionRecord {
    SessionRecord {
        id: SessionId::from_random(&[3; 16], wire == Wire::V1),
        wire,
        client_id: client_id.map(Into::into),
        subject: subject.map(Into::into),
        tenant: None,
        auth: Auth::None,
        lineage: None,
        created_ms: 1,
        expires_ms: u64::MAX,
        key: SessionKey::from_bytes([5; 32]),
    }
}

fn written(record: &SessionRecord, keys: &KeyRing) -> (Vec<u8>, Vec<u8>) {
    let wrapped = seal(keys, record).now_or_never().unwrap().unwrap();
    (session_key(record.expires_ms, &record.id), encode(record, &wrapped))
}

#[test]
fn a_row_comes_back_as_it_was_written() {
    let keys = ring();
    let long = "é".repeat(128);
    for record in [
        record(Wire::V1, None, None),
        record(Wire::V2, Some("web"), None),
        record(Wire::V2, Some(""), Some(&long)),
        record(Wire::V1, None, Some("alice")),
        SessionRecord { auth: Auth::Bearer, ..record(Wire::V2, Some("web"), None) },
        SessionRecord { tenant: Some("".into()), ..record(Wire::V1, None, None) },
        SessionRecord {
            auth: Auth::Dpop,
            tenant: Some("acme".into()),
            ..record(Wire::Native, Some("app"), Some("bob"))
        },
        SessionRecord { auth: Auth::Certificate, ..record(Wire::Native, Some("app"), Some("bob")) },
        SessionRecord {
            lineage: Some(SessionId::from_random(&[4; 16], false)),
            ..record(Wire::Native, Some("app"), Some("bob"))
        },
        record(Wire::Native, Some("app"), None),
    ] {
        let (key, row) = written(&record, &keys);
        let back = decode(&key, &row, &keys).unwrap();
        assert_eq!((back.id, back.wire), (record.id, record.wire));
        assert_eq!((&back.client_id, &back.subject), (&record.client_id, &record.subject));
        assert_eq!((&back.tenant, back.auth, back.lineage), (&record.tenant, record.auth, record.lineage));
        assert_eq!((back.created_ms, back.expires_ms), (record.created_ms, record.expires_ms));
        assert_eq!(back.key.expose(), record.key.expose());
    }
}

#[test]
fn every_truncation_and_every_addition_is_malformed() {
    let keys = ring();
    let plain = record(Wire::V2, Some("web"), Some("alice"));
    let full = SessionRecord { tenant: Some("acme".into()), ..record(Wire::Native, Some("web"), Some("alice")) };
    for record in [plain, full] {
        let (key, mut row) = written(&record, &keys);
        for len in 0..row.len() {
            assert_eq!(
                decode(&key, &row[..len], &keys).unwrap_err(),
                RowError::Row(RowFault::Malformed),
                "{len} bytes"
            );
        }
        for len in 0..key.len() {
            assert_eq!(
                decode(&key[..len], &row, &keys).unwrap_err(),
                RowError::Row(RowFault::Malformed),
                "a key of {len} bytes"
            );
        }
        row.push(0);
        assert_eq!(decode(&key, &row, &keys).unwrap_err(), RowError::Row(RowFault::Malformed));
    }
}

#[test]
fn no_bit_of_a_row_can_be_changed() {
    let keys = ring();
    let record = SessionRecord {
        tenant: Some("acme".into()),
        lineage: Some(SessionId::from_random(&[4; 16], false)),
        expires_ms: 9,
        ..record(Wire::Native, Some("web"), Some("alice"))
    };
    let (key, row) = written(&record, &keys);
    for bit in 0..8 {
        for index in 0..row.len() {
            let mut changed = row.clone();
            changed[index] ^= 1 << bit;
            decode(&key, &changed, &keys).expect_err(&format!("byte {index} of the row"));
        }
        for index in 0..key.len() {
            let mut changed = key.clone();
            changed[index] ^= 1 << bit;
            decode(&changed, &row, &keys).expect_err(&format!("byte {index} of its key"));
        }
    }
}

/// Reads every value of `vectors/store/`, and writes it where its random numbers are given.
#[test]
fn the_vectors_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/store");
    let mut seen = [0; 3];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        let vector: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let value = unhex(&vector["value_hex"]);
        let session = &vector["session"];
        let id = if session.is_null() { &vector["session_id"] } else { &session["id"] };
        let id = SessionId::parse(id.as_str().unwrap()).unwrap();
        let keys = UnauthenticatedUntil::new(keks(&vector["keks"]), vector["accept_until_ms"].as_u64().unwrap_or(0));
        let (expires, row) = value.split_first_chunk::<8>().unwrap();
        let read = decode(&session_key(u64::from_be_bytes(*expires), &id), row, &keys);
        let kind = match vector["type"].as_str().unwrap() {
            "row" => 0,
            "row-old" => 1,
            "row-refused" => 2,
            other => panic!("{name}: unknown type {other}"),
        };
        seen[kind] += 1;
        if kind == 2 {
            let reason = match read.expect_err(&name) {
                RowError::Row(RowFault::Malformed) => "malformed",
                RowError::Row(RowFault::Unauthenticated(_)) => "unauthenticated",
                RowError::Key(UnwrapError::UnknownKek(_)) => "unknown_kek",
                RowError::Key(_) => "damaged",
            };
            assert_eq!(vector["reason"], reason, "{name}");
            continue;
        }
        let read = read.expect(&name);
        let text = |text: &Option<Box<str>>| serde_json::json!(text.as_deref());
        assert_eq!(read.wire.number(), session["wire"].as_u64().unwrap() as u8, "{name}");
        assert_eq!(text(&read.client_id), session["client_id"], "{name}");
        assert_eq!(text(&read.subject), session["subject"], "{name}");
        // Version 1 has neither.
        if kind == 0 {
            assert_eq!(text(&read.tenant), session["tenant"], "{name}");
            assert_eq!(read.auth.name(), session["auth"], "{name}");
            let lineage = read.lineage.as_ref().map(SessionId::as_str);
            assert_eq!(serde_json::json!(lineage), session["lineage"], "{name}");
            assert_eq!(Facts::of(&read).aad(), unhex(&vector["aad_hex"]), "{name}");
            let kek_id = vector["kek_id"].as_str().unwrap();
            let bytes = value[value.len() - 60..].try_into().unwrap();
            assert_eq!(encode(&read, &WrappedKey { kek_id: kek_id.into(), bytes }), row, "{name}");
        }
        assert_eq!(
            (read.created_ms, read.expires_ms),
            (session["created_ms"].as_u64().unwrap(), session["expires_ms"].as_u64().unwrap())
        );
        assert_eq!(read.key.expose().as_slice(), unhex(&session["key_hex"]), "{name}");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

fn unhex(text: &serde_json::Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn keks(keks: &serde_json::Value) -> Arc<KeyRing> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kek");
    let line = |kek: &serde_json::Value| {
        format!("{} {}\n", kek["id"].as_str().unwrap(), base64::encode(&unhex(&kek["key_hex"])))
    };
    std::fs::write(&file, keks.as_array().unwrap().iter().map(line).collect::<String>()).unwrap();
    Arc::new(KeyRing::load(default_provider(), &file).unwrap())
}

#[test]
fn a_row_under_another_key_says_which() {
    let (keys, others) = (ring(), ring());
    let (key, row) = written(&record(Wire::V2, Some("web"), None), &keys);
    let missing = UnwrapError::UnknownKek(keys.active_id());
    assert_eq!(decode(&key, &row, &others).unwrap_err(), RowError::Key(missing));
}

#[test]
fn rows_of_an_earlier_release_are_warned_of_once() {
    let (log, warned) = (tempfile::NamedTempFile::new().unwrap(), Once::new());
    let subscriber = tracing_subscriber::fmt().with_writer(log.reopen().unwrap()).finish();
    tracing::subscriber::with_default(subscriber, || {
        for version in [2, 1] {
            warn_once(&warned, version);
        }
    });
    let text = std::fs::read_to_string(log.path()).unwrap();
    assert_eq!(text.matches("sessions.accept_unauthenticated_rows_until").count(), 1, "{text}");
}
