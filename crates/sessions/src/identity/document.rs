//! A file with a key set, or a key file with one: the file that is carried to a root and back, or that a service
//! published.

use std::path::Path;

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::IdentityLibrary;
use sealway_proto::session::native::KeySet;
use sealway_proto::session::native::key_set::KEY_SET_LEN_MAX;
use sealway_runtime::config::{ConfigError, read_bounded};

use super::{KeyFile, Root};
use crate::kek;

/// Content of a file that may be of either kind.
pub enum Document {
    /// A key file, with secrets.
    Keys(KeyFile),
    /// A key set, without anything secret.
    Set(KeySet),
}

impl Document {
    /// Reads a key file or a key set.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn read(provider: &dyn Provider, library: &dyn IdentityLibrary, path: &Path) -> Result<Self, ConfigError> {
        let text = zeroize::Zeroizing::new(read_bounded(path, 2 * KEY_SET_LEN_MAX as u64)?);
        let is_set =
            serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| value.get("issued_ms").is_some());
        if !is_set {
            return KeyFile::read(provider, library, path).map(Document::Keys);
        }
        let set = KeySet::parse(provider, text.as_bytes());
        set.map(Document::Set).map_err(|err| ConfigError(format!("{}: {err}", path.display())))
    }

    /// Has a root sign the set, valid until `expires_ms`, and replaces the file by the result. Returns the signed set.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn sign(
        self,
        provider: &dyn Provider,
        root: &Root,
        path: &Path,
        now_ms: u64,
        expires_ms: u64,
    ) -> Result<KeySet, ConfigError> {
        match self {
            Document::Keys(mut file) => {
                file.sign(provider, root, now_ms, expires_ms)?;
                file.replace(path)?;
                file.signed_set().cloned().ok_or_else(|| ConfigError(format!("{}: nothing was signed", path.display())))
            }
            Document::Set(mut set) => {
                set.expires_ms = expires_ms;
                root.sign(provider, &mut set)?;
                let text = format!("{}\n", set.encode());
                kek::write(path, &text, 0o644, |unfinished| std::fs::rename(unfinished, path))?;
                Ok(set)
            }
        }
    }

    /// Returns the key set; from a key file, the set that a root signed, if any.
    pub fn into_set(self) -> Option<KeySet> {
        match self {
            Document::Keys(file) => file.signed_set().cloned(),
            Document::Set(set) => Some(set),
        }
    }
}
