//! A standby of PostgreSQL that is promoted, with all commits and without the last ones; backups that are restored; and a
//! connection pooler in between.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealway_proto::session::{Claim, Session};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::cache::CacheLimits;
use sealway_sessions::store::postgres::{Postgres, PostgresConfig};
use sealway_sessions::store::{OpenError, ReserveError, SessionCache, Store, StoreError};
use sealway_testkit::pgbouncer::PgBouncer;
use sealway_testkit::postgres::Postgres as Server;
use sealway_testkit::store_contract::claims::{agree, init, provider, random};
use sealway_testkit::store_contract::race;
use sealway_testkit::toxiproxy::{Proxy, Toxiproxy};

use crate::postgres_place::ring;

/// The window of stamps: short, to be waited for.
const WINDOW_MS: u64 = 2500;
const SOON: Duration = Duration::from_secs(20);

fn now() -> u64 {
    SystemClock.now_ms()
}

fn claim(stamp_ms: u64) -> Claim {
    let nonce: String = random().iter().map(|byte| format!("{byte:02x}")).collect();
    *init(Some("web"), &nonce, stamp_ms, now()).claim()
}

fn config(url: &str) -> PostgresConfig {
    let mut config = PostgresConfig::new(url).unwrap();
    (config.migrate, config.window_ms) = (true, WINDOW_MS);
    config
}

/// Opens a store as a process of its own would.
async fn open(config: &PostgresConfig, keys: &Arc<KeyRing>) -> Result<Arc<Postgres>, OpenError> {
    let cache = Arc::new(SessionCache::new(CacheLimits { fresh: Duration::ZERO, ..CacheLimits::default() }));
    Postgres::open(provider(), config.clone(), keys.clone(), cache, Arc::new(SystemClock)).await
}

/// Reserves new nonces until one is granted; returns it and the time that it took.
async fn grant(store: &Postgres, stamp: impl Fn() -> u64) -> (Claim, Duration) {
    let start = Instant::now();
    loop {
        let claim = claim(stamp());
        match store.reserve(&claim).await {
            Ok(_) => return (claim, start.elapsed()),
            Err(err) => assert!(start.elapsed() < SOON, "it takes nothing new: {err}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn put(store: &Postgres) -> Result<Arc<Session>, StoreError> {
    let session = agree(Some("web"), 600, now()).server;
    store.put(session.clone()).await.map(|()| session)
}

/// A primary, a standby of it, and the connection between them.
struct Pair {
    primary: Server,
    standby: Server,
    between: Proxy,
    _toxiproxy: Toxiproxy,
}

impl Pair {
    fn start() -> Pair {
        let (primary, toxiproxy) = (Server::start().unwrap(), Toxiproxy::start().unwrap());
        let between = toxiproxy.proxy("replication", SocketAddr::from((Ipv4Addr::LOCALHOST, primary.port))).unwrap();
        let standby = primary.standby(between.address).unwrap();
        Pair { primary, standby, between, _toxiproxy: toxiproxy }
    }

    /// Returns the URL of both.
    fn url(&self) -> String {
        let (one, two) = (self.primary.port, self.standby.port);
        self.primary.url().replace(&format!(":{one}/"), &format!(":{one},127.0.0.1:{two}/"))
    }

    fn fail_over(&mut self) {
        tokio::task::block_in_place(|| {
            self.primary.kill().unwrap();
            self.standby.promote().unwrap();
        });
    }
}

/// Asserts that no store grants these nonces again, while the last store grants new ones only after the window; returns
/// the time until then.
async fn assert_nothing_is_readmitted(stores: &[&Postgres], granted: &[Claim]) -> Duration {
    let (start, mut is_served) = (Instant::now(), false);
    let late = stores.last().unwrap();
    while !is_served {
        assert!(start.elapsed() < SOON, "it takes nothing new");
        is_served = late.reserve(&claim(now())).await.is_ok();
        for claim in granted {
            for store in stores {
                assert!(store.reserve(claim).await.is_err(), "a replay was granted");
            }
        }
        if start.elapsed() < Duration::from_millis(WINDOW_MS / 2) {
            assert!(!is_served && !late.status().up, "within the window of what was lost");
        }
    }
    let took = start.elapsed();
    for claim in granted {
        assert_eq!(stores[0].reserve(claim).await.map(drop), Err(ReserveError::Replayed));
    }
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_promoted_standby_that_misses_nonces_readmits_none() {
    let (mut pair, keys) = (Pair::start(), ring(&[("k", 1)]));
    let config = config(&pair.url());
    let (one, other) = (open(&config, &keys).await.unwrap(), open(&config, &keys).await.unwrap());
    let mut granted = Vec::new();
    for n in 0..40 {
        if n == 20 {
            pair.between.disable().unwrap();
        }
        granted.push(grant(&one, || now() - 500 + n % 5 * 500).await.0);
    }
    pair.fail_over();
    let count: usize = pair.standby.psql("SELECT count(*) FROM sealway.nonces").unwrap().parse().unwrap();
    assert!(count < granted.len(), "the standby has all {count} nonces, so nothing was tried");
    // By a process that had a connection, and by one that starts now.
    let late = open(&config, &keys).await.unwrap();
    let took = assert_nothing_is_readmitted(&[&one, &other, &late], &granted).await;
    println!("{count} of {} nonces are there; new ones are taken after {took:?}", granted.len());
    // Once, not at each start.
    let (_, took) = grant(&open(&config, &keys).await.unwrap(), now).await;
    assert!(took < Duration::from_millis(WINDOW_MS / 2), "{took:?}");
}

/// Ways in which a database becomes an older copy of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Backup {
    /// A dump, in the database that it is of, while a process uses it.
    InPlace,
    /// A dump, in another cluster.
    Elsewhere,
    /// The files of the cluster, and the statement of the guide: nothing in them differs from a server that crashed.
    Files,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restored_backup_readmits_no_nonce_that_it_lacks() {
    for backup in [Backup::InPlace, Backup::Elsewhere, Backup::Files] {
        let (mut server, keys) = (Server::start().unwrap(), ring(&[("k", 1)]));
        // What `synchronous` promises of a promotion does not hold for a backup.
        let strict = |server: &Server| PostgresConfig { synchronous: true, ..config(&server.url()) };
        let mut running = open(&strict(&server), &keys).await.unwrap();
        let kept = put(&running).await.unwrap();
        grant(&running, now).await;
        let dump = server.dump("postgres").unwrap();
        if backup == Backup::Files {
            server.back_up_files().unwrap();
        }
        let mut granted = Vec::new();
        for n in 0..10 {
            granted.push(grant(&running, || now() - 500 + n % 5 * 500).await.0);
        }
        match backup {
            Backup::InPlace => server.restore("postgres", &dump).unwrap(),
            Backup::Elsewhere => {
                // Not at the same time: servers that run together are of one `initdb`.
                drop(server);
                server = Server::start().unwrap();
                server.restore("postgres", &dump).unwrap();
            }
            Backup::Files => {
                server.restore_files().unwrap();
                server.psql("UPDATE sealway.meta SET value = value WHERE name = 'timeline'").unwrap();
            }
        }
        let count = server.psql("SELECT count(*) FROM sealway.nonces").unwrap();
        assert_eq!(count, "1", "{backup:?}: the backup has all nonces, so nothing was tried");
        let late = open(&strict(&server), &keys).await.unwrap();
        if backup == Backup::Elsewhere {
            running = late.clone();
        }
        assert_nothing_is_readmitted(&[&running, &late], &granted).await;
        assert!(late.fetch(kept.id()).await.unwrap().is_some(), "{backup:?}: a session of the backup is lost");
        // Once, not at each start.
        let (_, took) = grant(&open(&strict(&server), &keys).await.unwrap(), now).await;
        assert!(took < Duration::from_millis(WINDOW_MS / 2), "{backup:?}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_promoted_synchronous_standby_has_everything_and_serves_at_once() {
    let (mut pair, keys) = (Pair::start(), ring(&[("k", 1)]));
    pair.primary.psql("ALTER SYSTEM SET synchronous_standby_names = 'standby'").unwrap();
    pair.primary.psql("SELECT pg_reload_conf()").unwrap();
    let mut config = config(&pair.url());
    (config.synchronous, config.window_ms) = (true, 300_000);
    let store = open(&config, &keys).await.unwrap();
    let (mut granted, mut sessions) = (Vec::new(), Vec::new());
    for n in 0..20 {
        granted.push(grant(&store, || now() - 500 + n % 5 * 500).await.0);
        sessions.push(put(&store).await.unwrap());
    }
    pair.between.disable().unwrap();
    // Committed at the primary alone, and so not acknowledged.
    let unheard = claim(now());
    assert!(put(&store).await.is_err());
    assert!(store.reserve(&unheard).await.is_err());
    pair.fail_over();
    let (_, took) = grant(&store, now).await;
    println!("new nonces are taken after {took:?}");
    for claim in &granted {
        assert_eq!(store.reserve(claim).await.map(drop), Err(ReserveError::Replayed));
    }
    for session in &sessions {
        assert!(store.fetch(session.id()).await.unwrap().is_some(), "an acknowledged session is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn through_a_pooler_in_transaction_mode_everything_works() {
    let (server, keys) = (Server::start().unwrap(), ring(&[("k", 1)]));
    let mut bouncer = PgBouncer::start(&server, false).unwrap();
    for setting in ["search_path = pg_catalog", "statement_timeout = '3s'"] {
        server.psql(&format!("ALTER ROLE postgres SET {setting}")).unwrap();
    }
    // Revocations through the server itself, and through the pooler in session mode.
    for direct in [server.url(), bouncer.url("session")] {
        let mut config = config(&direct);
        config.use_pooler(&bouncer.url("postgres")).unwrap();
        let (one, other) = (open(&config, &keys).await.unwrap(), open(&config, &keys).await.unwrap());
        for _ in 0..20 {
            race(&[&one, &other], 8, claim(now())).await;
        }
        let sessions = futures_util::future::try_join_all((0..64).map(|_| put(&one))).await.unwrap();
        for session in &sessions {
            assert!(other.get(session.id()).await.unwrap().is_some());
        }
        assert!(one.delete(sessions[0].id()).await.unwrap());
        assert_eq!(other.get(sessions[0].id()).await.unwrap().map(drop), None);
        assert_eq!(one.sweep(now()).await, Ok(0));
        assert_eq!(one.rewrap(10).await, Ok(0));
        // Away and back: nothing is granted twice.
        let (claim, _) = grant(&one, now).await;
        bouncer.kill();
        assert!(one.reserve(&claim).await.is_err());
        assert!(!one.status().up);
        bouncer.start_again().unwrap();
        grant(&one, now).await;
        grant(&other, now).await;
        for store in [&one, &other] {
            assert_eq!(store.reserve(&claim).await.map(drop), Err(ReserveError::Replayed));
        }
    }
    let log = server.log();
    assert!(!log.contains("prepared statement"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pooler_in_the_wrong_place_is_rejected_at_the_start_with_the_remedy() {
    let (server, keys) = (Server::start().unwrap(), ring(&[("k", 1)]));
    let strict = PgBouncer::start(&server, false).unwrap();
    let lax = PgBouncer::start(&server, true).unwrap();
    open(&config(&server.url()), &keys).await.unwrap();
    let refusal = async |url: &str, pooler: Option<String>| {
        let mut config = config(url);
        if let Some(pooler) = pooler {
            config.use_pooler(&pooler).unwrap();
        }
        open(&config, &keys).await.expect_err(url).to_string()
    };
    for bouncer in [&strict, &lax] {
        for database in ["postgres", "session"] {
            let err = refusal(&bouncer.url(database), None).await;
            assert!(err.contains("name the server in sessions.store, and the pooler in sessions.postgres."), "{err}");
        }
    }
    let err = refusal(&server.url(), Some(strict.url("postgres"))).await;
    assert!(err.contains("ALTER ROLE \"postgres\" SET search_path = pg_catalog"), "{err}");
    server.psql("ALTER ROLE postgres SET search_path = pg_catalog").unwrap();
    drop(strict);
    let fresh = PgBouncer::start(&server, false).unwrap();
    let err = refusal(&fresh.url("postgres"), Some(fresh.url("postgres"))).await;
    assert!(err.contains("a connection pooler in transaction mode, by which no revocation is heard"), "{err}");
    let err = refusal(&server.url(), Some(fresh.url("other"))).await;
    assert!(err.contains("leads to another database"), "{err}");
    server.psql("ALTER ROLE postgres SET synchronous_commit = off").unwrap();
    drop(fresh);
    let fresh = PgBouncer::start(&server, false).unwrap();
    let err = refusal(&server.url(), Some(fresh.url("postgres"))).await;
    assert!(err.contains("synchronous_commit"), "{err}");
}
