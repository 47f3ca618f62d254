//! Where sessions and claims are. A store knows nothing of policy: expiry, wires and client ids are its caller's to check.

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

/// A store could not say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, did not answer in time, or answered what is no answer.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
}

/// A claim was not reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// It was reserved before.
    #[error("nonce was seen before")]
    Replayed,
    /// The stamp has left the store's own window.
    #[error("timestamp is outside the store's window")]
    OutsideWindow,
    /// The store holds as many as it may, and evicts none.
    #[error("nonce store is full")]
    Full,
    /// The store could not say. It may have reserved the claim, so that is not asked for again.
    #[error("store is unavailable: {0}")]
    Unavailable(String),
}

/// Sessions and claims.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Finds a session; one that is over may still be found.
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
