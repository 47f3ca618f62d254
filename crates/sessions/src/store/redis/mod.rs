//! Sessions and nonces in Redis 7 or newer, or a Redis Cluster: by itself, or as the fast side of the tiered store.
//!
//! Each process asks its own memory first, then Redis, in one round trip. The script that reserves a nonce (`script`)
//! also detects if Redis lost its memory: the nonces of a bucket belong to an epoch, and a lost epoch is replaced by a
//! new one with a floor, below which every stamp is rejected (`epoch`). `spec/session.md`, replay.
//!
//! The ACL user needs no more than (where the prefix is `sealway`; a cluster asks for `+cluster|slots +readonly +asking`
//! besides, replicas that confirm their master for `+wait`):
//!
//! ```text
//! user sealway on >… ~sealway:* ~{sealway:* resetchannels &sealway:revoked -@all +ping +info
//!   +select +eval +evalsha +script|load +time +get +set +exists +strlen +pttl +hget +hset +hmget +publish +subscribe
//! ```

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::session::{Claim, ClaimKey, Fresh, Session};
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::Clock;
use sealway_runtime::redis::{Link, Trouble};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::Instrument;

use super::nonces::Nonces;
use super::{Durable, MemoryLimits, OpenError, Part, Pool, ReserveError, SessionCache, Status, Store, StoreError};
use crate::kek::KeyWrap;

mod alone;
mod begin;
mod config;
mod confirm;
mod epoch;
mod reserve;
mod script;
mod sessions;
mod subscribe;
mod supervise;

use alone::Alone;
pub use config::{OnLoss, RedisConfig};
use confirm::Confirmations;
use epoch::Epoch;
pub use sessions::Lookup;

/// Number of hash slots over which the nonces of a cluster are spread; a single server has one bucket.
const BUCKETS: usize = 64;

/// Store of sessions and nonces in one Redis server or a cluster.
#[derive(Debug)]
pub struct Redis {
    shared: Arc<Inner>,
    tasks: Vec<AbortHandle>,
}

/// State shared by the store and its tasks.
struct Inner {
    provider: &'static dyn Provider,
    config: RedisConfig,
    keys: Arc<dyn KeyWrap>,
    cache: Arc<SessionCache>,
    clock: Arc<dyn Clock>,
    durable: Option<Arc<dyn Durable>>,
    sealed: Nonces,
    inits: Nonces,
    live: ArcSwapOption<Live>,
    alone: Mutex<Alone>,
    /// The last generation of each bucket that this process used.
    had: Mutex<Vec<Option<String>>>,
    /// Generations of buckets that this process has replaced by others.
    left: Mutex<HashSet<(usize, String)>>,
    /// Maximum number of nonces of each kind in this process's memory.
    nonces_max: usize,
    /// The latest stamp of a nonce that only Redis holds, because there was no room here: of sealed calls, and of
    /// inits.
    unheld_calls_ms: AtomicU64,
    unheld_inits_ms: AtomicU64,
    /// The highest time that a server has reported.
    seen_ms: AtomicU64,
    /// Notified when an operation failed in a way that the supervisor should check.
    trouble: Notify,
    permits: Semaphore,
    behind: mpsc::Sender<Arc<Session>>,
    /// Time at which this process opened the store, by its own clock, in milliseconds since the epoch.
    start_ms: u64,
    /// This process's mark on an epoch that it is about to begin.
    mark: String,
}

/// A connection in use, and the epochs in force on it.
struct Live {
    link: Link,
    confirmations: Confirmations,
    /// One per bucket; `None` while it is not in force or its floor is ahead.
    epochs: Vec<ArcSwapOption<Epoch>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Inner {
    fn is_up(&self) -> bool {
        self.live.load().as_ref().is_some_and(|live| live.epochs.iter().all(|epoch| epoch.load().is_some()))
    }

    fn nonces(&self, sealed: bool) -> &Nonces {
        if sealed { &self.sealed } else { &self.inits }
    }

    fn saw(&self, time_ms: u64) {
        self.seen_ms.fetch_max(time_ms, Ordering::AcqRel);
    }

    fn channel(&self) -> String {
        format!("{}:revoked", self.config.prefix)
    }

    fn bucket(&self, key: &ClaimKey) -> usize {
        if self.config.server.cluster { usize::from(key.0[0]) % BUCKETS } else { 0 }
    }

    fn buckets(&self) -> usize {
        if self.config.server.cluster { BUCKETS } else { 1 }
    }

    /// Awaits an operation within the deadline and the bound of operations in flight, and notifies the supervisor of
    /// trouble.
    async fn call<T>(&self, live: &Arc<Live>, work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        let bounded = async {
            let _permit = self.permits.acquire().await.map_err(|_| Trouble::Slow)?;
            work.await
        };
        let done = tokio::time::timeout(self.config.server.deadline, bounded).await.unwrap_or(Err(Trouble::Slow));
        match &done {
            // One node of a cluster may be away while the others go on.
            Err(Trouble::Away(_)) if !self.config.server.cluster => self.lose(live),
            Err(Trouble::Full) | Ok(_) => {}
            Err(_) => self.trouble.notify_one(),
        }
        done
    }

    /// Takes a connection out of use.
    fn lose(&self, live: &Arc<Live>) {
        let mut alone = self.alone.lock();
        let is_same = |current: &Arc<Live>| Arc::ptr_eq(current, live);
        if self.live.load().as_ref().is_some_and(is_same) {
            self.live.store(None);
            alone.begin();
        }
        drop(alone);
        self.trouble.notify_one();
    }
}

/// Records the duration of an operation in the metrics, and counts its failures.
async fn measured<T, E>(
    op: &'static str,
    work: impl Future<Output = Result<T, E>>,
    is_fault: fn(&E) -> bool,
) -> Result<T, E> {
    let start = Instant::now();
    let done = work.instrument(tracing::debug_span!("redis", op)).await;
    metrics::histogram!("sealway_store_seconds", "store" => "redis", "op" => op).record(start.elapsed().as_secs_f64());
    if done.as_ref().is_err_and(is_fault) {
        metrics::counter!("sealway_store_failures_total", "store" => "redis", "op" => op).increment(1);
    }
    done
}

/// Maximum time that opening waits for a floor a little ahead, which avoids rejections later.
const OPEN_WAIT: Duration = Duration::from_millis(2500);

impl Redis {
    /// Connects, and reconnects by itself: an unavailable server does not stop the start, the store is then down. With
    /// `durable`, the loss of Redis's memory means rejections for about a second and no replays; without it, rejections
    /// for a window.
    ///
    /// # Errors
    /// [`OpenError`]: password, rights, version or eviction policy are not as required.
    pub async fn open(
        provider: &'static dyn Provider,
        config: RedisConfig,
        keys: Arc<dyn KeyWrap>,
        cache: Arc<SessionCache>,
        limits: MemoryLimits,
        clock: Arc<dyn Clock>,
        durable: Option<Arc<dyn Durable>>,
    ) -> Result<Arc<Self>, OpenError> {
        config.check()?;
        // Read once here, so that a missing file fails the start.
        config.server.certificates()?;
        let nonces = || Nonces::new(limits.nonces_max, limits.nonces_cleanup_from);
        let (behind, queue) = mpsc::channel(config.behind_max);
        let mut mark = [0; 8];
        provider.fill_random(&mut mark).map_err(|err| OpenError(err.to_string()))?;
        let shared = Arc::new(Inner {
            provider,
            keys,
            cache,
            durable,
            sealed: nonces(),
            inits: nonces(),
            live: ArcSwapOption::empty(),
            alone: Mutex::new(Alone::new(config.on_loss, limits.nonces_max.saturating_mul(2))),
            had: Mutex::new(vec![None; BUCKETS]),
            left: Mutex::default(),
            nonces_max: limits.nonces_max,
            unheld_calls_ms: AtomicU64::new(0),
            unheld_inits_ms: AtomicU64::new(0),
            seen_ms: AtomicU64::new(0),
            trouble: Notify::new(),
            permits: Semaphore::new(config.in_flight_max.min(Semaphore::MAX_PERMITS)),
            behind,
            start_ms: clock.now_ms(),
            mark: format!("-{}", hex(&mark)),
            clock,
            config,
        });
        let first = match supervise::start(&shared).await {
            Ok(first) => Some(first),
            Err(Trouble::Setting(what)) => return Err(OpenError(format!("{}: {what}", shared.config.server.name()))),
            Err(err) => {
                tracing::warn!(store = %shared.config.server.name(), %err, "Redis is unavailable; connecting is retried");
                None
            }
        };
        let is_there = first.is_some();
        let tasks = vec![
            tokio::spawn(supervise::run(shared.clone(), first)).abort_handle(),
            tokio::spawn(sessions::write_behind(shared.clone(), queue)).abort_handle(),
            tokio::spawn(subscribe::run(shared.clone())).abort_handle(),
        ];
        let store = Arc::new(Redis { shared, tasks });
        let until = Instant::now() + OPEN_WAIT;
        while is_there && !store.is_up() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(store)
    }

    /// True if all buckets take nonces now.
    pub fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// Returns the state for `/health`.
    pub fn part(&self) -> Part {
        if self.is_up() { Part::Up } else { Part::Down }
    }

    /// Returns the number of nonces of sealed calls, and of inits, in this process's memory.
    pub fn nonces(&self) -> (usize, usize) {
        (self.shared.sealed.len(), self.shared.inits.len())
    }

    /// Removes expired nonces from this process's memory; Redis expires its own.
    pub fn sweep_local(&self, now_ms: u64) {
        self.shared.sealed.sweep(now_ms);
        self.shared.inits.sweep(now_ms);
        self.shared.alone.lock().sweep(now_ms);
    }

    fn pool(&self) -> Pool {
        let total = usize::from(self.shared.live.load().is_some());
        let in_flight = self.shared.config.in_flight_max.saturating_sub(self.shared.permits.available_permits());
        Pool { total, idle: usize::from(total > 0 && in_flight == 0), waiting: in_flight }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Redis alone, as store of both sessions and nonces.
#[async_trait]
impl Store for Redis {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        self.put_session(session).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        measured("get", self.get_session(id), |_| true).await
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        measured("delete", self.delete_session(id), |_| true).await
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        self.revoke(root, until_ms).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        Redis::reserve(self, claim).await
    }

    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.sweep_local(now_ms);
        self.shared.cache.sweep(now_ms);
        Ok(0)
    }

    /// Rewraps nothing: entries end soon, and there is no list of them. Reads a changed key file.
    async fn rewrap(&self, _count_max: usize) -> Result<usize, StoreError> {
        self.shared.keys.refresh().await;
        Ok(0)
    }

    fn status(&self) -> Status {
        Status {
            kind: "redis",
            up: self.is_up(),
            postgres: Part::Unused,
            redis: self.part(),
            sessions: self.shared.cache.len(),
            nonces: self.nonces(),
            nonces_max: self.shared.nonces_max,
            pool: self.pool(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
