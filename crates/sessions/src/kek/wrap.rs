//! Interface for wrapping session keys: by a key ring in this process's memory, or by a broker beside it, so that this
//! process holds no key-encryption key.
//!
//! Stores wrap a key when a session is put, and unwrap it when they read a session that is not cached; a cached session
//! costs nothing here. Many keys, at a start and when everything is rewrapped, come in batches of up to [`WRAP_MAX`].
//! Calls may come from many tasks at a time.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::session::SessionKey;
use sealway_proto::wire::SessionId;

use super::{KeyRing, UnwrapError, WrappedKey};

/// Maximum number of keys in one call.
pub const WRAP_MAX: usize = 512;

/// Reason that session keys could not be wrapped. A retry is safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrapError(pub String);

/// Wraps session keys for storage, each bound to its AAD: all other fields of the session's row.
///
/// A [`WrappedKey`] has room for the AES-256-GCM form of a key, `IV || ciphertext || tag`; its `kek_id`, of 1 to 64
/// characters, names the key that unwraps it and must always mean the same key.
#[async_trait]
pub trait KeyWrap: Send + Sync + fmt::Debug {
    /// Wraps keys under the active key-encryption key, in their order.
    ///
    /// # Errors
    /// [`WrapError`]: no key was wrapped.
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<WrappedKey>, WrapError>;

    /// Unwraps keys in their order: for each the key or an error. [`UnwrapError::Damaged`] ends a session, so it is
    /// only for a wrapped key that was checked and found wrong; a broker that is away is [`UnwrapError::Unavailable`].
    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, WrappedKey)]) -> Vec<Result<SessionKey, UnwrapError>>;

    /// Checks which key wraps; returns true if it is another one than before. Called every few seconds.
    async fn refresh(&self) -> bool;

    /// Returns the id of the key that wraps, as last known.
    fn active_id(&self) -> String;

    /// Returns the place of the keys, as text for an operator.
    fn place(&self) -> String;

    /// Returns the time until which rows are read that authenticate only a session's id, in milliseconds since the
    /// epoch; 0 means never.
    fn unauthenticated_until_ms(&self) -> u64 {
        0
    }
}

#[async_trait]
impl KeyWrap for KeyRing {
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<WrappedKey>, WrapError> {
        let wrap = |(aad, key): &(Vec<u8>, &SessionKey)| self.wrap(aad, key);
        keys.iter().map(wrap).collect::<Result<_, _>>().map_err(|err| WrapError(err.to_string()))
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, WrappedKey)]) -> Vec<Result<SessionKey, UnwrapError>> {
        wrapped.iter().map(|(aad, wrapped)| self.unwrap(aad, wrapped)).collect()
    }

    async fn refresh(&self) -> bool {
        self.reload_if_changed()
    }

    fn active_id(&self) -> String {
        KeyRing::active_id(self)
    }

    fn place(&self) -> String {
        self.source().to_string()
    }
}

/// A key wrap that accepts unauthenticated rows of an earlier release until a time.
#[derive(Debug)]
pub struct UnauthenticatedUntil {
    keys: Arc<dyn KeyWrap>,
    until_ms: u64,
}

impl UnauthenticatedUntil {
    /// Sets the time for `keys`; `until_ms` is in milliseconds since the epoch.
    pub fn new(keys: Arc<dyn KeyWrap>, until_ms: u64) -> Self {
        UnauthenticatedUntil { keys, until_ms }
    }
}

#[async_trait]
impl KeyWrap for UnauthenticatedUntil {
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<WrappedKey>, WrapError> {
        self.keys.wrap_all(keys).await
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, WrappedKey)]) -> Vec<Result<SessionKey, UnwrapError>> {
        self.keys.unwrap_all(wrapped).await
    }

    async fn refresh(&self) -> bool {
        self.keys.refresh().await
    }

    fn active_id(&self) -> String {
        self.keys.active_id()
    }

    fn place(&self) -> String {
        self.keys.place()
    }

    fn unauthenticated_until_ms(&self) -> u64 {
        self.until_ms
    }
}

/// Returns the AAD of a store's marks, as releases before row version 3 wrote them.
fn mark_aad() -> Vec<u8> {
    SessionId::from_random(&[0; 16], false).as_str().as_bytes().to_vec()
}

/// Wraps a constant key. A store keeps the result to tell a wrong key-encryption key from a damaged row.
///
/// # Errors
/// [`WrapError`].
pub(crate) async fn mark(keys: &dyn KeyWrap) -> Result<WrappedKey, WrapError> {
    let wrapped = keys.wrap_all(&[(mark_aad(), &SessionKey::from_bytes([0; KEY_LEN]))]).await?;
    wrapped.into_iter().next().ok_or_else(|| WrapError("nothing was wrapped".into()))
}

/// Checks, in order, that each mark was made under the key-encryption key that has its id now.
pub(crate) async fn open_marks(keys: &dyn KeyWrap, marks: &[WrappedKey]) -> Vec<Result<(), UnwrapError>> {
    let bound: Vec<_> = marks.iter().map(|mark| (mark_aad(), mark.clone())).collect();
    keys.unwrap_all(&bound).await.into_iter().map(|opened| opened.map(drop)).collect()
}
