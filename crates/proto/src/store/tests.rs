//! Rows and the lines of key-encryption keys: `vectors/store`, and their bounds.

extern crate std;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::keys::{KeyEncryptionKeys, KeyLineError, UnwrapError, WrappedKey};
use super::row::{Facts, Row, RowFault, encode};
use crate::crypto::default_provider;
use crate::session::{Auth, SessionKey, SessionRecord};
use crate::wire::{SessionId, Wire, base64};

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn parse(lines: &str) -> Result<KeyEncryptionKeys, KeyLineError> {
    KeyEncryptionKeys::parse(default_provider(), lines)
}

fn line(id: &str, first: u8) -> String {
    format!("{id} {}\n", base64::encode(&[first; 32]))
}

/// Opens a row, or returns the vectors' name of its failure.
fn open(keys: &KeyEncryptionKeys, row: Result<Row, RowFault>, until_ms: u64) -> Result<SessionRecord, &'static str> {
    let name = |fault| match fault {
        RowFault::Malformed => "malformed",
        RowFault::Unauthenticated(_) => "unauthenticated",
    };
    let row = row.map_err(name)?;
    let aad = row.aad(until_ms).map_err(name)?;
    match keys.unwrap(&aad, &row.wrapped) {
        Ok(key) => Ok(row.facts.with(key)),
        Err(UnwrapError::UnknownKek(_)) => Err("unknown_kek"),
        Err(_) => Err("damaged"),
    }
}

fn record() -> SessionRecord {
    SessionRecord {
        id: SessionId::from_random(&[3; 16], false),
        wire: Wire::Native,
        client_id: Some("web".into()),
        subject: None,
        tenant: Some("".into()),
        auth: Auth::Dpop,
        lineage: Some(SessionId::from_random(&[4; 16], false)),
        created_ms: 1,
        expires_ms: 2,
        key: SessionKey::from_bytes([5; 32]),
    }
}

#[test]
fn the_vectors_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/store");
    let mut opened = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display();
        let vector: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let (value, session) = (unhex(&vector["value_hex"]), &vector["session"]);
        let id = if session.is_null() { &vector["session_id"] } else { &session["id"] };
        let id = SessionId::parse(id.as_str().unwrap()).unwrap();
        let hex =
            |kek: &Value| format!("{} {}\n", kek["id"].as_str().unwrap(), base64::encode(&unhex(&kek["key_hex"])));
        let keys = parse(&vector["keks"].as_array().unwrap().iter().map(hex).collect::<String>()).unwrap();
        let (expires, row) = value.split_first_chunk::<8>().unwrap();
        let until_ms = vector["accept_until_ms"].as_u64().unwrap_or(0);
        let read = open(&keys, Row::parse(u64::from_be_bytes(*expires), id, row), until_ms);
        if vector["type"] == "row-refused" {
            assert_eq!(json!(read.map(|_| ()).unwrap_err()), vector["reason"], "{name}");
            continue;
        }
        let read = read.unwrap();
        let fields = json!({
            "id": read.id.as_str(), "wire": read.wire.number(), "client_id": read.client_id.as_deref(),
            "subject": read.subject.as_deref(), "tenant": read.tenant.as_deref(), "auth": read.auth.name(),
            "lineage": read.lineage.as_ref().map(SessionId::as_str), "created_ms": read.created_ms,
            "expires_ms": read.expires_ms, "key_hex": session["key_hex"],
        });
        assert_eq!(&fields, session, "{name}");
        assert_eq!(read.key.expose().as_slice(), unhex(&session["key_hex"]), "{name}");
        if vector["type"] == "row" {
            let aad = Facts::of(&read).aad();
            assert_eq!(aad, unhex(&vector["aad_hex"]), "{name}");
            let wrapped = keys.wrap(&aad, &read.key, &unhex(&vector["iv_hex"]).try_into().unwrap()).unwrap();
            // Later keys only unwrap.
            let is_first = keys.ids().next() == vector["kek_id"].as_str();
            assert_eq!(encode(&read, &wrapped) == row, is_first, "{name}");
        }
        opened += 1;
    }
    assert!(opened > 3);
}

#[test]
fn every_truncation_and_every_addition_of_a_row_is_malformed() {
    let record = record();
    let mut row = encode(&record, &WrappedKey { kek_id: "k".into(), bytes: [7; 60] });
    assert_eq!(Row::parse(2, record.id, &row).unwrap().wrapped.bytes, [7; 60]);
    for len in 0..row.len() {
        assert_eq!(Row::parse(2, record.id, &row[..len]).unwrap_err(), RowFault::Malformed, "{len}");
    }
    row.push(0);
    assert_eq!(Row::parse(2, record.id, &row).unwrap_err(), RowFault::Malformed);
}

#[test]
fn a_text_that_is_too_long_for_its_field_is_cut_and_not_taken_for_none() {
    let record = SessionRecord { subject: Some("s".repeat(70_000).into()), ..record() };
    let row = encode(&record, &WrappedKey { kek_id: "k".into(), bytes: [7; 60] });
    let subject = Row::parse(2, record.id, &row).unwrap().facts.subject;
    assert_eq!(subject.map(|subject| subject.len()), Some(65_534));
}

#[test]
fn a_row_names_its_key_by_1_to_64_visible_characters_and_no_session_has_a_pre_shared_key() {
    let read = |kek_id: &str, auth| {
        let record = SessionRecord { auth, ..record() };
        let wrapped = WrappedKey { kek_id: kek_id.into(), bytes: [7; 60] };
        Row::parse(2, record.id, &encode(&record, &wrapped)).map(|row| row.facts.auth)
    };
    for auth in Auth::ALL {
        assert_eq!(read(&"k".repeat(64), auth), Ok(auth));
    }
    for (kek_id, auth) in [("k".repeat(65), Auth::Dpop), ("a b".into(), Auth::Dpop), ("k".into(), Auth::Psk)] {
        assert_eq!(read(&kek_id, auth), Err(RowFault::Malformed), "{kek_id}");
    }
}

#[test]
fn lines_of_keys_are_read_strictly_and_an_error_has_the_number_of_its_line() {
    let longest = "a".repeat(32);
    let text = format!("# comment\n\n  {}{}", line("a-1", 1), line(&longest, 2));
    let keys = parse(&text).unwrap();
    assert_eq!(keys.ids().collect::<Vec<_>>(), ["a-1", &longest]);
    assert_eq!(format!("{keys:?}"), format!("[\"a-1\", \"{longest}\"]"));
    for bad in [
        "a\n".into(),
        line(&"a".repeat(33), 1),
        format!(" {}", line("", 1)),
        line("a.b", 1),
        line("z_9", 2),
        format!("b {}\n", base64::encode(&[1; 31])),
        "b !\n".into(),
    ] {
        let err = parse(&format!("\n{}{bad}", line("z_9", 1))).unwrap_err();
        assert_eq!(err.line, 3, "{bad} {err}");
    }
    let many = |count| (0..count).map(|number| line(&format!("k{number}"), number)).collect::<String>();
    assert_eq!(parse(&many(16)).unwrap().ids().count(), 16);
    for wrong in [many(17), String::new(), "# none\n".into()] {
        assert_eq!(parse(&wrong).unwrap_err().what, "expected 1 to 16 keys");
    }
}

#[test]
fn an_id_that_means_another_key_later_is_named() {
    let keys = parse(&format!("{}{}", line("a", 1), line("b", 2))).unwrap();
    for (later, contradicted) in [
        (format!("{}{}", line("b", 2), line("a", 1)), None),
        (format!("{}{}", line("a", 1), line("b", 3)), Some("b")),
        (line("a", 2), Some("a")),
        (line("c", 1), None),
    ] {
        assert_eq!(keys.contradicted_by(&parse(&later).unwrap()), contradicted, "{later}");
    }
}

#[test]
fn a_wrapped_key_opens_under_its_own_key_and_context_alone() {
    let keys = parse(&format!("{}{}", line("a", 1), line("b", 2))).unwrap();
    let wrapped = keys.wrap(b"context", &SessionKey::from_bytes([5; 32]), &[9; 12]).unwrap();
    assert_eq!((wrapped.kek_id.as_str(), &wrapped.bytes[..12]), ("a", &[9; 12][..]));
    assert_eq!(keys.unwrap(b"context", &wrapped).unwrap().expose(), &[5; 32]);
    assert_eq!(keys.unwrap(b"other", &wrapped).unwrap_err(), UnwrapError::Damaged);
    let renamed = WrappedKey { kek_id: "b".into(), ..wrapped.clone() };
    assert_eq!(keys.unwrap(b"context", &renamed).unwrap_err(), UnwrapError::Damaged);
    let unknown = WrappedKey { kek_id: "c".into(), ..wrapped };
    assert_eq!(keys.unwrap(b"context", &unknown).unwrap_err(), UnwrapError::UnknownKek("c".into()));
}
