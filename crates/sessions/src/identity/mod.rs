//! The service's identity keys, which prove its identity to clients of wire 3: the live keys, the choice of the signing
//! key, and the published key set.
//!
//! Keys are in a key file, or in a broker's store with their names and times in the key file; a process without a store
//! on disk may hold one in its memory alone. If a root has signed a set, only the keys of that set are used, with its
//! times: clients that pin the root would reject others.
// SPEC session-3.md#identity-keys

mod document;
mod file;
mod key_file;
mod signer;
#[cfg(test)]
mod tests;
mod times;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::{IdentityLibrary, SignatureAlgorithm};
use sealway_proto::session::native::{IdentityKey, KeyId, KeySet};
use sealway_runtime::clock::iso8601;
use sealway_runtime::config::ConfigError;

pub use document::Document;
pub use file::{Root, Secret, parse_json, parse_root_public, to_json};
pub use key_file::{Condition, KeyFile, KeyListing, Retirement};
pub use signer::{BrokerAccess, SignError, Signer};
pub use times::{parse_span, parse_time};

use crate::kek::{Version, version};
use key_file::PrivateHalf;
pub(crate) use signer::is_of_brokers;
use signer::{BrokerSigner, FileSigner};

/// Time before the end of a key or a set from which the operator is warned, in milliseconds: a week.
const NOTICE_MS: u64 = 7 * 86_400_000;
/// Lifetime of a key that a process generates by itself, in milliseconds: ten years, because no operator may be there
/// to renew it.
pub const GENERATED_LIFE_MS: u64 = 3650 * 86_400_000;

/// A key that signs while it is live.
pub struct LiveKey {
    key: IdentityKey,
    signer: Box<dyn Signer>,
}

impl LiveKey {
    /// Returns the public half and the times of the key.
    pub fn key(&self) -> &IdentityKey {
        &self.key
    }

    /// Signs `message` at `now_ms`, the time that the message itself contains.
    ///
    /// # Errors
    /// [`SignError`]; a key that is not live never signs.
    pub async fn sign(&self, now_ms: u64, message: &[u8]) -> Result<Vec<u8>, SignError> {
        if !self.key.is_live(now_ms) {
            return Err(SignError::NotLive(self.key.key_id));
        }
        self.signer.sign(message).await
    }
}

impl fmt::Debug for LiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveKey").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Public data of an identity key, for an operator.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ShownKey {
    /// Key ID, as clients see it in the key set.
    pub id: String,
    /// Name of its signature algorithm.
    pub alg: String,
    /// Start of validity, in Unix milliseconds.
    pub not_before_ms: u64,
    /// End of validity, in Unix milliseconds.
    pub not_after_ms: u64,
    /// One of `active`, `next` and `expired`.
    pub state: &'static str,
    /// True if the key signs for clients that pin no key and name no signature algorithm.
    pub signs_by_default: bool,
}

/// State in force since the file was last read.
struct State {
    /// Sorted by latest beginning, then by id, so that all processes of a service choose the same key.
    keys: Vec<Arc<LiveKey>>,
    signed: Option<(KeySet, Bytes)>,
    read_ms: u64,
}

/// The service's identity: its keys and the key set.
pub struct Identity {
    provider: &'static dyn Provider,
    library: &'static dyn IdentityLibrary,
    source: Option<PathBuf>,
    broker: Option<BrokerAccess>,
    state: ArcSwap<State>,
    read: Mutex<Option<Version>>,
    /// True once the log says that no key is live.
    told: Mutex<bool>,
    /// Keys whose end is in the metrics.
    gauged: Mutex<Vec<KeyId>>,
}

impl Identity {
    /// Generates one key that is in this process's memory alone and ends with it.
    ///
    /// # Errors
    /// [`ConfigError`] when no key can be made.
    pub fn in_memory(
        provider: &'static dyn Provider,
        library: &'static dyn IdentityLibrary,
        now_ms: u64,
    ) -> Result<Self, ConfigError> {
        let mut file = KeyFile::default();
        file.generate(
            provider,
            library,
            SignatureAlgorithm::Es256,
            now_ms,
            now_ms.saturating_add(GENERATED_LIFE_MS),
            now_ms,
        )?;
        let state = State::of(file, library, None, now_ms)?;
        Ok(Identity::new(provider, library, None, None, state, None))
    }

    /// Reads a key file. Keys that the file marks as a broker's sign there.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, never key material.
    pub fn load(
        provider: &'static dyn Provider,
        library: &'static dyn IdentityLibrary,
        path: &Path,
        broker: Option<BrokerAccess>,
        now_ms: u64,
    ) -> Result<Self, ConfigError> {
        let read = version(path);
        let state = State::of(KeyFile::read(provider, library, path)?, library, broker.as_ref(), now_ms)
            .map_err(|err| ConfigError(format!("{}: {err}", path.display())))?;
        let identity = Identity::new(provider, library, Some(path.to_owned()), broker, state, read);
        identity.notice(now_ms);
        Ok(identity)
    }

    fn new(
        provider: &'static dyn Provider,
        library: &'static dyn IdentityLibrary,
        source: Option<PathBuf>,
        broker: Option<BrokerAccess>,
        state: State,
        read: Option<Version>,
    ) -> Self {
        let state = ArcSwap::from_pointee(state);
        let (read, told, gauged) = (Mutex::new(read), Mutex::new(false), Mutex::default());
        Identity { provider, library, source, broker, state, read, told, gauged }
    }

    /// Has each key that a broker holds and that is not over sign a trial message, so that errors show at start. Waits
    /// for a broker that is not up yet.
    ///
    /// # Errors
    /// [`ConfigError`], naming the key.
    pub async fn try_all(&self, now_ms: u64) -> Result<(), ConfigError> {
        let state = self.state.load_full();
        for live in state.keys.iter().filter(|live| now_ms < live.key.not_after_ms) {
            let tried = live.signer.try_out().await;
            tried.map_err(|err| ConfigError(format!("sessions.identity: key {}: {err}", live.key.key_id)))?;
        }
        Ok(())
    }

    /// Returns the keys that are live at a time, the one with the latest beginning first.
    pub fn live_at(&self, now_ms: u64) -> Vec<KeyId> {
        self.state
            .load()
            .keys
            .iter()
            .map(|live| &live.key)
            .filter(|key| key.is_live(now_ms))
            .map(|key| key.key_id)
            .collect()
    }

    /// Returns the public data of every key, in the order of choice. Includes keys that have ended since the file was
    /// last read.
    pub fn shown(&self, now_ms: u64) -> Vec<ShownKey> {
        let is_default = |key: &IdentityKey| key.algorithm() == Some(SignatureAlgorithm::Es256);
        let signer = self.signer_for(now_ms, is_default).map(|live| live.key.key_id);
        let shown = |live: &Arc<LiveKey>| ShownKey {
            id: live.key.key_id.to_string(),
            alg: live.key.alg.to_string(),
            not_before_ms: live.key.not_before_ms,
            not_after_ms: live.key.not_after_ms,
            state: match (live.key.is_live(now_ms), now_ms < live.key.not_before_ms) {
                (true, _) => "active",
                (false, true) => "next",
                (false, false) => "expired",
            },
            signs_by_default: signer == Some(live.key.key_id),
        };
        self.state.load().keys.iter().map(shown).collect()
    }

    /// Sets the gauges for the end of each key and for the end of the set that a root signed. A key that the file no longer has
    /// becomes NaN, so that it does not hide the end of the others.
    pub(crate) fn set_gauges(&self) {
        let expiry =
            |key_id: &KeyId| metrics::gauge!("sealway_identity_key_expiry_seconds", "key_id" => key_id.to_string());
        let state = self.state.load();
        let mut gauged = self.gauged.lock();
        let is_gone = |key_id: &KeyId| state.keys.iter().all(|live| live.key.key_id != *key_id);
        gauged.drain(..).filter(is_gone).for_each(|key_id| expiry(&key_id).set(f64::NAN));
        for key in state.keys.iter().map(|live| &live.key) {
            expiry(&key.key_id).set((key.not_after_ms / 1000) as f64);
            gauged.push(key.key_id);
        }
        if let Some((set, _)) = &state.signed {
            metrics::gauge!("sealway_key_set_expiry_seconds").set((set.expires_ms / 1000) as f64);
        }
    }

    /// Returns the key that signs for a client to whom `is_fit` applies: of the live ones, the key with the latest beginning. `None` if
    /// there is none: then the client's keys are retired.
    pub fn signer_for(&self, now_ms: u64, is_fit: impl Fn(&IdentityKey) -> bool) -> Option<Arc<LiveKey>> {
        self.state.load().keys.iter().find(|live| live.key.is_live(now_ms) && is_fit(&live.key)).cloned()
    }

    /// Signs `message` at `now_ms` with the key of this id.
    ///
    /// # Errors
    /// [`SignError`]; an unknown key counts as not live.
    pub async fn sign(&self, key_id: &KeyId, now_ms: u64, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let live = self.state.load().keys.iter().find(|live| live.key.key_id == *key_id).cloned();
        live.ok_or(SignError::NotLive(*key_id))?.sign(now_ms, message).await
    }

    /// Returns the JSON of the key set: the set that a root signed, unchanged, or else a set of the keys that are not
    /// over.
    pub fn key_set(&self, now_ms: u64) -> Bytes {
        let state = self.state.load();
        if let Some((_, text)) = &state.signed {
            return text.clone();
        }
        let keys: Vec<_> =
            state.keys.iter().map(|live| &live.key).filter(|key| now_ms < key.not_after_ms).cloned().collect();
        let expires_ms = keys.iter().map(|key| key.not_after_ms).max().unwrap_or(state.read_ms);
        KeySet { issued_ms: state.read_ms, expires_ms, keys, root: None }.encode().into()
    }

    /// Reads the file again if it has changed, and logs once that no key is live. If the file cannot be read, or its
    /// signed set is older than the one in force, the old keys stay in force.
    pub fn reload_if_changed(&self, now_ms: u64) {
        if let Some(path) = &self.source {
            let mut known = self.read.lock();
            let found = version(path);
            if *known != found {
                match self.fresh(path, now_ms) {
                    Ok(state) => {
                        *known = found;
                        self.state.store(Arc::new(state));
                        *self.told.lock() = false;
                        tracing::info!(file = %path.display(), live = ?self.live_at(now_ms), "identity keys reloaded");
                        self.notice(now_ms);
                    }
                    Err(err) => tracing::error!(%err, "identity keys not reloaded; the loaded ones stay in use"),
                }
            }
        }
        let mut told = self.told.lock();
        let is_without = self.live_at(now_ms).is_empty();
        if is_without && !*told {
            tracing::error!(
                "no identity key is live: no session of wire 3 can be begun; sealway identity generate makes one"
            );
        }
        *told = is_without;
    }

    fn fresh(&self, path: &Path, now_ms: u64) -> Result<State, ConfigError> {
        let file = KeyFile::read(self.provider, self.library, path)?;
        let state = State::of(file, self.library, self.broker.as_ref(), now_ms)
            .map_err(|err| ConfigError(format!("{}: {err}", path.display())))?;
        let issued = |state: &State| state.signed.as_ref().map(|(set, _)| set.issued_ms);
        match (issued(&self.state.load()), issued(&state)) {
            (Some(before), Some(now)) if now < before => {
                let (now, before) = (iso8601(now), iso8601(before));
                let what = "clients that took the later one would refuse it";
                Err(ConfigError(format!(
                    "{}: its set was signed {now}, before the one in force, {before}; {what}",
                    path.display()
                )))
            }
            _ => Ok(state),
        }
    }

    /// Logs actions that the operator should take soon, or is late with.
    fn notice(&self, now_ms: u64) {
        let state = self.state.load();
        if let Some((set, _)) = &state.signed {
            let expires = iso8601(set.expires_ms);
            if set.expires_ms <= now_ms {
                tracing::error!(
                    expires,
                    "the root's signature over the key set has expired: clients that pin the root refuse it"
                );
            } else if set.expires_ms - now_ms < NOTICE_MS {
                tracing::warn!(expires, "the root's signature over the key set expires soon; sign the set again");
            }
        }
        let last = state.keys.iter().map(|live| live.key.not_after_ms).max().unwrap_or_default();
        if last > now_ms && last - now_ms < NOTICE_MS {
            tracing::warn!(ends = iso8601(last), "the last identity key expires soon; generate its successor");
        }
    }
}

impl State {
    fn of(
        file: KeyFile,
        library: &'static dyn IdentityLibrary,
        broker: Option<&BrokerAccess>,
        read_ms: u64,
    ) -> Result<Self, ConfigError> {
        let mut keys = Vec::new();
        let signed = file.signed_set().cloned();
        for (key, held) in file.into_usable(read_ms) {
            let signer: Box<dyn Signer> = match held {
                PrivateHalf::Here(document) => {
                    let pair = library.from_pkcs8(&document);
                    Box::new(FileSigner(pair.map_err(|err| ConfigError(format!("key {}: {err}", key.key_id)))?))
                }
                PrivateHalf::Broker(name) => {
                    let access = broker.ok_or_else(|| {
                        ConfigError(format!(
                            "key {} is \"{name}\" in a broker, and sessions.identity.broker does not say which",
                            key.key_id
                        ))
                    })?;
                    let public = library.public(&key.public_key);
                    let public = public.map_err(|err| ConfigError(format!("key {}: {err}", key.key_id)))?;
                    Box::new(BrokerSigner::new(access.clone(), name, public))
                }
            };
            keys.push(Arc::new(LiveKey { key, signer }));
        }
        keys.sort_by_key(|live| (std::cmp::Reverse(live.key.not_before_ms), live.key.key_id));
        let signed = signed.map(|set| {
            let text = set.encode().into();
            (set, text)
        });
        Ok(State { keys, signed, read_ms })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load();
        f.debug_struct("Identity").field("source", &self.source).field("keys", &state.keys).finish_non_exhaustive()
    }
}
