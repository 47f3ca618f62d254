//! Which identity keys a client takes for a service's own. `spec/session-3.md#identity-keys`.
//!
//! It sends nothing: a [`Keyring`] says whether it needs the service's key set, and what it makes of one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::es256::default_es256;
use sealway_proto::limits::{P256_PUBLIC_LEN, PINNED_KEYS_MAX};
use sealway_proto::session::three::client::Claimed;
use sealway_proto::session::three::{InitAnswer, KeyId, KeySet};
use sealway_proto::wire::base64;
use serde_json::Value;

use super::lines;
use crate::error::Error;
use crate::exchange::now_ms;

/// Where a service publishes its key set.
pub const KEY_SET_PATH: &str = "/.well-known/sealway-keys";

/// A public key of P-256, `0x04 || X || Y`.
pub type PublicKey = [u8; P256_PUBLIC_LEN];

/// An identity key that is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// By its id; the key itself is looked up in the service's key set.
    Id(KeyId),
    /// The key.
    Key(Box<PublicKey>),
}

impl Pin {
    /// Reads a key id (32 lower-case hexadecimal digits) or a public key (base64 of 65 bytes).
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        match KeyId::parse(text) {
            Ok(id) => Ok(Pin::Id(id)),
            Err(_) => Ok(Pin::Key(Box::new(public_key(text)?))),
        }
    }

    /// Its id.
    pub fn key_id(&self) -> KeyId {
        match self {
            Pin::Id(id) => *id,
            Pin::Key(key) => KeyId::of(default_provider(), key),
        }
    }
}

/// Reads a public key: base64 of an uncompressed point of P-256.
///
/// # Errors
/// [`Error::Usage`].
pub fn public_key(text: &str) -> Result<PublicKey, Error> {
    let key = base64::decode_array(text.trim()).ok().filter(|key: &PublicKey| default_es256().public(key).is_ok());
    let shown: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
    key.ok_or_else(|| Error::Usage(format!("\"{shown}\" is neither a key id nor a public key of P-256 in base64")))
}

/// Whose word a client takes for who the service is.
#[derive(Clone, Debug)]
pub enum Trust {
    /// These keys' alone; up to 16. With none, no service is trusted: that is the default, so that nobody trusts by oversight.
    Keys(Vec<Pin>),
    /// The keys that this root says.
    Root {
        /// The root.
        key: Box<PublicKey>,
        /// Where to keep when the newest set was issued, so that no older one is taken after a restart.
        state: Option<PathBuf>,
    },
    /// What was met at first use, kept in this file. Who stands in between at the first use is not found out.
    FirstUse(PathBuf),
    /// What is met at first use, kept in memory: for tests and measurements.
    FirstMet,
}

/// The keys that a client trusts for one service.
pub struct Keyring {
    trust: Trust,
    origin: String,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Trusted, with their ids.
    keys: Vec<(KeyId, PublicKey)>,
    /// Published by the service; nobody trusts them for that.
    published: Vec<(KeyId, PublicKey)>,
    /// The root that signs what is published, for the file.
    root: Option<KeyId>,
    /// Whether the service was met before.
    is_met: bool,
    /// The newest set that the pinned root signed: its keys are trusted while they are live.
    root_set: Option<KeySet>,
    /// When the newest set was issued, also one of an earlier process.
    issued_ms: u64,
}

impl Keyring {
    /// For the service at `origin`; reads the file of what was met before.
    ///
    /// # Errors
    /// [`Error::Usage`], [`Error::Trust`].
    pub fn new(trust: Trust, origin: &str) -> Result<Self, Error> {
        let mut held = Held::default();
        match &trust {
            Trust::Keys(pins) if pins.len() > PINNED_KEYS_MAX => {
                return Err(Error::Usage(format!("more than {PINNED_KEYS_MAX} keys are pinned")));
            }
            Trust::Keys(pins) => held.keys = pins.iter().filter_map(Pin::with_key).collect(),
            Trust::Root { key, state } => {
                default_es256().public(&key[..]).map_err(|_| Error::Usage("the root is no key of P-256".into()))?;
                if let Some(file) = state {
                    held.issued_ms = issued(file, lines::read(file, &state_name(origin, key))?.as_deref())?;
                }
            }
            Trust::FirstUse(file) => {
                if let Some(line) = lines::read(file, origin)? {
                    (held.keys, held.root) = parse(file, origin, &line)?;
                    held.is_met = true;
                }
            }
            Trust::FirstMet => {}
        }
        Ok(Keyring { trust, origin: origin.into(), held: Mutex::new(held) })
    }

    /// What is sent as `pinned_key_ids`.
    pub fn pinned(&self) -> Vec<KeyId> {
        match &self.trust {
            Trust::Keys(pins) => {
                let mut ids: Vec<_> = pins.iter().map(Pin::key_id).collect();
                ids.sort_unstable();
                ids.dedup();
                ids
            }
            Trust::Root { .. } => Vec::new(),
            Trust::FirstUse(_) | Trust::FirstMet => self.held().keys.iter().map(|(id, _)| *id).collect(),
        }
    }

    /// Whether the service was met before; true wherever trust does not come from that.
    pub fn is_met(&self) -> bool {
        !self.is_by_use() || self.held().is_met
    }

    /// The signer's key if it is trusted; none if the service's key set has to be seen first ([`Keyring::look_up`]). By a root it
    /// is trusted only while the root's word says so, at every init.
    ///
    /// # Errors
    /// [`Error::KeyUntrusted`] where no key set could make it trusted.
    pub fn key(&self, signer: &Claimed) -> Result<Option<PublicKey>, Error> {
        let (held, id) = (self.held(), &signer.key_id);
        let known = held.trusted(signer);
        let can_be_learnt = match &self.trust {
            Trust::Keys(pins) => pins.iter().any(|pin| pin.key_id() == *id),
            Trust::Root { .. } => true,
            Trust::FirstUse(_) | Trust::FirstMet => !held.is_met,
        };
        if known.is_some() || can_be_learnt { Ok(known) } else { Err(self.untrusted(id, &held)) }
    }

    /// Takes the service's key set, and finds the signer's key in it, as far as it is trusted.
    ///
    /// # Errors
    /// [`Error::KeyUntrusted`], [`Error::Trust`].
    pub fn look_up(&self, signer: &Claimed, set: &[u8]) -> Result<PublicKey, Error> {
        let set = read_set(set)?;
        self.take(&set)?;
        let (held, id) = (self.held(), &signer.key_id);
        let known = held.trusted(signer);
        // At first use there is nothing to trust yet but the signature with this very key.
        let met_now = (self.is_by_use() && !held.is_met).then(|| find(&held.published, id)).flatten();
        known.or(met_now).ok_or_else(|| self.untrusted(id, &held))
    }

    /// What a `key_retired` is good for: a root's word on new keys is taken, and the init can begin anew.
    ///
    /// # Errors
    /// [`Error::KeyRetired`] where keys are pinned or kept, [`Error::Trust`] for a set that the root did not sign.
    pub fn retired(&self, set: Option<&Value>) -> Result<(), Error> {
        let set = set.map(|set| read_set(set.to_string().as_bytes())).transpose()?;
        if let (Trust::Root { .. }, Some(set)) = (&self.trust, &set) {
            return self.take(set);
        }
        let key_ids = set.iter().flat_map(|set| &set.keys).map(|key| key.key_id.to_string()).collect();
        let way = match &self.trust {
            Trust::FirstUse(file) => self.forgetting(file),
            _ => "If its operator confirms these keys, pin them, or the root that signs them".into(),
        };
        Err(Error::KeyRetired { key_ids, way })
    }

    /// Whether the key set is needed to keep all keys that an authenticated answer names.
    pub fn wants_set(&self, answer: &InitAnswer) -> bool {
        let held = self.held();
        let has = |id| find(&held.keys, id).or(find(&held.published, id)).is_some();
        self.is_by_use() && !answer.key_ids.iter().all(has)
    }

    /// Sees a key set without trusting it: [`Keyring::remember`] takes from it what a signature vouches for.
    ///
    /// # Errors
    /// [`Error::Trust`].
    pub fn see(&self, set: &[u8]) -> Result<(), Error> {
        self.take(&read_set(set)?)
    }

    /// Keeps what an authenticated answer says of the service's keys, where trust comes from the first use. It may write a
    /// file.
    ///
    /// # Errors
    /// [`Error::Trust`]; [`Error::KeyUntrusted`] if another process met a service with other keys under this origin.
    pub fn remember(&self, answer: &InitAnswer) -> Result<(), Error> {
        if !self.is_by_use() {
            return Ok(());
        }
        let (new, root) = {
            let held = self.held();
            let named = || answer.key_ids.iter().chain([&answer.key_id]);
            let fresh =
                |key: &&(KeyId, PublicKey)| named().any(|id| *id == key.0) && find(&held.keys, &key.0).is_none();
            let fresh: Vec<_> = held.published.iter().filter(fresh).copied().collect();
            if fresh.is_empty() && held.is_met {
                return Ok(());
            }
            // The newest stay where there are too many.
            let mut all = fresh;
            all.extend(held.keys.iter().filter(|key| named().any(|id| *id == key.0)));
            let gone = held.keys.iter().filter(|(id, _)| named().all(|named| named != id));
            all.extend(gone);
            all.truncate(PINNED_KEYS_MAX);
            (all, held.root)
        };
        if let Trust::FirstUse(file) = &self.trust {
            lines::update(file, &self.origin, |line| {
                let theirs = line.map(|line| parse(file, &self.origin, line)).transpose()?;
                match theirs {
                    Some((keys, _)) if find(&keys, &answer.key_id).is_none() && !self.held().is_met => {
                        Err(self.untrusted(&answer.key_id, &Held { keys, ..Held::default() }))
                    }
                    theirs => Ok(write(&new, root.or(theirs.and_then(|(_, root)| root)))),
                }
            })?;
        }
        let mut held = self.held();
        (held.keys, held.is_met) = (new, true);
        Ok(())
    }

    fn is_by_use(&self) -> bool {
        matches!(self.trust, Trust::FirstUse(_) | Trust::FirstMet)
    }

    fn take(&self, set: &KeySet) -> Result<(), Error> {
        let listed = || set.keys.iter().map(|key| (key.key_id, key.public_key));
        let mut held = self.held();
        match &self.trust {
            Trust::Keys(pins) => {
                let is_pinned = |id: &KeyId| pins.iter().any(|pin| pin.key_id() == *id);
                held.keys = pins.iter().filter_map(Pin::with_key).collect();
                let found: Vec<_> =
                    listed().filter(|(id, _)| is_pinned(id) && find(&held.keys, id).is_none()).collect();
                held.keys.extend(found);
            }
            Trust::Root { key, state } => {
                let (provider, library) = (default_provider(), default_es256());
                set.verify(provider, library, key, now_ms(), held.issued_ms)
                    .map_err(|fault| Error::Trust(format!("the key set of {} is refused: {fault}", self.origin)))?;
                if let Some(file) = state.as_ref().filter(|_| set.issued_ms > held.issued_ms) {
                    lines::update(file, &state_name(&self.origin, key), |line| {
                        Ok(issued(file, line)?.max(set.issued_ms).to_string())
                    })?;
                }
                (held.root_set, held.issued_ms) = (Some(set.clone()), set.issued_ms);
            }
            Trust::FirstUse(_) | Trust::FirstMet => {
                held.published = listed().collect();
                held.root = set.root.as_ref().map(|root| root.key_id).or(held.root);
            }
        }
        Ok(())
    }

    fn untrusted(&self, id: &KeyId, held: &Held) -> Error {
        let ids = held.keys.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(", ");
        let way = match &self.trust {
            Trust::Keys(pins) if pins.is_empty() => {
                "no key is pinned; ask the service's operator for the key id, and pin it or its root".to_owned()
            }
            Trust::Keys(_) => {
                "it is none of the pinned ones; somebody may stand in between. If the service's operator \
                               says that it is the service's own, pin it"
                    .to_owned()
            }
            Trust::Root { .. } => {
                let has = held.root_set.as_ref().is_some_and(|set| set.get(id).is_some());
                let what = if has { "says that it is not live at this time" } else { "does not have it" };
                format!(
                    "the set that the root signed {what}; somebody may stand in between. If the service's operator says \
                     otherwise, check this machine's clock and have the root sign a new set"
                )
            }
            Trust::FirstUse(file) => {
                format!(
                    "{ids} was met at {} before: this is another service, or an impostor. {}",
                    self.origin,
                    self.forgetting(file)
                )
            }
            Trust::FirstMet => format!("at first it was {ids}; somebody may stand in between"),
        };
        Error::KeyUntrusted { key_id: id.to_string(), way }
    }

    /// What a person does where the keys of a service that was met before have changed.
    fn forgetting(&self, file: &Path) -> String {
        let origin = &self.origin;
        format!(
            "If its operator confirms the new key, forget the old one: sealway trust forget {origin} (it is kept in {})",
            file.display()
        )
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn trusted(&self, signer: &Claimed) -> Option<PublicKey> {
        match &self.root_set {
            Some(set) => set.signer(&signer.key_id, signer.server_time_ms, now_ms()).map(|key| key.public_key),
            None => find(&self.keys, &signer.key_id),
        }
    }
}

impl Pin {
    fn with_key(&self) -> Option<(KeyId, PublicKey)> {
        match self {
            Pin::Id(_) => None,
            Pin::Key(key) => Some((self.key_id(), **key)),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("origin", &self.origin).field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// A service in a file of services that were met at first use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownService {
    /// Scheme, host and port, as [`origin`] writes them.
    pub origin: String,
    /// The identity keys that are trusted for it.
    pub key_ids: Vec<KeyId>,
}

/// The services in a file of [`Trust::FirstUse`]; none where there is no file.
///
/// # Errors
/// [`Error::Trust`] for a file that cannot be read, that other users may write, or with a malformed line.
pub fn known_services(file: &Path) -> Result<Vec<KnownService>, Error> {
    let lines = lines::all(file)?.into_iter();
    lines
        .map(|(origin, line)| {
            let (keys, _) = parse(file, &origin, &line)?;
            Ok(KnownService { origin, key_ids: keys.into_iter().map(|(id, _)| id).collect() })
        })
        .collect()
}

/// Forgets a service in a file of [`Trust::FirstUse`]: its next call trusts what it meets. Returns whether it was there.
///
/// # Errors
/// [`Error::Trust`] for a file that cannot be read or written.
pub fn forget_service(file: &Path, origin: &str) -> Result<bool, Error> {
    lines::remove(file, origin)
}

/// How a service is named in files: scheme, host and port.
///
/// Its host is in lower case, its port always there.
pub fn origin(url: &http::Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("http");
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    format!("{scheme}://{}:{port}", url.host().unwrap_or_default().to_ascii_lowercase())
}

fn find(keys: &[(KeyId, PublicKey)], id: &KeyId) -> Option<PublicKey> {
    keys.iter().find(|(known, _)| known == id).map(|(_, key)| *key)
}

fn read_set(bytes: &[u8]) -> Result<KeySet, Error> {
    KeySet::parse(default_provider(), bytes)
        .map_err(|err| Error::Trust(format!("the service's key set is none: {err}")))
}

/// Under which name a root's state stands in its file.
fn state_name(origin: &str, root: &PublicKey) -> String {
    format!("{origin} root:{}", KeyId::of(default_provider(), root))
}

fn issued(file: &Path, line: Option<&str>) -> Result<u64, Error> {
    let broken = |_| Error::Trust(format!("{}: a time is not a number of milliseconds", file.display()));
    line.map_or(Ok(0), |line| line.parse().map_err(broken))
}

/// `KEYID:BASE64 … root:KEYID`.
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
            let pin = Pin::Key(Box::new(public_key(rest).ok()?));
            // An id that is not its key's own would have another key pinned than the one shown.
            keys.push(pin.with_key().filter(|(own, _)| own.as_str() == id)?);
        }
        (1..=PINNED_KEYS_MAX).contains(&keys.len()).then_some((keys, root))
    };
    read(line).ok_or_else(|| Error::Trust(format!("the line of {origin} in {} is damaged", file.display())))
}
