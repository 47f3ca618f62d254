//! The store: all keys in memory, and every change on the disk before it is in force.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use sealway_runtime::config::ConfigError;
use zeroize::Zeroizing;

use super::document::{Document, StoredVersion, VersionData, fingerprint, number};
use super::faults::Faults;
use super::key::{State, Version};
use super::material::Material;
use super::seals::Raise;
use super::{
    Algorithm, Backend, Folder, KEYS_MAX, Key, LIST_MAX, RuleChange, Rules, Tokens, VERSIONS_MAX, Wrap, is_key_id,
    material, token,
};
use crate::service::work_of;
use crate::{Code, Refusal, Result};

/// Most versions of all keys on a page together, except for its first key.
const LIST_VERSIONS_MAX: usize = 16 * 1024;

/// All keys and their storage. Dropping it closes it: [`Store::close`].
pub struct Store {
    shared: Arc<SharedStore>,
}

/// State that the store shares with its keys.
pub(super) struct SharedStore {
    backend: Box<dyn Backend>,
    wrap: Box<dyn Wrap>,
    tokens: Tokens,
    keys: RwLock<BTreeMap<String, Arc<Key>>>,
    /// Held from the read of a key until its change is in force: one writer at a time.
    writing: Mutex<()>,
}

/// A page of the list of keys.
#[derive(Debug)]
pub struct Page {
    /// Keys in the order of their ids.
    pub keys: Vec<Arc<Key>>,
    /// True if more keys follow.
    pub has_more: bool,
}

impl Store {
    /// Opens the store in a folder, created if missing, and unwraps every key in it.
    ///
    /// # Errors
    /// [`ConfigError`], naming folder or key: see [`Folder::open`]; a file is damaged or was changed; a key's
    /// key-encryption key is not available.
    pub fn open(folder: &Path, kek: impl Wrap + 'static) -> Result<Store, ConfigError> {
        Store::open_in(folder, Folder::open(folder)?, Box::new(kek), Tokens::default())
    }

    /// Opens the store like [`Store::open`], also below a folder that others may write.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_below_shared(folder: &Path, kek: impl Wrap + 'static) -> Result<Store, ConfigError> {
        Store::open_in(folder, Folder::open_below_shared(folder)?, Box::new(kek), Tokens::default())
    }

    /// Opens the store like [`Store::open`], with keys on tokens. `is_below_shared`: as [`Store::open_below_shared`].
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_with(
        folder: &Path,
        is_below_shared: bool,
        wrap: Box<dyn Wrap>,
        tokens: Tokens,
    ) -> Result<Store, ConfigError> {
        let backend = if is_below_shared { Folder::open_below_shared(folder)? } else { Folder::open(folder)? };
        Store::open_in(folder, backend, wrap, tokens)
    }

    fn open_in(folder: &Path, backend: Folder, wrap: Box<dyn Wrap>, tokens: Tokens) -> Result<Store, ConfigError> {
        Store::over_with(backend, wrap, tokens)
            .map_err(|err| ConfigError(format!("key store {}: {err}", folder.display())))
    }

    /// Opens a store on any storage, like [`Store::open`].
    ///
    /// # Errors
    /// [`ConfigError`], naming each invalid file: none is skipped.
    pub fn over(backend: impl Backend + 'static, kek: impl Wrap + 'static) -> Result<Store, ConfigError> {
        Store::over_with(backend, Box::new(kek), Tokens::default())
    }

    fn over_with(backend: impl Backend + 'static, wrap: Box<dyn Wrap>, tokens: Tokens) -> Result<Store, ConfigError> {
        let files = backend.load().map_err(|err| ConfigError(err.to_string()))?;
        let shared = Arc::new(SharedStore {
            backend: Box::new(backend),
            wrap,
            tokens,
            keys: RwLock::default(),
            writing: Mutex::default(),
        });
        let (mut keys, mut faults) = (BTreeMap::new(), Faults::default());
        for (id, bytes) in files {
            match shared.read(&id, &bytes) {
                Ok(key) => {
                    keys.insert(id, Arc::new(key));
                }
                Err(why) => faults.add(format!("the file of key {id}: {why}")),
            }
        }
        if !faults.is_empty() {
            return Err(ConfigError(faults.to_string()));
        }
        *shared.keys.write() = keys;
        Ok(Store { shared })
    }

    /// Returns the key of an id.
    ///
    /// # Errors
    /// [`Code::NotFound`], or [`Code::InvalidArgument`] for an invalid id.
    pub fn get(&self, id: &str) -> Result<Arc<Key>> {
        self.shared.get(id)
    }

    /// Number of keys in the store.
    pub fn count(&self) -> usize {
        self.shared.keys.read().len()
    }

    /// Lists keys in the order of their ids, after the id `after` or from the first: at most `limit`, and at most
    /// [`LIST_MAX`], which 0 stands for.
    pub fn list(&self, after: &str, limit: usize) -> Page {
        let limit = if limit == 0 { LIST_MAX } else { limit.min(LIST_MAX) };
        let all = self.shared.keys.read();
        let mut rest = all.range::<str, _>((Excluded(after), Unbounded)).map(|(_, key)| key).peekable();
        let (mut keys, mut versions) = (Vec::new(), 0);
        while keys.len() < limit
            && let Some(key) = rest.next_if(|key| keys.is_empty() || versions + key.versions.len() <= LIST_VERSIONS_MAX)
        {
            versions += key.versions.len();
            keys.push(key.clone());
        }
        Page { keys, has_more: rest.peek().is_some() }
    }

    /// Generates a key, on a token if the settings say so ([`Tokens::generating_on`]). Blocks: an RSA key of 8192 bits may take a
    /// minute.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]; [`Code::AlreadyExists`]; [`Code::FailedPrecondition`]: the store is full, or this
    /// build does not have the algorithm; [`Code::Internal`]: the disk cannot write.
    pub fn generate(&self, id: &str, algorithm: Algorithm, now_ms: u64) -> Result<Arc<Key>> {
        self.shared.may_add(id)?;
        let bytes = match token::generate_first(&self.shared.tokens, algorithm, id)? {
            Some(bytes) => bytes,
            None => material::generate(algorithm)?,
        };
        let material = Material { bytes, certificate: None };
        self.shared.add(id, algorithm, &material, false, now_ms)
    }

    /// Imports a key: PKCS#8 as DER or PEM, raw bytes of secret keys and of ML-KEM's. Behind the PEM may be the
    /// certificate of the CA whose key it is, which is kept with it.
    ///
    /// # Errors
    /// Those of [`Store::generate`]; [`Code::InvalidArgument`] if the material is not a key of the algorithm.
    pub fn import(&self, id: &str, algorithm: Algorithm, bytes: &[u8], now_ms: u64) -> Result<Arc<Key>> {
        self.shared.may_add(id)?;
        self.shared.check_label(id, bytes)?;
        let material = material::import(&self.shared.tokens, algorithm, bytes)?;
        self.shared.add(id, algorithm, &material, true, now_ms)
    }

    /// Adds a version, which encrypts and signs from now on: generated if `bytes` is empty, else imported.
    ///
    /// # Errors
    /// Those of [`Store::import`]; [`Code::NotFound`]; [`Code::FailedPrecondition`]: the key has the most versions
    /// allowed.
    pub fn rotate(&self, id: &str, bytes: &[u8], now_ms: u64) -> Result<Arc<Key>> {
        let material = self.shared.next_material(&*self.get(id)?, bytes)?;
        let writing = self.shared.writing.lock();
        let key = self.get(id)?;
        if key.versions.len() >= VERSIONS_MAX {
            let text = format!("key_id: the key has {VERSIONS_MAX} versions, no more fit");
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        let mut versions = key.versions.clone();
        versions.push(self.shared.version(&key, versions.len(), &material, !bytes.is_empty(), now_ms)?);
        let key = self.shared.replace(key.with(versions))?;
        if material.certificate.is_none() || key.rules.is_issuer {
            return Ok(key);
        }
        drop(writing);
        self.shared.becomes_issuer(id)?;
        self.get(id)
    }

    /// Disables a version, or all for 0: it neither decrypts nor verifies until it is enabled again.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::InvalidArgument`]: no such version; [`Code::Internal`]: the disk cannot write.
    pub fn disable(&self, id: &str, version: u32) -> Result<Arc<Key>> {
        self.shared.set_state(id, version, State::Disabled)
    }

    /// Enables a version, or all for 0.
    ///
    /// # Errors
    /// Those of [`Store::disable`].
    pub fn enable(&self, id: &str, version: u32) -> Result<Arc<Key>> {
        self.shared.set_state(id, version, State::Enabled)
    }

    /// Changes the rules of a key; absent members stay as they are.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::InvalidArgument`]: no version would be left for an operation; [`Code::Internal`]: the
    /// disk cannot write.
    pub fn configure(&self, id: &str, change: RuleChange) -> Result<Arc<Key>> {
        self.shared.configure(id, change)
    }

    /// Deletes a key with all its versions, for good: nothing that it encrypted opens again.
    ///
    /// # Errors
    /// [`Code::NotFound`]; [`Code::FailedPrecondition`]: its rules do not allow it; [`Code::Internal`]: the disk cannot
    /// write.
    pub fn delete(&self, id: &str) -> Result<()> {
        let _writing = self.shared.writing.lock();
        if !self.get(id)?.rules.is_deletion_allowed {
            let text = "key_id: deletion is not allowed for this key; set its deletion_allowed first";
            return Err(Refusal::new(Code::FailedPrecondition, text));
        }
        self.shared.backend.remove(id).map_err(|err| {
            tracing::error!(key = %id, %err, "writing the key store failed");
            Refusal::new(Code::Internal, format!("key store: not written: {err}"))
        })?;
        self.shared.keys.write().remove(id);
        Ok(())
    }

    /// Rewraps all material that is not wrapped under the first key-encryption key; returns the number of changed keys.
    /// Afterwards the other key-encryption keys can be removed.
    ///
    /// # Errors
    /// [`Code::Internal`]: the disk cannot write. Changes made until then stay.
    pub fn rewrap(&self) -> Result<usize> {
        let active_id = self.shared.wrap.active_id();
        let is_old = |version: &Version| version.wrapped.kek_id != active_id;
        let old = |key: &&Arc<Key>| key.versions.iter().any(is_old);
        let ids: Vec<String> = self.shared.keys.read().values().filter(old).map(|key| key.id.clone()).collect();
        for id in &ids {
            let _writing = self.shared.writing.lock();
            // Another caller may have deleted it since.
            let Ok(key) = self.get(id) else { continue };
            let mut versions = key.versions.clone();
            for (version, before) in versions.iter_mut().zip(&key.versions).filter(|(_, before)| is_old(before)) {
                self.shared.rebind(&key, before, version)?;
            }
            self.shared.replace(key.with(versions))?;
        }
        Ok(ids.len())
    }

    /// Stops encryption with random nonces, and records the used messages: else all reserved messages count as used at
    /// the next start. For the end of a process; decryption and signing continue.
    pub fn close(&self) {
        let _writing = self.shared.writing.lock();
        let keys: Vec<Arc<Key>> = self.shared.keys.read().values().cloned().collect();
        for key in keys {
            let mut versions = key.versions.clone();
            let mut is_changed = false;
            for (version, before) in versions.iter_mut().zip(&key.versions) {
                let used = version.seals.close();
                if used < version.data.reserved {
                    version.data.reserved = used;
                    is_changed |= self.shared.rebind(&key, before, version).is_ok();
                }
            }
            if is_changed && let Err(refusal) = self.shared.replace(key.with(versions)) {
                tracing::warn!(key = %key.id, %refusal, "recording a key's use failed; its reserve counts as used");
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedStore {
    /// Loads a key from its file; the error contains none of its text.
    fn read(self: &Arc<Self>, id: &str, bytes: &[u8]) -> Result<Key, String> {
        let document = Document::decode(bytes)?;
        if document.id != id {
            return Err("it is of another key".into());
        }
        let versions = document.versions.into_iter().map(Version::new);
        let key = Key {
            id: document.id,
            algorithm: document.algorithm,
            rules: document.rules,
            versions: versions.collect(),
            store: Arc::downgrade(self),
        };
        for version in &key.versions {
            self.unwrap(&key, version).map_err(|why| format!("version {}: {why}", version.data.number))?;
        }
        Ok(key)
    }

    fn get(&self, id: &str) -> Result<Arc<Key>> {
        let found = self.keys.read().get(id).cloned();
        // The id is the caller's text: only a valid one appears in the error.
        found.ok_or_else(|| match is_key_id(id) {
            true => Refusal::new(Code::NotFound, format!("key_id: there is no key: {id}")),
            false => Refusal::invalid("key_id: expected 1 to 64 letters, digits, '.', '_' or '-'"),
        })
    }

    fn may_add(&self, id: &str) -> Result<()> {
        if !is_key_id(id) {
            return Err(Refusal::invalid("key_id: expected 1 to 64 letters, digits, '.', '_' or '-'"));
        }
        let keys = self.keys.read();
        if keys.contains_key(id) {
            return Err(Refusal::new(Code::AlreadyExists, format!("key_id: there is a key already: {id}")));
        }
        if keys.len() >= KEYS_MAX {
            return Err(Refusal::new(Code::FailedPrecondition, format!("the store is full: {KEYS_MAX} keys")));
        }
        Ok(())
    }

    fn add(
        self: &Arc<Self>,
        id: &str,
        algorithm: Algorithm,
        material: &Material,
        is_imported: bool,
        now_ms: u64,
    ) -> Change {
        let _writing = self.writing.lock();
        self.may_add(id)?;
        let rules = Rules { is_issuer: material.certificate.is_some(), ..Rules::default() };
        let store = Arc::downgrade(self);
        let mut key = Key { id: id.to_owned(), algorithm, rules, versions: Vec::new(), store };
        key.versions.push(self.version(&key, 0, material, is_imported, now_ms)?);
        self.replace(key)
    }

    /// Makes a key that of a CA, before its first certificate: the only write that issuing may wait for.
    pub(super) fn becomes_issuer(&self, id: &str) -> Result<()> {
        let change = RuleChange { becomes_issuer: true, ..RuleChange::default() };
        work_of(u64::MAX, || self.configure(id, change)).map(|_| ())
    }

    fn configure(&self, id: &str, change: RuleChange) -> Change {
        let _writing = self.writing.lock();
        let key = self.get(id)?;
        let rules = key.rules.changed(change, key.versions.len())?;
        if rules == key.rules {
            return Ok(key);
        }
        let mut versions = key.versions.clone();
        let changed = Key { rules, ..key.with(Vec::new()) };
        // The wrapping of every version is bound to the rules.
        for (version, before) in versions.iter_mut().zip(&key.versions) {
            let material = self.unwrap(&key, before)?;
            version.wrapped = Arc::new(self.wrap.wrap(&changed.aad(version), &material)?);
        }
        self.replace(Key { versions, ..changed })
    }

    /// Creates a version at an index of a key.
    fn version(&self, key: &Key, index: usize, material: &Material, is_imported: bool, now_ms: u64) -> Result<Version> {
        let (number, state, created_ms) = (number(index), State::Enabled, now_ms);
        let certificate: Option<Arc<[u8]>> = material.certificate.as_deref().map(Arc::from);
        let digest = certificate.as_deref().map(fingerprint);
        let data = VersionData { number, state, created_ms, is_imported, reserved: 0, certificate: digest };
        let wrapped = self.wrap.wrap(&data.aad(&key.id, key.algorithm, key.rules), &material.bytes)?;
        Ok(Version::new(StoredVersion { data, wrapped, certificate }))
    }

    /// Returns the tokens of the settings.
    pub(super) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Checks that the label of imported material is the id's, and of no other key of this store.
    fn check_label(&self, id: &str, bytes: &[u8]) -> Result<()> {
        token::check_label(id, bytes)?;
        let Some(label) = token::label(bytes) else { return Ok(()) };
        let keys = self.keys.read();
        let other =
            [label.as_str(), token::id_of(&label)].into_iter().find(|name| *name != id && keys.contains_key(*name));
        match other {
            None => Ok(()),
            Some(other) => {
                Err(Refusal::invalid(format!("material: the label is that of key {other}, or of a version of it")))
            }
        }
    }

    /// Imports or generates the material of a key's next version: on a token if the last version is on one.
    fn next_material(&self, key: &Key, bytes: &[u8]) -> Result<Material> {
        if !bytes.is_empty() {
            self.check_label(&key.id, bytes)?;
            return material::import(&self.tokens, key.algorithm, bytes);
        }
        let last = key.versions.last().map(|version| self.unwrap(key, version)).transpose()?;
        let bytes = match last.filter(|last| token::is_on_token(last)) {
            Some(last) => {
                let label = format!("{}-v{}", key.id, number(key.versions.len()));
                token::generate(&self.tokens, key.algorithm, &last, &label)?
            }
            None => material::generate(key.algorithm)?,
        };
        Ok(Material { bytes, certificate: None })
    }

    /// Unwraps the material of a version.
    pub(super) fn unwrap(&self, key: &Key, version: &Version) -> Result<Zeroizing<Vec<u8>>> {
        self.wrap.unwrap(&key.aad(version), &version.wrapped)
    }

    /// Rewraps a version's material, bound to its changed data.
    fn rebind(&self, key: &Key, before: &Version, version: &mut Version) -> Result<()> {
        let material = self.unwrap(key, before)?;
        version.wrapped = Arc::new(self.wrap.wrap(&key.aad(version), &material)?);
        Ok(())
    }

    fn set_state(&self, id: &str, wanted: u32, state: State) -> Change {
        let _writing = self.writing.lock();
        let key = self.get(id)?;
        if usize::try_from(wanted).unwrap_or(usize::MAX) > key.versions.len() {
            return Err(Refusal::invalid("version: the key has no such version"));
        }
        let mut versions = key.versions.clone();
        let is_meant =
            |version: &Version| (wanted == 0 || version.data.number == wanted) && version.data.state != state;
        if !versions.iter().any(is_meant) {
            return Ok(key);
        }
        for (version, before) in versions.iter_mut().zip(&key.versions).filter(|(_, before)| is_meant(before)) {
            version.data.state = state;
            self.rebind(&key, before, version)?;
        }
        self.replace(key.with(versions))
    }

    /// Records the reservation of messages for a version. It is the only write that an operation on data may wait for:
    /// other calls of this thread continue elsewhere.
    pub(super) fn reserve(&self, id: &str, number: u32, raise: Raise) -> Result<()> {
        work_of(u64::MAX, || self.reserve_here(id, number, raise))
    }

    fn reserve_here(&self, id: &str, number: u32, raise: Raise) -> Result<()> {
        let _writing = self.writing.lock();
        let key = self.get(id)?;
        let mut versions = key.versions.clone();
        let place = versions.iter_mut().zip(&key.versions).find(|(version, _)| version.data.number == number);
        let Some((version, before)) = place else {
            return Err(Refusal::new(Code::Internal, "key store: a version is gone"));
        };
        let seals = version.seals.clone();
        // Another thread may have raised it meanwhile.
        if seals.reserved() >= raise.least {
            return Ok(());
        }
        version.data.reserved = raise.most;
        self.rebind(&key, before, version)?;
        self.replace(key.with(versions))?;
        seals.raised(raise.most);
        Ok(())
    }

    /// Writes a key to the disk, and then puts it in force.
    fn replace(&self, key: Key) -> Change {
        let versions = key.versions.iter().map(Version::stored).collect();
        let document = Document { id: key.id.clone(), algorithm: key.algorithm, rules: key.rules, versions };
        self.backend.replace(&key.id, &document.encode()).map_err(|err| {
            tracing::error!(key = %key.id, %err, "writing the key store failed");
            Refusal::new(Code::Internal, format!("key store: not written: {err}"))
        })?;
        let key = Arc::new(key);
        self.keys.write().insert(key.id.clone(), key.clone());
        Ok(key)
    }
}

/// Result of a change: the changed key.
type Change = Result<Arc<Key>>;
