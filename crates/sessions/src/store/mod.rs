//! Where sessions and nonces are kept. Stores are dumb: put, get, delete a session; reserve a nonce; sweep. What they
//! must hold is the contract suite in `sealway_testkit::store_contract`, run against every one of them.

use std::sync::Arc;

use async_trait::async_trait;
use sealway_proto::session::{Claim, ClaimKey, Fresh, Session};
use sealway_proto::wire::SessionId;

pub mod cache;
pub mod embedded;
pub mod memory;
mod nonces;
pub mod postgres;
pub mod redis;
pub mod remote;
mod row;
pub mod tiered;
pub(crate) mod tls;
mod writer;

pub use cache::SessionCache;
pub use embedded::Embedded;
pub use memory::{Memory, MemoryLimits};

/// A store could not do what it was asked; nothing was half done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or cannot write.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
    /// It holds as many sessions as it may.
    #[error("store is full")]
    Full,
}

/// A nonce was not reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// It was reserved before, or a restart makes it impossible to say.
    #[error("nonce was seen before")]
    Replayed,
    /// The store holds as many nonces as it may. Evicting one would readmit it, so the new one is refused.
    #[error("nonce store is full")]
    Full,
    /// The store cannot be reached or cannot write.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
}

impl From<StoreError> for ReserveError {
    fn from(err: StoreError) -> Self {
        match err {
            StoreError::Unavailable(reason) => ReserveError::Unavailable(reason),
            StoreError::Full => ReserveError::Full,
        }
    }
}

/// A server that a store stands on, as last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The store has none.
    #[default]
    Unused,
    /// It answers.
    Up,
    /// It does not.
    Down,
}

/// Connections to the source of truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Open ones.
    pub total: usize,
    /// Those that nobody uses now.
    pub idle: usize,
    /// Callers that wait for one, or writers that wait for their commit.
    pub waiting: usize,
}

/// What `/health` and `/ready` tell of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `memory`, `embedded`, `postgres`, `redis`, `tiered` or `remote`.
    pub kind: &'static str,
    /// Whether it can take sessions and nonces now.
    pub up: bool,
    /// PostgreSQL.
    pub postgres: Part,
    /// Redis.
    pub redis: Part,
    /// Sessions held, expired ones that are not yet swept included. Of a store that several processes share: as last
    /// counted, or those that this process has at hand where nobody counts.
    pub sessions: usize,
    /// Nonces of sealed calls, and of inits, that this process holds.
    pub nonces: (usize, usize),
    /// As many of each this process may hold; 0 where that is not known here. Where Redis takes them this bounds what stands
    /// in while it is away.
    pub nonces_max: usize,
    /// Connections.
    pub pool: Pool,
}

/// A store cannot be opened: a setting, a file or a server's answer is at fault. The text names it, and holds no
/// password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

/// A claim that was written durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What to remember.
    pub key: ClaimKey,
    /// Whether it comes from a sealed call.
    pub sealed: bool,
    /// The first millisecond at which it may be forgotten.
    pub expires_ms: u64,
}

/// Keeps what a nonce store may lose with its memory: nonces stamped ahead of its clock, and revocations.
/// `spec/session.md#nonce-lifetime`.
#[async_trait]
pub trait Durable: Send + Sync + std::fmt::Debug {
    /// Writes a claim down; it is on the disk when this returns. Of any number of equal claims exactly one succeeds.
    ///
    /// # Errors
    /// [`ReserveError`].
    async fn record(&self, claim: &Claim) -> Result<(), ReserveError>;

    /// All claims written down whose stamp is above `stamp_ms` and that must still be remembered at `now_ms`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn recorded_after(&self, stamp_ms: u64, now_ms: u64) -> Result<Vec<Recorded>, StoreError>;

    /// Sessions that were revoked and are not over at `now_ms`, each with its end.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn revoked(&self, now_ms: u64) -> Result<Vec<(SessionId, u64)>, StoreError>;
}

/// A store. Every method answers promptly or fails; the authority adds a deadline of its own.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Keeps a session. When this returns it is as durable as the store makes anything.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError>;

    /// Finds a session. One that has expired may still be found until it is swept: callers check.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError>;

    /// Removes a session at once; whether it was there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; it is then gone from memory, and may be back after a restart.
    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Ends a chain of renewals: until `until_ms` no session with this root is found, one that is put later included. The
    /// work is the same however many there are. `root` need not be there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; it may have ended in this process alone. To be asked again.
    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError>;

    /// Reserves a nonce until [`Claim::expires_ms`]. Of any number of equal claims exactly one succeeds.
    ///
    /// # Errors
    /// [`ReserveError`].
    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError>;

    /// Forgets what has expired at `now_ms`. Returns how many sessions went.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError>;

    /// Wraps up to `count_max` stored session keys anew that are wrapped under another key-encryption key than the first;
    /// returns how many. 0 says that none is left. The key file is looked at first. May be broken off at any time, and run
    /// by several processes at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn rewrap(&self, _count_max: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// For `/health`, `/ready` and gauges.
    fn status(&self) -> Status;
}
