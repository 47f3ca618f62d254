//! The seam behind which session keys are wrapped: by a key ring in this process's memory, or by a broker beside it, so that
//! no key-encryption key is in this process at all.
//!
//! Stores wrap a key when a session is put and unwrap it when one is read that they have not at hand; a session at hand costs
//! nothing here. Where they have many at once, at a start and when everything is wrapped anew, they pass them in one batch of
//! up to [`WRAP_MAX`]. Each call may come from many tasks at a time.

use std::fmt;

use async_trait::async_trait;
use sealway_proto::session::SessionKey;
use sealway_proto::wire::SessionId;

use super::{KeyRing, UnwrapError, Wrapped};

/// Keys of one call.
pub const WRAP_MAX: usize = 512;

/// Why session keys could not be wrapped. It is safe to try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrapError(pub String);

/// Wraps session keys for storage, each bound to its session's id.
///
/// A [`Wrapped`] has room for what AES-256-GCM makes of a key, `IV || ciphertext || tag`; its `kek_id`, of 1 to 64
/// characters, says what unwraps it and must always mean the same key.
#[async_trait]
pub trait KeyWrap: Send + Sync + fmt::Debug {
    /// Wraps keys under the active key-encryption key, in their order.
    ///
    /// # Errors
    /// [`WrapError`]: then none is wrapped.
    async fn wrap_all(&self, keys: &[(SessionId, &SessionKey)]) -> Result<Vec<Wrapped>, WrapError>;

    /// Unwraps keys, each or why not, in their order: as many as were given. [`UnwrapError::Damaged`] is the end of a session,
    /// so it is for what was answered and found wrong; a broker that is away is [`UnwrapError::Unavailable`].
    async fn unwrap_all(&self, wrapped: &[(SessionId, Wrapped)]) -> Vec<Result<SessionKey, UnwrapError>>;

    /// Looks whether another key wraps from now on; whether it does. Called every few seconds.
    async fn refresh(&self) -> bool;

    /// The id of the key that wraps, as last known.
    fn active_id(&self) -> String;

    /// Where the keys are, for a person.
    fn place(&self) -> String;
}

#[async_trait]
impl KeyWrap for KeyRing {
    async fn wrap_all(&self, keys: &[(SessionId, &SessionKey)]) -> Result<Vec<Wrapped>, WrapError> {
        let wrap = |(id, key): &(SessionId, &SessionKey)| self.wrap(id, key);
        keys.iter().map(wrap).collect::<Result<_, _>>().map_err(|err| WrapError(err.to_string()))
    }

    async fn unwrap_all(&self, wrapped: &[(SessionId, Wrapped)]) -> Vec<Result<SessionKey, UnwrapError>> {
        wrapped.iter().map(|(id, wrapped)| self.unwrap(id, wrapped)).collect()
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

/// Wraps one key.
///
/// # Errors
/// [`WrapError`].
pub(crate) async fn wrap_one(keys: &dyn KeyWrap, id: &SessionId, key: &SessionKey) -> Result<Wrapped, WrapError> {
    let wrapped = keys.wrap_all(&[(*id, key)]).await?;
    wrapped.into_iter().next().ok_or_else(|| WrapError("nothing was wrapped".into()))
}

/// Unwraps one key.
pub(crate) async fn unwrap_one(
    keys: &dyn KeyWrap,
    id: &SessionId,
    wrapped: Wrapped,
) -> Result<SessionKey, UnwrapError> {
    let key = keys.unwrap_all(&[(*id, wrapped)]).await.pop();
    key.unwrap_or_else(|| Err(UnwrapError::Unavailable("nothing was answered".into())))
}
