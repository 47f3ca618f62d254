//! Sessions and nonces in Redis 7 or newer, or a Redis Cluster: by itself, or as the fast side of the tiered store.
//!
//! Each process asks its own memory first, then Redis, in one round trip. What Redis may lose with its memory is noticed
//! by the same script that reserves (`script`): the nonces of a bucket belong to an epoch, and an epoch that is not at
//! hand any more is begun anew with a floor, below which every stamp is refused (`epoch`). `spec/session.md`, replay.
//!
//! The ACL user needs no more than (where the prefix is `sealway`; a cluster asks for `+cluster|slots +readonly +asking`
//! besides):
//!
//! ```text
//! user sealway on >… ~sealway:* ~{sealway:* resetchannels &sealway:revoked -@all +ping +info
//!   +select +eval +evalsha +script|load +time +get +set +exists +strlen +pttl +hget +hset +hmget +publish +subscribe
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::session::{Claim, ClaimKey, Fresh, Session};
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::Clock;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::nonces::Nonces;
use super::{Durable, MemoryLimits, OpenError, Part, Pool, ReserveError, SessionCache, Status, Store, StoreError};
use crate::kek::KeyWrap;

mod alone;
mod begin;
mod config;
mod epoch;
mod link;
mod reserve;
mod script;
mod sessions;
mod subscribe;
mod supervise;

use alone::Alone;
pub use config::{Node, OnLoss, RedisConfig, TlsFiles};
use epoch::Epoch;
use link::{Link, Trouble};
pub use sessions::Found;

/// Nonces of a cluster are spread over so many slots; a single server has one bucket.
const BUCKETS: usize = 64;

/// The store.
#[derive(Debug)]
pub struct Redis {
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

/// What the store and its tasks share.
struct Shared {
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
    /// What this process has known of the epochs, bucket by bucket: the last generation that it used.
    had: Mutex<Vec<Option<String>>>,
    /// As many nonces of each kind are held here.
    nonces_max: usize,
    /// The latest stamp of a call's nonce that only Redis holds, for want of room here; and of an init's.
    unheld_calls_ms: AtomicU64,
    unheld_inits_ms: AtomicU64,
    /// The highest time that a server has told.
    seen_ms: AtomicU64,
    /// Told when an operation failed in a way that the supervisor should look into.
    trouble: Notify,
    permits: Semaphore,
    behind: mpsc::Sender<Arc<Session>>,
    /// By this process's clock.
    start_ms: u64,
    /// This process's mark on an epoch that it is about to begin anew.
    mark: String,
}

/// A connection in use, and the epochs that are in force on it.
struct Live {
    link: Link,
    /// One a bucket; none while it is not in force or its floor lies ahead.
    epochs: Vec<ArcSwapOption<Epoch>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Shared {
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
        if self.config.cluster { usize::from(key.0[0]) % BUCKETS } else { 0 }
    }

    fn buckets(&self) -> usize {
        if self.config.cluster { BUCKETS } else { 1 }
    }

    /// Does something within the deadline and the bound of operations in flight, and tells the supervisor of trouble.
    async fn call<T>(&self, live: &Arc<Live>, work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        let bounded = async {
            let _permit = self.permits.acquire().await.map_err(|_| Trouble::Slow)?;
            work.await
        };
        let done = tokio::time::timeout(self.config.deadline, bounded).await.unwrap_or(Err(Trouble::Slow));
        match &done {
            // One node of a cluster may be away: the others go on.
            Err(Trouble::Away(_)) if !self.config.cluster => self.lose(live),
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

/// Measures an operation.
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

/// How long an opening waits for a floor that lies a little ahead: who is waited for here is not refused later.
const OPEN_WAIT: Duration = Duration::from_millis(2500);

impl Redis {
    /// Connects, and goes on connecting by itself: a server that is away does not stop the start, the store is down then.
    /// With `durable`, Redis may lose its memory and nothing is readmitted but what its floor refuses for a second;
    /// without, for a window.
    ///
    /// # Errors
    /// [`OpenError`]: password, rights, version or eviction are not as they must be.
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
        // Read once here, so that a missing file stops the start.
        config.certificates()?;
        let nonces = || Nonces::new(limits.nonces_max, limits.nonces_cleanup_from);
        let (behind, queue) = mpsc::channel(config.behind_max);
        let mut mark = [0; 8];
        provider.fill_random(&mut mark).map_err(|err| OpenError(err.to_string()))?;
        let shared = Arc::new(Shared {
            provider,
            keys,
            cache,
            durable,
            sealed: nonces(),
            inits: nonces(),
            live: ArcSwapOption::empty(),
            alone: Mutex::new(Alone::new(config.on_loss, limits.nonces_max.saturating_mul(2))),
            had: Mutex::new(vec![None; BUCKETS]),
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
            Err(Trouble::Setting(what)) => return Err(OpenError(format!("{}: {what}", shared.config.name()))),
            Err(err) => {
                tracing::warn!(store = %shared.config.name(), %err, "Redis is away; it is tried on");
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

    /// Whether it takes nonces now, all of them.
    pub fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// The same for `/health`.
    pub fn part(&self) -> Part {
        if self.is_up() { Part::Up } else { Part::Down }
    }

    /// Nonces of sealed calls, and of inits, that this process holds.
    pub fn nonces(&self) -> (usize, usize) {
        (self.shared.sealed.len(), self.shared.inits.len())
    }

    /// Forgets what this process holds and what is over at `now_ms`; Redis forgets by itself.
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

/// Redis alone: it holds sessions as well.
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

    /// Nothing is wrapped anew: copies end soon, and there is no list of them. A key file that has changed is read.
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
