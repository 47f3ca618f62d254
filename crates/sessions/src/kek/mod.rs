//! Keys at rest: every stored session key is wrapped with AES-256-GCM under a key-encryption key. The AAD binds the key
//! to all other fields of its row (`store/row.rs`).
//!
//! A key file has a key a line, `id base64`; the first wraps, all unwrap. To rotate, put a new key first, and remove
//! the old one when the last session wrapped under it has expired. One key wraps at most 2^32 sessions with random IVs
//! (SP 800-38D section 8.3): rotate before.

mod broker;
mod file;
mod gather;
mod moving;
mod wrap;

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::limits::IV_LEN;
use sealway_proto::session::SessionKey;
use sealway_proto::store::keys::KeyEncryptionKeys;
pub use sealway_proto::store::keys::{UnwrapError, WrappedKey};
use sealway_runtime::config::{ConfigError, read_bounded, readable_by_others};
use sealway_runtime::inventory::{Party, Use, count_now};
use zeroize::Zeroizing;

pub use broker::BrokerKeys;
pub use file::{add, make_first, write};
pub use moving::Moving;
pub use wrap::{KeyWrap, UnauthenticatedUntil, WRAP_MAX, WrapError};
pub(crate) use wrap::{mark, open_marks};

use crate::random;

const FILE_LEN_MAX: u64 = 64 * 1024;

/// Key-encryption keys of a key file or of an environment variable.
pub struct KeyRing {
    provider: &'static dyn Provider,
    source: KekSource,
    keys: ArcSwap<KeyEncryptionKeys>,
    read: Mutex<Option<Version>>,
}

/// Source from which key-encryption keys are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KekSource {
    /// A file, read again when it changes.
    File(PathBuf),
    /// An environment variable with the same lines; it cannot change while the process runs.
    Env(String),
}

impl fmt::Display for KekSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KekSource::File(path) => path.display().fmt(f),
            KekSource::Env(name) => write!(f, "the environment variable {name}"),
        }
    }
}

impl KeyRing {
    /// Reads the keys of a key file.
    ///
    /// # Errors
    /// [`ConfigError`], naming file and line, never key material.
    pub fn load(provider: &'static dyn Provider, path: &Path) -> Result<Self, ConfigError> {
        KeyRing::open(provider, KekSource::File(path.to_owned()))
    }

    /// Reads the keys of a source.
    ///
    /// # Errors
    /// [`ConfigError`], naming file or variable and line, never key material.
    pub fn open(provider: &'static dyn Provider, source: KekSource) -> Result<Self, ConfigError> {
        let (keys, read) = read(provider, &source)?;
        Ok(KeyRing { provider, source, keys: ArcSwap::from_pointee(keys), read: Mutex::new(read) })
    }

    /// Reads the file again if it has changed; returns true if another key wraps from now on. If the file cannot be
    /// read, or has another key under a known id, the old keys stay in force.
    pub fn reload_if_changed(&self) -> bool {
        let KekSource::File(path) = &self.source else { return false };
        let mut known = self.read.lock();
        if *known == version(path) {
            return false;
        }
        match read(self.provider, &self.source).and_then(|(keys, version)| Ok((self.fitting(keys)?, version))) {
            Ok((keys, version)) => {
                *known = version;
                let before = self.active_id();
                tracing::info!(keys = keys.ids().count(), active = keys.ids().next(), "key file reloaded");
                self.keys.store(keys.into());
                before != self.active_id()
            }
            Err(err) => {
                tracing::error!(%err, "key file not reloaded; the loaded keys stay in use");
                false
            }
        }
    }

    /// Checks that new keys agree with those in force, and returns them.
    fn fitting(&self, keys: KeyEncryptionKeys) -> Result<KeyEncryptionKeys, ConfigError> {
        match self.keys.load().contradicted_by(&keys) {
            Some(id) => Err(ConfigError(format!("{}: key \"{id}\" is another one than before", self.source))),
            None => Ok(keys),
        }
    }

    /// Returns the source of the keys.
    pub fn source(&self) -> &KekSource {
        &self.source
    }

    /// Returns the id of the key that wraps.
    pub fn active_id(&self) -> String {
        self.keys.load().ids().next().unwrap_or_default().to_owned()
    }

    /// Returns the ids of all keys, the one that wraps first.
    pub fn ids(&self) -> Vec<String> {
        self.keys.load().ids().map(str::to_owned).collect()
    }

    /// Wraps a session's key, bound to `aad`.
    ///
    /// # Errors
    /// [`sealway_proto::Error::Provider`].
    pub fn wrap(&self, aad: &[u8], key: &SessionKey) -> Result<WrappedKey, sealway_proto::Error> {
        let iv: [u8; IV_LEN] = random::with_pool(|pool| pool.take(self.provider))?;
        let wrapped = self.keys.load().wrap(aad, key, &iv)?;
        count_kek("kek-wrap", &wrapped.kek_id);
        Ok(wrapped)
    }

    /// Unwraps a session's key that was bound to `aad`.
    ///
    /// # Errors
    /// [`UnwrapError`].
    pub fn unwrap(&self, aad: &[u8], wrapped: &WrappedKey) -> Result<SessionKey, UnwrapError> {
        let key = self.keys.load().unwrap(aad, wrapped)?;
        count_kek("kek-unwrap", &wrapped.kek_id);
        Ok(key)
    }
}

/// Counts a use of a key-encryption key in the inventory.
fn count_kek(operation: &'static str, key: &str) {
    let party = Party::Named("store", "sessions");
    count_now(&Use { operation, algorithm: "aes-256-gcm", size: 256, key, party, protocol: "kek" }, 1);
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

/// Reads the keys, and the file's version from before the read.
fn read(
    provider: &'static dyn Provider,
    source: &KekSource,
) -> Result<(KeyEncryptionKeys, Option<Version>), ConfigError> {
    match source {
        KekSource::File(path) => {
            let version = version(path);
            let text = Zeroizing::new(read_bounded(path, FILE_LEN_MAX)?);
            if let Some(warning) = readable_by_others(path) {
                tracing::warn!("the key file {warning}");
            }
            Ok((parse(provider, source, &text)?, version))
        }
        KekSource::Env(name) => {
            let text = std::env::var(name).map_err(|_| ConfigError(format!("{source} is not set, or not text")))?;
            Ok((parse(provider, source, &Zeroizing::new(text))?, None))
        }
    }
}

/// Modification time, inode and length of a file: the time alone is too coarse for two changes in a row.
pub type Version = (SystemTime, u64, u64);

/// Returns the version of a file; `None` if its metadata cannot be read.
pub fn version(path: &Path) -> Option<Version> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.ino(), meta.len()))
}

fn parse(provider: &dyn Provider, source: &KekSource, text: &str) -> Result<KeyEncryptionKeys, ConfigError> {
    KeyEncryptionKeys::parse(provider, text).map_err(|err| ConfigError(format!("{source}:{err}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Arc, Mutex};

    use sealway_proto::crypto::default_provider;
    use sealway_proto::limits::KEY_LEN;
    use sealway_proto::wire::base64;

    use super::*;

    fn load(text: &str) -> Result<KeyRing, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.kek");
        std::fs::write(&file, text).unwrap();
        KeyRing::load(default_provider(), &file).map_err(|err| err.to_string())
    }

    fn key(byte: u8) -> String {
        base64::encode(&[byte; KEY_LEN])
    }

    #[test]
    fn errors_name_file_and_line_and_never_a_key() {
        let good = format!("# keys\n\nnew {}\n", key(1));
        let many: String = (0..17).map(|n| format!("k{n} {}\n", key(n))).collect();
        for (text, line, what) in [
            (format!("{good}second\n"), 4, "expected \"id base64-key\""),
            (format!("{good}second\t{}\n", key(2)), 4, "expected \"id base64-key\""),
            (format!("{good}second {}\n", base64::encode(&[2; 31])), 4, "expected 32 bytes in base64"),
            (format!("{good}second {}\n", key(2).replace('=', "")), 4, "expected 32 bytes in base64"),
            (format!("{good}second {} x\n", key(2)), 4, "expected 32 bytes in base64"),
            (format!("{good}a.b {}\n", key(2)), 4, "a key id has"),
            (format!("{good}{} {}\n", "x".repeat(33), key(2)), 4, "a key id has"),
            (format!("{good}new {}\n", key(2)), 4, "the key id stands twice"),
            (String::new(), 1, "expected 1 to 16 keys"),
            ("# nothing\n".into(), 1, "expected 1 to 16 keys"),
            (many, 1, "expected 1 to 16 keys"),
        ] {
            let err = load(&text).unwrap_err();
            assert!(err.contains(&format!("sessions.kek:{line}: {what}")), "{text}: {err}");
            for byte in 0..17 {
                assert!(!err.contains(key(byte).trim_end_matches('=')), "the error tells a key: {err}");
            }
        }
        let err = KeyRing::load(default_provider(), Path::new("/nowhere/sessions.kek")).unwrap_err().to_string();
        assert!(err.contains("/nowhere/sessions.kek"), "{err}");
    }

    #[test]
    fn the_first_key_wraps_and_all_unwrap() {
        let id = b"what it is bound to";
        let session_key = SessionKey::from_bytes([5; KEY_LEN]);
        let old = load(&format!("old {}\r\n", key(1))).unwrap();
        let both = load(&format!("new {}\r\nold {}\r\n", key(2), key(1))).unwrap();
        assert_eq!((old.active_id().as_str(), both.active_id().as_str()), ("old", "new"));
        let (one, two) = (old.wrap(id, &session_key).unwrap(), both.wrap(id, &session_key).unwrap());
        assert_eq!((one.kek_id.as_str(), two.kek_id.as_str()), ("old", "new"));
        for wrapped in [&one, &two] {
            assert_eq!(both.unwrap(id, wrapped).unwrap().expose(), &[5; KEY_LEN]);
        }
        assert_eq!(old.unwrap(id, &two).unwrap_err(), UnwrapError::UnknownKek("new".into()));
        assert_ne!(one.bytes, old.wrap(id, &session_key).unwrap().bytes, "an IV was used twice");
    }

    #[test]
    fn a_changed_or_moved_key_does_not_unwrap() {
        let ring = load(&format!("k {}\n", key(1))).unwrap();
        let id = b"what it is bound to";
        let wrapped = ring.wrap(id, &SessionKey::from_bytes([5; KEY_LEN])).unwrap();
        for index in 0..wrapped.bytes.len() {
            let mut changed = wrapped.clone();
            changed.bytes[index] ^= 1;
            assert_eq!(ring.unwrap(id, &changed).unwrap_err(), UnwrapError::Damaged, "byte {index}");
        }
        for other in ["", "what it is bound t", "what it is bound to."] {
            assert_eq!(ring.unwrap(other.as_bytes(), &wrapped).unwrap_err(), UnwrapError::Damaged);
        }
    }

    #[test]
    fn debug_shows_ids_alone() {
        let ring = load(&format!("new {}\nold {}\n", key(7), key(8))).unwrap();
        assert_eq!(format!("{ring:?}"), r#"["new", "old"]"#);
    }

    #[test]
    fn a_generated_file_is_new_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.kek");
        KeyRing::generate(default_provider(), &file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let first = std::fs::read(&file).unwrap();
        let err = KeyRing::generate(default_provider(), &file).unwrap_err().to_string();
        assert!(err.contains("sessions.kek"), "{err}");
        assert_eq!(std::fs::read(&file).unwrap(), first, "a key file was written over");
        let ring = KeyRing::load(default_provider(), &file).unwrap();
        assert!(ring.active_id().starts_with("kek-") && ring.active_id().len() == 12);
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.kek");
        KeyRing::generate(default_provider(), &file).unwrap();
        for (mode, warns) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o622, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let log = Log::default();
            let writer = log.clone();
            let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
            tracing::subscriber::with_default(subscriber, || {
                KeyRing::load(default_provider(), &file).unwrap();
            });
            let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.contains("chmod 600"), warns, "{mode:o}: {text}");
            assert_eq!(text.contains("sessions.kek"), warns, "{mode:o}: {text}");
        }
    }
}
