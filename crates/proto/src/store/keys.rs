//! Key-encryption keys, which wrap the keys of stored sessions with AES-256-GCM. `spec/redis-store.md#sessions`.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use zeroize::{Zeroize, Zeroizing};

use crate::crypto::{AeadKey, Provider};
use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, TAG_LEN};
use crate::session::SessionKey;
use crate::wire::base64;

const ID_LEN_MAX: usize = 32;
const KEYS_MAX: usize = 16;

/// A wrapped session key, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// The id of the key that wraps it.
    pub kek_id: String,
    /// `IV || ciphertext || tag`.
    pub bytes: [u8; IV_LEN + KEY_LEN + TAG_LEN],
}

/// The reason for which a session key could not be unwrapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwrapError {
    /// The store has no key of the id that wraps it.
    #[error("wrapped under key \"{0}\", which the key file does not hold")]
    UnknownKek(String),
    /// The wrapped key was changed, or belongs to another session.
    #[error("does not unwrap")]
    Damaged,
    /// The service that unwraps it is unavailable; the key's state is unknown.
    #[error("cannot be unwrapped now: {0}")]
    Unavailable(String),
}

/// An error in lines of keys. It contains no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {what}")]
pub struct KeyLineError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The expected form of a line.
    pub what: String,
}

/// Keys of a key file, `id base64` a line: the first wraps, all unwrap.
pub struct KeyEncryptionKeys(Vec<Kek>);

struct Kek {
    id: String,
    aead: Box<dyn AeadKey>,
}

impl KeyEncryptionKeys {
    /// Parses lines; empty ones and those that begin with `#` are ignored.
    ///
    /// # Errors
    /// [`KeyLineError`].
    pub fn parse(provider: &dyn Provider, text: &str) -> Result<Self, KeyLineError> {
        let fail = |line: usize, what: &str| KeyLineError { line, what: what.to_owned() };
        let mut keys: Vec<Kek> = Vec::new();
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
            if keys.iter().any(|known| known.id == id) {
                return Err(fail(number, "the key id stands twice"));
            }
            let mut key: [u8; KEY_LEN] = base64::decode_array(key.trim())
                .map_err(|_| fail(number, "expected 32 bytes in base64 after the key id"))?;
            let aead = provider.aes256_gcm(&key);
            key.zeroize();
            keys.push(Kek { id: id.to_owned(), aead: aead.map_err(|err| fail(number, &err.to_string()))? });
        }
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(fail(1, "expected 1 to 16 keys"));
        }
        Ok(KeyEncryptionKeys(keys))
    }

    /// Iterates over the ids of all keys, the one that wraps first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|kek| kek.id.as_str())
    }

    /// Wraps a session's key, bound to `aad`, with a random `iv`.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn wrap(&self, aad: &[u8], key: &SessionKey, iv: &[u8; IV_LEN]) -> Result<WrappedKey, Error> {
        let kek = self.0.first().ok_or(Error::Provider)?;
        let mut text = Zeroizing::new(*key.expose());
        let tag = kek.aead.seal_in_place(iv, aad, text.as_mut_slice())?;
        let bytes = [iv.as_slice(), text.as_slice(), &tag].concat();
        Ok(WrappedKey { kek_id: kek.id.clone(), bytes: bytes.try_into().map_err(|_| Error::Provider)? })
    }

    /// Unwraps a session's key that was bound to `aad`.
    ///
    /// # Errors
    /// [`UnwrapError`].
    pub fn unwrap(&self, aad: &[u8], wrapped: &WrappedKey) -> Result<SessionKey, UnwrapError> {
        let kek = self.0.iter().find(|kek| kek.id == wrapped.kek_id);
        let kek = kek.ok_or_else(|| UnwrapError::UnknownKek(wrapped.kek_id.clone()))?;
        let mut bytes = Zeroizing::new(wrapped.bytes);
        let (iv, sealed) = bytes.split_first_chunk_mut::<IV_LEN>().ok_or(UnwrapError::Damaged)?;
        kek.aead.open_in_place(iv, aad, sealed).map_err(|_| UnwrapError::Damaged)?;
        let mut key = *sealed.first_chunk::<KEY_LEN>().ok_or(UnwrapError::Damaged)?;
        let session_key = SessionKey::from_bytes(key);
        key.zeroize();
        Ok(session_key)
    }

    /// Returns an id that has another key in `later`, if there is one: an id must never come to mean another key.
    pub fn contradicted_by(&self, later: &KeyEncryptionKeys) -> Option<&str> {
        let means_another = |kek: &&Kek| {
            let Some(again) = later.0.iter().find(|again| again.id == kek.id) else { return false };
            // A fixed IV, which no session uses: the text is fixed, so the ciphertext reveals nothing.
            let (iv, mut text) = ([0_u8; IV_LEN], [0_u8; 1 + TAG_LEN]);
            let (one, rest) = text.split_at_mut(1);
            let Ok(tag) = kek.aead.seal_in_place(&iv, b"the same key", one) else { return true };
            rest.copy_from_slice(&tag);
            again.aead.open_in_place(&iv, b"the same key", &mut text).is_err()
        };
        self.0.iter().find(means_another).map(|kek| kek.id.as_str())
    }
}

impl fmt::Debug for KeyEncryptionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}
