//! Cache of sessions with expanded keys, so that a sealed call need not ask the store. Bounded; an entry is asked for
//! again when its time is over, and is removed at once when its session is revoked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use foldhash::fast::RandomState;
use metrics::{Counter, counter};
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sealway_proto::session::Session;
use sealway_proto::wire::SessionId;
use tokio::time::Instant;

/// Bounds of the session cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum number of sessions; about 1 KiB each. The least used are evicted first.
    pub sessions_max: usize,
    /// Time for which a session is used without asking the store again.
    pub fresh: Duration,
}

/// Default of [`CacheLimits::fresh`], in milliseconds.
pub const FRESH_MS_DEFAULT: u64 = 60_000;

impl CacheLimits {
    /// Bounds that apply if none are configured.
    pub const DEFAULT: Self = CacheLimits { sessions_max: 100_000, fresh: Duration::from_millis(FRESH_MS_DEFAULT) };
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A session found in the cache.
#[derive(Clone, Debug)]
pub struct CacheEntry {
    /// The cached session, with its expanded keys.
    pub session: Arc<Session>,
    /// True if the session may be used without asking the store. A stale one may be used only while the store is
    /// unavailable.
    pub is_fresh: bool,
}

/// Generation of the cache, taken before a session is fetched, so that a session forgotten meanwhile is not put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

#[derive(Clone, Debug)]
struct Entry {
    session: Arc<Session>,
    since: Instant,
}

/// Maximum number of revocations remembered: a fetch that began before a revocation must not bring its session back.
const REVOKED_MAX: u64 = 1_000_000;
/// Time for which a revocation is remembered; sessions end within it (those up to
/// [`sealway_proto::limits::TTL_SEC_CONFIG_MAX`] aside, whose row is gone by then).
const REVOKED_FOR: Duration = Duration::from_secs(24 * 3600);

/// Cache of sessions and revocations, shared by the tasks of a process.
pub struct SessionCache {
    held: Cache<SessionId, Entry, RandomState>,
    revoked: Cache<SessionId, (), RandomState>,
    /// True once there was any revocation.
    any_revoked: AtomicBool,
    /// Number of times that the cache was cleared.
    cleared: AtomicU64,
    limits: CacheLimits,
    /// Lookups that found a fresh session, a stale one, none.
    looks: [Counter; 3],
}

impl SessionCache {
    /// Creates an empty cache that holds at most `limits.sessions_max` sessions.
    pub fn new(limits: CacheLimits) -> Self {
        SessionCache {
            // Ids are drawn by servers and the hash is seeded here, so no client can choose collisions.
            held: Cache::builder().max_capacity(limits.sessions_max as u64).build_with_hasher(RandomState::default()),
            revoked: Cache::builder()
                .max_capacity(REVOKED_MAX)
                .time_to_live(REVOKED_FOR)
                // LRU keeps the newest: by the default policy a full cache would take no new revocation.
                .eviction_policy(EvictionPolicy::lru())
                .build_with_hasher(RandomState::default()),
            any_revoked: AtomicBool::new(false),
            cleared: AtomicU64::new(0),
            limits,
            looks: ["fresh", "stale", "none"]
                .map(|found| counter!("sealway_session_cache_looks_total", "found" => found)),
        }
    }

    /// Returns the approximate number of cached sessions.
    pub fn len(&self) -> usize {
        usize::try_from(self.held.entry_count()).unwrap_or(usize::MAX)
    }

    /// True if no session is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks up a session; an ended one is not returned.
    pub fn get(&self, id: &SessionId) -> Option<CacheEntry> {
        let found = self
            .held
            .get(id)
            .filter(|entry| !self.is_ended(&entry.session))
            .map(|entry| CacheEntry { is_fresh: entry.since.elapsed() < self.limits.fresh, session: entry.session });
        let look = found.as_ref().map_or(2, |held| usize::from(!held.is_fresh));
        self.looks[look].increment(1);
        found
    }

    /// True if this process knows of a revocation of this session.
    pub fn is_revoked(&self, id: &SessionId) -> bool {
        // Pairs with the fence of `revoke`: of a thread that caches a session and a thread that revokes it, at least
        // one sees the other's write.
        fence(Ordering::SeqCst);
        self.any_revoked.load(Ordering::Relaxed) && self.revoked.contains_key(id)
    }

    /// True if this process knows of a revocation of this session or of another one of its chain of renewals.
    pub fn is_ended(&self, session: &Session) -> bool {
        let record = session.record();
        self.is_revoked(&record.id) || record.lineage.as_ref().is_some_and(|root| self.is_revoked(root))
    }

    /// Returns a ticket; take it before fetching a session.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.cleared.load(Ordering::Acquire))
    }

    /// Caches a session that was fetched after `ticket` was taken. Returns false if the session must not be used
    /// because its revocation arrived meanwhile.
    pub fn keep(&self, session: &Arc<Session>, ticket: Ticket) -> bool {
        let id = session.id();
        if ticket == self.ticket() {
            self.held.insert(*id, Entry { session: session.clone(), since: Instant::now() });
        }
        // Checked after the insertion: `revoke` marks first and removes then, so one of the two sees the other.
        if self.is_ended(session) {
            self.held.invalidate(id);
            return false;
        }
        if ticket != self.ticket() {
            self.held.invalidate(id);
        }
        true
    }

    /// Removes a session until it is fetched again.
    pub fn forget(&self, id: &SessionId) {
        self.held.invalidate(id);
    }

    /// Removes a session and remembers its revocation.
    pub fn revoke(&self, id: &SessionId) {
        self.revoked.insert(*id, ());
        self.any_revoked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.held.invalidate(id);
    }

    /// Removes all sessions, because revocations may have been missed. Each is fetched again.
    pub fn clear(&self) {
        self.cleared.fetch_add(1, Ordering::AcqRel);
        self.held.invalidate_all();
    }

    /// Removes sessions that are over at `now_ms`.
    pub fn sweep(&self, now_ms: u64) {
        for (id, entry) in &self.held {
            if entry.session.is_expired(now_ms) {
                self.held.invalidate(id.as_ref());
            }
        }
        self.held.run_pending_tasks();
    }
}

impl std::fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionCache").field("len", &self.len()).field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
