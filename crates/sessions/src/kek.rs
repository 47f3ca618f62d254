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
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|err| fail(err.to_string()))?;
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(|err| fail(err.to_string()))
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
