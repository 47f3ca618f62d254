//! Where sessions and nonces are kept. Stores are dumb: put, get, delete a session; reserve a nonce; sweep. What they
//! must hold is the contract suite in `sealway_testkit::store_contract`, run against every one of them.

use std::sync::Arc;

use async_trait::async_trait;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::SessionId;

pub mod embedded;
pub mod memory;
mod nonces;
mod row;
mod writer;

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

/// What `/health` and `/ready` tell of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `memory` or `embedded`.
    pub kind: &'static str,
    /// Whether it can take sessions and nonces now.
    pub up: bool,
    /// Sessions held, expired ones that are not yet swept included.
    pub sessions: usize,
    /// Nonces held of sealed calls, and of inits.
    pub nonces: (usize, usize),
    /// Writers waiting.
    pub waiting: usize,
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

    /// For `/health`, `/ready` and gauges.
    fn status(&self) -> Status;
}
