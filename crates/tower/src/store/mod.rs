//! Stores of sessions and claims. A store has no policy: its caller checks expiry, wires and client ids.

#[cfg(feature = "authority")]
mod authority;
#[cfg(any(feature = "authority", feature = "redis"))]
mod held;
mod memory;
#[cfg(feature = "authority")]
mod message;
#[cfg(feature = "redis")]
mod redis;

use std::sync::Arc;

use async_trait::async_trait;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::SessionId;

#[cfg(feature = "authority")]
pub use authority::{Authority, AuthorityUrlError};
pub use memory::Memory;
#[cfg(feature = "redis")]
pub use redis::{KeySource, Redis, RedisSettings, RedisSettingsError};

/// Failure of a store operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, did not answer in time, or gave an invalid answer.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
}

/// Reason that a claim was not reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The claim was reserved before.
    #[error("nonce was seen before")]
    Replayed,
    /// The stamp is outside the store's own window.
    #[error("timestamp is outside the store's window")]
    OutsideWindow,
    /// The store holds the maximum number of claims, and evicts none.
    #[error("nonce store is full")]
    Full,
    /// The store is unavailable. It may have reserved the claim, so the claim is not retried.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
}

/// A store of sessions and claims.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Finds a session; an expired one may still be found.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError>;

    /// Reserves a claim until [`Claim::expires_ms`] at least. Of any number of equal claims exactly one succeeds.
    ///
    /// # Errors
    /// [`ReserveError`].
    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError>;
}
