//! Sessions at hand: expanded keys that this process has seen, so that a sealed call need not ask for them. Bounded; an
//! entry is asked for again when its time is over, and goes at once when its session is revoked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use metrics::{Counter, counter};
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sealway_proto::session::Session;
use sealway_proto::wire::SessionId;

/// Bounds of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Sessions; about 1 KiB each. The least used go first.
    pub sessions_max: usize,
    /// How long one is used without asking again.
    pub fresh: Duration,
}

/// Default of [`CacheLimits::fresh`], in milliseconds.
pub const FRESH_MS_DEFAULT: u64 = 60_000;

impl CacheLimits {
    /// The bounds that are used when none are configured.
    pub const DEFAULT: Self = CacheLimits { sessions_max: 100_000, fresh: Duration::from_millis(FRESH_MS_DEFAULT) };
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A session at hand.
#[derive(Clone, Debug)]
pub struct Held {
    /// The session.
    pub session: Arc<Session>,
    /// Whether it may be used without asking again. One that is not is good only while nobody can be asked.
    pub is_fresh: bool,
}

/// Taken before a session is fetched, so that what was revoked meanwhile is not put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

#[derive(Clone, Debug)]
struct Entry {
    session: Arc<Session>,
    since: Instant,
}

/// How many revocations are remembered: a fetch that began before one must not bring its session back.
const REVOKED_MAX: u64 = 1_000_000;
/// For how long; sessions end within it ([`sealway_proto::limits::TTL_SEC_CONFIG_MAX`] aside, the row is gone by then).
const REVOKED_FOR: Duration = Duration::from_secs(24 * 3600);

/// The cache.
pub struct SessionCache {
    held: Cache<SessionId, Entry, RandomState>,
    revoked: Cache<SessionId, (), RandomState>,
    /// Whether there has been a revocation at all.
    any_revoked: AtomicBool,
    /// Counts how often everything was forgotten.
    cleared: AtomicU64,
    limits: CacheLimits,
    /// Looks that found a fresh session, one past its time, none.
    looks: [Counter; 3],
}

impl SessionCache {
    /// An empty one.
    pub fn new(limits: CacheLimits) -> Self {
        SessionCache {
            // Ids are drawn by servers and seeded here: nobody can choose what collides.
            held: Cache::builder().max_capacity(limits.sessions_max as u64).build_with_hasher(RandomState::default()),
            revoked: Cache::builder()
                .max_capacity(REVOKED_MAX)
                .time_to_live(REVOKED_FOR)
                // The newest stay: by the default a full one would take no new revocation.
                .eviction_policy(EvictionPolicy::lru())
                .build_with_hasher(RandomState::default()),
            any_revoked: AtomicBool::new(false),
            cleared: AtomicU64::new(0),
            limits,
            looks: ["fresh", "stale", "none"]
                .map(|found| counter!("sealway_session_cache_looks_total", "found" => found)),
        }
    }

    /// How many it holds, roughly.
    pub fn len(&self) -> usize {
        usize::try_from(self.held.entry_count()).unwrap_or(usize::MAX)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A session at hand.
    pub fn get(&self, id: &SessionId) -> Option<Held> {
        let found = self
            .held
            .get(id)
            .filter(|entry| !self.is_ended(&entry.session))
            .map(|entry| Held { is_fresh: entry.since.elapsed() < self.limits.fresh, session: entry.session });
        let look = found.as_ref().map_or(2, |held| usize::from(!held.is_fresh));
        self.looks[look].increment(1);
        found
    }

    /// Whether a revocation of this session was heard of.
    pub fn is_revoked(&self, id: &SessionId) -> bool {
        // With the fence of `revoke`: of one that keeps a session and one that revokes it, one sees what the other did.
        fence(Ordering::SeqCst);
        self.any_revoked.load(Ordering::Relaxed) && self.revoked.contains_key(id)
    }

    /// True if a revocation of this session, or of another one of its chain of renewals, was heard of.
    pub fn is_ended(&self, session: &Session) -> bool {
        let record = session.record();
        self.is_revoked(&record.id) || record.lineage.as_ref().is_some_and(|root| self.is_revoked(root))
    }

    /// To be taken before asking for a session.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.cleared.load(Ordering::Acquire))
    }

    /// Keeps a session that was asked for after `ticket` was taken; whether it may be used: not when its revocation was
    /// heard of meanwhile.
    pub fn keep(&self, session: &Arc<Session>, ticket: Ticket) -> bool {
        let id = session.id();
        if ticket == self.ticket() {
            self.held.insert(*id, Entry { session: session.clone(), since: Instant::now() });
        }
        // After the insertion: whoever revokes marks first and removes then, so one of the two sees the other.
        if self.is_ended(session) {
            self.held.invalidate(id);
            return false;
        }
        if ticket != self.ticket() {
            self.held.invalidate(id);
        }
        true
    }

    /// Forgets a session until it is asked for again.
    pub fn forget(&self, id: &SessionId) {
        self.held.invalidate(id);
    }

    /// Forgets a session for good.
    pub fn revoke(&self, id: &SessionId) {
        self.revoked.insert(*id, ());
        self.any_revoked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.held.invalidate(id);
    }

    /// Forgets all sessions at hand: revocations may have been missed. Each is asked for again.
    pub fn clear(&self) {
        self.cleared.fetch_add(1, Ordering::AcqRel);
        self.held.invalidate_all();
    }

    /// Drops what is over at `now_ms`.
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
