//! The seam behind which session keys are wrapped: by a key ring in this process's memory, or by a broker beside it, so that
//! no key-encryption key is in this process at all.
//!
//! Stores wrap a key when a session is put and unwrap it when one is read that they have not at hand; a session at hand costs
//! nothing here. Where they have many at once, at a start and when everything is wrapped anew, they pass them in one batch of
//! up to [`WRAP_MAX`]. Each call may come from many tasks at a time.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::session::SessionKey;
use sealway_proto::wire::SessionId;

use super::{KeyRing, UnwrapError, Wrapped};

/// Keys of one call.
pub const WRAP_MAX: usize = 512;

/// Why session keys could not be wrapped. It is safe to try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrapError(pub String);

/// Wraps session keys for storage, each bound to the AAD beside it: all that its row says of the session.
///
/// A [`Wrapped`] has room for what AES-256-GCM makes of a key, `IV || ciphertext || tag`; its `kek_id`, of 1 to 64
/// characters, says what unwraps it and must always mean the same key.
#[async_trait]
pub trait KeyWrap: Send + Sync + fmt::Debug {
    /// Wraps keys under the active key-encryption key, in their order.
    ///
    /// # Errors
    /// [`WrapError`]: then none is wrapped.
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<Wrapped>, WrapError>;

    /// Unwraps keys, each or why not, in their order: as many as were given. [`UnwrapError::Damaged`] is the end of a session,
    /// so it is for what was answered and found wrong; a broker that is away is [`UnwrapError::Unavailable`].
    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, Wrapped)]) -> Vec<Result<SessionKey, UnwrapError>>;

    /// Looks whether another key wraps from now on; whether it does. Called every few seconds.
    async fn refresh(&self) -> bool;

    /// The id of the key that wraps, as last known.
    fn active_id(&self) -> String;

    /// Where the keys are, for a person.
    fn place(&self) -> String;

    /// Until when rows are read that authenticate nothing but a session's id, in milliseconds since the epoch; 0 is never.
    fn unauthenticated_until_ms(&self) -> u64 {
        0
    }
}

#[async_trait]
impl KeyWrap for KeyRing {
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<Wrapped>, WrapError> {
        let wrap = |(aad, key): &(Vec<u8>, &SessionKey)| self.wrap(aad, key);
        keys.iter().map(wrap).collect::<Result<_, _>>().map_err(|err| WrapError(err.to_string()))
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, Wrapped)]) -> Vec<Result<SessionKey, UnwrapError>> {
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

/// Keys under which rows of an earlier release are read until a time.
#[derive(Debug)]
pub struct UnauthenticatedUntil {
    keys: Arc<dyn KeyWrap>,
    until_ms: u64,
}

impl UnauthenticatedUntil {
    /// `until_ms` is in milliseconds since the epoch.
    pub fn new(keys: Arc<dyn KeyWrap>, until_ms: u64) -> Self {
        UnauthenticatedUntil { keys, until_ms }
    }
}

#[async_trait]
impl KeyWrap for UnauthenticatedUntil {
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<Wrapped>, WrapError> {
        self.keys.wrap_all(keys).await
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, Wrapped)]) -> Vec<Result<SessionKey, UnwrapError>> {
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

/// The AAD of a store's marks, as releases before row version 3 wrote them.
fn mark_aad() -> Vec<u8> {
    SessionId::from_random(&[0; 16], false).as_str().as_bytes().to_vec()
}

/// Wraps a key that everybody knows. A store keeps it to tell a wrong key-encryption key from a damaged row.
///
/// # Errors
/// [`WrapError`].
pub(crate) async fn mark(keys: &dyn KeyWrap) -> Result<Wrapped, WrapError> {
    let wrapped = keys.wrap_all(&[(mark_aad(), &SessionKey::from_bytes([0; KEY_LEN]))]).await?;
    wrapped.into_iter().next().ok_or_else(|| WrapError("nothing was wrapped".into()))
}

/// Checks, in order, that each mark was made under the key-encryption key that bears its id now.
pub(crate) async fn open_marks(keys: &dyn KeyWrap, marks: &[Wrapped]) -> Vec<Result<(), UnwrapError>> {
    let bound: Vec<_> = marks.iter().map(|mark| (mark_aad(), mark.clone())).collect();
    keys.unwrap_all(&bound).await.into_iter().map(|opened| opened.map(drop)).collect()
}
