//! Stores of sessions and nonces. A store puts, gets and deletes sessions, reserves nonces, and sweeps; it has no
//! policy. The contract suite `sealway_testkit::store_contract` defines the behaviour and runs against every store.

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

/// Failure of a store operation; nothing was half done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or cannot write.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
    /// The store holds the maximum number of sessions.
    #[error("store is full")]
    Full,
}

/// Reason that a nonce was not reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The nonce was reserved before, or a restart makes this impossible to tell.
    #[error("nonce was seen before")]
    Replayed,
    /// The store holds the maximum number of nonces. Evicting one would readmit its replay, so the new one is rejected.
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

/// State of a server that a store uses, as last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The store does not use this server.
    #[default]
    Unused,
    /// The server responded when it was last used or checked.
    Up,
    /// The server does not answer.
    Down,
}

/// Connections to the source of truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Number of open connections, idle or in use.
    pub total: usize,
    /// Number of connections not in use.
    pub idle: usize,
    /// Callers that wait for a connection, or writers that wait for their commit.
    pub waiting: usize,
}

/// State of a store, as `/health` and `/ready` report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Kind of the store: `memory`, `embedded`, `postgres`, `redis`, `tiered` or `remote`.
    pub kind: &'static str,
    /// True if the store can take sessions and nonces now.
    pub up: bool,
    /// State of the PostgreSQL server, as last seen.
    pub postgres: Part,
    /// State of the Redis servers, as last seen.
    pub redis: Part,
    /// Sessions held, including expired ones that are not yet swept. For a shared store: the last count, or the
    /// sessions in this process's cache if there is no count.
    pub sessions: usize,
    /// Nonces of sealed calls, and of inits, held by this process.
    pub nonces: (usize, usize),
    /// Maximum of each kind of nonce in this process; 0 if unknown here. With Redis it bounds the fallback while Redis
    /// is unavailable.
    pub nonces_max: usize,
    /// Connections to the source of truth.
    pub pool: Pool,
}

/// Failure to open a store, caused by a setting, a file or a server's answer. The text names the cause and contains no
/// password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

impl From<sealway_runtime::redis::Invalid> for OpenError {
    fn from(err: sealway_runtime::redis::Invalid) -> Self {
        OpenError(err.0)
    }
}

/// A nonce that was written durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceRecord {
    /// Fingerprint under which the store remembers the nonce.
    pub key: ClaimKey,
    /// True if the nonce comes from a sealed call, false for an init.
    pub sealed: bool,
    /// First millisecond at which the nonce may be forgotten.
    pub expires_ms: u64,
}

/// Keeps durably what a nonce store may lose with its memory: nonces stamped ahead of its clock, and revocations.
/// `spec/session.md#nonce-lifetime`.
#[async_trait]
pub trait Durable: Send + Sync + std::fmt::Debug {
    /// Writes a claim; it is on the disk when this returns. Of any number of equal claims exactly one succeeds.
    ///
    /// # Errors
    /// [`ReserveError`].
    async fn record(&self, claim: &Claim) -> Result<(), ReserveError>;

    /// Returns all recorded claims with a stamp above `stamp_ms` that must still be remembered at `now_ms`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn recorded_after(&self, stamp_ms: u64, now_ms: u64) -> Result<Vec<NonceRecord>, StoreError>;

    /// Returns the sessions that were revoked and are not over at `now_ms`, each with its end in milliseconds since the
    /// epoch.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn revoked(&self, now_ms: u64) -> Result<Vec<(SessionId, u64)>, StoreError>;

    /// Returns the stamp up to which recorded claims may be missing, in milliseconds since the epoch: a standby that
    /// took over may not have had them. 0 if none can be.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn lost_ms(&self) -> Result<u64, StoreError>;
}

/// Store of sessions and nonces. Every method answers promptly or fails; the authority adds its own deadline.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Stores a session, as durably as the store can by the time this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError>;

    /// Finds a session. An expired one may be found until it is swept: callers check.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError>;

    /// Removes a session at once; returns true if it was there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; the session is then gone from memory, and may be back after a restart.
    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Ends a chain of renewals: until `until_ms` no session with this root is found, including one that is put later.
    /// The cost does not depend on the length of the chain. `root` need not be present.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; the chain may have ended in this process alone. The caller should retry.
    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError>;

    /// Reserves a nonce until [`Claim::expires_ms`]. Of any number of equal claims exactly one succeeds.
    ///
    /// # Errors
    /// [`ReserveError`].
    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError>;

    /// Removes sessions and nonces that have expired at `now_ms`. Returns the number of removed sessions.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError>;

    /// Rewraps up to `count_max` stored session keys that are not wrapped under the active key-encryption key; returns
    /// their number, 0 if none is left. Checks the key file for changes first. May be cancelled at any time, and may
    /// run in several processes at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn rewrap(&self, _count_max: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Returns the state for `/health`, `/ready` and gauges.
    fn status(&self) -> Status;
}
