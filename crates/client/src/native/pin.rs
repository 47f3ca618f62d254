//! Pinned identity keys, and the algorithms that a client accepts. `spec/session-3.md#algorithms`.

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::KeyId;
use sealway_proto::wire::base64;

use crate::error::{Error, ErrorKind};

/// A public key of an identity key or a root, whose length names its algorithm.
pub type PublicKey = Box<[u8]>;

/// An identity key that the client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Id of the key; the key itself comes from the service's key set.
    Id(KeyId),
    /// The public key itself, in bytes.
    Key(PublicKey),
}

impl Pin {
    /// Reads a key id (32 lower-case hexadecimal digits) or a public key (base64, of any algorithm).
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for any other text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match KeyId::parse(text) {
            Ok(id) => Ok(Pin::Id(id)),
            Err(_) => Ok(Pin::Key(public_key(text)?)),
        }
    }

    /// Id of the pinned key.
    pub fn key_id(&self) -> KeyId {
        match self {
            Pin::Id(id) => *id,
            Pin::Key(key) => KeyId::of(default_provider(), key),
        }
    }

    /// The key with its id, if it is pinned itself.
    pub(super) fn with_key(&self) -> Option<(KeyId, PublicKey)> {
        match self {
            Pin::Id(_) => None,
            Pin::Key(key) => Some((self.key_id(), key.clone())),
        }
    }
}

/// Reads a public key in base64: of any algorithm that identity keys have.
///
/// # Errors
/// [`ErrorKind::Usage`] for any other text.
pub fn public_key(text: &str) -> Result<PublicKey, Error> {
    let key = base64::decode(text.trim().as_bytes()).ok().filter(|key| default_identity_library().public(key).is_ok());
    let shown: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
    let neither = || ErrorKind::Usage(format!("\"{shown}\" is neither a key id nor a public key in base64"));
    Ok(key.ok_or_else(neither)?.into())
}

/// Returns whether a client accepts a key by its algorithm. Without a restriction it accepts ES256, and any known one of a key that it
/// has pinned. SPEC session-3.md#algorithms
pub(super) fn accepts(algorithms: &[SignatureAlgorithm], key: &[u8], is_pinned: bool) -> bool {
    let Some(algorithm) = SignatureAlgorithm::of_public(key) else { return false };
    match algorithms {
        [] => is_pinned || algorithm == SignatureAlgorithm::Es256,
        accepted => accepted.contains(&algorithm),
    }
}
