//! Two sources of key-encryption keys while sessions move from one to the other: one wraps, both unwrap.

use std::sync::Arc;

use async_trait::async_trait;
use sealway_proto::session::SessionKey;

use super::{KeyWrap, UnwrapError, WrapError, WrappedKey};

/// A key file and a broker, in either order. Their ids cannot be equal: a broker's contain a colon.
#[derive(Debug)]
pub struct Moving {
    to: Arc<dyn KeyWrap>,
    from: Arc<dyn KeyWrap>,
}

impl Moving {
    /// Creates a wrap where `to` wraps, and `from` unwraps the keys that `to` does not know.
    pub fn new(to: Arc<dyn KeyWrap>, from: Arc<dyn KeyWrap>) -> Self {
        Moving { to, from }
    }
}

#[async_trait]
impl KeyWrap for Moving {
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<WrappedKey>, WrapError> {
        self.to.wrap_all(keys).await
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, WrappedKey)]) -> Vec<Result<SessionKey, UnwrapError>> {
        let mut keys = self.to.unwrap_all(wrapped).await;
        let is_unknown = |key: &Result<SessionKey, UnwrapError>| matches!(key, Err(UnwrapError::UnknownKek(_)));
        let unknown: Vec<_> =
            wrapped.iter().zip(&keys).filter(|(_, key)| is_unknown(key)).map(|(known, _)| known.clone()).collect();
        if !unknown.is_empty() {
            let others = self.from.unwrap_all(&unknown).await;
            for (key, other) in keys.iter_mut().filter(|key| is_unknown(key)).zip(others) {
                *key = other;
            }
        }
        keys
    }

    async fn refresh(&self) -> bool {
        self.from.refresh().await;
        self.to.refresh().await
    }

    fn active_id(&self) -> String {
        self.to.active_id()
    }

    fn place(&self) -> String {
        format!("{}, and to unwrap alone {}", self.to.place(), self.from.place())
    }
}
