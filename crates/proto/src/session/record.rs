//! A session as a server holds it: who agreed it on which wire, until when, and its key.

use alloc::boxed::Box;
use core::fmt;

use crate::crypto::{AeadKey, Provider};
use crate::error::Error;
use crate::session::keys::SessionKey;
use crate::wire::{SessionId, Wire};

/// What a store keeps of a session.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// The wire it was agreed on.
    pub wire: Wire,
    /// The client id it was agreed with; `None` on wire 1.
    pub client_id: Option<Box<str>>,
    /// The subject of the token presented at init, if one was verified.
    pub subject: Option<Box<str>>,
    /// When it was agreed, in milliseconds since the epoch.
    pub created_ms: u64,
    /// The first millisecond at which it is over.
    pub expires_ms: u64,
    /// Its key.
    pub key: SessionKey,
}

/// A session ready for use: its record and its expanded key.
pub struct Session {
    record: SessionRecord,
    aead: Box<dyn AeadKey>,
}

impl Session {
    /// Expands a record's key.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn new(provider: &dyn Provider, record: SessionRecord) -> Result<Self, Error> {
        let aead = provider.aes256_gcm(record.key.expose())?;
        Ok(Session { record, aead })
    }

    /// What a store keeps.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.record.id
    }

    /// Whether its time is over at `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        now_ms >= self.record.expires_ms
    }

    pub(crate) fn aead(&self) -> &dyn AeadKey {
        self.aead.as_ref()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("record", &self.record).finish_non_exhaustive()
    }
}
