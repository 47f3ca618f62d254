//! The key-encryption keys of the authority.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::session::SessionKey;
use sealway_proto::store::keys::{KeyEncryptionKeys, UnwrapError, WrappedKey};
use zeroize::Zeroizing;

use super::RedisSettingsError;

const FILE_LEN_MAX: u64 = 64 * 1024;
/// Minimum time between two reads of the file.
const AGAIN: Duration = Duration::from_secs(1);

/// Source of the authority's key-encryption keys.
#[derive(Clone)]
pub enum KeySource {
    /// The authority's `kek_file`; it is read again if a key is unknown.
    File(PathBuf),
    /// The lines of such a file, as in the variable `SEALWAY_KEK`.
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

/// The keys as last read.
pub(super) struct Keys {
    provider: &'static dyn Provider,
    /// File of the keys; `None` if they do not come from a file.
    file: Option<PathBuf>,
    read: Mutex<Read>,
}

struct Read {
    keys: Arc<KeyEncryptionKeys>,
    /// Time of the last repeated read.
    again: Option<Instant>,
}

impl Keys {
    pub(super) fn open(provider: &'static dyn Provider, source: KeySource) -> Result<Self, RedisSettingsError> {
        let (keys, file) = match source {
            KeySource::File(path) => (read(provider, &path)?, Some(path)),
            KeySource::Lines(lines) => {
                let fail = |err| RedisSettingsError(format!("the lines of keys: {err}"));
                (KeyEncryptionKeys::parse(provider, &lines).map_err(fail)?, None)
            }
        };
        Ok(Keys { provider, file, read: Mutex::new(Read { keys: Arc::new(keys), again: None }) })
    }

    pub(super) async fn unwrap(&self, aad: &[u8], wrapped: &WrappedKey) -> Result<SessionKey, UnwrapError> {
        let known = self.read.lock().keys.clone();
        let unwrapped = known.unwrap(aad, wrapped);
        if !matches!(unwrapped, Err(UnwrapError::UnknownKek(_))) {
            return unwrapped;
        }
        self.read_again(&known).await;
        let keys = self.read.lock().keys.clone();
        keys.unwrap(aad, wrapped)
    }

    /// Reads the file again, at most once a second.
    async fn read_again(&self, known: &Arc<KeyEncryptionKeys>) {
        let Some(path) = self.file.clone() else { return };
        {
            let mut held = self.read.lock();
            if !Arc::ptr_eq(&held.keys, known) || held.again.is_some_and(|again| again.elapsed() < AGAIN) {
                return;
            }
            held.again = Some(Instant::now());
        }
        let provider = self.provider;
        let Ok(keys) = tokio::task::spawn_blocking(move || read(provider, &path)).await else { return };
        match keys {
            Ok(keys) if known.contradicted_by(&keys).is_none() => self.read.lock().keys = Arc::new(keys),
            Ok(_) => {
                tracing::error!(
                    "key file not reloaded: an id has another key than before; the loaded keys stay in use"
                );
            }
            Err(err) => tracing::error!(%err, "key file not reloaded; the loaded keys stay in use"),
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
