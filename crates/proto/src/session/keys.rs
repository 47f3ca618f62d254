//! The session key and its derivation. `spec/session.md#keys`.

use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::crypto::Provider;
use crate::error::Error;
use crate::limits::KEY_LEN;
use crate::wire::{SessionId, Wire};

/// A session's AES-256-GCM key. Wiped when dropped, never printed.
#[derive(Clone)]
pub struct SessionKey(Zeroizing<[u8; KEY_LEN]>);

impl SessionKey {
    /// Wraps key bytes that come from a store or a vector.
    pub fn from_bytes(bytes: [u8; KEY_LEN]) -> Self {
        SessionKey(Zeroizing::new(bytes))
    }

    /// Derives the key: `HKDF-SHA256(ikm = Z, salt = sessionId, info, 32)`.
    ///
    /// # Errors
    /// [`Error::Provider`].
    // SPEC session.md#keys
    pub fn derive(provider: &dyn Provider, z: &[u8; KEY_LEN], id: &SessionId, info: &[&[u8]]) -> Result<Self, Error> {
        Ok(SessionKey(provider.hkdf_sha256(z, id.as_str().as_bytes(), info)?))
    }

    /// Returns the bytes, only for wrapping at rest, for the guarded key endpoint, and to compare a pre-shared key of wire 4.
    pub fn expose(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(redacted)")
    }
}

/// Returns the `info` of a session's key. Wire 1 separates anonymous sessions, wire 2 binds the client id. Wire 3 has a key
/// schedule of its own.
pub(crate) fn info(wire: Wire, anonymous: bool, client_id: &str) -> Vec<&[u8]> {
    let tail = match wire {
        Wire::V1 if anonymous => "ANON",
        Wire::V1 => "AUTH",
        Wire::V2 | Wire::Native | Wire::OneShot => client_id,
    };
    [b"SESSION|A256GCM|".as_slice(), tail.as_bytes()].into()
}
