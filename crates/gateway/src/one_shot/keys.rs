//! The keys of one-shot modes that are in force: read from the key file and again when it changes, looked up by their names, and
//! published as documents.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use metrics::gauge;
use parking_lot::{Mutex, MutexGuard};
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::hpke::Kem;
use sealway_proto::one_shot::{KeyConfig, KeyDocument};
use sealway_runtime::clock::iso8601;
use sealway_runtime::config::ConfigError;
use sealway_sessions::kek::{Version, version};
use serde::Serialize;

use super::claims::ClaimedKeys;
use super::edit::{Form, Lifetime, document_keys, preference};
use super::file::KeyFile;
use super::key::{Condition, Key, Purpose, kem_name};
use super::psk::{PskFiles, Psks};

const DAY_MS: u64 = 86_400_000;
/// Time for which a key that is made at start is preferred, and accepted afterwards, in milliseconds. It bounds the claims that a
/// store in memory holds.
const MADE_FOR_MS: u64 = DAY_MS;
/// Longest time before the end of the last key of a use from which it is warned of, in milliseconds.
const NOTICE_MS_MAX: u64 = 7 * DAY_MS;

/// The settings of section `one_shot:`, after their checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneShotFiles {
    /// The key file, if there is one.
    pub keys: Option<PathBuf>,
    /// The files of pre-shared keys.
    pub psk: Option<PskFiles>,
    /// Time for which clients keep what they fetched, in milliseconds.
    pub max_age_ms: u64,
    /// Openings a minute and network of clients on wire 4 and EHBP; 0 means no limit.
    pub opens_per_minute: u32,
    /// True if keys of use ehbp are made at start: claims are in memory alone, and a key must not outlive its claims.
    pub makes_ehbp_keys: bool,
}

/// The setting at fault, and what is wrong with its file.
type Fault = (String, String);

/// Content of the key file when it was last read, and keys that were made here.
#[derive(Debug, Default)]
struct State {
    keys: Vec<Arc<Key>>,
    /// The keys of the content before, and of all before that.
    claimed: ClaimedKeys,
    signed: Option<KeyDocument>,
    read_ms: u64,
    /// The document of wire 4 that was built last: strangers can have it sent, with a kid of their own, at any rate.
    published: ArcSwapOption<CurrentDocument>,
}

/// The document of wire 4 between two changes of a key's condition.
#[derive(Debug)]
pub(super) struct CurrentDocument {
    pub(super) text: Bytes,
    pub(super) value: Option<serde_json::Value>,
    from_ms: u64,
    until_ms: u64,
}

/// Public data of a key, for an operator.
#[derive(Clone, Debug, Serialize)]
pub struct ShownKey {
    r#use: &'static str,
    kem: &'static str,
    key_id: u8,
    name: String,
    condition: Condition,
    published_until_ms: u64,
    accepted_until_ms: u64,
}

impl ShownKey {
    /// Returns the name of the key.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The keys that are in force: one value for the whole process, so that requests in flight see each retirement and revocation, also after
/// the settings have changed.
pub struct LiveKeys {
    provider: &'static dyn AgreementProvider,
    files: ArcSwap<OneShotFiles>,
    state: ArcSwap<State>,
    psks: ArcSwapOption<Psks>,
    /// Versions of the files when they were last read, in order or not.
    read: Mutex<Vec<Option<Version>>>,
    /// Keys whose end is in the metrics, by use and name.
    gauged: Mutex<Vec<(&'static str, String)>>,
    /// Day of the last warnings, in days since 1970.
    warned_on_day: AtomicU64,
}

/// Content of the files of other settings, which is not in force yet. The watch of files waits for it.
pub(crate) struct Replacement<'a> {
    keys: &'a LiveKeys,
    read: MutexGuard<'a, Vec<Option<Version>>>,
    versions: Vec<Option<Version>>,
    files: OneShotFiles,
    state: State,
    psks: Option<Psks>,
}

impl Replacement<'_> {
    /// Returns whether there is a key of a use, in whatever condition.
    pub(crate) fn has(&self, purpose: Purpose) -> bool {
        self.state.has(purpose)
    }

    /// Puts the settings and the content of their files in force.
    pub(crate) fn apply(mut self) {
        self.keys.files.store(Arc::new(self.files));
        self.keys.put(self.state);
        self.keys.psks.store(self.psks.map(Arc::new));
        *self.read = self.versions;
    }
}

impl LiveKeys {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// The setting at fault, and what is wrong with its file.
    pub fn load(
        provider: &'static dyn AgreementProvider,
        files: OneShotFiles,
        now_ms: u64,
    ) -> Result<LiveKeys, (String, String)> {
        let read = versions(&files);
        let (state, psks) = read_all(provider, &files, &State::default(), now_ms)?;
        Ok(LiveKeys {
            provider,
            files: ArcSwap::from_pointee(files),
            state: ArcSwap::from_pointee(state),
            psks: ArcSwapOption::new(psks.map(Arc::new)),
            read: Mutex::new(read),
            gauged: Mutex::default(),
            warned_on_day: AtomicU64::new(0),
        })
    }

    /// Returns the provider of cryptography.
    pub(super) fn provider(&self) -> &'static dyn AgreementProvider {
        self.provider
    }

    /// Returns the settings that the keys were read by.
    pub fn files(&self) -> Arc<OneShotFiles> {
        self.files.load_full()
    }

    /// Reads the files of settings that may have changed, as a start does. Nothing is in force before [`Replacement::apply`].
    ///
    /// # Errors
    /// The setting at fault, and what is wrong with its file.
    pub(crate) fn prepare(&self, files: OneShotFiles, now_ms: u64) -> Result<Replacement<'_>, (String, String)> {
        let read = self.read.lock();
        let versions = versions(&files);
        let (state, psks) = read_all(self.provider, &files, &self.state.load(), now_ms)?;
        Ok(Replacement { keys: self, read, versions, files, state, psks })
    }

    /// Reads the files again if they have changed, and makes the next key if keys are made here. Of a bad file the content in force stays.
    pub fn reload_if_changed(&self, now_ms: u64) {
        let files = self.files();
        let is_due = files.makes_ehbp_keys && self.preferred(Purpose::Ehbp, now_ms).is_none();
        // A bad file is tried again when it changes: one line in the log, not one a second.
        let is_changed = *self.read.lock() != versions(&files);
        if is_due || is_changed {
            for (setting, err) in self.reload(now_ms) {
                tracing::error!(setting, %err, "file of one-shot modes not reloaded as a whole: what it does not replace stays in use");
            }
        }
    }

    /// Reads the files again, changed or not, and returns the bad ones. Keys and pre-shared keys are read apart: a bad file of the ones
    /// keeps no change of the others from being in force.
    #[must_use]
    pub fn reload(&self, now_ms: u64) -> Vec<(String, String)> {
        let mut read = self.read.lock();
        let files = self.files();
        *read = versions(&files);
        let mut faults = Vec::new();
        match read_state(self.provider, &files, &self.state.load(), now_ms) {
            Ok(state) => self.put(state),
            Err(fault) => faults.push(fault),
        }
        if let (Some(files), Some(before)) = (&files.psk, self.psks()) {
            let (psks, bad) = before.reread(files);
            self.psks.store(Some(Arc::new(psks)));
            faults.extend(bad.into_iter().map(psk_fault));
        }
        faults
    }

    fn put(&self, state: State) {
        let live = state.keys.iter().filter(|key| key.times().is_accepted(state.read_ms)).count();
        self.state.store(Arc::new(state));
        self.warned_on_day.store(0, Ordering::Relaxed);
        if live > 0 {
            tracing::info!(live, "keys of one-shot modes reloaded");
        }
    }

    /// Finds the key of wire 4 that a kid names; `name` is the kid without its prefix.
    pub fn by_name(&self, name: &str, now_ms: u64) -> Option<Arc<Key>> {
        self.find(Purpose::Hpke, now_ms, |key| key.name() == name)
    }

    /// Finds the key of Oblivious HTTP of an id.
    pub fn by_key_id(&self, key_id: u8, now_ms: u64) -> Option<Arc<Key>> {
        self.find(Purpose::Ohttp, now_ms, |key| key.config().key_id() == key_id)
    }

    fn find(&self, purpose: Purpose, now_ms: u64, is: impl Fn(&Key) -> bool) -> Option<Arc<Key>> {
        let state = self.state.load();
        let mut accepted = state.keys.iter().filter(|key| key.purpose() == purpose && key.times().is_accepted(now_ms));
        accepted.find(|key| is(key)).cloned()
    }

    /// Returns the keys of a use that are accepted, the preferred one first.
    pub fn accepted(&self, purpose: Purpose, now_ms: u64) -> Vec<Arc<Key>> {
        self.sorted(purpose, now_ms, |key| key.times().is_accepted(now_ms))
    }

    /// Returns the key that new messages of a use should be sealed to: the preferred one, or one that is published if none is.
    pub fn preferred(&self, purpose: Purpose, now_ms: u64) -> Option<Arc<Key>> {
        self.sorted(purpose, now_ms, |key| key.times().is_published(now_ms)).into_iter().next()
    }

    fn sorted(&self, purpose: Purpose, now_ms: u64, is: impl Fn(&Key) -> bool) -> Vec<Arc<Key>> {
        let state = self.state.load();
        let mut keys: Vec<_> = state.keys.iter().filter(|key| key.purpose() == purpose && is(key)).cloned().collect();
        keys.sort_by_key(|key| preference(key, now_ms));
        keys
    }

    /// Returns whether there is a key of a use, in whatever condition.
    pub fn has(&self, purpose: Purpose) -> bool {
        self.state.load().has(purpose)
    }

    /// Returns the pre-shared keys, if the configuration has any.
    pub fn psks(&self) -> Option<Arc<Psks>> {
        self.psks.load_full()
    }

    /// Returns the document of wire 4: the one that a root signed, unchanged, or else one of the keys that are not over.
    // SPEC one-shot.md#the-key-document
    pub fn hpke_document(&self, now_ms: u64) -> Bytes {
        self.published(now_ms).text.clone()
    }

    /// Returns the document of wire 4, encoded and parsed once for all requests.
    pub(super) fn published(&self, now_ms: u64) -> Arc<CurrentDocument> {
        let state = self.state.load();
        let last = state.published.load_full();
        if let Some(last) = last.filter(|last| (last.from_ms..last.until_ms).contains(&now_ms)) {
            return last;
        }
        let published = Arc::new(state.publish(now_ms));
        state.published.store(Some(published.clone()));
        published
    }

    /// Returns the list of published keys of Oblivious HTTP, `application/ohttp-keys`. X25519 comes first and X-Wing last, since
    /// some clients take the first configuration and others the last that they know; within a KEM the preferred key is first.
    pub fn ohttp_list(&self, now_ms: u64) -> Bytes {
        let rank = |key: &Arc<Key>| match key.config().public_key().kem() {
            Kem::X25519 => 0,
            Kem::P256 => 1,
            Kem::MlKem768 | Kem::MlKem768P256 => 2,
            Kem::XWing => 3,
        };
        let mut keys = self.sorted(Purpose::Ohttp, now_ms, |key| key.times().is_published(now_ms));
        keys.sort_by_key(rank);
        // The file's check leaves no id twice and no list that is too long.
        KeyConfig::encode_list(keys.iter().map(|key| key.config())).unwrap_or_default().into()
    }

    /// Returns the key configuration of the preferred key of EHBP.
    pub fn ehbp_config(&self, now_ms: u64) -> Option<Bytes> {
        self.preferred(Purpose::Ehbp, now_ms).map(|key| key.encoded().clone())
    }

    /// Returns the public data of every key, in the order of use and preference.
    pub fn shown(&self, now_ms: u64) -> Vec<ShownKey> {
        let keys = Purpose::ALL.into_iter().flat_map(|purpose| self.sorted(purpose, now_ms, |_| true));
        let shown = |key: Arc<Key>| ShownKey {
            r#use: key.purpose().name(),
            kem: kem_name(key.config().public_key().kem()),
            key_id: key.config().key_id(),
            name: key.name().to_owned(),
            condition: key.times().condition(now_ms),
            published_until_ms: key.times().published_until_ms,
            accepted_until_ms: key.times().accepted_until_ms,
        };
        keys.map(shown).collect()
    }

    /// Returns the earliest time at which a use has no published key any more, in Unix milliseconds; `None` without keys, and of keys
    /// that are made here.
    pub fn earliest_end_ms(&self) -> Option<u64> {
        self.ends().map(|(_, end_ms, _)| end_ms).min()
    }

    /// Returns each use of the file with the end of its last publication and the life of the key that ends it.
    fn ends(&self) -> impl Iterator<Item = (Purpose, u64, u64)> {
        let state = self.state.load_full();
        let makes = self.files.load().makes_ehbp_keys;
        Purpose::ALL.into_iter().filter(move |purpose| *purpose != Purpose::Ehbp || !makes).filter_map(move |purpose| {
            let of_purpose = state.keys.iter().filter(|key| key.purpose() == purpose);
            let times = of_purpose.map(|key| key.times()).max_by_key(|times| times.published_until_ms)?;
            Some((purpose, times.published_until_ms, times.published_until_ms - times.published_ms))
        })
    }

    /// Warns of uses whose last key nears its end, and of a signed document that expires: once a day, and once after each reload.
    pub fn warn_of_ends(&self, now_ms: u64) {
        let today = now_ms / DAY_MS;
        if self.warned_on_day.swap(today, Ordering::Relaxed) == today {
            return;
        }
        for (purpose, end_ms, life_ms) in self.ends() {
            // A quarter of a key's life is time to make the next one.
            if end_ms.saturating_sub(now_ms) < NOTICE_MS_MAX.min(life_ms / 4) {
                let (ends, r#use) = (iso8601(end_ms), purpose.name());
                tracing::warn!(
                    r#use,
                    ends,
                    "the last key of a one-shot mode ends soon, or has ended; sealway one-shot-keys add makes its successor"
                );
            }
        }
        if let Some(document) = &self.state.load().signed
            && document.expires_ms.saturating_sub(now_ms) < NOTICE_MS_MAX
        {
            let expires = iso8601(document.expires_ms);
            tracing::warn!(
                expires,
                "the root's signature over the key document of wire 4 expires soon, or has expired"
            );
        }
    }

    /// Sets the gauge of each key's end. A key that is gone becomes NaN, so that no alert fires for it.
    pub fn set_gauges(&self) {
        let end = |r#use: &'static str, name: &str| gauge!("sealway_one_shot_key_accepted_until_seconds", "use" => r#use, "key_id" => name.to_owned());
        let state = self.state.load();
        let mut gauged = self.gauged.lock();
        let is_gone = |(_, name): &(_, String)| state.keys.iter().all(|key| key.name() != name);
        gauged.drain(..).filter(is_gone).for_each(|(r#use, name)| end(r#use, &name).set(f64::NAN));
        for key in &state.keys {
            let r#use = key.purpose().name();
            end(r#use, key.name()).set((key.times().accepted_until_ms / 1000) as f64);
            gauged.push((r#use, key.name().to_owned()));
        }
    }
}

impl std::fmt::Debug for LiveKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveKeys")
            .field("files", &self.files.load())
            .field("state", &self.state.load())
            .finish_non_exhaustive()
    }
}

fn versions(files: &OneShotFiles) -> Vec<Option<Version>> {
    let psk = files.psk.iter().flat_map(|psk| [Some(&psk.master), psk.revoked.as_ref()]);
    [files.keys.as_ref()].into_iter().chain(psk).flatten().map(|path| version(path)).collect()
}

impl State {
    fn has(&self, purpose: Purpose) -> bool {
        self.keys.iter().any(|key| key.purpose() == purpose)
    }

    /// Builds the document of wire 4.
    fn publish(&self, now_ms: u64) -> CurrentDocument {
        let (document, changes) = match &self.signed {
            Some(document) => (document.clone(), Vec::new()),
            None => {
                let keys = document_keys(self.keys.iter(), now_ms);
                let expires_ms = keys.iter().map(|key| key.not_after_ms).max().unwrap_or(self.read_ms);
                let of_use = self.keys.iter().filter(|key| key.purpose() == Purpose::Hpke).map(|key| key.times());
                let changes = of_use.flat_map(|times| {
                    [times.published_ms, times.preferred_ms, times.published_until_ms, times.accepted_until_ms]
                });
                (KeyDocument { issued_ms: self.read_ms, expires_ms, keys, root: None }, changes.collect())
            }
        };
        let text: Bytes = document.encode().into();
        CurrentDocument {
            value: serde_json::from_slice(&text).ok(),
            text,
            from_ms: changes.iter().copied().filter(|at_ms| *at_ms <= now_ms).max().unwrap_or(0),
            until_ms: changes.iter().copied().filter(|at_ms| *at_ms > now_ms).min().unwrap_or(u64::MAX),
        }
    }
}

/// Reads all files, as a start does: a bad one is an error.
fn read_all(
    provider: &dyn AgreementProvider,
    files: &OneShotFiles,
    before: &State,
    now_ms: u64,
) -> Result<(State, Option<Psks>), Fault> {
    let state = read_state(provider, files, before, now_ms)?;
    let psks = files.psk.as_ref().map(|psk| Psks::read(provider, psk)).transpose();
    Ok((state, psks.map_err(psk_fault)?))
}

fn psk_fault((setting, err): (&'static str, ConfigError)) -> Fault {
    (format!("one_shot.psk.{setting}"), err.0)
}

fn read_state(
    provider: &dyn AgreementProvider,
    files: &OneShotFiles,
    before: &State,
    now_ms: u64,
) -> Result<State, Fault> {
    let at_keys = |what: String| ("one_shot.keys".to_owned(), what);
    let mut state = State { read_ms: now_ms, claimed: before.claimed.clone(), ..State::default() };
    state.claimed.note(before.keys.iter(), now_ms);
    if let Some(path) = &files.keys {
        let in_file = |what: String| at_keys(format!("{}: {what}", path.display()));
        let file = KeyFile::read(provider, path).map_err(|err| at_keys(err.0))?;
        file.check_leads(files.max_age_ms).map_err(in_file)?;
        for (index, key) in file.keys().enumerate() {
            state.claimed.check(key).map_err(|what| in_file(format!("keys[{index}].{what}")))?;
        }
        state.keys = file.keys().cloned().collect();
        state.signed = file.signed_document().cloned();
        if let (Some(now), Some(last)) = (&state.signed, &before.signed)
            && now.issued_ms < last.issued_ms
        {
            let (now, last) = (iso8601(now.issued_ms), iso8601(last.issued_ms));
            return Err(in_file(format!(
                "signed_document: issued {now}, before the one in force, {last}: clients would reject it"
            )));
        }
        if files.makes_ehbp_keys && state.keys.iter().any(|key| key.purpose() == Purpose::Ehbp) {
            return Err(in_file(
                "keys of use ehbp, whose claims against replays must live as long as they do, and sessions.store: memory: forgets them at \
                 a restart. Use an embedded store or PostgreSQL; or remove these keys, and a key is made at each start"
                    .into(),
            ));
        }
    }
    if files.makes_ehbp_keys {
        let made = before.keys.iter().filter(|key| key.purpose() == Purpose::Ehbp);
        let made: Vec<_> = made.filter(|key| key.times().is_accepted(now_ms)).cloned().collect();
        if made.iter().all(|key| key.times().condition(now_ms) != Condition::Preferred) {
            state.keys.push(made_key(provider, now_ms).map_err(|err| ("one_shot".to_owned(), err.0))?);
        }
        state.keys.extend(made);
    }
    Ok(state)
}

/// Makes a key of use ehbp that ends with this process, or earlier.
fn made_key(provider: &dyn AgreementProvider, now_ms: u64) -> Result<Arc<Key>, ConfigError> {
    let life = Lifetime { now_ms, from_ms: now_ms, days_ms: MADE_FOR_MS, max_age_ms: 0, grace_ms: MADE_FOR_MS };
    KeyFile::default().generate(provider, Form { purpose: Purpose::Ehbp, kem: Kem::X25519, key_id: None }, life)
}
