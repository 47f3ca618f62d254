//! Keys at rest: every stored session key is wrapped with AES-256-GCM under a key-encryption key, AAD = session id.
//!
//! A key file has a key a line, `id base64`; the first wraps, all unwrap, so a new key is put in front and the old one
//! taken out when the last session wrapped under it has expired. One key wraps at most 2^32 sessions with random IVs
//! (SP 800-38D section 8.3): rotate before.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sealway_proto::crypto::{AeadKey, Provider};
use sealway_proto::limits::{IV_LEN, KEY_LEN, TAG_LEN};
use sealway_proto::session::SessionKey;
use sealway_proto::wire::{SessionId, base64};
use sealway_runtime::config::{ConfigError, read_bounded};
use zeroize::{Zeroize, Zeroizing};

const ID_LEN_MAX: usize = 32;
const KEYS_MAX: usize = 16;

/// A wrapped session key, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped {
    /// Which key wraps it.
    pub kek_id: String,
    /// `IV || ciphertext || tag`.
    pub bytes: [u8; IV_LEN + KEY_LEN + TAG_LEN],
}

/// Why a session key could not be unwrapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwrapError {
    /// The file does not hold the key that wraps it.
    #[error("wrapped under key \"{0}\", which the key file does not hold")]
    UnknownKek(String),
    /// It was changed, or belongs to another session.
    #[error("does not unwrap")]
    Damaged,
}

/// The keys of a key file.
pub struct KeyRing {
    provider: &'static dyn Provider,
    file: PathBuf,
    keys: Vec<(String, Box<dyn AeadKey>)>,
}

impl KeyRing {
    /// Reads a key file.
    ///
    /// # Errors
    /// [`ConfigError`], naming file and line, never what a key is.
    pub fn load(provider: &'static dyn Provider, path: &Path) -> Result<Self, ConfigError> {
        let text = Zeroizing::new(read_bounded(path, 64 * 1024)?);
        if let Ok(meta) = std::fs::metadata(path)
            && meta.permissions().mode() & 0o077 != 0
        {
            tracing::warn!(file = %path.display(), "the key file can be read by others than its owner; chmod 600 it");
        }
        let fail = |line: usize, what: &str| ConfigError(format!("{}:{line}: {what}", path.display()));
        let mut keys: Vec<(String, Box<dyn AeadKey>)> = Vec::new();
        for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, key) = line.split_once(' ').ok_or_else(|| fail(number, "expected \"id base64-key\""))?;
            let id_ok = (1..=ID_LEN_MAX).contains(&id.len())
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if !id_ok {
                return Err(fail(number, "a key id has 1 to 32 letters, digits, - or _"));
            }
            if keys.iter().any(|(known, _)| known == id) {
                return Err(fail(number, "the key id stands twice"));
            }
            let mut key: [u8; KEY_LEN] = base64::decode_array(key.trim())
                .map_err(|_| fail(number, "expected 32 bytes in base64 after the key id"))?;
            let aead = provider.aes256_gcm(&key);
            key.zeroize();
            keys.push((id.to_owned(), aead.map_err(|err| fail(number, &err.to_string()))?));
        }
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(fail(1, "expected 1 to 16 keys"));
        }
        Ok(KeyRing { provider, file: path.to_owned(), keys })
    }

    /// Makes a key file with one new key, readable by its owner alone. An existing file is left alone.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn generate(provider: &'static dyn Provider, path: &Path) -> Result<(), ConfigError> {
        let fail = |what: String| ConfigError(format!("cannot make the key file {}: {what}", path.display()));
        let mut random = Zeroizing::new([0_u8; KEY_LEN + 4]);
        provider.fill_random(random.as_mut_slice()).map_err(|err| fail(err.to_string()))?;
        let (key, id) = random.split_at(KEY_LEN);
        let id = u32::from_be_bytes([id[0], id[1], id[2], id[3]]);
        let line = Zeroizing::new(format!("kek-{id:08x} {}\n", base64::encode(key)));
        // Under another name first: a crash half-way must not leave a file that looks like a key file. The link fails
        // where there is one already.
        let unfinished = path.with_extension(format!("{id:08x}.tmp"));
        let made =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).and_then(|mut file| {
                file.write_all(line.as_bytes())?;
                file.sync_all()?;
                std::fs::hard_link(&unfinished, path)?;
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                std::fs::File::open(folder)?.sync_all()
            });
        let _ = std::fs::remove_file(&unfinished);
        made.map_err(|err| fail(err.to_string()))
    }

    /// The file that it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The id of the key that wraps.
    pub fn active_id(&self) -> &str {
        self.keys.first().map_or("", |(id, _)| id)
    }

    /// Wraps a session's key.
    ///
    /// # Errors
    /// [`sealway_proto::Error::Provider`].
    pub fn wrap(&self, session: &SessionId, key: &SessionKey) -> Result<Wrapped, sealway_proto::Error> {
        let (kek_id, kek) = self.keys.first().ok_or(sealway_proto::Error::Provider)?;
        let mut bytes = [0_u8; IV_LEN + KEY_LEN + TAG_LEN];
        let mut iv = [0_u8; IV_LEN];
        self.provider.fill_random(&mut iv)?;
        bytes[..IV_LEN].copy_from_slice(&iv);
        bytes[IV_LEN..IV_LEN + KEY_LEN].copy_from_slice(key.expose());
        let sealed = kek.seal_in_place(&iv, session.as_str().as_bytes(), &mut bytes[IV_LEN..IV_LEN + KEY_LEN]);
        if sealed.is_err() {
            bytes.zeroize();
        }
        bytes[IV_LEN + KEY_LEN..].copy_from_slice(&sealed?);
        Ok(Wrapped { kek_id: kek_id.clone(), bytes })
    }

    /// Unwraps a session's key.
    ///
    /// # Errors
    /// [`UnwrapError`].
    pub fn unwrap(&self, session: &SessionId, wrapped: &Wrapped) -> Result<SessionKey, UnwrapError> {
        let kek = self.keys.iter().find(|(id, _)| *id == wrapped.kek_id);
        let (_, kek) = kek.ok_or_else(|| UnwrapError::UnknownKek(wrapped.kek_id.clone()))?;
        let mut bytes = Zeroizing::new(wrapped.bytes);
        let (iv, sealed) = bytes.split_first_chunk_mut::<IV_LEN>().ok_or(UnwrapError::Damaged)?;
        kek.open_in_place(iv, session.as_str().as_bytes(), sealed).map_err(|_| UnwrapError::Damaged)?;
        let mut key = [0_u8; KEY_LEN];
        key.copy_from_slice(&sealed[..KEY_LEN]);
        let session_key = SessionKey::from_bytes(key);
        key.zeroize();
        Ok(session_key)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(id, _)| id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use sealway_proto::crypto::default_provider;

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
        let id = SessionId::from_random(&[3; 16], false);
        let session_key = SessionKey::from_bytes([5; KEY_LEN]);
        let old = load(&format!("old {}\r\n", key(1))).unwrap();
        let both = load(&format!("new {}\r\nold {}\r\n", key(2), key(1))).unwrap();
        assert_eq!((old.active_id(), both.active_id()), ("old", "new"));
        let (one, two) = (old.wrap(&id, &session_key).unwrap(), both.wrap(&id, &session_key).unwrap());
        assert_eq!((one.kek_id.as_str(), two.kek_id.as_str()), ("old", "new"));
        for wrapped in [&one, &two] {
            assert_eq!(both.unwrap(&id, wrapped).unwrap().expose(), &[5; KEY_LEN]);
        }
        assert_eq!(old.unwrap(&id, &two).unwrap_err(), UnwrapError::UnknownKek("new".into()));
        assert_ne!(one.bytes, old.wrap(&id, &session_key).unwrap().bytes, "an IV was used twice");
    }

    #[test]
    fn a_changed_or_moved_key_does_not_unwrap() {
        let ring = load(&format!("k {}\n", key(1))).unwrap();
        let id = SessionId::from_random(&[3; 16], false);
        let wrapped = ring.wrap(&id, &SessionKey::from_bytes([5; KEY_LEN])).unwrap();
        for index in 0..wrapped.bytes.len() {
            let mut changed = wrapped.clone();
            changed.bytes[index] ^= 1;
            assert_eq!(ring.unwrap(&id, &changed).unwrap_err(), UnwrapError::Damaged, "byte {index}");
        }
        for other in [SessionId::from_random(&[4; 16], false), SessionId::from_random(&[3; 16], true)] {
            assert_eq!(ring.unwrap(&other, &wrapped).unwrap_err(), UnwrapError::Damaged);
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
