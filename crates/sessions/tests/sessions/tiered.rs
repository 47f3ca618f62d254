//! Revocations of the tiered store that a part of it has missed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealway_proto::crypto::default_provider;
use sealway_proto::session::Session;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::Problems;
use sealway_sessions::config::{RawCompat, RawReplay, RawSessions, resolve};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::Store;
use sealway_testkit::postgres::Postgres;
use sealway_testkit::redis::Redis;
use sealway_testkit::store_contract::claims::agree;
use sealway_testkit::toxiproxy::{Toxic, Toxiproxy};
use serde_json::json;
use tokio::task::spawn_blocking;

/// A database, a Redis, and a key file.
struct Place {
    postgres: &'static Postgres,
    url: String,
    redis: Redis,
    folder: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        let parts = spawn_blocking(|| {
            let folder = tempfile::tempdir().unwrap();
            KeyRing::generate(default_provider(), &folder.path().join("kek")).unwrap();
            let postgres = Postgres::shared();
            (postgres, postgres.create_database().unwrap(), Redis::start().unwrap(), folder)
        });
        let (postgres, url, redis, folder) = parts.await.unwrap();
        Place { postgres, url, redis, folder }
    }

    fn keys(&self) -> std::path::PathBuf {
        self.folder.path().join("kek")
    }

    /// Opens a store as a separate process would.
    async fn open(&self) -> Arc<dyn Store> {
        open(&format!("{} + {}", self.url, self.redis.url()), &self.keys()).await
    }

    /// Creates a session that Redis has a copy of.
    async fn session(&self, store: &Arc<dyn Store>) -> Arc<Session> {
        let session = agree(Some("web"), 600, SystemClock.now_ms()).server;
        store.put(session.clone()).await.unwrap();
        self.until_in_redis("a copy", &session, |held| held.len() > 10).await;
        session
    }

    async fn until_in_redis(&self, what: &str, session: &Session, fits: impl Fn(&str) -> bool) {
        let since = Instant::now();
        while !fits(self.redis.cli(&["GET", &format!("sealway:s:{}", session.id())]).unwrap().trim()) {
            assert!(since.elapsed() < Duration::from_secs(8), "Redis has no {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn open(store: &str, keys: &Path) -> Arc<dyn Store> {
    let sessions = if store.contains("redis") {
        json!({ "store": store, "kek_file": keys, "postgres": { "migrate": true }, "cache": { "fresh_ms": 0 } })
    } else {
        json!({ "store": store, "kek_file": keys })
    };
    let sessions: RawSessions = serde_json::from_value(sessions).unwrap();
    let mut problems = Problems::default();
    let config = resolve(&sessions, &RawReplay::default(), &RawCompat::default(), None, &mut problems);
    problems.into_result().unwrap();
    config.start(default_provider(), Arc::new(SystemClock)).await.unwrap().store().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_missing_in_redis_holds_in_a_later_process() {
    let place = Place::new().await;
    let first = place.open().await;
    let session = place.session(&first).await;
    // As a process does that ends between its commit and the write to Redis.
    let cut_off = open(&place.url, &place.keys()).await;
    assert!(cut_off.delete(session.id()).await.unwrap());
    let later = place.open().await;
    assert!(later.get(session.id()).await.unwrap().is_none(), "a revoked session works again");
    place.until_in_redis("tombstone", &session, |held| held == "x").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_missed_by_this_process_and_redis_is_found() {
    let place = Place::new().await;
    let store = place.open().await;
    let session = place.session(&store).await;
    let cut = format!(
        "UPDATE sealway.sessions SET revoked_ms = 1, wrapped = '';
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = '{}'",
        place.url.rsplit('/').next().unwrap()
    );
    place.postgres.psql_in(&place.url, &cut).unwrap();
    let since = Instant::now();
    while !matches!(store.get(session.id()).await, Ok(None)) {
        assert!(since.elapsed() < Duration::from_secs(5), "a revoked session works on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_revocation_reaches_redis() {
    let place = Place::new().await;
    let store = place.open().await;
    let session = place.session(&store).await;
    // A first attempt that was committed, and whose answer was lost.
    place.postgres.psql_in(&place.url, "UPDATE sealway.sessions SET revoked_ms = 1, wrapped = ''").unwrap();
    assert!(!store.delete(session.id()).await.unwrap());
    place.until_in_redis("tombstone", &session, |held| held == "x").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_redis_alone_has_is_revoked_for_good() {
    let place = Place::new().await;
    let (store, other) = (place.open().await, place.open().await);
    let session = place.session(&store).await;
    // As after a restored backup, and after a standby was promoted that lacked the session.
    place.postgres.psql_in(&place.url, "DELETE FROM sealway.sessions").unwrap();
    assert!(other.get(session.id()).await.unwrap().is_some(), "Redis has no copy, so nothing was tried");
    assert!(store.delete(session.id()).await.unwrap());
    place.until_in_redis("tombstone", &session, |held| held == "x").await;
    assert!(other.get(session.id()).await.unwrap().is_none(), "a revoked session works on");
    // PostgreSQL knows it too, in case Redis forgets.
    place.redis.cli(&["FLUSHALL"]).unwrap();
    assert!(place.open().await.get(session.id()).await.unwrap().is_none());
    assert!(!store.delete(session.id()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_reaches_redis_after_its_caller_disconnected() {
    let place = Place::new().await;
    let toxiproxy = spawn_blocking(Toxiproxy::start).await.unwrap().unwrap();
    let proxy = toxiproxy.proxy("redis", SocketAddr::from((Ipv4Addr::LOCALHOST, place.redis.port))).unwrap();
    let store = open(&format!("{} + redis://{}", place.url, proxy.address), &place.keys()).await;
    let session = place.session(&store).await;
    proxy.add(Toxic::Hole).unwrap();
    let gone = tokio::time::timeout(Duration::from_millis(150), store.delete(session.id())).await;
    assert!(gone.is_err(), "it was not waited for Redis");
    proxy.remove(Toxic::Hole).unwrap();
    place.until_in_redis("tombstone", &session, |held| held == "x").await;
}
