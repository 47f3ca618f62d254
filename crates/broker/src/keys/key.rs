//! A key for operations: immutable, and replaced as a whole when the store changes it.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use super::document::{StoredVersion, VersionData};
use super::form::Form;
use super::seals::{Claim, SEALS_MAX, Seals};
use super::store::SharedStore;
use super::{Algorithm, Rules, WrappedKey};
use crate::{Code, Refusal, Result};

/// State of a version, which permits its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It decrypts and verifies; the last enabled version encrypts and signs.
    Enabled,
    /// It is unusable until it is enabled again.
    Disabled,
}

/// A named key with its versions.
pub struct Key {
    pub(super) id: String,
    pub(super) algorithm: Algorithm,
    pub(super) rules: Rules,
    pub(super) versions: Vec<Version>,
    pub(super) store: Weak<SharedStore>,
}

/// One version of a key.
#[derive(Clone)]
pub struct Version {
    pub(super) data: VersionData,
    /// Wrapped material as stored, for the next write of the file.
    pub(super) wrapped: Arc<WrappedKey>,
    pub(super) seals: Arc<Seals>,
    /// The CA's certificate in DER, if one is kept with it.
    pub(super) certificate: Option<Arc<[u8]>>,
    /// Parsed material, made at the first use.
    pub(super) form: Arc<OnceLock<Form>>,
}

impl Key {
    /// Id of the key in the store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Algorithm of the key, which decides its operations.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Rules of the key, which hold on every wire.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// True if any of its versions was imported.
    pub fn is_imported(&self) -> bool {
        self.versions.iter().any(|version| version.data.is_imported)
    }

    /// All versions, the first one first.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Returns the version that encrypts and signs: the last enabled one.
    ///
    /// # Errors
    /// [`Code::FailedPrecondition`]: every version is disabled, or those that the key's rules leave.
    pub fn current(&self) -> Result<&Version> {
        let enabled = self.versions.iter().rev().find(|version| version.data.state == State::Enabled);
        let version = enabled
            .ok_or_else(|| Refusal::new(Code::FailedPrecondition, "key_id: every version of the key is disabled"))?;
        if version.data.number < self.rules.min_decryption.max(self.rules.min_encryption) {
            let text = "key_id: the last enabled version is below the key's min_encryption_version";
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        Ok(version)
    }

    /// Returns the enabled version of a number; 0 is the current one.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: there is no such version; [`Code::FailedPrecondition`]: it is disabled, or below the
    /// key's `min_decryption`.
    pub fn version(&self, wanted: u32) -> Result<&Version> {
        if wanted == 0 {
            return self.current();
        }
        let index = usize::try_from(wanted).unwrap_or(usize::MAX) - 1;
        match self.versions.get(index) {
            None => Err(Refusal::invalid("key_version: the key has no such version")),
            Some(version) if version.data.state == State::Disabled => {
                Err(Refusal::new(Code::FailedPrecondition, "key_version: it is disabled"))
            }
            Some(_) if wanted < self.rules.min_decryption => {
                let text = "key_version: it is below the key's min_decryption_version";
                Err(Refusal::new(Code::FailedPrecondition, text))
            }
            Some(version) => Ok(version),
        }
    }

    /// Rejects a key of another algorithm.
    pub(crate) fn require(&self, wanted: Algorithm) -> Result<()> {
        if self.algorithm == wanted {
            return Ok(());
        }
        Err(Refusal::invalid(format!("key_id: a key of {}, the profile wants {wanted}", self.algorithm)))
    }

    /// Returns the parsed material of a version, parsed at its first use.
    ///
    /// # Errors
    /// [`Code::Internal`]; [`Code::FailedPrecondition`] if this build does not have the algorithm.
    pub(crate) fn form<'a>(&self, version: &'a Version) -> Result<&'a Form> {
        if let Some(form) = version.form.get() {
            return Ok(form);
        }
        let store = self.store()?;
        let form = Form::parse(store.tokens(), self.algorithm, &store.unwrap(self, version)?)?;
        Ok(version.form.get_or_init(|| form))
    }

    /// Reserves `count` more messages with random nonces under a version, recorded in advance.
    ///
    /// # Errors
    /// [`Code::FailedPrecondition`]: it has encrypted 2^32 messages; [`Code::Internal`]: the disk cannot write.
    pub(crate) fn claim_seals(&self, version: &Version, count: u64) -> Result<()> {
        loop {
            match version.seals.claim(count) {
                Claim::Granted => return Ok(()),
                Claim::Raise(raise) => self.store()?.reserve(&self.id, version.data.number, raise)?,
                Claim::Exhausted => {
                    let text =
                        format!("key_id: its version has sealed {SEALS_MAX} messages with random nonces; rotate it");
                    return Err(Refusal::new(Code::FailedPrecondition, text));
                }
            }
        }
    }

    /// Returns the SubjectPublicKeyInfo of a version with its number, also of a disabled one: 0 is the current one.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: a secret key, or no such version; [`Code::FailedPrecondition`].
    pub fn public_key(&self, wanted: u32) -> Result<(u32, Vec<u8>)> {
        let version = match self.version(wanted) {
            Err(refusal) if refusal.code == Code::FailedPrecondition && wanted != 0 => {
                self.versions.get(usize::try_from(wanted).unwrap_or(0) - 1).ok_or(refusal)?
            }
            found => found?,
        };
        Ok((version.data.number, self.form(version)?.spki()?))
    }

    /// Returns the SubjectPublicKeyInfo of the current version with its number; `None` if all versions are disabled, or the key is
    /// damaged, secret or not one of this build.
    ///
    /// # Errors
    /// The key-encryption key is busy or away.
    pub(crate) fn usable_public_key(&self) -> Result<Option<(u32, Vec<u8>)>> {
        let Ok(version) = self.current() else { return Ok(None) };
        if version.form.get().is_none() {
            let store = self.store()?;
            let material = match store.unwrap(self, version) {
                Err(refusal) if refusal.code == Code::Internal => return Ok(None),
                material => material?,
            };
            let Ok(form) = Form::parse(store.tokens(), self.algorithm, &material) else { return Ok(None) };
            version.form.get_or_init(|| form);
        }
        Ok(self.form(version).and_then(Form::spki).ok().map(|spki| (version.data.number, spki)))
    }

    /// Makes it the key of a CA, for good, unless it is one: from then on it signs data only under profiles that say so.
    ///
    /// # Errors
    /// [`Code::NotFound`]: the key is gone; [`Code::Internal`]: the disk cannot write.
    pub(super) fn becomes_issuer(&self) -> Result<()> {
        if self.rules.is_issuer { Ok(()) } else { self.store()?.becomes_issuer(&self.id) }
    }

    fn store(&self) -> Result<Arc<SharedStore>> {
        self.store.upgrade().ok_or_else(|| Refusal::new(Code::Unavailable, "key store: it is closed"))
    }

    /// Returns the same key with other versions.
    pub(super) fn with(&self, versions: Vec<Version>) -> Key {
        Key { id: self.id.clone(), versions, store: self.store.clone(), ..*self }
    }

    /// True if a version decrypts and verifies: it is enabled, and not below the key's `min_decryption`.
    pub(crate) fn may_open(&self, version: &Version) -> bool {
        version.data.state == State::Enabled && version.data.number >= self.rules.min_decryption
    }

    /// Additional authenticated data of a version's wrapping.
    pub(super) fn aad(&self, version: &Version) -> Vec<u8> {
        version.data.aad(&self.id, self.algorithm, self.rules)
    }
}

impl Version {
    /// Number of the version, from 1.
    pub fn number(&self) -> u32 {
        self.data.number
    }

    /// State of the version: enabled or disabled.
    pub fn state(&self) -> State {
        self.data.state
    }

    /// Time of generation or import, in Unix milliseconds.
    pub fn created_ms(&self) -> u64 {
        self.data.created_ms
    }

    /// Creates a version from its data and its wrapped material. All reserved messages count as used.
    pub(super) fn new(StoredVersion { data, wrapped, certificate }: StoredVersion) -> Version {
        let (wrapped, seals) = (Arc::new(wrapped), Arc::new(Seals::new(data.reserved)));
        Version { data, wrapped, seals, certificate, form: Arc::default() }
    }

    /// Converts a version for its file.
    pub(super) fn stored(&self) -> StoredVersion {
        let (wrapped, certificate) = (WrappedKey::clone(&self.wrapped), self.certificate.clone());
        StoredVersion { data: self.data, wrapped, certificate }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .field("versions", &self.versions)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("number", &self.data.number)
            .field("state", &self.data.state)
            .finish_non_exhaustive()
    }
}
