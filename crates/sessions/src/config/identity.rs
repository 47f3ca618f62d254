//! Section `sessions.identity`: source of the identity keys of wire 3.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_runtime::clock::Clock;
use sealway_runtime::config::{ConfigError, FilePath, Flag, Problems, relative_to};
use serde::{Deserialize, Serialize};

use super::StoreUrl;
use crate::identity::{BrokerAccess, GENERATED_LIFE_MS, Identity, KeyFile, is_of_brokers};

/// The setting that names the key file.
const AT: &str = "sessions.identity.key_file";

/// Section `sessions.identity` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIdentity {
    /// Identity keys, read again when the file changes ([identity-keys.md](../guides/identity-keys.md)). Without keys wire
    /// 3 is off. Processes of one service have the same file.
    /// - default: with `file:`, the store's path with the extension `identity` if that is there; else none
    key_file: Option<FilePath>,
    /// Creates a missing key file, with one key for ten years. With `memory:` and no `key_file` the key is in memory alone;
    /// with a store of several processes it needs `key_file`.
    allow_generated: Flag<false>,
    /// Broker of the keys that the key file marks as a broker's ([identity-keys.md](../guides/identity-keys.md#keep-the-key-in-a-broker)).
    /// A start waits ten seconds for it, and has each key sign something.
    broker: Option<RawBroker>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawBroker {
    /// Socket of the broker, a path of 1 to 107 bytes.
    socket: FilePath,
    /// Profile of the broker for these keys, of 1 to 64 bytes.
    profile: String,
    /// Profiles for keys of some algorithms, instead of `profile`: `ES256`, `ES384`, `ML-DSA-65`, `ML-DSA-87`.
    /// - type: algorithms to profiles
    /// - default: none
    profiles: Option<BTreeMap<String, String>>,
    /// User that the broker must run as.
    uid: Option<u32>,
}

/// Place of the identity keys.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// No keys: wire 3 is off.
    Off,
    /// In this process's memory, as its sessions are.
    Memory,
    /// In a key file, which must exist or may be created.
    File(PathBuf),
    /// In a key file beside the store, if there is one.
    Beside(PathBuf),
}

/// Checked values of the section `sessions.identity`.
#[derive(Clone, Debug)]
pub(super) struct IdentityConfig {
    place: Place,
    allow_generated: bool,
    broker: Option<CheckedBroker>,
}

/// Checked values of the section `sessions.identity.broker`.
#[derive(Clone, Debug)]
struct CheckedBroker {
    socket: PathBuf,
    profile: String,
    uid: Option<u32>,
    profiles: BTreeMap<SignatureAlgorithm, String>,
}

impl CheckedBroker {
    fn access(&self) -> BrokerAccess {
        let access = BrokerAccess::new(self.socket.clone(), self.profile.clone(), self.uid);
        access.with_profiles(self.profiles.clone())
    }
}

impl IdentityConfig {
    pub(super) fn resolve(
        raw: Option<&RawIdentity>,
        store: &StoreUrl,
        file: Option<&Path>,
        problems: &mut Problems,
        warnings: &mut Vec<String>,
    ) -> Self {
        let raw = raw.cloned().unwrap_or_default();
        let allow_generated = raw.allow_generated.get();
        let place = match (&raw.key_file, store) {
            (Some(path), _) => Place::File(problems.file(AT, file, path)),
            (None, StoreUrl::Memory) if allow_generated => Place::Memory,
            (None, StoreUrl::File(store)) if allow_generated => Place::File(store.with_extension("identity")),
            (None, StoreUrl::File(store)) => Place::Beside(store.with_extension("identity")),
            (None, _) if allow_generated => {
                warnings.push(
                    "sessions.identity.allow_generated has no effect with this store: each of its processes would make a key of \
                     its own, and clients would take them for different services; name one key_file, the same for all"
                        .into(),
                );
                Place::Off
            }
            (None, _) => Place::Off,
        };
        let broker = raw.broker.map(|raw| {
            for (name, text, len_max) in [("socket", &raw.socket, 107), ("profile", &raw.profile, 64)] {
                if text.is_empty() || text.len() > len_max {
                    problems.add(format!("sessions.identity.broker.{name}"), format!("expected 1 to {len_max} bytes"));
                }
            }
            let profiles = raw.profiles.into_iter().flatten().filter_map(|(name, profile)| {
                let setting = format!("sessions.identity.broker.profiles.{name}");
                if profile.is_empty() || profile.len() > 64 {
                    problems.add(&setting, "expected 1 to 64 bytes");
                }
                let algorithm = SignatureAlgorithm::from_name(&name).filter(|known| is_of_brokers(*known));
                let algorithm =
                    algorithm.ok_or("expected an algorithm of keys in brokers: ES256, ES384, ML-DSA-65, ML-DSA-87");
                Some((problems.take(setting, algorithm)?, profile))
            });
            let profiles = profiles.collect();
            CheckedBroker { socket: relative_to(file, &raw.socket), profile: raw.profile, uid: raw.uid, profiles }
        });
        if broker.is_some() && matches!(place, Place::Off | Place::Memory) {
            problems.add("sessions.identity.broker", "the broker's keys are listed in a key file; name it in key_file");
        }
        IdentityConfig { place, allow_generated, broker }
    }

    /// Reads the keys, or makes one where that is allowed. `None` means that wire 3 is off, which is logged.
    pub(super) async fn open(
        &self,
        provider: &'static dyn Provider,
        clock: &Arc<dyn Clock>,
        store: &StoreUrl,
    ) -> Result<Option<Arc<Identity>>, ConfigError> {
        let (library, now_ms) = (default_identity_library(), clock.now_ms());
        let path = match &self.place {
            Place::File(path) => path,
            Place::Beside(path) if path.exists() => path,
            Place::Memory => return Ok(Some(Arc::new(Identity::in_memory(provider, library, now_ms)?))),
            Place::Off | Place::Beside(_) => {
                // An API side has its authority's identity.
                if !matches!(store, StoreUrl::Remote(_)) {
                    tracing::info!(
                        "no identity key: wire 3 is off; sessions.identity.key_file names one that sealway identity generate \
                         made"
                    );
                }
                return Ok(None);
            }
        };
        if !path.exists() {
            self.make_key_file(provider, path, now_ms)?;
        }
        let broker = self.broker.as_ref().map(CheckedBroker::access);
        let identity = Identity::load(provider, library, path, broker, now_ms)?;
        identity.try_all(now_ms).await?;
        tracing::info!(file = %path.display(), live = ?identity.live_at(now_ms), "identity keys for wire 3");
        Ok(Some(Arc::new(identity)))
    }

    /// True if the configuration asks for an identity key. A key found beside the store does not count: it may be meant
    /// for later.
    pub(super) fn is_asked_for(&self) -> bool {
        matches!(self.place, Place::Memory | Place::File(_))
    }

    /// Reads the key file as [`IdentityConfig::open`] does, and creates nothing.
    pub(super) fn check_files(&self, provider: &'static dyn Provider, now_ms: u64, problems: &mut Problems) {
        let path = match &self.place {
            Place::File(path) => path,
            Place::Beside(path) if path.exists() => path,
            Place::Memory | Place::Off | Place::Beside(_) => return,
        };
        if path.exists() {
            let (library, broker) = (default_identity_library(), self.broker.as_ref().map(CheckedBroker::access));
            problems.take(AT, Identity::load(provider, library, path, broker, now_ms));
        } else if let Err(err) = self.may_make_key_file(path) {
            problems.add_error(&err);
        } else {
            problems.folder_of(AT, path);
        }
    }

    /// Checks that a missing key file may be created.
    fn may_make_key_file(&self, path: &Path) -> Result<(), ConfigError> {
        if self.allow_generated {
            return Ok(());
        }
        Err(ConfigError(format!(
            "{AT}: there is no key file {}; make one with sealway identity generate, or set \
             sessions.identity.allow_generated: true",
            path.display()
        )))
    }

    fn make_key_file(&self, provider: &dyn Provider, path: &Path, now_ms: u64) -> Result<(), ConfigError> {
        self.may_make_key_file(path)?;
        let mut file = KeyFile::default();
        let key = file.generate(
            provider,
            default_identity_library(),
            SignatureAlgorithm::Es256,
            now_ms,
            now_ms.saturating_add(GENERATED_LIFE_MS),
            now_ms,
        )?;
        file.create(path)?;
        tracing::warn!(file = %path.display(), %key, "identity key created; keep the file: clients identify the service by this key");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sealway_proto::crypto::default_provider;
    use sealway_runtime::clock::ManualClock;

    use super::*;

    fn resolve(raw: &str, store: &str, folder: &Path) -> Result<(IdentityConfig, StoreUrl), String> {
        let raw: Option<RawIdentity> = serde_json::from_str(raw).unwrap();
        let file = folder.join("sealway.yaml");
        let mut problems = Problems::default();
        let store = StoreUrl::parse(store, Some(&file), &mut problems);
        let mut warnings = Vec::new();
        let config = IdentityConfig::resolve(raw.as_ref(), &store, Some(&file), &mut problems, &mut warnings);
        assert_eq!(warnings.len(), usize::from(config.allow_generated && config.place == Place::Off), "{warnings:?}");
        problems.into_result().map(|()| (config, store)).map_err(|err| err.to_string())
    }

    async fn open(raw: &str, store: &str, folder: &Path) -> Result<Option<Arc<Identity>>, String> {
        let (config, store) = resolve(raw, store, folder)?;
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1_000_000));
        config.open(default_provider(), &clock, &store).await.map_err(|err| err.to_string())
    }

    #[tokio::test]
    async fn an_identity_is_made_where_that_is_allowed_and_only_there() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let made = |name: &str| folder.join(name).exists();
        for store in ["memory:", "file:a.redb", "postgres://u@h/db", "redis://h", "https://authority:1"] {
            assert!(open("null", store, folder).await.unwrap().is_none(), "{store}");
        }
        for store in ["postgres://u@h/db", "redis://h", "https://authority:1"] {
            assert!(open(r#"{"allow_generated": true}"#, store, folder).await.unwrap().is_none(), "{store}");
        }
        assert!(open(r#"{"allow_generated": true}"#, "memory:", folder).await.unwrap().is_some());
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
        let first = open(r#"{"allow_generated": true}"#, "file:a.redb", folder).await.unwrap().unwrap();
        assert!(made("a.identity"));
        // The file is found again, even without permission to create one.
        let again = open("null", "file:a.redb", folder).await.unwrap().unwrap();
        assert_eq!(first.live_at(1_000_000), again.live_at(1_000_000));
        let err = open(r#"{"key_file": "b.identity"}"#, "postgres://u@h/db", folder).await.unwrap_err();
        assert!(err.contains("b.identity") && err.contains("sealway identity generate"), "{err}");
        let named = r#"{"key_file": "b.identity", "allow_generated": true}"#;
        assert!(open(named, "postgres://u@h/db", folder).await.unwrap().is_some() && made("b.identity"));
    }

    #[test]
    fn what_cannot_work_is_named() {
        let folder = Path::new("/nowhere");
        for (raw, store, what) in [
            (r#"{"key_file": ""}"#, "memory:", "sessions.identity.key_file"),
            (
                r#"{"broker": {"socket": "s", "profile": "P"}}"#,
                "memory:",
                "sessions.identity.broker: the broker's keys",
            ),
            (
                r#"{"key_file": "k", "broker": {"socket": "s", "profile": ""}}"#,
                "memory:",
                "sessions.identity.broker.profile: expected",
            ),
            (
                r#"{"key_file": "k", "broker": {"socket": "s", "profile": "P", "profiles": {"ES384": ""}}}"#,
                "memory:",
                "sessions.identity.broker.profiles.ES384: expected 1 to 64 bytes",
            ),
            (
                r#"{"key_file": "k", "broker": {"socket": "s", "profile": "P", "profiles": {"ES384+ML-DSA-87": "Q"}}}"#,
                "memory:",
                "sessions.identity.broker.profiles.ES384+ML-DSA-87: expected an algorithm",
            ),
        ] {
            let err = resolve(raw, store, folder).unwrap_err();
            assert!(err.contains(what), "{err}");
        }
    }
}
