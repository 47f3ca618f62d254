//! Key files and root files in their written form: JSON, replaced as a whole or not at all.
//!
//! ```json
//! {"keys": [{"key_id": "…", "private_key": "<base64 of PKCS #8>", "not_before": "2026-11-22T00:00:00.000Z",
//!   "not_after": "…"},
//!  {"key_id": "…", "broker_key": "identity-2", "public_key": "<base64>", "not_before": "…", "not_after": "…"}],
//!  "root_public_key": "<base64>", "signed_set": {…}}
//! ```
//!
//! A private key names its algorithm. Of a composite key, both PKCS #8 documents are in the one text, ECDSA's before ML-DSA's. ML-DSA keys
//! are written as their seeds (RFC 9881 section 6).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::{IdentityLibrary, IdentityPair, SignatureAlgorithm};
use sealway_proto::session::native::{IdentityKey, KeyId, KeySet};
use sealway_proto::wire::base64;
use sealway_runtime::clock::{iso8601, parse_iso8601};
use sealway_runtime::config::{ConfigError, read_bounded, readable_by_others};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::key_file::{Entry, KeyFile, PrivateHalf};
use super::signer::is_of_brokers;
use crate::kek;

const FILE_LEN_MAX: u64 = 256 * 1024;
/// The form of a private key, as an error names it.
const DOCUMENT: &str =
    "PKCS #8 of a P-256, P-384, ML-DSA-65 or ML-DSA-87 key, or of a composite key's two parts, the ECDSA one first";

/// A text of a key file that is wiped from memory when dropped.
pub struct Secret(pub Zeroizing<String>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Secret(Zeroizing::new(text)))
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    keys: Vec<RawKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root_public_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_set: Option<serde_json::Value>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    key_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    private_key: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broker_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    not_before: String,
    not_after: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawRoot {
    root_key_id: String,
    root_public_key: String,
    root_private_key: Secret,
}

impl KeyFile {
    /// Reads a key file and checks it.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and the key, never key material.
    pub fn read(provider: &dyn Provider, library: &dyn IdentityLibrary, path: &Path) -> Result<Self, ConfigError> {
        let text = Zeroizing::new(read_bounded(path, FILE_LEN_MAX)?);
        warn_of_readers(path);
        let fail = |what: String| ConfigError(format!("{}: {what}", path.display()));
        let raw: RawFile = parse_json(&text).map_err(fail)?;
        let entries = raw.keys.into_iter().enumerate();
        let entries = entries.map(|(index, key)| {
            let at = format!("keys[{index}] ({})", key.key_id.chars().take(32).collect::<String>());
            entry(provider, library, key).map_err(|what| fail(format!("{at}: {what}")))
        });
        let mut file = KeyFile { entries: entries.collect::<Result<_, _>>()?, signed: None };
        file.check().map_err(fail)?;
        file.signed = match (raw.signed_set, raw.root_public_key) {
            (Some(set), Some(root)) => Some(signed(provider, library, &set, &root).map_err(fail)?),
            (None, None) => None,
            _ => return Err(fail("signed_set and root_public_key go together".into())),
        };
        Ok(file)
    }

    /// Writes a new key file, readable by its owner alone. An existing file is left alone.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn create(&self, path: &Path) -> Result<(), ConfigError> {
        // The link fails if the file exists.
        kek::write(path, &self.encode()?, 0o600, |unfinished| std::fs::hard_link(unfinished, path))
    }

    /// Replaces a key file, keeping its access mode.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn replace(&self, path: &Path) -> Result<(), ConfigError> {
        let mode = std::fs::metadata(path).map_or(0o600, |meta| meta.mode() & 0o777);
        kek::write(path, &self.encode()?, mode, |unfinished| std::fs::rename(unfinished, path))
    }

    fn encode(&self) -> Result<Zeroizing<String>, ConfigError> {
        self.check().map_err(ConfigError)?;
        let signed_set = self.signed_set().map(|set| serde_json::from_str(&set.encode())).transpose();
        let raw = RawFile {
            keys: self.entries.iter().map(raw_key).collect(),
            root_public_key: self.root_public().map(base64::encode),
            signed_set: signed_set.map_err(|err| ConfigError(err.to_string()))?,
        };
        to_json(&raw)
    }
}

fn raw_key(Entry { key, held }: &Entry) -> RawKey {
    let (private_key, broker_key, public_key) = match held {
        PrivateHalf::Here(document) => (Some(Secret(Zeroizing::new(base64::encode(document)))), None, None),
        PrivateHalf::Broker(name) => (None, Some(name.clone()), Some(base64::encode(&key.public_key))),
    };
    let (not_before, not_after) = (iso8601(key.not_before_ms), iso8601(key.not_after_ms));
    RawKey { key_id: key.key_id.to_string(), private_key, broker_key, public_key, not_before, not_after }
}

fn entry(provider: &dyn Provider, library: &dyn IdentityLibrary, raw: RawKey) -> Result<Entry, String> {
    let time = |name: &str, text: &str| {
        parse_iso8601(text).ok_or_else(|| format!("{name}: expected a time in UTC such as 2026-11-21T04:03:00Z"))
    };
    let times = (time("not_before", &raw.not_before)?, time("not_after", &raw.not_after)?);
    let (public, held): (Box<[u8]>, _) = match (raw.private_key, raw.broker_key, raw.public_key) {
        (Some(Secret(text)), None, None) => {
            let document = base64::decode(text.as_bytes()).map(Zeroizing::new);
            let document = document.map_err(|_| "private_key: expected base64".to_owned())?;
            let pair = library.from_pkcs8(&document);
            let pair = pair.map_err(|_| format!("private_key: expected {DOCUMENT}"))?;
            (pair.public().into(), PrivateHalf::Here(document))
        }
        (None, Some(name), Some(public)) => {
            let public = public_key(library, "public_key", &public)?;
            if !SignatureAlgorithm::of_public(&public).is_some_and(is_of_brokers) {
                return Err("broker_key: a broker keeps no key of two parts; keep this one in the file".into());
            }
            (public, PrivateHalf::Broker(name))
        }
        _ => return Err("expected private_key, or broker_key and public_key".into()),
    };
    let key = IdentityKey::new(provider, &public, times.0, times.1).map_err(|err| err.to_string())?;
    if key.key_id.as_str() != raw.key_id {
        return Err(format!("the key's own id is {}", key.key_id));
    }
    Ok(Entry { key, held })
}

fn signed(
    provider: &dyn Provider,
    library: &dyn IdentityLibrary,
    set: &serde_json::Value,
    root: &str,
) -> Result<(KeySet, Box<[u8]>), String> {
    let root = public_key(library, "root_public_key", root)?;
    let set = KeySet::parse(provider, set.to_string().as_bytes()).map_err(|err| format!("signed_set: {err}"))?;
    // An expired set is still the service's current one: another place warns of the expiry.
    set.verify(provider, library, &root, 0, 0).map_err(|err| format!("signed_set: {err}"))?;
    Ok((set, root))
}

/// Parses a public key in base64.
fn public_key(library: &dyn IdentityLibrary, name: &str, text: &str) -> Result<Box<[u8]>, String> {
    let expected = || {
        let all = SignatureAlgorithm::ALL.map(SignatureAlgorithm::name).join(", ");
        format!("{name}: expected a public key in base64, of one of {all}")
    };
    let key = base64::decode(text.as_bytes()).map_err(|_| expected())?;
    library.public(&key).map_err(|_| expected())?;
    Ok(key.into())
}

/// Parses the JSON of a file with secrets.
///
/// # Errors
/// A text with the line and the column, and nothing of the input.
pub fn parse_json<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
    // The library's message may quote its input, which may be a key; only the position is safe.
    serde_json::from_str(text).map_err(|err| match err.is_data() {
        true => {
            format!("line {}, column {}: a member is missing, unknown or of another type", err.line(), err.column())
        }
        false => format!("line {}, column {}: not JSON", err.line(), err.column()),
    })
}

/// Writes the JSON of a file with secrets, with a line end.
///
/// # Errors
/// [`ConfigError`], if a value cannot be written as JSON.
pub fn to_json(raw: &impl Serialize) -> Result<Zeroizing<String>, ConfigError> {
    let text = serde_json::to_string_pretty(raw).map(Zeroizing::new).map_err(|err| ConfigError(err.to_string()))?;
    Ok(Zeroizing::new(format!("{}\n", *text)))
}

/// Generates a key pair of an algorithm.
///
/// # Errors
/// [`ConfigError`]: the library lacks the algorithm, or fails.
pub(super) fn new_pair(
    library: &dyn IdentityLibrary,
    algorithm: SignatureAlgorithm,
) -> Result<(Zeroizing<Vec<u8>>, IdentityPair), ConfigError> {
    if !library.offers(algorithm) {
        return Err(ConfigError(format!("{algorithm}: the cryptographic library of this build lacks it")));
    }
    library.generate(algorithm).map_err(|err| ConfigError(err.to_string()))
}

fn warn_of_readers(path: &Path) {
    if let Some(warning) = readable_by_others(path) {
        tracing::warn!("the key file {warning}");
    }
}

/// A key that signs key sets and nothing else, kept away from the service.
pub struct Root {
    pair: IdentityPair,
}

impl Root {
    /// Makes a root key in a new file, readable by its owner alone.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file; the file may exist already.
    pub fn generate(
        provider: &dyn Provider,
        library: &dyn IdentityLibrary,
        algorithm: SignatureAlgorithm,
        path: &Path,
    ) -> Result<Self, ConfigError> {
        let (document, pair) = new_pair(library, algorithm)?;
        let root = Root { pair };
        let raw = RawRoot {
            root_key_id: root.id(provider).to_string(),
            root_public_key: base64::encode(root.public()),
            root_private_key: Secret(Zeroizing::new(base64::encode(&document))),
        };
        kek::write(path, &to_json(&raw)?, 0o600, |unfinished| std::fs::hard_link(unfinished, path))?;
        Ok(root)
    }

    /// Reads a root's file, with its private key.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, never key material.
    pub fn read(library: &dyn IdentityLibrary, path: &Path) -> Result<Self, ConfigError> {
        let text = Zeroizing::new(read_bounded(path, FILE_LEN_MAX)?);
        warn_of_readers(path);
        let fail = |what: &str| ConfigError(format!("{}: {what}", path.display()));
        let raw: RawRoot = parse_json(&text).map_err(|what| fail(&what))?;
        let document = base64::decode(raw.root_private_key.0.as_bytes()).map(Zeroizing::new);
        let document = document.map_err(|_| fail("root_private_key: expected base64"))?;
        let pair =
            library.from_pkcs8(&document).map_err(|_| fail(&format!("root_private_key: expected {DOCUMENT}")))?;
        Ok(Root { pair })
    }

    /// Returns the public key, which clients pin.
    pub fn public(&self) -> &[u8] {
        self.pair.public()
    }

    /// Returns the id of the root's key.
    pub fn id(&self, provider: &dyn Provider) -> KeyId {
        KeyId::of(provider, self.public())
    }

    /// Returns the key that signs.
    pub fn key(&self) -> &IdentityPair {
        &self.pair
    }

    /// Signs a key set in place.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn sign(&self, provider: &dyn Provider, set: &mut KeySet) -> Result<(), ConfigError> {
        set.sign(provider, &self.pair).map_err(|err| ConfigError(err.to_string()))
    }
}

/// Parses a root's public key in base64, as given on a command line or in a file.
///
/// # Errors
/// [`ConfigError`].
pub fn parse_root_public(library: &dyn IdentityLibrary, text: &str) -> Result<Box<[u8]>, ConfigError> {
    public_key(library, "root", text.trim()).map_err(ConfigError)
}
