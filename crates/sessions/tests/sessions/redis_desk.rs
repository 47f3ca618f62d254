//! Shared helpers of the tests of Redis: stores as several processes would open them, claims, and a durable side in
//! memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sealway_proto::session::{Claim, ClaimKey};
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::cache::CacheLimits;
use sealway_sessions::store::redis::{Redis, RedisConfig};
use sealway_sessions::store::{
    Durable, MemoryLimits, NonceRecord, OpenError, ReserveError, SessionCache, Store, StoreError,
};
use sealway_testkit::store_contract::claims::{init, provider, random};

/// Maximum time to come up on a machine that is busy with other tests too.
const UP_WITHIN: Duration = Duration::from_secs(15);

/// State shared by the processes of one installation.
pub(crate) struct Desk {
    pub(crate) config: RedisConfig,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) ledger: Option<Arc<Ledger>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: MemoryLimits,
    pub(crate) folder: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kek = folder.path().join("sessions.kek");
        KeyRing::generate(provider(), &kek).unwrap();
        let keys = Arc::new(KeyRing::load(provider(), &kek).unwrap());
        let config = RedisConfig::parse_url(url).unwrap();
        Desk { config, keys, ledger: None, clock: Arc::new(SystemClock), limits: MemoryLimits::default(), folder }
    }

    /// Adds a durable side in memory.
    pub(crate) fn durable(mut self) -> Self {
        self.ledger = Some(Arc::default());
        self
    }

    /// Sets a window short enough to wait for it.
    pub(crate) fn window_ms(mut self, window_ms: u64) -> Self {
        self.config.window_ms = window_ms;
        self
    }

    /// Sets a long deadline, for tests where each request must be answered even on a busy machine.
    pub(crate) fn patient(mut self) -> Self {
        self.config.server.deadline = Duration::from_secs(5);
        self
    }

    /// Opens a store as a separate process would.
    pub(crate) async fn try_open(&self) -> Result<(Arc<Redis>, Arc<SessionCache>), OpenError> {
        let cache = Arc::new(SessionCache::new(CacheLimits::default()));
        let durable = self.ledger.clone().map(|ledger| ledger as Arc<dyn Durable>);
        let (config, keys, clock) = (self.config.clone(), self.keys.clone(), self.clock.clone());
        let store = Redis::open(provider(), config, keys, cache.clone(), self.limits, clock, durable).await?;
        Ok((store, cache))
    }

    pub(crate) async fn open(&self) -> Arc<Redis> {
        self.try_open().await.unwrap().0
    }
}

/// Returns the system's time, in milliseconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemClock.now_ms()
}

/// Returns a new random nonce.
pub(crate) fn nonce() -> String {
    random().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a claim of an init by the system's clock.
pub(crate) fn claim(nonce: &str, stamp_ms: u64) -> Claim {
    claim_at(nonce, stamp_ms, now())
}

pub(crate) fn claim_at(nonce: &str, stamp_ms: u64, now_ms: u64) -> Claim {
    *init(Some("web"), nonce, stamp_ms, now_ms).claim()
}

/// Reserves the nonce of a claim in the store.
pub(crate) async fn reserve(store: &Arc<Redis>, claim: &Claim) -> Result<(), ReserveError> {
    Store::reserve(store.as_ref(), claim).await.map(drop)
}

/// Reserves a new nonce. On a busy machine Redis may be late at any moment, and a rejection is then right: another
/// nonce is tried, since the first may have been taken. Returns the nonce with its stamp.
pub(crate) async fn grant(store: &Arc<Redis>, stamp: impl Fn() -> u64) -> (String, u64) {
    let end = Instant::now() + UP_WITHIN;
    loop {
        let (nonce, stamp_ms) = (nonce(), stamp());
        match reserve(store, &claim(&nonce, stamp_ms)).await {
            Ok(()) => return (nonce, stamp_ms),
            Err(ReserveError::Unavailable(err)) => assert!(Instant::now() < end, "it takes nothing new: {err}"),
            Err(err) => panic!("stamped {stamp_ms}, at {}: {err}", now()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, within: Duration, is_so: impl AsyncFn() -> bool) {
    let end = Instant::now() + within;
    while !is_so().await {
        assert!(Instant::now() < end, "{what} did not come within {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn until_up(store: &Arc<Redis>) {
    until("up", UP_WITHIN, async || store.is_up()).await;
}

pub(crate) async fn until_down(store: &Arc<Redis>) {
    until("down", UP_WITHIN, async || !store.is_up()).await;
}

/// Durable side in this test's memory, in place of PostgreSQL.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    rows: Mutex<HashMap<ClaimKey, (u64, NonceRecord)>>,
    pub(crate) revoked: Mutex<Vec<(SessionId, u64)>>,
    pub(crate) is_away: AtomicBool,
    /// Delays all records while true.
    pub(crate) is_slow: AtomicBool,
    /// Number of records to delay.
    pub(crate) slow: AtomicUsize,
}

impl Ledger {
    pub(crate) fn holds(&self, claim: &Claim) -> bool {
        self.rows.lock().unwrap().contains_key(&claim.key())
    }
}

#[async_trait::async_trait]
impl Durable for Ledger {
    async fn record(&self, claim: &Claim) -> Result<(), ReserveError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(ReserveError::Unavailable("the ledger is away".into()));
        }
        let is_slow = || self.is_slow.load(Ordering::SeqCst);
        self.slow.fetch_add(usize::from(is_slow()), Ordering::SeqCst);
        while is_slow() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let row = NonceRecord { key: claim.key(), sealed: claim.is_sealed(), expires_ms: claim.expires_ms() };
        match self.rows.lock().unwrap().insert(claim.key(), (claim.stamp_ms(), row)) {
            Some(_) => Err(ReserveError::Replayed),
            None => Ok(()),
        }
    }

    async fn recorded_after(&self, stamp_ms: u64, now_ms: u64) -> Result<Vec<NonceRecord>, StoreError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("the ledger is away".into()));
        }
        let rows = self.rows.lock().unwrap();
        let fits = |(stamp, row): &&(u64, NonceRecord)| *stamp > stamp_ms && row.expires_ms > now_ms;
        Ok(rows.values().filter(fits).map(|(_, row)| *row).collect())
    }

    async fn revoked(&self, now_ms: u64) -> Result<Vec<(SessionId, u64)>, StoreError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("the ledger is away".into()));
        }
        Ok(self.revoked.lock().unwrap().iter().filter(|(_, end)| *end > now_ms).copied().collect())
    }

    async fn lost_ms(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}
