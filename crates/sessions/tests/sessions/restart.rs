//! State of the embedded store after a restart, in order and after a crash: sessions, and every nonce.

use std::sync::Arc;

use crate::place::Place;
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::{Embedded, MemoryLimits, ReserveError, Store, StoreError};
use sealway_testkit::store_contract::claims::{START_MS, agree, init, open, provider};
use sealway_testkit::store_contract::of_chain;

/// A time a little longer than a crash's margin.
const SOON_MS: u64 = 2000;

#[tokio::test]
async fn a_session_survives_a_restart_and_still_opens_a_sealed_call() {
    let place = Place::new();
    let (wire2, wire1) = (agree(Some("web"), 600, START_MS), agree(None, 600, START_MS));
    let store = place.open(START_MS);
    store.put(wire2.server.clone()).await.unwrap();
    store.put(wire1.server.clone()).await.unwrap();
    drop(store);

    let now_ms = START_MS + SOON_MS;
    let store = place.open(now_ms);
    assert_eq!(store.status().sessions, 2);
    for agreed in [wire2, wire1] {
        let message = agreed.seal("after-the-restart", now_ms + 1);
        let session = store.get(agreed.server.id()).await.unwrap().unwrap();
        assert_eq!(session.record().subject, agreed.server.record().subject);
        assert_eq!(session.record().expires_ms, agreed.server.record().expires_ms);
        let opened = open(&message, session, now_ms + 1);
        let fresh = store.reserve(opened.claim()).await.unwrap();
        assert_eq!(opened.release(fresh).unwrap().plaintext.as_slice(), b"{}");
    }
}

/// Stamps around the clock, with the nonces granted for them.
const STAMPS: [(&str, u64); 5] = [
    ("long-before", START_MS - 299_000),
    ("just-before", START_MS - 1),
    ("at", START_MS),
    ("just-ahead", START_MS + 1),
    ("far-ahead", START_MS + 299_000),
];

#[tokio::test]
async fn a_replay_is_refused_after_a_restart_whether_stamped_before_at_or_ahead_of_the_clock() {
    for crash in [false, true] {
        let place = Place::new();
        let agreed = agree(Some("web"), 3600, START_MS);
        let store = place.open(START_MS - 300_000);
        store.put(agreed.server.clone()).await.unwrap();
        for (nonce, stamp_ms) in STAMPS {
            store.reserve(agreed.call(nonce, stamp_ms, START_MS).claim()).await.unwrap();
            store.reserve(init(Some("web"), nonce, stamp_ms, START_MS).claim()).await.unwrap();
        }
        let place = if crash { place.crashed() } else { place };
        drop(store);

        // The restart takes no time, or is over after some of the stamps; then another restart follows.
        for now_ms in [START_MS, START_MS + 1, START_MS + 5000] {
            let store = place.open(now_ms);
            for (nonce, stamp_ms) in STAMPS {
                let session = store.get(agreed.server.id()).await.unwrap().unwrap();
                let replay = *open(&agreed.seal(nonce, stamp_ms), session, START_MS).claim();
                let refused = store.reserve(&replay).await.unwrap_err();
                assert_eq!(refused, ReserveError::Replayed, "{nonce}, crash: {crash}");
                let replay = *init(Some("web"), nonce, stamp_ms, now_ms.min(START_MS)).claim();
                assert_eq!(store.reserve(&replay).await.unwrap_err(), ReserveError::Replayed, "init {nonce}");
            }
        }
    }
}

#[tokio::test]
async fn a_fresh_request_stamped_after_the_restart_is_accepted() {
    let place = Place::new();
    let agreed = agree(Some("web"), 600, START_MS);
    let store = place.open(START_MS);
    store.put(agreed.server.clone()).await.unwrap();
    store.reserve(agreed.call("one", START_MS, START_MS).claim()).await.unwrap();
    drop(store);
    let store = place.open(START_MS);
    // Closed in order: the very next millisecond is accepted, and so is a stamp ahead of the clock.
    store.reserve(agreed.call("two", START_MS + 1, START_MS + 1).claim()).await.unwrap();
    store.reserve(agreed.call("three", START_MS + 9000, START_MS + 1).claim()).await.unwrap();
    // Stamps from before the restart are rejected, used or not.
    let unused = *agreed.call("four", START_MS, START_MS + 1).claim();
    assert_eq!(store.reserve(&unused).await.unwrap_err(), ReserveError::Replayed);
}

#[tokio::test]
async fn after_a_crash_requests_are_accepted_again_within_half_a_second() {
    let place = Place::new();
    let agreed = agree(Some("web"), 600, START_MS);
    let store = place.open(START_MS - 60_000);
    store.reserve(agreed.call("one", START_MS, START_MS).claim()).await.unwrap();
    store.put(agreed.server.clone()).await.unwrap();
    let store = place.crashed().open(START_MS);
    let now_ms = START_MS + 501;
    store.reserve(agreed.call("two", now_ms, now_ms).claim()).await.unwrap();
}

#[tokio::test]
async fn the_floor_holds_when_the_clock_steps_back_across_the_restart() {
    for crash in [false, true] {
        let place = Place::new();
        let agreed = agree(Some("web"), 3600, START_MS);
        let store = place.open(START_MS - 300_000);
        store.put(agreed.server.clone()).await.unwrap();
        // No sweep happens in between: the floor must not depend on one.
        for n in 0..5 {
            let now_ms = START_MS + 1000 * n;
            store.reserve(agreed.call(&format!("n{n}"), now_ms, now_ms).claim()).await.unwrap();
            // A commit, so that earlier changes in the writer's queue are on the disk too.
            store.put(agree(Some("web"), 600, now_ms).server).await.unwrap();
        }
        let place = if crash { place.crashed() } else { place };
        drop(store);

        let store = place.open(START_MS - 120_000);
        for n in 0..5 {
            let replay = *agreed.call(&format!("n{n}"), START_MS + 1000 * n, START_MS - 100_000).claim();
            let refused = store.reserve(&replay).await.map(|_| ());
            assert_eq!(refused, Err(ReserveError::Replayed), "n{n}, crash: {crash}");
        }
        let now_ms = START_MS + 4000 + 501;
        store.reserve(agreed.call("fresh", now_ms, now_ms).claim()).await.unwrap();
    }
}

#[tokio::test]
async fn a_journal_swept_under_a_clock_that_was_wrong_readmits_nothing() {
    for crash in [false, true] {
        let place = Place::new();
        let agreed = agree(Some("web"), 3600, START_MS);
        let store = place.open(START_MS);
        let (stamp_ms, wrong_ms) = (START_MS + 60_000, START_MS + 1_200_000);
        store.reserve(agreed.call("ahead", stamp_ms, START_MS + 1).claim()).await.unwrap();
        store.sweep(wrong_ms).await.unwrap();
        let place = if crash { place.crashed() } else { place };
        drop(store);
        let store = place.open(START_MS + 2000);
        let replay = *agreed.call("ahead", stamp_ms, START_MS + 3000).claim();
        assert_eq!(store.reserve(&replay).await.unwrap_err(), ReserveError::Replayed);
    }
}

#[tokio::test]
async fn the_first_start_of_a_new_store_has_no_floor() {
    let place = Place::new();
    let agreed = agree(Some("web"), 600, START_MS);
    let store = place.open(START_MS);
    for (nonce, stamp_ms) in STAMPS {
        store.reserve(agreed.call(nonce, stamp_ms, START_MS).claim()).await.unwrap();
    }
}

#[tokio::test]
async fn a_deleted_session_stays_deleted() {
    let place = Place::new();
    let (gone, kept) = (agree(Some("web"), 600, START_MS).server, agree(Some("web"), 600, START_MS).server);
    let store = place.open(START_MS);
    store.put(gone.clone()).await.unwrap();
    store.put(kept.clone()).await.unwrap();
    assert_eq!(store.delete(gone.id()).await, Ok(true));
    let place = place.crashed();
    let store = place.open(START_MS + 1);
    assert!(store.get(gone.id()).await.unwrap().is_none());
    assert!(store.get(kept.id()).await.unwrap().is_some());
    assert_eq!(store.delete(gone.id()).await, Ok(false));
}

#[tokio::test]
async fn expired_rows_are_gone_from_the_file_after_a_sweep() {
    let place = Place::new();
    let agreed = agree(Some("web"), 3600, START_MS);
    let store = place.open(START_MS);
    for ttl_sec in [60, 61, 62] {
        store.put(agree(Some("web"), ttl_sec, START_MS).server).await.unwrap();
    }
    store.reserve(agreed.call("ahead", START_MS + 1, START_MS).claim()).await.unwrap();
    store.sweep(START_MS + 61_000).await.unwrap();
    drop(store);
    assert_eq!((place.sessions().len(), place.nonces()), (1, 1));

    let store = place.open(START_MS + 61_000);
    store.sweep(START_MS + 600_001).await.unwrap();
    drop(store);
    assert_eq!((place.sessions().len(), place.nonces()), (0, 0));
}

#[tokio::test]
async fn a_session_that_is_over_at_the_start_is_not_brought_back() {
    let place = Place::new();
    let store = place.open(START_MS);
    let session = agree(Some("web"), 60, START_MS).server;
    store.put(session.clone()).await.unwrap();
    drop(store);
    let store = place.open(START_MS + 60_000);
    assert!(store.get(session.id()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_session_is_on_the_disk_when_put_returns() {
    let place = Place::new();
    let store = place.open(START_MS);
    for n in 0..20 {
        let agreed = agree(Some("web"), 600, START_MS);
        store.put(agreed.server.clone()).await.unwrap();
        let copy = place.crashed();
        let restarted = copy.open(START_MS + 1);
        let session = restarted.get(agreed.server.id()).await.unwrap().expect("the session that was just put");
        open(&agreed.seal("after", START_MS + 2), session, START_MS + 2);
        assert_eq!(restarted.status().sessions, n + 1);
    }
}

#[tokio::test]
async fn a_nonce_stamped_ahead_is_on_the_disk_when_reserve_returns() {
    let place = Place::new();
    let agreed = agree(Some("web"), 600, START_MS);
    let store = place.open(START_MS);
    for n in 0..10 {
        let call = || *agreed.call(&format!("n{n}"), START_MS + 200_000, START_MS + 1).claim();
        store.reserve(&call()).await.unwrap();
        let restarted = place.crashed().open(START_MS + 1);
        assert_eq!(restarted.reserve(&call()).await.unwrap_err(), ReserveError::Replayed);
    }
}

#[tokio::test]
async fn a_lowered_bound_locks_nobody_out_and_readmits_nothing() {
    let place = Place::new();
    let agreed = agree(Some("web"), 600, START_MS);
    let store = place.open(START_MS);
    let held: Vec<_> = (0..4).map(|_| agree(Some("web"), 600, START_MS).server).collect();
    for session in &held {
        store.put(session.clone()).await.unwrap();
    }
    let ahead = |n: usize| *agreed.call(&format!("n{n}"), START_MS + 200_000, START_MS + 1).claim();
    for n in 0..4 {
        store.reserve(&ahead(n)).await.unwrap();
    }
    drop(store);
    let limits = MemoryLimits { sessions_max: 2, nonces_max: 2, nonces_cleanup_from: 1 };
    let keys = KeyRing::load(provider(), &place.kek()).unwrap();
    let store = Embedded::open(provider(), &place.file(), Arc::new(keys), limits, START_MS + 2).unwrap();
    for session in &held {
        assert!(store.get(session.id()).await.unwrap().is_some());
    }
    assert_eq!(store.put(agreed.server.clone()).await, Err(StoreError::Full));
    for n in 0..4 {
        assert_eq!(store.reserve(&ahead(n)).await.unwrap_err(), ReserveError::Replayed);
    }
}

#[tokio::test]
async fn an_ended_chain_stays_ended() {
    let place = Place::new();
    let store = place.open(START_MS);
    let (ended, kept) = (of_chain(None, 600_000), of_chain(None, 600_000));
    store.put(ended.clone()).await.unwrap();
    store.put(kept.clone()).await.unwrap();
    store.end_chain(ended.id(), START_MS + 600_000).await.unwrap();
    let place = place.crashed();
    let store = place.open(START_MS + 1);
    let later = of_chain(Some(*ended.id()), 600_000);
    store.put(later.clone()).await.unwrap();
    for (session, is_there) in [(&ended, false), (&later, false), (&kept, true)] {
        assert_eq!(store.get(session.id()).await.unwrap().is_some(), is_there);
    }
}

#[tokio::test]
async fn the_log_tells_that_requests_from_before_a_restart_are_rejected_and_is_silent_of_a_new_store() {
    let place = Place::new();
    let opened = |now_ms| {
        let log = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.reopen().unwrap()).finish();
        let store = tracing::subscriber::with_default(subscriber, || place.open(now_ms));
        (store, std::fs::read_to_string(log.path()).unwrap())
    };
    let (store, text) = opened(START_MS);
    assert!(!text.contains("restored"), "{text}");
    for _ in 0..3 {
        store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
    }
    drop(store);
    let (_store, text) = opened(START_MS + 1);
    assert!(text.contains("sessions restored; requests stamped before this start are rejected sessions=3"), "{text}");
}
