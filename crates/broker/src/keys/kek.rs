//! Key-encryption keys, which wrap the material of every stored key: AES-256-GCM with random nonces.
//!
//! They come from a file that only its owner can read, or from an environment variable. Each line has a key, in
//! hexadecimal or base64, optionally with its id before it. The first key wraps, and all unwrap: a new key is inserted
//! first, and the old one is removed once no material is wrapped under it.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use aws_lc_rs::aead::{Aad, Nonce};
use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_runtime::config::ConfigError;
use zeroize::Zeroizing;

use super::form::{Cipher, CipherKey};
use crate::folders::weak_above;
use crate::profile::policy::EncryptAlgorithm;
use crate::service::count_kek;
use crate::{Code, Refusal, Result};

const KEY_LEN: usize = 32;
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
const ID_LEN_MAX: usize = 32;
const KEKS_MAX: usize = 16;
const FILE_LEN_MAX: u64 = 64 * 1024;

/// Wrapped material of a key, in the form in which the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Id of the key-encryption key.
    pub kek_id: String,
    /// Output of the wrapping; for [`Kek`] `nonce
    /// ciphertext
    /// tag`.
    pub bytes: Vec<u8>,
}

/// Wraps the material of keys: [`Kek`] here; an HSM or a key management service can replace it.
pub trait Wrap: Send + Sync {
    /// Wraps material, bound to `aad`.
    ///
    /// # Errors
    /// [`Code::Internal`], if the crypto module fails.
    fn wrap(&self, aad: &[u8], material: &[u8]) -> Result<WrappedKey>;

    /// Unwraps material that was bound to `aad`.
    ///
    /// # Errors
    /// [`Code::Internal`]: the material was changed, or its key-encryption key is not available.
    fn unwrap(&self, aad: &[u8], wrapped: &WrappedKey) -> Result<Zeroizing<Vec<u8>>>;

    /// Id of the key that wraps new material.
    fn active_id(&self) -> &str;
}

/// Key-encryption keys in memory, with their ids.
pub struct Kek(Vec<(String, Cipher)>);

impl Kek {
    /// Reads key-encryption keys from a file.
    ///
    /// # Errors
    /// [`ConfigError`], naming file and line, never a key; also if other users can read the file.
    pub fn from_file(path: &Path) -> Result<Kek, ConfigError> {
        let fail = |err: std::io::Error| ConfigError(format!("cannot read {}: {err}", path.display()));
        // The opened file is the checked one: a later replacement has no effect. A pipe does not block.
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        if !meta.is_file() {
            return Err(ConfigError(format!("{}: it is not a file", path.display())));
        }
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(ConfigError(format!("{}: others than its owner can use it; chmod 600 it", path.display())));
        }
        let user = rustix::process::geteuid().as_raw();
        if ![0, user].contains(&meta.uid()) {
            let text = format!("it belongs to user {}, not to root or to user {user}; chown it", meta.uid());
            return Err(ConfigError(format!("{}: {text}", path.display())));
        }
        if let Some(folder) = weak_above(path) {
            let text =
                format!("others can put another file in its place: they may write {}; chmod go-w it", folder.display());
            return Err(ConfigError(format!("{}: {text}", path.display())));
        }
        if meta.len() > FILE_LEN_MAX {
            return Err(ConfigError(format!("{}: the file is longer than {FILE_LEN_MAX} bytes", path.display())));
        }
        // Allocated at full length: a growing buffer would leave copies of the keys.
        let mut text = Zeroizing::new(String::with_capacity(usize::try_from(FILE_LEN_MAX).unwrap_or_default() + 1));
        file.take(FILE_LEN_MAX).read_to_string(&mut text).map_err(fail)?;
        Kek::parse(&path.display().to_string(), &text)
    }

    /// Reads key-encryption keys from an environment variable: the lines of a file, often a single key.
    ///
    /// # Errors
    /// [`ConfigError`], naming variable and line, never a key.
    pub fn from_env(name: &str) -> Result<Kek, ConfigError> {
        let text = std::env::var(name)
            .map_err(|_| ConfigError(format!("the environment variable {name} is not set, or not text")))?;
        Kek::parse(&format!("the environment variable {name}"), &Zeroizing::new(text))
    }

    /// Parses key-encryption keys from a text; `source` appears in errors.
    ///
    /// # Errors
    /// [`ConfigError`], naming the line, never a key.
    pub fn parse(source: &str, text: &str) -> Result<Kek, ConfigError> {
        let fail = |line: usize, what: &str| ConfigError(format!("{source}:{line}: {what}"));
        let mut keys: Vec<(String, Cipher)> = Vec::new();
        for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, key) = line.split_once(' ').map_or((None, line), |(id, key)| (Some(id), key.trim()));
            let key = key_bytes(key).ok_or_else(|| {
                fail(number, "expected a key of 32 bytes in hexadecimal or base64, an id before it or not")
            })?;
            let id = id.map_or_else(|| derived_id(&key), str::to_owned);
            if !is_kek_id(&id) {
                return Err(fail(number, "a key id has 1 to 32 letters, digits, - or _"));
            }
            if keys.iter().any(|(known, _)| *known == id) {
                return Err(fail(number, "the key id stands twice"));
            }
            let cipher = Cipher::new(EncryptAlgorithm::Aes256Gcm, key.as_slice());
            keys.push((id, cipher.ok_or_else(|| fail(number, "the key is not usable"))?));
        }
        if keys.is_empty() || keys.len() > KEKS_MAX {
            return Err(fail(1, "expected 1 to 16 keys"));
        }
        Ok(Kek(keys))
    }

    /// Creates a random key-encryption key, for tests and trials.
    ///
    /// # Errors
    /// [`ConfigError`]: no randomness is available.
    pub fn random() -> Result<Kek, ConfigError> {
        let mut key = Zeroizing::new([0_u8; KEY_LEN]);
        rand::fill(key.as_mut_slice()).map_err(|_| ConfigError("no randomness".into()))?;
        Kek::parse("random", &Zeroizing::new(STANDARD.encode(key.as_slice())))
    }

    /// Ids of the keys, the wrapping one first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(id, _)| id.as_str())
    }
}

impl fmt::Debug for Kek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl Wrap for Kek {
    fn wrap(&self, aad: &[u8], material: &[u8]) -> Result<WrappedKey> {
        let fault = |_| Refusal::new(Code::Internal, "key store: cannot wrap");
        let (id, key) = self.0.first().ok_or_else(|| Refusal::new(Code::Internal, "key store: nothing wraps"))?;
        let mut nonce = [0_u8; NONCE_LEN];
        rand::fill(&mut nonce).map_err(fault)?;
        // Allocated at full length: a growing buffer would leave copies of the material.
        let mut sealed = Zeroizing::new(Vec::with_capacity(material.len() + TAG_LEN));
        sealed.extend_from_slice(material);
        #[cfg(feature = "fips")]
        if let Some(sealing) = &key.sealing {
            // The approved service, in which the module draws the nonce.
            let nonce = sealing.seal_in_place_append_tag(Aad::from(aad), &mut *sealed).map_err(fault)?;
            let bytes = [nonce.as_ref().as_slice(), sealed.as_slice()].concat();
            count_kek("kek-wrap", id);
            return Ok(WrappedKey { kek_id: id.clone(), bytes });
        }
        let CipherKey::Here(cipher) = &key.key else {
            return Err(Refusal::new(Code::Internal, "key store: cannot wrap"));
        };
        cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut *sealed)
            .map_err(fault)?;
        count_kek("kek-wrap", id);
        Ok(WrappedKey { kek_id: id.clone(), bytes: [nonce.as_slice(), sealed.as_slice()].concat() })
    }

    fn unwrap(&self, aad: &[u8], wrapped: &WrappedKey) -> Result<Zeroizing<Vec<u8>>> {
        let Some((_, key)) = self.0.iter().find(|(id, _)| *id == wrapped.kek_id) else {
            let text = format!("key store: wrapped under \"{}\", which is not among the keys", wrapped.kek_id);
            return Err(Refusal::new(Code::Internal, text));
        };
        let damaged = || Refusal::new(Code::Internal, "key store: does not unwrap");
        let (nonce, sealed) = wrapped.bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        let mut material = Zeroizing::new(sealed.to_vec());
        let CipherKey::Here(key) = &key.key else { return Err(damaged()) };
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(aad), &mut material);
        let len = opened.map_err(|_| damaged())?.len();
        material.truncate(len);
        count_kek("kek-unwrap", &wrapped.kek_id);
        Ok(material)
    }

    fn active_id(&self) -> &str {
        self.0.first().map_or("", |(id, _)| id)
    }
}

/// True for a valid id of a key-encryption key: 1 to 32 letters, digits, `-` or `_`.
pub(super) fn is_kek_id(id: &str) -> bool {
    (1..=ID_LEN_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Parses a key: 64 hexadecimal digits, else base64.
fn key_bytes(text: &str) -> Option<Zeroizing<[u8; KEY_LEN]>> {
    let mut key = Zeroizing::new([0_u8; KEY_LEN]);
    if text.len() == 2 * KEY_LEN {
        for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |d: u8| char::from(d).to_digit(16).and_then(|d| u8::try_from(d).ok());
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        return Some(key);
    }
    let bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
    (bytes.len() == KEY_LEN).then(|| key.copy_from_slice(&bytes))?;
    Some(key)
}

/// Id of a key without one: 32 bits that only the key's holder can compute.
fn derived_id(key: &Zeroizing<[u8; KEY_LEN]>) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_slice()), b"sealway broker: the id of this key");
    let id = tag.as_ref().first_chunk::<4>().map_or(0, |id| u32::from_be_bytes(*id));
    format!("kek-{id:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(byte: u8) -> String {
        format!("{byte:02x}").repeat(KEY_LEN)
    }

    #[test]
    fn hexadecimal_and_base64_are_the_same_key_with_and_without_an_id() {
        let text = STANDARD.encode([7; KEY_LEN]);
        let named = Kek::parse("file", &format!("# keys\n\nfirst {}\nsecond {text}\n", hex(1))).unwrap();
        assert_eq!(named.ids().collect::<Vec<_>>(), ["first", "second"]);
        let (one, two) = (Kek::parse("file", &hex(7)).unwrap(), Kek::parse("file", &text).unwrap());
        assert_eq!(one.active_id(), two.active_id());
        let wrapped = one.wrap(b"aad", b"material").unwrap();
        assert_eq!(two.unwrap(b"aad", &wrapped).unwrap().as_slice(), b"material");
    }

    #[test]
    fn the_first_wraps_and_all_unwrap_and_a_change_is_found() {
        let old = Kek::parse("file", &format!("old {}", hex(1))).unwrap();
        let both = Kek::parse("file", &format!("new {}\nold {}", hex(2), hex(1))).unwrap();
        let wrapped = old.wrap(b"aad", b"material").unwrap();
        assert_eq!(both.unwrap(b"aad", &wrapped).unwrap().as_slice(), b"material");
        assert_eq!(both.wrap(b"aad", b"").unwrap().kek_id, "new");
        let err = old.unwrap(b"aad", &both.wrap(b"aad", b"").unwrap()).unwrap_err();
        assert!(err.text.contains("\"new\""), "{err}");
        assert!(both.unwrap(b"aae", &wrapped).is_err());
        for index in 0..wrapped.bytes.len() {
            let mut changed = wrapped.clone();
            changed.bytes[index] ^= 1;
            assert!(both.unwrap(b"aad", &changed).is_err(), "byte {index}");
        }
    }

    #[test]
    fn errors_name_the_line_and_never_a_key() {
        let many: String = (0..17).map(|n| format!("k{n} {}\n", hex(n))).collect();
        for (text, line) in [
            (String::new(), 1),
            (many, 1),
            (format!("a {}\na {}", hex(1), hex(2)), 2),
            (format!("a {}\nb {}", hex(1), &hex(2)[2..]), 2),
            (format!("a.b {}", hex(1)), 1),
            (format!("{}zz", &hex(1)[2..]), 1),
        ] {
            let err = Kek::parse("file", &text).unwrap_err().0;
            assert!(err.starts_with(&format!("file:{line}: ")), "{err}");
            assert!(!err.contains(&hex(1)) && !err.contains(&hex(2)[2..]), "{err}");
        }
        let shown = format!("{:?}", Kek::parse("file", &format!("a {}", hex(1))).unwrap());
        assert_eq!(shown, r#"["a"]"#);
    }

    #[test]
    fn a_file_that_others_can_access_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kek");
        std::fs::write(&file, hex(1)).unwrap();
        for (mode, is_taken) in [(0o600, true), (0o400, true), (0o640, false), (0o602, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Kek::from_file(&file).is_ok(), is_taken, "{mode:o}");
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        for (mode, is_taken) in [(0o777, false), (0o770, false), (0o1777, true), (0o700, true)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let read = Kek::from_file(&file).map_err(|err| err.0);
            assert_eq!(read.is_ok(), is_taken, "{mode:o}");
            assert!(is_taken || read.unwrap_err().contains("others can put another file in its place"), "{mode:o}");
        }
        // Only root can give a file away, and only root could be deceived by one.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
            assert!(Kek::from_file(&file).unwrap_err().0.contains("it belongs to user 4711"));
        }
        assert!(Kek::from_file(folder.path()).unwrap_err().0.contains("it is not a file"));
        let err = Kek::from_file(&folder.path().join("none")).unwrap_err().0;
        assert!(err.contains("none"), "{err}");
    }
}
