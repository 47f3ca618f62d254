//! Changes of an operator to a key file: adding a key, retiring one, taking one over from another server, a root's signature.

use std::path::Path;
use std::sync::Arc;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::hpke::{Aead, KDF_HKDF_SHA256, Kem, PrivateKey};
use sealway_proto::one_shot::{DocumentKey, KeyDocument};
use sealway_proto::wire::base64;
use sealway_runtime::clock::iso8601;
use sealway_runtime::config::{ConfigError, read_bounded};
use sealway_sessions::identity::{Root, Secret, parse_json};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::file::{Entry, KeyFile};
use super::key::{Condition, Key, Purpose, Times};

/// Longest file that a key is imported from, in bytes.
const IMPORT_LEN_MAX: u64 = 16 * 1024;
/// Time after a publication within which every process has read the file, in milliseconds.
const READ_MS: u64 = 60_000;

/// The life of a new key.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// Current time, in Unix milliseconds: keys that are over by now are removed.
    pub now_ms: u64,
    /// Begin of the publication, in Unix milliseconds.
    pub from_ms: u64,
    /// Time for which the key is preferred, in milliseconds.
    pub days_ms: u64,
    /// Time for which clients keep what they fetched, in milliseconds: `one_shot.max_age_sec`.
    pub max_age_ms: u64,
    /// Time for which the key is accepted after its publication has ended, in milliseconds.
    pub grace_ms: u64,
}

/// Properties of a new key, beside its seed.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The mode that the key is for.
    pub purpose: Purpose,
    /// The KEM of the key.
    pub kem: Kem,
    /// The id of one byte; by default the lowest that is free.
    pub key_id: Option<u8>,
}

/// A private key in the form that the reference server of EHBP writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct EhbpIdentity {
    public_key: String,
    secret_key: Secret,
    #[serde(rename = "KEM")]
    kem: u16,
    #[serde(rename = "KDF")]
    kdf: u16,
    #[serde(rename = "AEAD")]
    aead: u16,
}

impl KeyFile {
    /// Returns the keys, in the file's order.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.entries.iter().map(|entry| &entry.key)
    }

    /// Returns the document that a root signed, if any.
    pub fn signed_document(&self) -> Option<&KeyDocument> {
        self.signed.as_ref().map(|(document, _)| document)
    }

    /// Makes a key of random bytes and adds it. A key that follows others is preferred when the caches of clients have it.
    ///
    /// # Errors
    /// [`ConfigError`]: invalid times, or an id or number of keys that the file cannot have.
    pub fn generate(
        &mut self,
        provider: &dyn AgreementProvider,
        form: Form,
        life: Lifetime,
    ) -> Result<Arc<Key>, ConfigError> {
        let mut ikm = Zeroizing::new([0; 64]);
        provider.fill_random(ikm.as_mut_slice()).map_err(|err| ConfigError(err.to_string()))?;
        // Random bytes need not be a scalar of P-256; what is derived of them is.
        let seed = PrivateKey::derive(provider, form.kem, ikm.as_slice());
        let (seed, _) = seed.map_err(|err| ConfigError(err.to_string()))?;
        self.add(provider, form, seed, life)
    }

    /// Adds the key that the reference server of EHBP has in a file.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, never key material.
    pub fn import_ehbp(
        &mut self,
        provider: &dyn AgreementProvider,
        source: &Path,
        life: Lifetime,
    ) -> Result<Arc<Key>, ConfigError> {
        let fail = |what: String| ConfigError(format!("{}: {what}", source.display()));
        let text = Zeroizing::new(read_bounded(source, IMPORT_LEN_MAX)?);
        let identity: EhbpIdentity = parse_json(&text).map_err(fail)?;
        let ids = (identity.kem, identity.kdf, identity.aead);
        if ids != (Kem::X25519.id(), KDF_HKDF_SHA256, Aead::Aes256Gcm.id()) {
            return Err(fail(format!("KEM, KDF, AEAD: {ids:?}, and EHBP has (32, 1, 2), always")));
        }
        let seed = base64::decode(identity.secret_key.0.as_bytes()).map(Zeroizing::new);
        let seed = seed.map_err(|_| fail("SecretKey: expected base64".into()))?;
        let private = PrivateKey::from_bytes(provider, Kem::X25519, &seed);
        let private = private.map_err(|err| fail(format!("SecretKey: {err}")))?;
        if base64::decode(identity.public_key.as_bytes()).ok().as_deref() != Some(private.public_key().as_bytes()) {
            return Err(fail("PublicKey: it is not the public half of SecretKey".into()));
        }
        self.add(provider, Form { purpose: Purpose::Ehbp, kem: Kem::X25519, key_id: None }, seed, life)
    }

    /// Adds the key that another server derives of a seed in hexadecimal, by `DeriveKeyPair` (RFC 9180 section 7.1.3). The seed is in a
    /// file: on a command line other users would see it.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, never key material.
    pub fn import_seed(
        &mut self,
        provider: &dyn AgreementProvider,
        source: &Path,
        form: Form,
        life: Lifetime,
    ) -> Result<Arc<Key>, ConfigError> {
        let fail = |what: String| ConfigError(format!("{}: {what}", source.display()));
        let text = Zeroizing::new(read_bounded(source, IMPORT_LEN_MAX)?);
        let ikm = hex(text.trim()).ok_or_else(|| fail("expected one line of hexadecimal digits".into()))?;
        let derived = PrivateKey::derive(provider, form.kem, &ikm);
        let (seed, _) = derived.map_err(|err| fail(format!("{err}; it has {} bytes", ikm.len())))?;
        self.add(provider, form, seed, life)
    }

    fn add(
        &mut self,
        provider: &dyn AgreementProvider,
        form: Form,
        seed: Zeroizing<Vec<u8>>,
        life: Lifetime,
    ) -> Result<Arc<Key>, ConfigError> {
        let Form { purpose, kem, key_id } = form;
        self.prune(life.now_ms);
        let of_purpose = || self.entries.iter().map(|entry| &entry.key).filter(|key| key.purpose() == purpose);
        let follows = of_purpose().any(|key| key.times().published_until_ms > life.from_ms);
        // Several processes read the file, one after the other; the caches of EHBP's clients do not count.
        let cached_ms = if purpose == Purpose::Ehbp { 0 } else { life.max_age_ms };
        let lead_ms = if follows { cached_ms.saturating_add(READ_MS) } else { 0 };
        let preferred_ms = life.from_ms.saturating_add(lead_ms);
        let published_until_ms = preferred_ms.saturating_add(life.days_ms);
        let times = Times {
            published_ms: life.from_ms,
            preferred_ms,
            published_until_ms,
            accepted_until_ms: published_until_ms.saturating_add(life.grace_ms.max(cached_ms)),
        };
        let free = || (0..=u8::MAX).find(|id| of_purpose().all(|key| key.config().key_id() != *id)).unwrap_or_default();
        let key_id = match key_id {
            Some(id) => id,
            None if purpose == Purpose::Ehbp => 0,
            None => free(),
        };
        let key = Key::new(provider, purpose, (kem, purpose.aeads(kem)), key_id, &seed, times).map_err(ConfigError)?;
        let key = Arc::new(key);
        self.entries.push(Entry { key: key.clone(), seed });
        self.check().map_err(ConfigError)?;
        Ok(key)
    }

    /// Ends the publication of the key of this name at a time, and its acceptance `grace_ms` later; an earlier end stays. A key
    /// that is not published by then is removed. Returns the key, or `None` if it was removed.
    ///
    /// # Errors
    /// [`ConfigError`]: no such key, a time in the past, or no other key of its use is published at that time and `force` is not set.
    pub fn retire(
        &mut self,
        provider: &dyn AgreementProvider,
        name: &str,
        (at_ms, grace_ms): (u64, u64),
        now_ms: u64,
        force: bool,
    ) -> Result<Option<Arc<Key>>, ConfigError> {
        let fail = |what: String| Err(ConfigError(format!("key {name}: {what}")));
        let Some(index) = self.entries.iter().position(|entry| entry.key.name() == name) else {
            return fail("the key file does not have it; list prints the names".into());
        };
        if at_ms < now_ms {
            return fail(format!("{} is in the past", iso8601(at_ms)));
        }
        let Some(Entry { key, seed }) = self.entries.get(index) else { return Ok(None) };
        let is_followed = self.entries.iter().any(|other| {
            other.key.name() != name && other.key.purpose() == key.purpose() && other.key.times().is_published(at_ms)
        });
        if !is_followed && !force && key.times().is_accepted(now_ms) {
            let (use_name, at) = (key.purpose().name(), iso8601(at_ms));
            return fail(format!("no other key of use {use_name} is published {at}: add one first, or say --force"));
        }
        if at_ms <= key.times().published_ms {
            if self.entries.len() == 1 {
                return fail("it is the file's only key; remove the file instead".into());
            }
            self.entries.remove(index);
            return Ok(None);
        }
        let before = *key.times();
        let published_until_ms = before.published_until_ms.min(at_ms);
        let times = Times {
            preferred_ms: before.preferred_ms.min(published_until_ms),
            published_until_ms,
            accepted_until_ms: before.accepted_until_ms.min(at_ms.saturating_add(grace_ms)),
            ..before
        };
        let (config, kem) = (key.config(), key.config().public_key().kem());
        let aeads: Vec<Aead> = config.suites().map(|suite| suite.aead).collect();
        let retired = Key::new(provider, key.purpose(), (kem, &aeads), config.key_id(), seed, times);
        let retired = Arc::new(retired.map_err(ConfigError)?);
        if let Some(entry) = self.entries.get_mut(index) {
            entry.key = retired.clone();
        }
        Ok(Some(retired))
    }

    /// Returns the document of the keys of wire 4 that are not over, the preferred one first, for a root to sign.
    ///
    /// # Errors
    /// [`ConfigError`], if there are no such keys.
    pub fn unsigned_document(&self, now_ms: u64, expires_ms: u64) -> Result<KeyDocument, ConfigError> {
        let keys = document_keys(self.keys(), now_ms);
        if keys.is_empty() {
            return Err(ConfigError("it has no key of use hpke that is not over".into()));
        }
        // Always later than the document before: clients reject an earlier one.
        let last_ms = self.signed_document().map_or(0, |document| document.issued_ms.saturating_add(1));
        Ok(KeyDocument { issued_ms: now_ms.max(last_ms), expires_ms, keys, root: None })
    }

    /// Has a root sign the current document.
    ///
    /// # Errors
    /// [`ConfigError`]: as [`KeyFile::unsigned_document`], or the signature failed.
    pub fn sign(
        &mut self,
        provider: &dyn AgreementProvider,
        root: &Root,
        now_ms: u64,
        expires_ms: u64,
    ) -> Result<(), ConfigError> {
        let mut document = self.unsigned_document(now_ms, expires_ms)?;
        document.sign(provider, root.key()).map_err(|err| ConfigError(err.to_string()))?;
        self.signed = Some((document, root.public().into()));
        Ok(())
    }

    /// True if the document that the root signed has other keys or times than the file has now.
    pub fn is_behind(&self, now_ms: u64) -> bool {
        let signed = self.signed_document().map(|document| document.keys.clone());
        signed.is_some_and(|mut signed| {
            signed.retain(|key| now_ms < key.not_after_ms);
            let mut own = document_keys(self.keys(), now_ms);
            // The order is that of the time of signing.
            signed.sort_by(|one, other| one.config.cmp(&other.config));
            own.sort_by(|one, other| one.config.cmp(&other.config));
            signed != own
        })
    }
}

/// Returns the entries of a document for the keys of wire 4 that are not over, in the order of preference.
pub(super) fn document_keys<'a>(keys: impl Iterator<Item = &'a Arc<Key>>, now_ms: u64) -> Vec<DocumentKey> {
    let mut keys: Vec<_> = keys.filter(|key| key.purpose() == Purpose::Hpke).collect();
    keys.retain(|key| now_ms < key.times().accepted_until_ms);
    keys.sort_by_key(|key| preference(key, now_ms));
    let entry = |key: &Arc<Key>| DocumentKey {
        config: key.encoded().to_vec(),
        not_before_ms: key.times().published_ms,
        use_until_ms: key.times().published_until_ms,
        not_after_ms: key.times().accepted_until_ms,
    };
    keys.into_iter().map(entry).collect()
}

/// Returns a key to sort by: preferred keys first, of these the one that was preferred last; then by name, so that all processes choose
/// alike.
pub(super) fn preference(key: &Key, now_ms: u64) -> (u8, std::cmp::Reverse<u64>, String) {
    let rank = match key.times().condition(now_ms) {
        Condition::Preferred => 0,
        Condition::Published => 1,
        Condition::Accepted => 2,
        Condition::Future | Condition::Over => 3,
    };
    (rank, std::cmp::Reverse(key.times().preferred_ms), key.name().to_owned())
}

/// Decodes hexadecimal digits in either case.
fn hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digits = text.as_bytes().as_chunks::<2>();
    let (pairs, []) = digits else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?));
    bytes.collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty()).map(Zeroizing::new)
}
