//! Content of a key file and the operator's changes to it: adding a key, retiring a key, a root's signature.

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::{IdentityLibrary, SignatureAlgorithm};
use sealway_proto::session::native::key_set::{KEY_SET_LEN_MAX, KEYS_MAX, TIME_MS_MAX};
use sealway_proto::session::native::{IdentityKey, KeyId, KeySet};
use sealway_runtime::clock::iso8601;
use sealway_runtime::config::ConfigError;
use zeroize::Zeroizing;

use super::Root;
use super::file::new_pair;

/// Maximum length of a broker key's id, in bytes.
pub(super) const BROKER_KEY_LEN_MAX: usize = 64;

/// Room in a key set for the longest signature of a root in base64, its key id and their names, in bytes.
const ROOT_SIGNATURE_ROOM: usize = 4723_usize.div_ceil(3) * 4 + 100;

/// Place of the private half of a key.
pub(super) enum PrivateHalf {
    /// In the file, as PKCS #8.
    Here(Zeroizing<Vec<u8>>),
    /// In a broker, under this id.
    Broker(String),
}

pub(super) struct Entry {
    pub(super) key: IdentityKey,
    pub(super) held: PrivateHalf,
}

/// A key file that was read, or is to be written. It has no `Debug` because that would print secrets.
#[derive(Default)]
pub struct KeyFile {
    pub(super) entries: Vec<Entry>,
    /// The set that a root signed, and the root's public key.
    pub(super) signed: Option<(KeySet, Box<[u8]>)>,
}

/// State of a key at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The current time is within the validity, and the key signs.
    Live,
    /// The key will sign later.
    Next,
    /// The key signs no more.
    Retired,
    /// The set that the root signed lacks the key: it is usable after the next signature.
    Unsigned,
}

/// Public data of a key in a key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyListing {
    /// Public half of the key, and its validity times.
    pub key: IdentityKey,
    /// State of the key at the time of listing.
    pub condition: Condition,
    /// Id of the broker's key, if a broker holds the private half.
    pub broker_key: Option<String>,
}

/// Result of retiring a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// The key signs until this time, in Unix milliseconds.
    At(u64),
    /// The key was not live yet and was removed from the file.
    Removed,
}

impl KeyFile {
    /// Generates a key and adds it.
    ///
    /// # Errors
    /// [`ConfigError`]: invalid times, too many keys, a set that would be too long, or an algorithm that the library lacks.
    pub fn generate(
        &mut self,
        provider: &dyn Provider,
        library: &dyn IdentityLibrary,
        algorithm: SignatureAlgorithm,
        not_before_ms: u64,
        not_after_ms: u64,
        now_ms: u64,
    ) -> Result<KeyId, ConfigError> {
        let (document, pair) = new_pair(library, algorithm)?;
        let key = IdentityKey::new(provider, pair.public(), not_before_ms, not_after_ms);
        let key = key.map_err(|err| ConfigError(err.to_string()))?;
        self.add(key, PrivateHalf::Here(document), now_ms)
    }

    /// Adds a key that a broker holds.
    ///
    /// # Errors
    /// As [`KeyFile::generate`]; or the file has the key already.
    pub fn add_broker_key(&mut self, key: IdentityKey, name: String, now_ms: u64) -> Result<KeyId, ConfigError> {
        self.add(key, PrivateHalf::Broker(name), now_ms)
    }

    fn add(&mut self, key: IdentityKey, held: PrivateHalf, now_ms: u64) -> Result<KeyId, ConfigError> {
        let key_id = key.key_id;
        self.entries.push(Entry { key, held });
        if self.entries.len() > KEYS_MAX || self.check_set_len().is_err() {
            self.entries.retain(|entry| entry.key.key_id == key_id || now_ms < entry.key.not_after_ms);
        }
        self.check().map_err(ConfigError)?;
        Ok(key_id)
    }

    /// Checks that the content is a valid key file.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=KEYS_MAX).contains(&self.entries.len()) {
            return Err(format!("expected 1 to {KEYS_MAX} keys"));
        }
        for (index, Entry { key, held }) in self.entries.iter().enumerate() {
            if self.entries[..index].iter().any(|other| other.key.key_id == key.key_id) {
                return Err(format!("key {} stands twice", key.key_id));
            }
            if self.entries[..index].iter().any(|other| shares_part(&other.key, key)) {
                return Err(format!("key {}: a part of it is in another key too: generate another one", key.key_id));
            }
            if key.not_before_ms >= key.not_after_ms || key.not_after_ms > TIME_MS_MAX {
                let (from, to) = (iso8601(key.not_before_ms), iso8601(key.not_after_ms));
                return Err(format!("key {}: not_before {from} must be before not_after {to}", key.key_id));
            }
            if let PrivateHalf::Broker(name) = held
                && !(1..=BROKER_KEY_LEN_MAX).contains(&name.len())
            {
                return Err(format!("key {}: broker_key: expected 1 to {BROKER_KEY_LEN_MAX} bytes", key.key_id));
            }
        }
        self.check_set_len()
    }

    /// Checks that clients accept the key set of all keys by its length, also with a root's signature of any algorithm.
    fn check_set_len(&self) -> Result<(), String> {
        let keys = self.entries.iter().map(|entry| entry.key.clone()).collect();
        let set = KeySet { issued_ms: TIME_MS_MAX, expires_ms: TIME_MS_MAX, keys, root: None };
        let len = set.encode().len() + ROOT_SIGNATURE_ROOM;
        if len <= KEY_SET_LEN_MAX {
            return Ok(());
        }
        Err(format!(
            "the key set would have {len} bytes with a root's signature, and clients read {KEY_SET_LEN_MAX}: keep fewer keys of ML-DSA"
        ))
    }

    /// Ends a key at a time, now or later; a key that is not live by then is removed. Unless forced, another key must
    /// be live at that time.
    ///
    /// # Errors
    /// [`ConfigError`]: no such key, a time in the past or after the key's end, or no key left to sign.
    pub fn retire(&mut self, id: &KeyId, at_ms: u64, now_ms: u64, force: bool) -> Result<Retirement, ConfigError> {
        let fail = |what: String| Err(ConfigError(format!("key {id}: {what}")));
        let Some(index) = self.entries.iter().position(|entry| entry.key.key_id == *id) else {
            return fail("the key file does not hold it".into());
        };
        let key = &self.entries[index].key;
        if at_ms < now_ms {
            return fail(format!("{} is in the past", iso8601(at_ms)));
        }
        if at_ms >= key.not_after_ms {
            return fail(format!("it ends before that anyway, {}", iso8601(key.not_after_ms)));
        }
        let is_removed = at_ms <= key.not_before_ms;
        // A client that accepts no other algorithm must find a key.
        let (alg, live_then) = (key.alg.clone(), |listed: &KeyListing| {
            listed.key.key_id != *id && listed.key.alg == key.alg && listed.key.is_live(at_ms)
        });
        let is_followed =
            self.list(now_ms).iter().any(|listed| live_then(listed) && listed.condition != Condition::Unsigned);
        if !is_removed && !is_followed && !force {
            return fail(format!(
                "no other key of {alg} is live at {}, so clients that accept no other algorithm could not open a session: \
                 generate one first (and have the root sign it), or say --force",
                iso8601(at_ms)
            ));
        }
        if is_removed {
            if self.entries.len() == 1 {
                return fail("it is the file's only key; remove the file instead".into());
            }
            self.entries.remove(index);
            return Ok(Retirement::Removed);
        }
        self.entries[index].key.not_after_ms = at_ms;
        Ok(Retirement::At(at_ms))
    }

    /// Lists all keys, in the file's order.
    pub fn list(&self, now_ms: u64) -> Vec<KeyListing> {
        let list = |Entry { key, held }: &Entry| {
            let used = self.as_signed(key);
            let condition = match &used {
                _ if now_ms >= key.not_after_ms => Condition::Retired,
                None => Condition::Unsigned,
                Some(used) if now_ms >= used.not_after_ms => Condition::Retired,
                Some(used) if now_ms < used.not_before_ms => Condition::Next,
                Some(_) => Condition::Live,
            };
            let broker_key = match held {
                PrivateHalf::Here(_) => None,
                PrivateHalf::Broker(name) => Some(name.clone()),
            };
            KeyListing { key: used.unwrap_or_else(|| key.clone()), condition, broker_key }
        };
        self.entries.iter().map(list).collect()
    }

    /// Returns the key with its effective times: with a root's signature, a key is live only when both the file and the
    /// signed set say so.
    fn as_signed(&self, key: &IdentityKey) -> Option<IdentityKey> {
        let Some((set, _)) = &self.signed else { return Some(key.clone()) };
        let signed = set.get(&key.key_id)?;
        Some(IdentityKey {
            not_before_ms: key.not_before_ms.max(signed.not_before_ms),
            not_after_ms: key.not_after_ms.min(signed.not_after_ms),
            ..key.clone()
        })
    }

    /// Returns the set that a root signed, if any.
    pub fn signed_set(&self) -> Option<&KeySet> {
        self.signed.as_ref().map(|(set, _)| set)
    }

    /// Returns the root whose signature the file holds.
    pub fn root_public(&self) -> Option<&[u8]> {
        self.signed.as_ref().map(|(_, root)| &**root)
    }

    /// True if the set that the root signed differs from the keys that the file holds now.
    pub fn is_behind(&self, now_ms: u64) -> bool {
        let left =
            |keys: &[IdentityKey]| keys.iter().filter(|key| now_ms < key.not_after_ms).cloned().collect::<Vec<_>>();
        let own: Vec<_> = self.entries.iter().map(|entry| entry.key.clone()).collect();
        self.signed_set().is_some_and(|set| left(&set.keys) != left(&own))
    }

    /// Returns the public set of all keys that are not over, for a root to sign.
    ///
    /// # Errors
    /// [`ConfigError`]: all keys are over.
    pub fn unsigned_set(&self, now_ms: u64, expires_ms: u64) -> Result<KeySet, ConfigError> {
        let keys: Vec<_> =
            self.entries.iter().map(|entry| &entry.key).filter(|key| now_ms < key.not_after_ms).cloned().collect();
        if keys.is_empty() {
            return Err(ConfigError("all its keys are retired".into()));
        }
        // Always later than the previous set: clients reject an earlier one.
        let issued_ms = self.signed_set().map_or(now_ms, |set| now_ms.max(set.issued_ms.saturating_add(1)));
        Ok(KeySet { issued_ms, expires_ms, keys, root: None })
    }

    /// Has a root sign the current set.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn sign(
        &mut self,
        provider: &dyn Provider,
        root: &Root,
        now_ms: u64,
        expires_ms: u64,
    ) -> Result<(), ConfigError> {
        let mut set = self.unsigned_set(now_ms, expires_ms)?;
        root.sign(provider, &mut set)?;
        self.signed = Some((set, root.public().into()));
        Ok(())
    }

    /// Adds a set that a root signed elsewhere.
    ///
    /// # Errors
    /// [`ConfigError`]: an invalid signature or time, a set older than the present one, or a set of other keys.
    pub fn take_signed(
        &mut self,
        provider: &dyn Provider,
        library: &dyn IdentityLibrary,
        set: KeySet,
        root: &[u8],
        now_ms: u64,
    ) -> Result<(), ConfigError> {
        let last_issued_ms = self.signed_set().map_or(0, |set| set.issued_ms);
        set.verify(provider, library, root, now_ms, last_issued_ms).map_err(|err| ConfigError(err.to_string()))?;
        let foreign = set.keys.iter().find(|key| !self.entries.iter().any(|entry| entry.key.key_id == key.key_id));
        if let Some(key) = foreign {
            return Err(ConfigError(format!(
                "the signed set has key {}, which the key file does not hold",
                key.key_id
            )));
        }
        self.signed = Some((set, root.into()));
        Ok(())
    }

    /// Returns the keys that sign now or later, with their effective times.
    pub(super) fn into_usable(mut self, now_ms: u64) -> Vec<(IdentityKey, PrivateHalf)> {
        let entries = std::mem::take(&mut self.entries);
        let usable = entries.into_iter().filter_map(|entry| Some((self.as_signed(&entry.key)?, entry.held)));
        usable.filter(|(key, _)| now_ms < key.not_after_ms && key.not_before_ms < key.not_after_ms).collect()
    }
}

/// True if two keys have a part in common. SPEC session-3.md#algorithms
fn shares_part(one: &IdentityKey, other: &IdentityKey) -> bool {
    let theirs = parts(other);
    parts(one).iter().any(|part| theirs.contains(part))
}

fn parts(key: &IdentityKey) -> Vec<&[u8]> {
    key.algorithm().map(|algorithm| algorithm.parts(&key.public_key)).unwrap_or_default()
}
