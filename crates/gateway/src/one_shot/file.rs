//! The key file of one-shot modes in its written form: JSON, replaced as a whole or not at all.
//!
//! ```json
//! {"version": 1,
//!  "keys": [{"use": "ehbp", "kem": "x25519", "suites": ["aes-256-gcm"], "key_id": 0, "seed": "<base64>",
//!    "published": "2026-11-28T00:00:00.000Z", "preferred": "…", "published_until": "…", "accepted_until": "…"}],
//!  "ended": [{"key": "<base64 of the hash>", "accepted_until": "…"}],
//!  "root_public_key": "<base64>", "signed_document": {…}}
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::identity::{IdentityLibrary, default_identity_library};
use sealway_proto::one_shot::KeyDocument;
use sealway_proto::wire::base64;
use sealway_runtime::clock::{iso8601, parse_iso8601};
use sealway_runtime::config::{ConfigError, read_bounded, readable_by_others};
use sealway_sessions::identity::{Secret, parse_json, parse_root_public, to_json};
use sealway_sessions::kek::{self, Version, version};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::key::{Condition, Key, Purpose, Times, aead_name, kem_name, parse_aead, parse_kem};

/// The version of the form that this build reads and writes.
const VERSION: u32 = 1;
/// Longest key file that is read, in bytes.
const FILE_LEN_MAX: u64 = 256 * 1024;
/// Most keys that are over and no longer in the file, of which it notes the end: later ones replace the first.
const ENDED_MAX: usize = 1000;
/// Most keys of one use, in all conditions. A document of wire 4 has no room for more.
pub(super) const KEYS_OF_USE_MAX: usize = 16;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    version: u32,
    keys: Vec<RawKey>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<RawKeyEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root_public_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_document: Option<serde_json::Value>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    r#use: Purpose,
    kem: String,
    suites: Vec<String>,
    key_id: u8,
    seed: Secret,
    published: String,
    preferred: String,
    published_until: String,
    accepted_until: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawKeyEnd {
    key: String,
    accepted_until: String,
}

/// A key whose claims are over with it: were it accepted again, so would be its requests.
pub(super) struct KeyEnd {
    /// Hash as of [`Key::key_hash`], the scope of its claims.
    key_hash: [u8; 32],
    accepted_until: String,
}

/// A key, and the seed that the file has of it.
pub(super) struct Entry {
    pub(super) key: Arc<Key>,
    pub(super) seed: Zeroizing<Vec<u8>>,
}

/// A key file that was read, or is to be written. It has no `Debug` because that would print secrets.
#[derive(Default)]
pub struct KeyFile {
    pub(super) entries: Vec<Entry>,
    /// Keys with claims that end with them, after they were removed.
    ended: Vec<KeyEnd>,
    /// The document of wire 4 that a root signed, and the root's public key.
    pub(super) signed: Option<(KeyDocument, Box<[u8]>)>,
    /// The version of the file that was read.
    version: Option<Version>,
}

impl KeyFile {
    /// Reads a key file and checks it. A file that others can read is warned of.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and the key, never key material.
    pub fn read(provider: &dyn AgreementProvider, path: &Path) -> Result<KeyFile, ConfigError> {
        let version = version(path);
        let text = Zeroizing::new(read_bounded(path, FILE_LEN_MAX)?);
        if let Some(warning) = readable_by_others(path) {
            tracing::warn!("the key file {warning}");
        }
        let file = KeyFile::parse(provider, &text);
        let file = file.map_err(|what| ConfigError(format!("{}: {what}", path.display())))?;
        Ok(KeyFile { version, ..file })
    }

    fn parse(provider: &dyn AgreementProvider, text: &str) -> Result<KeyFile, String> {
        let raw: RawFile = parse_json(text)?;
        if raw.version != VERSION {
            return Err(format!("version: this build reads version {VERSION}, and the file is of {}", raw.version));
        }
        let entries = raw.keys.into_iter().enumerate();
        let entries = entries.map(|(index, key)| entry(provider, key).map_err(|what| format!("keys[{index}].{what}")));
        let ended = raw.ended.into_iter().enumerate().map(|(index, RawKeyEnd { key, accepted_until })| {
            let key_hash = base64::decode(key.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
            let key_hash = key_hash.ok_or_else(|| format!("ended[{index}].key: expected 32 bytes in base64"))?;
            Ok::<_, String>(KeyEnd { key_hash, accepted_until })
        });
        let (entries, ended) = (entries.collect::<Result<_, _>>()?, ended.collect::<Result<_, _>>()?);
        let mut file = KeyFile { entries, ended, ..KeyFile::default() };
        file.check()?;
        file.signed = match (raw.signed_document, raw.root_public_key) {
            (Some(document), Some(root)) => Some(signed(provider, default_identity_library(), &document, &root)?),
            (None, None) => None,
            _ => return Err("signed_document and root_public_key go together".into()),
        };
        Ok(file)
    }

    /// Checks the keys with one another.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.entries.is_empty() {
            return Err("keys: expected at least one key".into());
        }
        for purpose in Purpose::ALL {
            let count = self.entries.iter().filter(|entry| entry.key.purpose() == purpose).count();
            if count > KEYS_OF_USE_MAX {
                let name = purpose.name();
                return Err(format!(
                    "keys: {count} keys of use {name}, and {KEYS_OF_USE_MAX} are allowed: remove those that are over"
                ));
            }
        }
        for (index, Entry { key, .. }) in self.entries.iter().enumerate() {
            if let Some(ended) = self.ended.iter().find(|ended| ended.key_hash == *key.key_hash()) {
                return Err(format!(
                    "keys[{index}].seed: this key ended {}, and its requests would be accepted again: make another key",
                    ended.accepted_until
                ));
            }
            let before = self.entries.iter().take(index).map(|entry| &entry.key).enumerate();
            for (other_index, other) in before {
                if other.config().public_key() == key.config().public_key() {
                    return Err(format!(
                        "keys[{index}].seed: it is the key of keys[{other_index}]: a key stands once and has one use"
                    ));
                }
                let is_id_twice = other.purpose() == key.purpose() && other.config().key_id() == key.config().key_id();
                if is_id_twice && key.purpose() != Purpose::Ehbp {
                    return Err(format!(
                        "keys[{index}].key_id: keys[{other_index}] has {} too: clients could not tell the two apart",
                        key.config().key_id()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Removes the keys that are over, and notes the end of those whose claims end with them.
    pub(super) fn prune(&mut self, now_ms: u64) {
        for Entry { key, .. } in
            self.entries.extract_if(.., |entry| entry.key.times().condition(now_ms) == Condition::Over)
        {
            if key.purpose() != Purpose::Hpke {
                let accepted_until = iso8601(key.times().accepted_until_ms);
                self.ended.push(KeyEnd { key_hash: *key.key_hash(), accepted_until });
            }
        }
        self.ended.drain(..self.ended.len().saturating_sub(ENDED_MAX));
    }

    /// Checks that each key which follows another is published for `max_age_ms` before it is preferred, so that the caches of clients
    /// have it by then. EHBP has no caches, and a key that was retired before it was preferred needs no lead.
    ///
    /// # Errors
    /// A text that names the key.
    pub(super) fn check_leads(&self, max_age_ms: u64) -> Result<(), String> {
        for (index, Entry { key, .. }) in self.entries.iter().enumerate() {
            let times = key.times();
            let follows = |other: &Key| {
                other.purpose() == key.purpose()
                    && other.times().preferred_ms < times.preferred_ms
                    && other.times().published_until_ms > times.published_ms
            };
            let lead_ms = times.preferred_ms - times.published_ms;
            let is_early = lead_ms < max_age_ms && self.entries.iter().any(|entry| follows(&entry.key));
            if is_early && key.purpose() != Purpose::Ehbp && times.preferred_ms < times.published_until_ms {
                return Err(format!(
                    "keys[{index}].preferred: {} s after published, and clients keep what they fetched for one_shot.max_age_sec, \
                     {} s",
                    lead_ms / 1000,
                    max_age_ms / 1000
                ));
            }
        }
        Ok(())
    }

    /// Writes a new key file, readable by its owner alone. An existing file is left alone.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn create(&self, path: &Path) -> Result<(), ConfigError> {
        // The link fails if the file exists.
        kek::write(path, &self.encode()?, 0o600, |unfinished| std::fs::hard_link(unfinished, path))
    }

    /// Replaces a key file, keeping its access mode. If `self` was read, the file must be as it was then: a change that another process
    /// made since would be lost.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn replace(&self, path: &Path) -> Result<(), ConfigError> {
        let mode = std::fs::metadata(path).map_or(0o600, |meta| meta.mode() & 0o777);
        kek::write(path, &self.encode()?, mode, |unfinished| {
            // One process at a time has the lock from the check to the end of the rename.
            let current = File::open(path)?;
            current.lock()?;
            if self.version.is_some() && self.version != version(path) {
                return Err(io::Error::other("it has changed since it was read; run the command again"));
            }
            std::fs::rename(unfinished, path)
        })
    }

    fn encode(&self) -> Result<Zeroizing<String>, ConfigError> {
        self.check().map_err(ConfigError)?;
        let document = self.signed.as_ref().map(|(document, _)| serde_json::from_str(&document.encode())).transpose();
        to_json(&RawFile {
            version: VERSION,
            keys: self.entries.iter().map(raw_key).collect(),
            ended: self.ended.iter().map(raw_key_end).collect(),
            root_public_key: self.signed.as_ref().map(|(_, root)| base64::encode(root)),
            signed_document: document.map_err(|err| ConfigError(err.to_string()))?,
        })
    }
}

fn raw_key_end(KeyEnd { key_hash, accepted_until }: &KeyEnd) -> RawKeyEnd {
    RawKeyEnd { key: base64::encode(key_hash), accepted_until: accepted_until.clone() }
}

fn raw_key(Entry { key, seed }: &Entry) -> RawKey {
    let times = key.times();
    RawKey {
        r#use: key.purpose(),
        kem: kem_name(key.config().public_key().kem()).to_owned(),
        suites: key.config().suites().map(|suite| aead_name(suite.aead).to_owned()).collect(),
        key_id: key.config().key_id(),
        seed: Secret(Zeroizing::new(base64::encode(seed))),
        published: iso8601(times.published_ms),
        preferred: iso8601(times.preferred_ms),
        published_until: iso8601(times.published_until_ms),
        accepted_until: iso8601(times.accepted_until_ms),
    }
}

fn entry(provider: &dyn AgreementProvider, raw: RawKey) -> Result<Entry, String> {
    let time = |name: &str, text: &str| {
        parse_iso8601(text).ok_or_else(|| format!("{name}: expected a time in UTC such as 2026-11-28T04:03:00Z"))
    };
    let times = Times {
        published_ms: time("published", &raw.published)?,
        preferred_ms: time("preferred", &raw.preferred)?,
        published_until_ms: time("published_until", &raw.published_until)?,
        accepted_until_ms: time("accepted_until", &raw.accepted_until)?,
    };
    let kem = parse_kem(&raw.kem).map_err(|what| format!("kem: {what}"))?;
    let aeads = raw.suites.iter().map(|name| parse_aead(name)).collect::<Result<Vec<_>, _>>()?;
    let seed = base64::decode(raw.seed.0.as_bytes()).map(Zeroizing::new);
    let seed = seed.map_err(|_| "seed: expected base64".to_owned())?;
    let key = Key::new(provider, raw.r#use, (kem, &aeads), raw.key_id, &seed, times)?;
    Ok(Entry { key: Arc::new(key), seed })
}

fn signed(
    provider: &dyn AgreementProvider,
    library: &dyn IdentityLibrary,
    document: &serde_json::Value,
    root: &str,
) -> Result<(KeyDocument, Box<[u8]>), String> {
    let root = parse_root_public(library, root).map_err(|err| format!("root_public_key: {err}"))?;
    let document = KeyDocument::parse(provider, document.to_string().as_bytes());
    let document = document.map_err(|err| format!("signed_document: {err}"))?;
    // An expired document is still the service's current one: another place warns of the expiry.
    document.verify(provider, library, &root, 0, 0).map_err(|err| format!("signed_document: {err}"))?;
    Ok((document, root))
}
