//! Trust in a service's identity keys. `spec/session-3.md#identity-keys`.
//!
//! The module sends nothing: a [`Keyring`] reports if it needs the service's key set, and decides which of its keys are
//! trusted.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::limits::PINNED_KEYS_MAX;
use sealway_proto::session::native::client::SignerClaim;
use sealway_proto::session::native::{InitAnswer, KeyId, KeySet};
use sealway_proto::wire::base64;
use serde_json::Value;

use super::lines;
use super::pin::{Pin, PublicKey, accepts, public_key};
use crate::clock::now_ms;
use crate::error::{Error, ErrorKind};

/// Path at which a service publishes its key set.
pub const KEY_SET_PATH: &str = "/.well-known/sealway-keys";

/// Rule by which the service's identity is verified.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Only these keys, 1 to 16.
    Pins(Vec<Pin>),
    /// The keys in the newest key set that this root signed.
    Root {
        /// Public key of the root.
        key: PublicKey,
        /// Store for the time of issue of the newest set, so that an older one is rejected.
        store: TrustStore,
    },
    /// The keys met at first use, which the store keeps. An impostor at the first use is not detected.
    FirstUse(TrustStore),
}

/// Memory of a client about the services that it trusts.
#[derive(Clone, Debug)]
pub enum TrustStore {
    /// The memory of the process, which a restart clears. With [`Trust::FirstUse`]: for tests and measurements.
    Memory,
    /// A file that processes of one user share.
    File(PathBuf),
}

impl TrustStore {
    fn file(&self) -> Option<&Path> {
        match self {
            TrustStore::Memory => None,
            TrustStore::File(file) => Some(file),
        }
    }

    /// Lists the services in a file of [`Trust::FirstUse`]; none without a file.
    ///
    /// # Errors
    /// [`ErrorKind::Trust`] for a file that cannot be read, that other users may write, or that has a malformed line.
    pub fn services(&self) -> Result<Vec<KnownService>, Error> {
        let Some(file) = self.file() else { return Ok(Vec::new()) };
        let known = |(origin, line): (String, String)| {
            let (keys, _) = parse(file, &origin, &line)?;
            Ok(KnownService { origin, key_ids: keys.into_iter().map(|(id, _)| id).collect() })
        };
        lines::all(file)?.into_iter().map(known).collect()
    }

    /// Removes a service from a file of [`Trust::FirstUse`]: the next call trusts the keys that it meets. Returns true
    /// if the service was in the file.
    ///
    /// # Errors
    /// [`ErrorKind::Trust`] for a file that cannot be read or written.
    pub fn forget(&self, origin: &str) -> Result<bool, Error> {
        let mut was_there = false;
        let Some(file) = self.file() else { return Ok(false) };
        lines::rewrite(file, origin, |line| {
            was_there = line.is_some();
            Ok(None)
        })?;
        Ok(was_there)
    }
}

/// Trusted and published identity keys of one service.
#[derive(Debug)]
pub struct Keyring {
    trust: Trust,
    origin: String,
    /// Signature algorithms that the client accepts; none for no restriction.
    algorithms: Vec<SignatureAlgorithm>,
    held: Mutex<KeyState>,
}

#[derive(Debug, Default)]
struct KeyState {
    /// Trusted keys with their ids.
    keys: Vec<(KeyId, PublicKey)>,
    /// Keys that the service published, which does not make them trusted.
    published: Vec<(KeyId, PublicKey)>,
    /// Id of the root that signs the published set, for the file.
    root: Option<KeyId>,
    /// True if this client or an earlier process has met the service.
    is_met: bool,
    /// True if this client was the first to meet the service.
    has_met: bool,
    /// Newest set that the pinned root signed: its keys are trusted while they are live.
    root_set: Option<KeySet>,
    /// Time of issue of the newest set in milliseconds, also of an earlier process.
    issued_ms: u64,
}

impl Keyring {
    /// Creates a keyring for the service at `origin`; reads the file that an earlier process wrote. `algorithms` are those that the
    /// client accepts, none for no restriction.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for no pin, too many pins, a malformed root, and a pinned key or root of an algorithm that is not accepted;
    /// [`ErrorKind::Trust`] for a file that cannot be
    /// used.
    pub fn new(trust: Trust, origin: &str, algorithms: &[SignatureAlgorithm]) -> Result<Self, Error> {
        let mut held = KeyState::default();
        let check = |what: &str, key: &PublicKey| match SignatureAlgorithm::of_public(key) {
            Some(algorithm) if !accepts(algorithms, key, true) => Err(ErrorKind::Usage(format!(
                "signature_algorithms: {what} is of {algorithm}, which is not among them"
            ))),
            _ => Ok(()),
        };
        match &trust {
            Trust::Pins(pins) if !(1..=PINNED_KEYS_MAX).contains(&pins.len()) => {
                let count = pins.len();
                return Err(
                    ErrorKind::Usage(format!("trust: {count} keys are pinned, not 1 to {PINNED_KEYS_MAX}")).into()
                );
            }
            Trust::Pins(pins) => {
                held.keys = pins.iter().filter_map(Pin::with_key).collect();
                held.keys.iter().try_for_each(|(id, key)| check(&format!("the pinned key {id}"), key))?;
            }
            Trust::Root { key, store } => {
                default_identity_library()
                    .public(&key[..])
                    .map_err(|_| ErrorKind::Usage("the root is no public key of a known algorithm".into()))?;
                check("the root", key)?;
                if let Some(file) = store.file() {
                    held.issued_ms = issued(file, lines::read(file, &state_name(origin, key))?.as_deref())?;
                }
            }
            Trust::FirstUse(store) => {
                if let Some(file) = store.file()
                    && let Some(line) = lines::read(file, origin)?
                {
                    (held.keys, held.root) = parse(file, origin, &line)?;
                    held.is_met = true;
                    if !held.keys.iter().any(|(_, key)| accepts(algorithms, key, true)) {
                        return Err(ErrorKind::Usage(format!(
                            "signature_algorithms: no key of {origin} in {} is of one of them; if its operator confirms a key \
                             of such an algorithm, pin it",
                            file.display()
                        ))
                        .into());
                    }
                }
            }
        }
        let algorithms = algorithms.to_vec();
        Ok(Keyring { trust, origin: origin.into(), algorithms, held: Mutex::new(held) })
    }

    /// Ids of the trusted keys, which an init sends as `pinned_key_ids`.
    pub fn pinned(&self) -> Vec<KeyId> {
        match &self.trust {
            Trust::Pins(pins) => {
                let mut ids: Vec<_> = pins.iter().map(Pin::key_id).collect();
                ids.sort_unstable();
                ids.dedup();
                ids
            }
            Trust::Root { .. } => Vec::new(),
            Trust::FirstUse(_) => self.held().keys.iter().map(|(id, _)| *id).collect(),
        }
    }

    /// True if the service was met before; also true for trust by keys or by a root.
    pub(crate) fn is_met(&self) -> bool {
        !self.is_by_use() || self.held().is_met
    }

    /// Identity keys learnt at first use, if this client was the first to meet the service.
    pub(crate) fn first_use(&self) -> Option<KnownService> {
        let held = self.held();
        let key_ids = held.keys.iter().map(|(id, _)| *id).collect();
        held.has_met.then(|| KnownService { origin: self.origin.clone(), key_ids })
    }

    /// Returns the signer's key if it is trusted; `None` if the service's key set is needed first
    /// ([`Keyring::look_up`]). With a root, a key is trusted only while the root's newest set lists it as live; every
    /// init checks this.
    ///
    /// # Errors
    /// [`ErrorKind::KeyUntrusted`] if no key set could make the key trusted.
    pub fn key(&self, signer: &SignerClaim) -> Result<Option<PublicKey>, Error> {
        let (held, id) = (self.held(), &signer.key_id);
        let known = self.trusted(&held, signer);
        if known.is_none()
            && let Some(refused) = self.of_another_algorithm(&held, id)
        {
            return Err(refused);
        }
        let can_be_learnt = match &self.trust {
            Trust::Pins(pins) => pins.iter().any(|pin| pin.key_id() == *id),
            Trust::Root { .. } => true,
            Trust::FirstUse(_) => !held.is_met,
        };
        if known.is_some() || can_be_learnt { Ok(known) } else { Err(self.untrusted(id, &held)) }
    }

    /// Stores the service's key set, and returns the signer's key from it if it is trusted.
    ///
    /// # Errors
    /// [`ErrorKind::KeyUntrusted`] for another key, [`ErrorKind::Trust`] for a set that cannot be used.
    pub fn look_up(&self, signer: &SignerClaim, set: &[u8]) -> Result<PublicKey, Error> {
        let set = read_set(set)?;
        self.take(&set)?;
        let (held, id) = (self.held(), &signer.key_id);
        let known = self.trusted(&held, signer);
        // At first use, only the signature with this key speaks for it.
        let met_now = (self.is_by_use() && !held.is_met).then(|| find(&held.published, id)).flatten();
        let met_now = met_now.filter(|key| accepts(&self.algorithms, key, false));
        known.or(met_now).ok_or_else(|| self.untrusted(id, &held))
    }

    /// Handles a `key_retired`: with a root, takes the newer signed set, after which the init can be repeated.
    ///
    /// # Errors
    /// [`ErrorKind::KeyRetired`] if keys are pinned or kept, [`ErrorKind::Trust`] for a set that the root did not sign.
    pub fn retired(&self, set: Option<&Value>) -> Result<(), Error> {
        let set = set.map(|set| read_set(set.to_string().as_bytes())).transpose()?;
        if let (Trust::Root { .. }, Some(set)) = (&self.trust, &set) {
            return self.take(set);
        }
        let key_ids = set.iter().flat_map(|set| &set.keys).map(|key| key.key_id.to_string()).collect();
        let way = match &self.trust {
            Trust::FirstUse(TrustStore::File(file)) => self.forgetting(file),
            _ => "If its operator confirms these keys, pin them, or the root that signs them".into(),
        };
        Err(ErrorKind::KeyRetired { key_ids, way }.into())
    }

    /// True if the key set is needed to store all keys that an authenticated answer names.
    pub fn wants_set(&self, answer: &InitAnswer) -> bool {
        let held = self.held();
        let has = |id| find(&held.keys, id).or(find(&held.published, id)).is_some();
        self.is_by_use() && !answer.key_ids.iter().all(has)
    }

    /// Stores a key set without trusting it: [`Keyring::remember`] takes the keys that a signature vouches for.
    ///
    /// # Errors
    /// [`ErrorKind::Trust`] for a set that cannot be used.
    pub fn see(&self, set: &[u8]) -> Result<(), Error> {
        self.take(&read_set(set)?)
    }

    /// Stores the service's keys that an authenticated answer names, if trust comes from the first use. May write a
    /// file.
    ///
    /// # Errors
    /// [`ErrorKind::Trust`]; [`ErrorKind::KeyUntrusted`] if another process met a service with other keys at this origin.
    pub fn remember(&self, answer: &InitAnswer) -> Result<(), Error> {
        if !self.is_by_use() {
            return Ok(());
        }
        let (new, root) = {
            let held = self.held();
            let named = || answer.key_ids.iter().chain([&answer.key_id]);
            let fresh = |(id, key): &&(KeyId, PublicKey)| {
                let is_new = named().any(|named| named == id) && find(&held.keys, id).is_none();
                // A file with a key off the curve could not be read again.
                is_new && accepts(&self.algorithms, key, false) && default_identity_library().public(key).is_ok()
            };
            let fresh: Vec<_> = held.published.iter().filter(fresh).cloned().collect();
            if fresh.is_empty() && held.is_met {
                return Ok(());
            }
            // The newest keys are kept if there are too many.
            let mut all = fresh;
            all.extend(held.keys.iter().filter(|key| named().any(|id| *id == key.0)).cloned());
            let gone = held.keys.iter().filter(|(id, _)| named().all(|named| named != id)).cloned();
            all.extend(gone);
            all.truncate(PINNED_KEYS_MAX);
            (all, held.root)
        };
        if let Trust::FirstUse(TrustStore::File(file)) = &self.trust {
            lines::rewrite(file, &self.origin, |line| {
                let theirs = line.map(|line| parse(file, &self.origin, line)).transpose()?;
                match theirs {
                    Some((keys, _)) if find(&keys, &answer.key_id).is_none() && !self.held().is_met => {
                        Err(self.untrusted(&answer.key_id, &KeyState { keys, ..KeyState::default() }))
                    }
                    theirs => Ok(Some(write(&new, root.or(theirs.and_then(|(_, root)| root))))),
                }
            })?;
        }
        let mut held = self.held();
        held.has_met |= !held.is_met;
        (held.keys, held.is_met) = (new, true);
        Ok(())
    }

    fn is_by_use(&self) -> bool {
        matches!(self.trust, Trust::FirstUse(_))
    }

    fn take(&self, set: &KeySet) -> Result<(), Error> {
        let listed = || set.keys.iter().map(|key| (key.key_id, key.public_key.clone()));
        let mut held = self.held();
        match &self.trust {
            Trust::Pins(pins) => {
                let is_pinned = |id: &KeyId| pins.iter().any(|pin| pin.key_id() == *id);
                held.keys = pins.iter().filter_map(Pin::with_key).collect();
                let found: Vec<_> =
                    listed().filter(|(id, _)| is_pinned(id) && find(&held.keys, id).is_none()).collect();
                held.keys.extend(found);
            }
            Trust::Root { key, store } => {
                let (provider, library) = (default_provider(), default_identity_library());
                set.verify(provider, library, key, now_ms(), held.issued_ms)
                    .map_err(|fault| ErrorKind::Trust(format!("the key set of {} is refused: {fault}", self.origin)))?;
                if let Some(file) = store.file().filter(|_| set.issued_ms > held.issued_ms) {
                    lines::rewrite(file, &state_name(&self.origin, key), |line| {
                        Ok(Some(issued(file, line)?.max(set.issued_ms).to_string()))
                    })?;
                }
                (held.root_set, held.issued_ms) = (Some(set.clone()), set.issued_ms);
            }
            Trust::FirstUse(_) => {
                held.published = listed().collect();
                held.root = set.root.as_ref().map(|root| root.key_id).or(held.root);
            }
        }
        Ok(())
    }

    /// Returns the error for a key that is known, and not of an accepted algorithm.
    fn of_another_algorithm(&self, held: &KeyState, id: &KeyId) -> Option<Error> {
        let (key, is_pinned) = match &held.root_set {
            Some(set) => (set.get(id).map(|key| key.public_key.clone()), false),
            None => (find(&held.keys, id), true),
        };
        let algorithm = SignatureAlgorithm::of_public(&key.filter(|key| !accepts(&self.algorithms, key, is_pinned))?)?;
        let way = format!(
            "it is of {algorithm}, which this client does not accept: name the algorithm in signature_algorithms \
             (--signature-algorithm {algorithm})"
        );
        Some(ErrorKind::KeyUntrusted { key_id: id.to_string(), way }.into())
    }

    fn untrusted(&self, id: &KeyId, held: &KeyState) -> Error {
        if let Some(refused) = self.of_another_algorithm(held, id) {
            return refused;
        }
        let ids = held.keys.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(", ");
        let way = match &self.trust {
            Trust::Pins(_) => {
                "it is none of the pinned ones; an attacker may be in between. If the service's operator \
                               says that it is the service's own, pin it"
                    .to_owned()
            }
            Trust::Root { .. } => {
                let has = held.root_set.as_ref().is_some_and(|set| set.get(id).is_some());
                let what = if has { "says that it is not live at this time" } else { "does not have it" };
                format!(
                    "the set that the root signed {what}; an attacker may be in between. If the service's operator says \
                     otherwise, check this machine's clock and have the root sign a new set"
                )
            }
            Trust::FirstUse(TrustStore::File(file)) => {
                format!(
                    "{ids} was met at {} before: this is another service, or an impostor. {}",
                    self.origin,
                    self.forgetting(file)
                )
            }
            Trust::FirstUse(TrustStore::Memory) => format!("at first it was {ids}; an attacker may be in between"),
        };
        ErrorKind::KeyUntrusted { key_id: id.to_string(), way }.into()
    }

    /// Instructions to a user after the keys of a known service have changed.
    fn forgetting(&self, file: &Path) -> String {
        let origin = &self.origin;
        format!(
            "If its operator confirms the new key, forget the old one: sealway trust forget {origin} (it is kept in {})",
            file.display()
        )
    }

    fn trusted(&self, held: &KeyState, signer: &SignerClaim) -> Option<PublicKey> {
        let (key, is_pinned) = match &held.root_set {
            Some(set) => {
                let key = set.signer(&signer.key_id, signer.server_time_ms, now_ms());
                (key.map(|key| key.public_key.clone()), false)
            }
            None => (find(&held.keys, &signer.key_id), true),
        };
        key.filter(|key| accepts(&self.algorithms, key, is_pinned))
    }

    fn held(&self) -> MutexGuard<'_, KeyState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service that [`Trust::FirstUse`] knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownService {
    /// Scheme, host and port, as [`origin`] writes them.
    pub origin: String,
    /// Ids of the identity keys that are trusted for it.
    pub key_ids: Vec<KeyId>,
}

/// Name of a service in files: scheme, host and port.
///
/// The host is in lower case, and the port is always present.
pub fn origin(url: &http::Uri) -> String {
    format!("{}://{}", url.scheme_str().unwrap_or("http"), host(url))
}

/// Host and port of a URL; empty without a host.
pub(crate) fn host(url: &http::Uri) -> String {
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    url.host().map_or(String::new(), |host| format!("{}:{port}", host.to_ascii_lowercase()))
}

fn find(keys: &[(KeyId, PublicKey)], id: &KeyId) -> Option<PublicKey> {
    keys.iter().find(|(known, _)| known == id).map(|(_, key)| key.clone())
}

fn read_set(bytes: &[u8]) -> Result<KeySet, Error> {
    let invalid = |err| ErrorKind::Trust(format!("the service's key set is invalid: {err}"));
    Ok(KeySet::parse(default_provider(), bytes).map_err(invalid)?)
}

/// Name of a root's state in its file.
fn state_name(origin: &str, root: &PublicKey) -> String {
    format!("{origin} root:{}", KeyId::of(default_provider(), root))
}

fn issued(file: &Path, line: Option<&str>) -> Result<u64, Error> {
    let invalid = |_| ErrorKind::Trust(format!("{}: a time is not a number of milliseconds", file.display()));
    Ok(line.map_or(Ok(0), str::parse).map_err(invalid)?)
}

/// Formats a line's rest: `KEYID:BASE64 … root:KEYID`.
fn write(keys: &[(KeyId, PublicKey)], root: Option<KeyId>) -> String {
    let keys = keys.iter().map(|(id, key)| format!("{id}:{}", base64::encode(key)));
    keys.chain(root.map(|root| format!("root:{root}"))).collect::<Vec<_>>().join(" ")
}

type Line = (Vec<(KeyId, PublicKey)>, Option<KeyId>);

fn parse(file: &Path, origin: &str, line: &str) -> Result<Line, Error> {
    let read = |line: &str| -> Option<Line> {
        let (mut keys, mut root) = (Vec::new(), None);
        for word in line.split_ascii_whitespace() {
            let (id, rest) = word.split_once(':')?;
            if id == "root" {
                root = Some(KeyId::parse(rest).ok()?);
                continue;
            }
            let pin = Pin::Key(public_key(rest).ok()?);
            // An id that does not belong to its key would pin another key than the one shown.
            keys.push(pin.with_key().filter(|(own, _)| own.as_str() == id)?);
        }
        (1..=PINNED_KEYS_MAX).contains(&keys.len()).then_some((keys, root))
    };
    let damaged = || ErrorKind::Trust(format!("the line of {origin} in {} is damaged", file.display()));
    Ok(read(line).ok_or_else(damaged)?)
}
