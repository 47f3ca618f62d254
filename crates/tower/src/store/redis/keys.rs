//! The key-encryption keys of the authority.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::session::SessionKey;
use sealway_proto::store::keys::{KeyEncryptionKeys, UnwrapError, Wrapped};
use zeroize::Zeroizing;

use super::RedisSettingsError;

const FILE_LEN_MAX: u64 = 64 * 1024;
/// Time between two readings of the file.
const AGAIN: Duration = Duration::from_secs(1);

/// Where the authority's key-encryption keys are.
#[derive(Clone)]
pub enum KeySource {
    /// The authority's `kek_file`; it is read again when a key is unknown.
    File(PathBuf),
    /// The lines of such a file, as the variable `SEALWAY_KEK` holds them.
    Lines(Zeroizing<String>),
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeySource::File(path) => f.debug_tuple("File").field(path).finish(),
            KeySource::Lines(_) => f.write_str("Lines(redacted)"),
        }
    }
}

/// Keys that were read, and when.
pub(super) struct Keys {
    provider: &'static dyn Provider,
    source: KeySource,
    read: Mutex<(Arc<KeyEncryptionKeys>, Instant)>,
}

impl Keys {
    pub(super) fn open(provider: &'static dyn Provider, source: KeySource) -> Result<Self, RedisSettingsError> {
        let keys = match &source {
            KeySource::File(path) => read(provider, path)?,
            KeySource::Lines(lines) => {
                let fail = |err| RedisSettingsError(format!("the lines of keys: {err}"));
                KeyEncryptionKeys::parse(provider, lines).map_err(fail)?
            }
        };
        Ok(Keys { provider, source, read: Mutex::new((Arc::new(keys), Instant::now())) })
    }

    pub(super) fn unwrap(&self, aad: &[u8], wrapped: &Wrapped) -> Result<SessionKey, UnwrapError> {
        let known = self.read.lock().0.clone();
        match known.unwrap(aad, wrapped) {
            Err(UnwrapError::UnknownKek(_)) if self.read_again(&known) => self.read.lock().0.unwrap(aad, wrapped),
            unwrapped => unwrapped,
        }
    }

    /// Whether there are other keys now.
    fn read_again(&self, known: &Arc<KeyEncryptionKeys>) -> bool {
        let KeySource::File(path) = &self.source else { return false };
        let mut held = self.read.lock();
        if !Arc::ptr_eq(&held.0, known) {
            return true;
        }
        if held.1.elapsed() < AGAIN {
            return false;
        }
        held.1 = Instant::now();
        match read(self.provider, path) {
            Ok(keys) if known.contradicted_by(&keys).is_none() => {
                held.0 = Arc::new(keys);
                true
            }
            Ok(_) => {
                tracing::error!("the key file was not read again: a key's id means another key; the old keys stay");
                false
            }
            Err(err) => {
                tracing::error!(%err, "the key file was not read again; the old keys stay");
                false
            }
        }
    }
}

fn read(provider: &dyn Provider, path: &Path) -> Result<KeyEncryptionKeys, RedisSettingsError> {
    let fail = |what: String| RedisSettingsError(format!("{}: {what}", path.display()));
    let mut text = Zeroizing::new(String::new());
    let file = std::fs::File::open(path).map_err(|err| fail(err.to_string()))?;
    file.take(FILE_LEN_MAX + 1).read_to_string(&mut text).map_err(|err| fail(err.to_string()))?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(fail("it is longer than a file of keys".into()));
    }
    KeyEncryptionKeys::parse(provider, &text).map_err(|err| fail(err.to_string()))
}
