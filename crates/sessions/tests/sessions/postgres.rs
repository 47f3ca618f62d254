//! The contract of stores for PostgreSQL, and the behaviour of several stores on one database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::store::postgres::PostgresConfig;
use sealway_sessions::store::{Durable, MemoryLimits, ReserveError, Store};
use sealway_testkit::postgres::Postgres as Server;
use sealway_testkit::store_contract;
use sealway_testkit::store_contract::claims::{START_MS, agree, init};
use sealway_testkit::store_contract::{Fixture, of_chain};
use tokio::sync::Barrier;

use crate::postgres_place::{config, open, open_with, ring};

struct Database(String);

impl Database {
    fn new() -> Self {
        Database(Server::shared().create_database().unwrap())
    }
}

impl Fixture for Database {
    async fn make(&self, limits: MemoryLimits) -> Arc<dyn Store> {
        let mut config = config(&self.0);
        (config.sessions_max, config.nonces_max) = (limits.sessions_max, limits.nonces_max);
        open(config).await.unwrap()
    }
}

store_contract!(postgres, Database::new());

#[tokio::test]
async fn a_process_whose_clock_is_ahead_purges_nothing_that_the_others_need() {
    let database = Database::new();
    let store = open(PostgresConfig { heed_server_clock: true, ..config(&database.0) }).await.unwrap();
    let now_ms = SystemClock.now_ms();
    let (agreed, over) = (agree(Some("web"), 600, now_ms), agree(Some("web"), 1, now_ms - 10_000));
    store.put(agreed.server.clone()).await.unwrap();
    store.put(over.server.clone()).await.unwrap();
    let claim = *agreed.call("one", now_ms, now_ms).claim();
    store.reserve(&claim).await.unwrap();
    assert_eq!(store.sweep(now_ms + 3_600_000).await, Ok(1), "what is over goes");
    let others = open(config(&database.0)).await.unwrap();
    assert!(others.get(agreed.server.id()).await.unwrap().is_some());
    assert_eq!(others.reserve(&claim).await.unwrap_err(), ReserveError::Replayed);
    assert_eq!(store.sweep(now_ms - 3_600_000).await, Ok(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_equal_claims_across_two_stores_exactly_one_wins() {
    let database = Database::new();
    let stores = [open(config(&database.0)).await.unwrap(), open(config(&database.0)).await.unwrap()];
    let agreed = agree(Some("web"), 600, START_MS);
    let start = Arc::new(Barrier::new(64));
    let mut racers = Vec::new();
    for racer in 0..64_usize {
        // Each reserves all of them, half in one order and half in the other, so that batches overlap in every way.
        let mut nonces: Vec<usize> = (0..20).collect();
        if racer % 2 == 0 {
            nonces.reverse();
        }
        let claims: Vec<_> =
            nonces.iter().map(|n| (*n, *agreed.call(&format!("race-{n}"), START_MS + 1, START_MS).claim())).collect();
        let (store, start) = (stores[racer / 2 % 2].clone(), start.clone());
        racers.push(tokio::spawn(async move {
            start.wait().await;
            let tries = claims.into_iter().map(|(n, claim)| {
                let store = store.clone();
                async move {
                    match store.reserve(&claim).await {
                        Ok(_) => Some(n),
                        Err(ReserveError::Replayed) => None,
                        Err(err) => panic!("{err}"),
                    }
                }
            });
            futures_util::future::join_all(tries).await
        }));
    }
    let mut won = vec![0; 20];
    for racer in racers {
        for n in racer.await.unwrap().into_iter().flatten() {
            won[n] += 1;
        }
    }
    assert_eq!(won, vec![1; 20]);
}

#[tokio::test]
async fn a_session_put_by_one_store_is_got_by_another_and_its_revocation_reaches_it_within_a_second() {
    let database = Database::new();
    let [one, other] = [open(config(&database.0)).await.unwrap(), open(config(&database.0)).await.unwrap()];
    let session = agree(Some("web"), 600, START_MS).server;
    one.put(session.clone()).await.unwrap();
    let got = other.get(session.id()).await.unwrap().expect("the other's session");
    assert_eq!(got.record().key.expose(), session.record().key.expose());
    assert_eq!(one.delete(session.id()).await, Ok(true));
    assert!(one.get(session.id()).await.unwrap().is_none());
    let since = Instant::now();
    while other.get(session.id()).await.unwrap().is_some() {
        assert!(since.elapsed() < Duration::from_secs(1), "it was not heard of");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(other.delete(session.id()).await, Ok(false));
    assert_eq!(other.revoked(START_MS).await.unwrap(), [(*session.id(), session.record().expires_ms)]);
    assert_eq!(other.revoked(session.record().expires_ms).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_is_fetched_while_it_is_revoked_does_not_stay_at_hand() {
    let database = Database::new();
    let [one, other] = [open(config(&database.0)).await.unwrap(), open(config(&database.0)).await.unwrap()];
    for _ in 0..50 {
        let session = agree(Some("web"), 600, START_MS).server;
        one.put(session.clone()).await.unwrap();
        let (deleted, _) = tokio::join!(one.delete(session.id()), other.get(session.id()));
        assert_eq!(deleted, Ok(true));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(other.get(session.id()).await.unwrap().is_none(), "it came back");
    }
}

#[tokio::test]
async fn claims_written_down_are_listed_by_their_stamp_until_they_are_over() {
    let database = Database::new();
    let store = open(config(&database.0)).await.unwrap();
    let agreed = agree(Some("web"), 600, START_MS);
    let ahead = *agreed.call("ahead", START_MS + 5000, START_MS).claim();
    let at = *init(Some("web"), "at", START_MS, START_MS).claim();
    store.record(&ahead).await.unwrap();
    store.record(&at).await.unwrap();
    assert_eq!(store.record(&ahead).await, Err(ReserveError::Replayed));
    let listed = store.recorded_after(START_MS, START_MS).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].key, listed[0].sealed, listed[0].expires_ms), (ahead.key(), true, ahead.expires_ms()));
    assert_eq!(store.recorded_after(START_MS - 1, START_MS).await.unwrap().len(), 2);
    assert_eq!(store.recorded_after(0, ahead.expires_ms()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_that_sweep_at_once_purge_each_session_once() {
    let database = Database::new();
    let [one, other] = [open(config(&database.0)).await.unwrap(), open(config(&database.0)).await.unwrap()];
    for _ in 0..3 {
        for _ in 0..20 {
            one.put(agree(Some("web"), 60, START_MS).server).await.unwrap();
        }
        let (a, b) = tokio::join!(one.sweep(START_MS + 60_000), other.sweep(START_MS + 60_000));
        assert_eq!(a.unwrap() + b.unwrap(), 20);
        assert_eq!(one.sweep(START_MS + 60_000).await, Ok(0));
    }
    assert_eq!(one.status().sessions, 0);
    other.sweep(START_MS + 60_001).await.unwrap();
    assert_eq!(other.status().sessions, 0, "the other's count was not learnt");
}

#[tokio::test]
async fn a_clock_that_is_a_year_ahead_does_not_refuse_a_years_requests() {
    let database = Database::new();
    let store = open(config(&database.0)).await.unwrap();
    let agreed = agree(Some("web"), 3600, START_MS);
    store.reserve(agreed.call("one", START_MS, START_MS).claim()).await.unwrap();
    store.sweep(START_MS + 365 * 86_400_000).await.unwrap();
    let again = *agreed.call("one", START_MS, START_MS + 1000).claim();
    assert_eq!(store.reserve(&again).await.unwrap_err(), ReserveError::Replayed);
    let later_ms = START_MS + 310_000;
    store.reserve(agreed.call("two", later_ms, later_ms).claim()).await.expect("no later than it must be");
}

#[tokio::test]
async fn a_dump_holds_no_session_key() {
    let database = Database::new();
    let store = open(config(&database.0)).await.unwrap();
    let mut keys = Vec::new();
    for _ in 0..10 {
        let session = agree(Some("web"), 600, START_MS).server;
        keys.push(*session.record().key.expose());
        store.put(session).await.unwrap();
    }
    let dump = Server::shared().dump(&database.0).unwrap();
    assert!(dump.matches("subject of web").count() == 10, "the dump lacks the sessions");
    for key in keys {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let base64 = sealway_proto::wire::base64::encode(&key);
        assert!(!dump.contains(&hex) && !dump.contains(&hex.to_uppercase()) && !dump.contains(base64.as_str()));
        assert!(!dump.as_bytes().windows(32).any(|bytes| bytes == key));
    }
}

#[tokio::test]
async fn keys_are_wrapped_anew_a_few_at_a_time_from_wherever_it_stopped() {
    let database = Database::new();
    let fresh = Duration::from_secs(60);
    let old = open_with(config(&database.0), ring(&[("old", 1)]), fresh).await.unwrap();
    let sessions: Vec<_> = (0..7).map(|_| agree(Some("web"), 600, START_MS).server).collect();
    for session in &sessions {
        old.put(session.clone()).await.unwrap();
    }
    let both = open_with(config(&database.0), ring(&[("new", 2), ("old", 1)]), fresh).await.unwrap();
    assert_eq!(both.rewrap(3).await, Ok(3));
    assert_eq!(both.wrapped_under().await.unwrap(), [("new".to_owned(), 3), ("old".to_owned(), 4)]);
    drop(both);
    // A damaged row does not stop the rewrap of others.
    let damage = "UPDATE sealway.sessions SET wrapped = '\\x00'
                  WHERE id = (SELECT min(id) FROM sealway.sessions WHERE kek_id = 'old')";
    Server::shared().psql_in(&database.0, damage).unwrap();
    let both = open_with(config(&database.0), ring(&[("new", 2), ("old", 1)]), fresh).await.unwrap();
    let mut moved = 0;
    loop {
        match both.rewrap(1).await.unwrap() {
            0 => break,
            n => moved += n,
        }
    }
    assert_eq!(moved, 3);
    let new = open_with(config(&database.0), ring(&[("new", 2)]), fresh).await.unwrap();
    let mut got = 0;
    for session in &sessions {
        // `None` only for the damaged one.
        if let Some(found) = new.get(session.id()).await.unwrap() {
            assert_eq!(found.record().key.expose(), session.record().key.expose());
            got += 1;
        }
    }
    assert_eq!(got, 6);
}

#[tokio::test]
async fn a_session_under_a_key_that_is_missing_is_unavailable_and_one_that_is_damaged_is_unknown() {
    let database = Database::new();
    let fresh = Duration::from_secs(60);
    let old = open_with(config(&database.0), ring(&[("old", 1)]), fresh).await.unwrap();
    let session = agree(Some("web"), 600, START_MS).server;
    old.put(session.clone()).await.unwrap();
    let new = open_with(config(&database.0), ring(&[("new", 2)]), fresh).await.unwrap();
    let err = new.get(session.id()).await.unwrap_err().to_string();
    assert!(err.contains("\"old\""), "{err}");
    let damage = "UPDATE sealway.sessions SET wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1)";
    Server::shared().psql_in(&database.0, damage).unwrap();
    let again = open_with(config(&database.0), ring(&[("old", 1)]), fresh).await.unwrap();
    assert!(again.get(session.id()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_renewed_session_outlives_the_first_one_whose_row_another_process_has_removed() {
    let database = Database::new();
    let store = open_with(config(&database.0), ring(&[("k", 1)]), Duration::ZERO).await.unwrap();
    let other = open(config(&database.0)).await.unwrap();
    let first = of_chain(None, 1000);
    let renewed = of_chain(Some(*first.id()), 600_000);
    for session in [&first, &renewed] {
        store.put(session.clone()).await.unwrap();
    }
    assert_eq!(other.sweep(START_MS + 1000).await, Ok(1));
    assert!(store.get(first.id()).await.unwrap().is_none());
    assert!(store.get(renewed.id()).await.unwrap().is_some(), "the end of the first session ended its chain");
}

#[tokio::test]
async fn a_sweep_of_more_rows_than_a_batch_removes_them_all() {
    let database = Database::new();
    let store = open(config(&database.0)).await.unwrap();
    let many = "INSERT INTO sealway.sessions
                    SELECT 'S-' || lpad(to_hex(n), 32, '0'), 2, 'web', NULL, 0, 1000 + n % 2, 'k', '', NULL
                    FROM generate_series(1, 24000) n;
                INSERT INTO sealway.nonces
                    SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), n % 2 = 0, 0, 1000 FROM generate_series(1, 24000) n";
    Server::shared().psql_in(&database.0, many).unwrap();
    assert_eq!(store.sweep(2000 - 1000).await, Ok(12_000));
    assert_eq!((store.status().sessions, store.status().nonces), (12_000, (12_000, 12_000)));
    assert_eq!(store.sweep(2000).await, Ok(12_000));
    assert_eq!(Server::shared().psql_in(&database.0, "SELECT count(*) FROM sealway.nonces").unwrap(), "0");
}

#[test]
fn operations_and_failures_are_counted_in_the_metrics() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let database = Database::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let store = open(config(&database.0)).await.unwrap();
            let agreed = agree(Some("web"), 600, START_MS);
            store.put(agreed.server.clone()).await.unwrap();
            store.fetch(agreed.server.id()).await.unwrap();
            store.reserve(agreed.call("one", START_MS, START_MS).claim()).await.unwrap();
            store.reserve(agreed.call("one", START_MS, START_MS).claim()).await.unwrap_err();
            store.delete(agreed.server.id()).await.unwrap();
            store.sweep(START_MS).await.unwrap();
            Server::shared().psql_in(&database.0, "ALTER TABLE sealway.nonces RENAME TO gone").unwrap();
            store.reserve(agreed.call("two", START_MS, START_MS).claim()).await.unwrap_err();
        });
    });
    let text = handle.render();
    for op in ["put", "get", "reserve", "delete", "sweep"] {
        let name = format!("sealway_store_seconds_count{{store=\"postgres\",op=\"{op}\"}}");
        assert!(text.contains(&name), "{name}\n{text}");
    }
    let failures: Vec<_> = text.lines().filter(|line| line.starts_with("sealway_store_failures_total")).collect();
    assert_eq!(failures, ["sealway_store_failures_total{store=\"postgres\",op=\"reserve\"} 1"]);
}
