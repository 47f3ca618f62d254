//! Sessions and nonces in PostgreSQL, which any number of processes may share.
//!
//! A session is committed before its client gets the answer, a nonce before its request proceeds. While the server is
//! unavailable, cached sessions keep working; new ones and nonces are rejected within the deadline. Revocations come by
//! `NOTIFY`; while that connection is down, cached sessions are used without them, and all are asked for again when it
//! is back. `spec/session.md`, replay and storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::Clock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::row;
use super::{Durable, NonceRecord, OpenError, Part, ReserveError, SessionCache, Status, Store, StoreError};
use crate::kek::KeyWrap;

mod batch;
mod config;
mod dial;
mod fault;
mod link;
mod migrate;
mod nonces;
mod rewrap;
mod room;
mod sessions;
mod sweep;
mod tls;
mod watch;

pub use config::{PostgresConfig, TlsWish, parse_pooler_url, parse_url};
pub use migrate::{MigrationReport, migrate};

use batch::Batcher;
use link::Link;
use room::Room;
use sessions::NewSession;
use watch::Watch;

/// Number of rows in one page of a long list.
const PAGE: i64 = 10_000;
/// Time for which a sweep removes rows; the rest is left to the next sweep.
const SWEEP_FOR: Duration = Duration::from_secs(5);
/// Maximum total time of a sweep.
const SWEEP_MAX: Duration = Duration::from_secs(60);

/// Store in a PostgreSQL database, with a cache of sessions in this process.
pub struct Postgres {
    provider: &'static dyn Provider,
    keys: Arc<dyn KeyWrap>,
    cache: Arc<SessionCache>,
    clock: Arc<dyn Clock>,
    link: Arc<Link>,
    puts: Batcher<sessions::Insert>,
    claims: Batcher<nonces::Reserve>,
    sessions: Room,
    sealed: Room,
    inits: Room,
    nonces_max: usize,
    /// Number of the count that this process uses.
    count_number: AtomicI64,
    heed_server_clock: bool,
    window_ms: u64,
    is_lossless: bool,
    /// The latest stamp up to which nonces may have been lost, of those that a reservation has met.
    lost_ms: AtomicU64,
    /// Id of the key under which all rows were wrapped when this process last checked.
    rewrapped: Mutex<String>,
    _watch: JoinSet<()>,
}

impl Postgres {
    /// Opens the database; `cache` bounds the sessions held by this process. An unreachable server is no error: the
    /// store starts down, and comes up by itself.
    ///
    /// # Errors
    /// [`OpenError`]: the server rejects the password, the database, TLS or a privilege; the schema is too old or
    /// belongs to another program; a key of `keys` differs from the one of the same id in the database.
    pub async fn open(
        provider: &'static dyn Provider,
        config: PostgresConfig,
        keys: Arc<dyn KeyWrap>,
        cache: Arc<SessionCache>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        let link = Arc::new(Link::new(&config)?);
        let puts = Batcher::start(sessions::Insert, link.clone(), &config);
        let claims = Batcher::start(nonces::Reserve, link.clone(), &config);
        let (sessions, sealed, inits) =
            (Room::new(config.sessions_max), Room::new(config.nonces_max), Room::new(config.nonces_max));
        let (heed_server_clock, nonces_max) = (config.heed_server_clock, config.nonces_max);
        let (window_ms, is_lossless) = (config.window_ms, config.synchronous);
        let watch = Watch { provider, config, keys: keys.clone(), cache: cache.clone(), link: link.clone() };
        let begun = match watch.begin().await {
            Ok(session) => {
                link.found(true);
                Some(session)
            }
            Err(fault) if fault.stops_a_start() => {
                return Err(OpenError(format!("{}: {fault}", watch.config.place())));
            }
            Err(fault) => {
                tracing::error!(err = %fault, "{} is unavailable; the store starts without it", watch.config.place());
                None
            }
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(watch.run(begun));
        let count_number = AtomicI64::new(0);
        let store = Postgres {
            provider,
            keys,
            cache,
            clock,
            link,
            puts,
            claims,
            sessions,
            sealed,
            inits,
            nonces_max,
            count_number,
            heed_server_clock,
            window_ms,
            is_lossless,
            lost_ms: AtomicU64::new(0),
            rewrapped: Mutex::default(),
            _watch: tasks,
        };
        store.learn_counts().await;
        Ok(Arc::new(store))
    }

    /// Finds a session in the database, without the cache.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; also if the key file lacks the key that wraps the session.
    pub async fn fetch(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let (id, provider, keys) = (*id, self.provider, self.keys.as_ref());
        Ok(self.link.run("get", |lease| sessions::find(lease, id, provider, keys)).await?)
    }

    /// Revokes a session and notifies every process; returns its end if it was there and not yet revoked. The session
    /// is removed from the cache even if this fails.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn revoke(&self, id: &SessionId) -> Result<Option<u64>, StoreError> {
        self.cache.revoke(id);
        let (id, now_ms) = (*id, self.clock.now_ms());
        let end = self.link.run("delete", |lease| sessions::revoke(lease, id, now_ms)).await?;
        if end.is_some() {
            self.sessions.give(1);
        }
        Ok(end)
    }

    /// Returns the end of a session if it is revoked, by any process.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn revoked_end(&self, id: &SessionId) -> Result<Option<u64>, StoreError> {
        let id = *id;
        Ok(self.link.run("get", |lease| sessions::revoked_end(lease, id)).await?)
    }

    /// Inserts a nonce; returns the stamp up to which nonces may have been lost.
    async fn take(&self, claim: &Claim) -> Result<u64, ReserveError> {
        let begun = Instant::now();
        // Fails at once: a request that will be rejected need not wait for it.
        self.link.expect_there("reserve")?;
        let room = if claim.is_sealed() { &self.sealed } else { &self.inits };
        let Some(place) = room.take() else {
            let key = claim.key();
            let is_taken = self.link.run("reserve", |lease| nonces::is_taken(lease, key)).await?;
            return Err(if is_taken { ReserveError::Replayed } else { ReserveError::Full });
        };
        let result = self.claims.commit(*claim).await;
        link::took("reserve", begun);
        // A replay is no failure of the store.
        let result = result.inspect_err(|err| {
            if matches!(err, ReserveError::Unavailable(_)) {
                link::count_failure("reserve");
            }
        });
        result.inspect(|_| place.fill())
    }

    async fn rewrap_some(&self, batch: i64) -> Result<usize, StoreError> {
        let (now_ms, keys) = (self.clock.now_ms(), self.keys.as_ref());
        let mut after = String::new();
        // Continues only if no key of a page could be unwrapped.
        loop {
            let from = after.as_str();
            let page =
                self.link.run_direct("put", SWEEP_FOR, |lease| rewrap::page(lease, keys, from, now_ms, batch)).await?;
            match page.last {
                Some(last) if page.moved == 0 => after = last,
                _ => return Ok(page.moved),
            }
        }
    }

    /// Returns the number of live sessions wrapped under each key-encryption key, by its id.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn wrapped_under(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let now_ms = self.clock.now_ms();
        Ok(self.link.run_direct("get", SWEEP_MAX, |lease| rewrap::census(lease, now_ms)).await?)
    }

    async fn learn_counts(&self) {
        if let Ok(counts) = self.link.run_direct("sweep", SWEEP_FOR, sweep::last_counts).await {
            self.heed(&counts);
        }
    }

    /// Uses a count from now on, unless it is in use already.
    fn heed(&self, counts: &sweep::Counts) {
        if self.count_number.swap(counts.number, Ordering::Relaxed) != counts.number {
            self.sessions.set(counts.sessions);
            self.sealed.set(counts.nonces_sealed);
            self.inits.set(counts.nonces_init);
        }
    }
}

#[async_trait]
impl Store for Postgres {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        let begun = Instant::now();
        let place = self.sessions.take().ok_or(StoreError::Full)?;
        let record = session.record();
        let unavailable = |what: String| StoreError::Unavailable(what);
        // Text in PostgreSQL cannot contain NUL; one such row would fail its whole batch.
        if [&record.client_id, &record.subject, &record.tenant].into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(unavailable("a NUL in a client id, a subject or a tenant cannot be stored".into()));
        }
        let wrapped = row::seal(self.keys.as_ref(), record).await.map_err(|err| unavailable(err.to_string()))?;
        let ticket = self.cache.ticket();
        let result = self.puts.commit(NewSession { session: session.clone(), wrapped }).await;
        link::took("put", begun);
        result.inspect_err(|_| link::count_failure("put"))?;
        place.fill();
        self.cache.keep(&session, ticket);
        Ok(())
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let stale = match self.cache.get(id) {
            Some(held) if held.is_fresh => return Ok(Some(held.session)),
            Some(held) => Some(held.session),
            None if self.cache.is_revoked(id) => return Ok(None),
            None => None,
        };
        let ticket = self.cache.ticket();
        match self.fetch(id).await {
            Ok(Some(session)) => Ok(self.cache.keep(&session, ticket).then_some(session)),
            Ok(None) => {
                // Not as revoked: its row may be gone because it is over, and as the first of a chain of renewals it would take
                // the others along.
                self.cache.forget(id);
                Ok(None)
            }
            // The store is unavailable: a cached session stays valid, unless its revocation arrived meanwhile.
            Err(err) => match stale {
                Some(session) if !self.cache.is_ended(&session) => Ok(Some(session)),
                _ => Err(err),
            },
        }
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.revoke(id).await?.is_some())
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        self.cache.revoke(root);
        let (root, now_ms) = (*root, self.clock.now_ms());
        if self.link.run("delete", |lease| sessions::end_chain(lease, root, now_ms, until_ms)).await? {
            self.sessions.give(1);
        }
        Ok(())
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        let lost_ms = self.take(claim).await?;
        self.lost_ms.fetch_max(lost_ms, Ordering::Relaxed);
        if claim.earliest_ms() > lost_ms {
            return Ok(Fresh::reserved(claim));
        }
        Err(match self.clock.now_ms() > lost_ms {
            true => ReserveError::Replayed,
            false => ReserveError::Unavailable("PostgreSQL: a promoted standby may lack nonces of this stamp".into()),
        })
    }

    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.cache.sweep(now_ms);
        let count_max = (self.sessions.count_max(), self.sealed.count_max());
        let heed_server_clock = self.heed_server_clock;
        let order = sweep::Order { now_ms, heed_server_clock, time: SWEEP_FOR, count_max };
        let swept = self.link.run_direct("sweep", SWEEP_MAX, |lease| sweep::sweep(lease, order));
        let swept = swept.await?;
        self.sessions.give(i64::try_from(swept.sessions).unwrap_or(0));
        self.heed(&swept.counts);
        Ok(swept.sessions)
    }

    async fn rewrap(&self, count_max: usize) -> Result<usize, StoreError> {
        self.keys.refresh().await;
        let active_id = self.keys.active_id();
        if *self.rewrapped.lock() == active_id {
            return Ok(0);
        }
        let count = self.rewrap_some(i64::try_from(count_max).unwrap_or(i64::MAX)).await?;
        if count == 0 {
            *self.rewrapped.lock() = active_id;
        }
        Ok(count)
    }

    fn status(&self) -> Status {
        let up = self.link.is_up() && self.clock.now_ms() > self.lost_ms.load(Ordering::Relaxed);
        let mut pool = self.link.pool();
        pool.waiting += self.puts.waiting() + self.claims.waiting();
        Status {
            kind: "postgres",
            up,
            postgres: if up { Part::Up } else { Part::Down },
            redis: Part::Unused,
            sessions: self.sessions.len(),
            nonces: (self.sealed.len(), self.inits.len()),
            nonces_max: self.nonces_max,
            pool,
        }
    }
}

#[async_trait]
impl Durable for Postgres {
    async fn record(&self, claim: &Claim) -> Result<(), ReserveError> {
        // Redis has the nonces that a promoted standby lacks.
        self.take(claim).await.map(drop)
    }

    async fn recorded_after(&self, stamp_ms: u64, now_ms: u64) -> Result<Vec<NonceRecord>, StoreError> {
        let mut all: Vec<NonceRecord> = Vec::new();
        loop {
            let after = all.last().map(|last| last.key.0.to_vec()).unwrap_or_default();
            let after = after.as_slice();
            let page = self.link.run("get", |lease| nonces::recorded_after(lease, after, stamp_ms, now_ms, PAGE));
            let page = page.await?;
            let is_last = page.len() < usize::try_from(PAGE).unwrap_or(0);
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn lost_ms(&self) -> Result<u64, StoreError> {
        let (window_ms, is_lossless) = (self.window_ms, self.is_lossless);
        let read = self.link.run("get", |lease| async move {
            let lost_ms = nonces::mark_lost(&lease, window_ms, is_lossless).await?;
            lease.done();
            Ok(lost_ms)
        });
        Ok(read.await?)
    }

    async fn revoked(&self, now_ms: u64) -> Result<Vec<(SessionId, u64)>, StoreError> {
        let mut all: Vec<(SessionId, u64)> = Vec::new();
        loop {
            let after = all.last();
            let page = self.link.run("get", |lease| async move {
                let page = sessions::revoked_after(&lease, after, now_ms, PAGE).await?;
                lease.done();
                Ok(page)
            });
            let page = page.await?;
            let is_last = page.len() < usize::try_from(PAGE).unwrap_or(0);
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("status", &self.status()).finish_non_exhaustive()
    }
}
