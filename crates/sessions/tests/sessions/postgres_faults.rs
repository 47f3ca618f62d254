//! The PostgreSQL store while its server is killed, hangs or is unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sealway_proto::session::{Claim, Session};
use sealway_sessions::store::postgres::Postgres;
use sealway_sessions::store::{Part, ReserveError, Store, StoreError};
use sealway_testkit::postgres::Postgres as Server;
use sealway_testkit::store_contract::claims::{START_MS, agree, init};
use tokio::task::spawn_blocking;

use crate::postgres_place::{config, open, open_with, ring};

/// Deadline of an operation, plus extra time for a busy machine.
const DEADLINE: Duration = Duration::from_millis(1500 + 1500);

async fn wait_until(what: &str, store: &Postgres, holds: impl Fn(&Postgres) -> bool) {
    let since = Instant::now();
    while !holds(store) {
        assert!(since.elapsed() < Duration::from_secs(10), "{what}: {:?}", store.status());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asserts that all operations fail in time, and that cached sessions keep working.
async fn expect_away(store: &Postgres, at_hand: &Arc<Session>) {
    let since = Instant::now();
    assert_eq!(store.get(at_hand.id()).await.unwrap().expect("at hand").id(), at_hand.id());
    assert!(since.elapsed() < DEADLINE, "get");
    let since = Instant::now();
    let err = store.put(agree(Some("web"), 600, START_MS).server).await.unwrap_err();
    assert!(matches!(err, StoreError::Unavailable(_)) && since.elapsed() < DEADLINE, "put: {err}");
    let since = Instant::now();
    let err = store.get(agree(Some("web"), 600, START_MS).server.id()).await.unwrap_err();
    assert!(matches!(err, StoreError::Unavailable(_)) && since.elapsed() < DEADLINE, "get: {err}");
    let since = Instant::now();
    let err = store.reserve(init(Some("web"), "away", START_MS, START_MS).claim()).await.unwrap_err();
    assert!(matches!(err, ReserveError::Unavailable(_)) && since.elapsed() < DEADLINE, "reserve: {err}");
    wait_until("down", store, |store| !store.status().up && store.status().postgres == Part::Down).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acknowledged_writes_survive_a_kill() {
    let server = spawn_blocking(Server::start).await.unwrap().unwrap();
    let url = server.create_database().unwrap();
    let store = open(config(&url)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8_usize)
        .map(|writer| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let (mut sessions, mut claims) = (Vec::new(), Vec::new());
                for n in 0.. {
                    let agreed = agree(Some("web"), 600, START_MS);
                    if store.put(agreed.server.clone()).await.is_ok() {
                        sessions.push(agreed.server.clone());
                    }
                    let claim = *agreed.call(&format!("{writer}-{n}"), START_MS, START_MS).claim();
                    if store.reserve(&claim).await.is_ok() {
                        claims.push(claim);
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                (sessions, claims)
            })
        })
        .collect();
    let server = spawn_blocking(move || {
        let mut server = server;
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(700));
            server.kill().unwrap();
            std::thread::sleep(Duration::from_millis(300));
            server.start_again().unwrap();
        }
        std::thread::sleep(Duration::from_millis(700));
        server
    });
    let server = server.await.unwrap();
    stop.store(true, Ordering::Relaxed);
    let fresh = open(config(&url)).await.unwrap();
    let (mut sessions_kept, mut claims_kept) = (0, 0);
    for writer in writers {
        let (sessions, claims) = writer.await.unwrap();
        for session in sessions {
            let got = fresh.get(session.id()).await.unwrap().expect("an acknowledged session is lost");
            assert_eq!(got.record().key.expose(), session.record().key.expose());
            sessions_kept += 1;
        }
        for claim in claims {
            assert_eq!(fresh.reserve(&claim).await.unwrap_err(), ReserveError::Replayed, "a nonce was granted twice");
            claims_kept += 1;
        }
    }
    assert!(sessions_kept > 100 && claims_kept > 100, "{sessions_kept} sessions and {claims_kept} nonces are no load");
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_server_is_away_sessions_at_hand_work_on_and_all_else_fails_in_time() {
    let mut server = spawn_blocking(Server::start).await.unwrap().unwrap();
    let url = server.create_database().unwrap();
    // No cached session is fresh: each is asked for again, until the server is gone.
    let store = open_with(config(&url), ring(&[("k", 1)]), Duration::ZERO).await.unwrap();
    let session = agree(Some("web"), 600, START_MS).server;
    store.put(session.clone()).await.unwrap();
    assert!(store.status().up);
    server.kill().unwrap();
    expect_away(&store, &session).await;
    server.start_again().unwrap();
    wait_until("up", &store, |store| store.status().up).await;
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
    store.reserve(init(Some("web"), "back", START_MS, START_MS).claim()).await.unwrap();
    assert!(store.get(session.id()).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stuck_is_noticed_and_leaves_no_stuck_connection_behind() {
    let server = spawn_blocking(Server::start).await.unwrap().unwrap();
    let url = server.create_database().unwrap();
    let store = open_with(config(&url), ring(&[("k", 1)]), Duration::ZERO).await.unwrap();
    let session = agree(Some("web"), 600, START_MS).server;
    store.put(session.clone()).await.unwrap();
    server.pause().unwrap();
    expect_away(&store, &session).await;
    server.resume().unwrap();
    wait_until("up", &store, |store| store.status().up).await;
    for n in 0..50 {
        store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
        store.reserve(init(Some("web"), &format!("n{n}"), START_MS, START_MS).claim()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_is_retried_after_a_short_outage() {
    let mut server = spawn_blocking(Server::start).await.unwrap().unwrap();
    let url = server.create_database().unwrap();
    let mut patient = config(&url);
    patient.deadline = Duration::from_secs(20);
    let store = open(patient).await.unwrap();
    server.kill().unwrap();
    let session = agree(Some("web"), 600, START_MS).server;
    let putting = tokio::spawn({
        let (store, session) = (store.clone(), session.clone());
        async move { store.put(session).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.start_again().unwrap();
    putting.await.unwrap().unwrap();
    assert_eq!(server.psql_in(&url, "SELECT count(*) FROM sealway.sessions").unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_starts_without_its_server_and_comes_up_by_itself() {
    let mut server = spawn_blocking(Server::start).await.unwrap().unwrap();
    let url = server.create_database().unwrap();
    server.stop().unwrap();
    let store = open(config(&url)).await.unwrap();
    assert!(!store.status().up);
    let session = agree(Some("web"), 600, START_MS).server;
    assert!(matches!(store.put(session.clone()).await, Err(StoreError::Unavailable(_))));
    server.start_again().unwrap();
    wait_until("up", &store, |store| store.status().up).await;
    store.put(session).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_that_was_missed_while_nobody_listened_is_found_out() {
    let server = spawn_blocking(Server::start).await.unwrap().unwrap();
    let url = server.create_database().unwrap();
    let store = open(config(&url)).await.unwrap();
    let session = agree(Some("web"), 600, START_MS).server;
    store.put(session.clone()).await.unwrap();
    // The listening connection is cut, and at the same time the session is revoked.
    let cut = format!(
        "UPDATE sealway.sessions SET revoked_ms = 1, wrapped = '';
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = '{}'",
        url.rsplit('/').next().unwrap()
    );
    server.psql_in(&url, &cut).unwrap();
    let since = Instant::now();
    while !matches!(store.get(session.id()).await, Ok(None)) {
        assert!(since.elapsed() < Duration::from_secs(3), "it was never asked for again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_lost_its_tables_is_down_until_they_are_back() {
    let server = Server::shared();
    let url = spawn_blocking(|| Server::shared().create_database()).await.unwrap().unwrap();
    let store = open(config(&url)).await.unwrap();
    server.psql_in(&url, "ALTER SCHEMA sealway RENAME TO elsewhere").unwrap();
    assert!(matches!(store.put(agree(Some("web"), 600, START_MS).server).await, Err(StoreError::Unavailable(_))));
    assert!(!store.status().up);
    server.psql_in(&url, "DROP SCHEMA IF EXISTS sealway CASCADE; ALTER SCHEMA elsewhere RENAME TO sealway").unwrap();
    wait_until("up", &store, |store| store.status().up).await;
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
}

/// Holds these nonces like a transaction that has inserted them and not ended; they are held when this returns.
fn hold_claims(url: &str, claims: &[Claim], seconds: f32) -> std::thread::JoinHandle<()> {
    let keys: Vec<_> = claims.iter().map(|claim| format!("('\\x{:032x}', false, 0, 0)", key_number(claim))).collect();
    let sql = format!(
        "BEGIN; INSERT INTO sealway.nonces VALUES {}; SELECT pg_advisory_lock({seconds} * 10), pg_sleep({seconds}); \
         ROLLBACK",
        keys.join(", ")
    );
    let holder = std::thread::spawn({
        let url = url.to_owned();
        move || drop(Server::shared().psql_in(&url, &sql).unwrap())
    });
    let held = format!("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {seconds} * 10");
    let since = Instant::now();
    while Server::shared().psql_in(url, &held).unwrap() != "1" {
        assert!(since.elapsed() < Duration::from_secs(10), "nobody holds them");
        std::thread::sleep(Duration::from_millis(10));
    }
    holder
}

fn key_number(claim: &Claim) -> u128 {
    u128::from_be_bytes(claim.key().0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_equal_claims_in_one_batch_and_in_batches_that_cross_exactly_one_wins() {
    let url = Server::shared().create_database().unwrap();
    let mut one_lane = config(&url);
    (one_lane.lanes, one_lane.deadline) = (1, Duration::from_secs(10));
    let stores = [open(one_lane.clone()).await.unwrap(), open(one_lane).await.unwrap()];
    let claim = |nonce: &str| *init(Some("web"), nonce, START_MS, START_MS).claim();
    let mut claims: Vec<_> = (0..120).map(|n| claim(&format!("n{n}"))).collect();
    claims.sort_by_key(Claim::key);
    // Each store's one lane is busy with a first claim; later claims gather in its next batch. Both batches then wait
    // for the claim in the middle: the one that gets it must not wait for a claim that the other holds.
    let firsts = [claim("first-0"), claim("first-1")];
    let middle = hold_claims(&url, &claims[60..61], 2.0);
    let busy = hold_claims(&url, &firsts, 1.0);
    let mut tasks = Vec::new();
    for (number, store) in stores.iter().enumerate() {
        let mut all: Vec<_> = claims.iter().flat_map(|claim| [*claim, *claim]).collect();
        if number == 1 {
            all.reverse();
        }
        all.insert(0, firsts[number]);
        for (index, claim) in all.into_iter().enumerate() {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                match store.reserve(&claim).await {
                    Ok(_) => Some(claim.key()),
                    Err(ReserveError::Replayed) => None,
                    Err(err) => panic!("{err}"),
                }
            }));
            if index == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }
    let mut won = Vec::new();
    for task in tasks {
        won.extend(task.await.unwrap());
    }
    let granted = won.len();
    won.sort();
    won.dedup();
    assert_eq!((granted, won.len()), (122, 122));
    middle.join().unwrap();
    busy.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_ran_out_of_time_leaves_no_busy_connection_behind() {
    let url = Server::shared().create_database().unwrap();
    let mut hasty = config(&url);
    hasty.deadline = Duration::from_millis(1200);
    let store = open(hasty).await.unwrap();
    let held = *init(Some("web"), "held", START_MS, START_MS).claim();
    let holder = hold_claims(&url, &[held], 4.0);
    let err = store.reserve(&held).await.unwrap_err();
    assert!(matches!(err, ReserveError::Unavailable(_)), "{err}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    // The pool's only connection is the one that hangs.
    let since = Instant::now();
    assert!(store.get(agree(Some("web"), 600, START_MS).server.id()).await.unwrap().is_none());
    assert!(since.elapsed() < Duration::from_millis(1000), "{:?}", since.elapsed());
    holder.join().unwrap();
}
