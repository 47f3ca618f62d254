//! Keys at rest: the content that a thief of the file sees, and the start of a store with another file or key.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use crate::place::Place;
use sealway_proto::wire::{SessionId, base64};
use sealway_runtime::clock::ManualClock;
use sealway_runtime::config::Problems;
use sealway_sessions::config::{RawSessions, resolve};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::Store;
use sealway_testkit::store_contract::claims::{START_MS, agree, open, provider};

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[tokio::test]
async fn neither_the_store_nor_the_key_file_holds_a_session_key() {
    let place = Place::new();
    let store = place.open(START_MS);
    let held: Vec<_> = (0..8).map(|_| agree(Some("web"), 600, START_MS).server).collect();
    for session in &held {
        store.put(session.clone()).await.unwrap();
    }
    store.delete(held[0].id()).await.unwrap();
    store.sweep(START_MS + 1000).await.unwrap();
    let running = std::fs::read(place.file()).unwrap();
    drop(store);
    let closed = std::fs::read(place.file()).unwrap();
    let kek = std::fs::read(place.kek()).unwrap();
    // The search itself works: it finds ids.
    assert!(contains(&closed, held[1].id().as_str().as_bytes()));
    for session in &held {
        let key = session.record().key.expose();
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let base64 = base64::encode(key);
        for (name, bytes) in [("the running store", &running), ("the closed store", &closed), ("the key file", &kek)] {
            for needle in [key.as_slice(), hex.as_bytes(), hex.to_uppercase().as_bytes(), base64.as_bytes()] {
                assert!(!contains(bytes, needle), "{name} holds a session key");
            }
            // Nor half of one.
            assert!(!contains(bytes, &key[..16]) && !contains(bytes, &key[16..]), "{name} holds half a session key");
        }
    }
    // Nor does the store hold the key that wraps them.
    let line = String::from_utf8(kek).unwrap();
    let kek = line.trim().split_once(' ').unwrap().1;
    assert!(!contains(&closed, kek.as_bytes()) && !contains(&closed, &base64::decode(kek).unwrap()));
}

#[tokio::test]
async fn the_store_and_a_generated_key_file_are_their_owners_alone() {
    let place = Place::new();
    let _store = place.open(START_MS);
    for file in [place.file(), place.kek()] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_store_is_opened_once_at_a_time() {
    let place = Place::new();
    let store = place.open(START_MS);
    let err = place.try_open(START_MS).unwrap_err();
    assert!(err.contains("sessions.redb") && err.contains("another process uses it"), "{err}");
    drop(store);
    place.open(START_MS);
}

#[tokio::test]
async fn a_wrong_key_is_named_with_its_file_and_nothing_is_lost() {
    let place = Place::new();
    let session = agree(Some("web"), 600, START_MS).server;
    let store = place.open(START_MS);
    store.put(session.clone()).await.unwrap();
    drop(store);
    let right = std::fs::read_to_string(place.kek()).unwrap();
    let id = right.split_once(' ').unwrap().0;

    // The key file has another id, or another key under the same id.
    let other = base64::encode(&[7; 32]);
    for (name, text, what) in [
        ("another id", format!("other {other}\n"), "which the key file does not hold"),
        ("another key", format!("{id} {other}\n"), "is another one than the store was written with"),
        ("another key behind", format!("new {other}\n{id} {other}\n"), "is another one than the store was"),
    ] {
        std::fs::write(place.kek(), text).unwrap();
        let err = place.try_open(START_MS + 1).unwrap_err();
        assert!(err.contains("sessions.redb") && err.contains("sessions.kek"), "{name}: {err}");
        assert!(err.contains(what) && err.contains(id), "{name}: {err}");
        assert!(!err.contains(&other), "{name}: the error tells a key");
    }
    std::fs::remove_file(place.kek()).unwrap();
    let err = place.try_open(START_MS + 1).unwrap_err();
    assert!(err.contains("sessions.kek"), "{err}");

    std::fs::write(place.kek(), right).unwrap();
    assert!(place.open(START_MS + 1).get(session.id()).await.unwrap().is_some());
}

#[tokio::test]
async fn rows_are_wrapped_anew_while_the_store_is_open_and_the_old_key_is_no_longer_needed() {
    let place = Place::new();
    let agreed: Vec<_> = (0..25).map(|_| agree(Some("web"), 600, START_MS)).collect();
    let store = place.open(START_MS);
    for agreed in &agreed {
        store.put(agreed.server.clone()).await.unwrap();
    }
    assert_eq!(store.rewrap(10).await, Ok(0), "nothing is to be done");
    let second = sealway_sessions::kek::add(provider(), &place.kek()).unwrap();
    assert_eq!(store.rewrap(10).await, Ok(0), "a key that does not wrap changes nothing");
    sealway_sessions::kek::make_first(provider(), &place.kek(), &second).unwrap();
    // Interrupted, with a revocation and a restart in between, and then continued.
    assert_eq!(store.rewrap(10).await, Ok(10));
    let revoked = agreed[3].server.id();
    assert!(store.delete(revoked).await.unwrap());
    drop(store);
    let store = place.open(START_MS + 1);
    let mut left = 0;
    loop {
        match store.rewrap(4).await.unwrap() {
            0 => break,
            some => left += some,
        }
    }
    assert!((14..=15).contains(&left), "{left}");
    drop(store);
    let text = std::fs::read_to_string(place.kek()).unwrap();
    std::fs::write(place.kek(), text.lines().next().unwrap()).unwrap();
    let store = place.open(START_MS + 2);
    for agreed in &agreed {
        let found = store.get(agreed.server.id()).await.unwrap();
        assert_eq!(found.is_none(), agreed.server.id() == revoked);
        if let Some(session) = found {
            open(&agreed.seal("rewrapped", START_MS + 3), session, START_MS + 3);
        }
    }
}

#[tokio::test]
async fn a_key_is_rotated_by_putting_a_new_one_in_front_and_taking_the_old_one_out_later() {
    let place = Place::new();
    let (old, new) = (agree(Some("web"), 600, START_MS), agree(Some("web"), 900, START_MS));
    let store = place.open(START_MS);
    store.put(old.server.clone()).await.unwrap();
    drop(store);
    let first = std::fs::read_to_string(place.kek()).unwrap();
    let second = format!("second {}\n", base64::encode(&[9; 32]));

    std::fs::write(place.kek(), format!("# rotated\n\n{second}{first}")).unwrap();
    assert_eq!(KeyRing::load(provider(), &place.kek()).unwrap().active_id(), "second");
    let store = place.open(START_MS + 1);
    store.put(new.server.clone()).await.unwrap();
    drop(store);
    let store = place.open(START_MS + 2);
    for agreed in [&old, &new] {
        let session = store.get(agreed.server.id()).await.unwrap().unwrap();
        open(&agreed.seal("rotated", START_MS + 3), session, START_MS + 3);
    }
    // The last session under the old key has expired.
    store.sweep(START_MS + 600_000).await.unwrap();
    drop(store);
    std::fs::write(place.kek(), second).unwrap();
    let store = place.open(START_MS + 600_001);
    assert!(store.get(new.server.id()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_row_is_left_out_and_the_others_live() {
    for damage in ["wrapped key", "version", "length", "empty"] {
        let place = Place::new();
        let held: Vec<_> = (0..3).map(|n| agree(Some("web"), 600 + n, START_MS).server).collect();
        let store = place.open(START_MS);
        for session in &held {
            store.put(session.clone()).await.unwrap();
        }
        drop(store);
        place.edit(|rows| {
            let row = &mut rows[1].1;
            match damage {
                "wrapped key" => *row.last_mut().unwrap() ^= 1,
                "version" => row[0] = 9,
                "length" => row.truncate(row.len() - 1),
                _ => row.clear(),
            }
        });
        let store = place.open(START_MS + 1);
        let mut found = Vec::new();
        for session in &held {
            found.push(store.get(session.id()).await.unwrap().is_some());
        }
        assert_eq!(found, [true, false, true], "{damage}");
        assert_eq!(store.status().sessions, 2);
    }
}

#[tokio::test]
async fn a_row_that_was_moved_to_another_id_does_not_unwrap() {
    let place = Place::new();
    let session = agree(Some("web"), 600, START_MS).server;
    let store = place.open(START_MS);
    store.put(session.clone()).await.unwrap();
    drop(store);
    let thief = SessionId::from_random(&[1; 16], false);
    place.edit(|rows| {
        let mut key = rows[0].0[..8].to_vec();
        key.extend_from_slice(thief.as_str().as_bytes());
        let moved = (key, rows[0].1.clone());
        rows.push(moved);
    });
    let store = place.open(START_MS + 1);
    assert!(store.get(&thief).await.unwrap().is_none());
    assert!(store.get(session.id()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_by_name() {
    let place = Place::new();
    std::fs::write(place.file(), b"something else entirely").unwrap();
    let err = place.try_open(START_MS).unwrap_err();
    assert!(err.contains("sessions.redb"), "{err}");
    assert_eq!(std::fs::read(place.file()).unwrap(), b"something else entirely");
}

#[tokio::test]
async fn a_missing_key_file_is_made_only_where_that_is_allowed() {
    let place = Place::new();
    std::fs::remove_file(place.kek()).unwrap();
    let start = async |allow: bool| {
        let store = format!("file:{}", place.file().display());
        let raw = serde_json::json!({"store": store, "allow_generated_kek": allow});
        let raw: RawSessions = serde_json::from_value(raw).unwrap();
        let mut problems = Problems::default();
        let config = resolve(&raw, &Default::default(), &Default::default(), None, &mut problems);
        problems.into_result().unwrap();
        config.start(provider(), Arc::new(ManualClock::new(START_MS))).await.map_err(|err| err.to_string())
    };
    let err = start(false).await.unwrap_err();
    assert!(err.contains("sessions.kek") && err.contains("allow_generated_kek"), "{err}");
    assert!(!place.kek().exists() && !place.file().exists(), "a refused start left something behind");

    let session = agree(Some("web"), 600, START_MS).server;
    start(true).await.unwrap().store().put(session.clone()).await.unwrap();
    // A missing key file is not created while there are sessions that need the old one.
    let kek = std::fs::read(place.kek()).unwrap();
    std::fs::remove_file(place.kek()).unwrap();
    let err = start(true).await.unwrap_err();
    assert!(err.contains("sessions.redb") && err.contains("put that key back"), "{err}");
    std::fs::write(place.kek(), kek).unwrap();
    assert!(start(false).await.unwrap().store().get(session.id()).await.unwrap().is_some());
}
