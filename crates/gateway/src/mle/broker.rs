//! Keys whose private half a broker holds: tokens are opened with content keys that the broker unwraps, and no private key is in the
//! memory of this process.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use metrics::counter;
use sealway_client::broker::{Batch, Client, Code, Error, Options, RetryOptions, Secret, WrappedKey};
use sealway_proto::mle::Opening;
use sealway_proto::mle::crypto::Wrap;
use sealway_runtime::http::notices::Gate;
use tokio::runtime::{Handle, RuntimeFlavor};
use zeroize::Zeroizing;

use super::keys::jose_provider;

/// Maximum time that a start waits for the broker.
const START_WAIT: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(100);
/// Deadline of one call, all attempts included.
const DEADLINE: Duration = Duration::from_secs(2);
/// A broker that restarts is back well within the deadline: calls wait for it rather than fail.
const RETRY: RetryOptions =
    RetryOptions { attempts: 60, first: Duration::from_millis(10), longest: Duration::from_millis(100) };
/// Most versions of a key that are compared with its certificate, the newest first.
const VERSIONS_MAX: u32 = 32;
/// Length of the content key of a trial, in bytes.
const TRIAL_LEN: usize = 32;

/// Settings of a key in a broker, after their checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerSettings {
    pub(crate) socket: PathBuf,
    pub(crate) profile: String,
    /// Id of the key in the broker's store.
    pub(crate) key: String,
    /// User that the broker must run as, checked before anything is sent; any user by default.
    pub(crate) uid: Option<u32>,
}

/// A key whose private half a broker holds.
pub(super) struct BrokerKey {
    /// Name of the entry of `mle_keys`, for metrics.
    name: String,
    settings: BrokerSettings,
    /// The public half, to make trials.
    public: Box<dyn Wrap>,
    spki: Vec<u8>,
    client: Client,
    /// Version in the broker whose public half is in the certificate; 0 until a trial found it.
    version: AtomicU32,
    notices: Gate,
}

/// No broker answered, or it denied the call.
#[derive(Debug)]
pub(super) struct Unavailable;

impl BrokerKey {
    /// Creates the key, which connects at its first call.
    pub(super) fn new(name: &str, settings: BrokerSettings, public: Box<dyn Wrap>, spki: &[u8]) -> BrokerKey {
        let options = Options {
            deadline: DEADLINE,
            retry: RETRY,
            breaker: None,
            broker_uid: settings.uid,
            ..Options::new(settings.socket.clone())
        };
        BrokerKey {
            name: name.to_owned(),
            settings,
            public,
            spki: spki.to_vec(),
            client: Client::new(options),
            version: AtomicU32::new(0),
            notices: Gate::default(),
        }
    }

    /// Finds the version of the broker's key that the certificate has: a random content key is encrypted to the certificate, and the
    /// broker has to return it. `before` is the key of the same name that is in force; while the broker is away, its version stays. A
    /// start waits for the broker.
    ///
    /// # Errors
    /// A sentence that names the broker, the key and the profile.
    pub(super) fn connect(&self, before: Option<&BrokerKey>, is_start: bool) -> Result<(), String> {
        let known = before.filter(|before| before.settings == self.settings && before.spki == self.spki);
        let known = known.map_or(0, |before| before.version.load(Ordering::Relaxed));
        let wait = if is_start { START_WAIT } else { Duration::ZERO };
        match block_on(self.find_version(wait))? {
            Ok(version) => self.version.store(version, Ordering::Relaxed),
            Err(err) if known > 0 && err.is_passing() => {
                tracing::warn!(key = self.name, %err, "the broker of an MLE key is away: its key stays as it was");
                self.version.store(known, Ordering::Relaxed);
            }
            Err(err) => return Err(format!("{}: {err}", self.place())),
        }
        Ok(())
    }

    fn place(&self) -> String {
        let BrokerSettings { socket, profile, key, .. } = &self.settings;
        format!("the broker at {}, key \"{key}\", profile {profile}", socket.display())
    }

    async fn find_version(&self, wait: Duration) -> Result<u32, TrialError> {
        let begin = Instant::now();
        let mut is_told = false;
        loop {
            match self.try_versions().await {
                Err(err) if err.is_passing() && begin.elapsed() < wait => {
                    if !is_told {
                        tracing::warn!(key = self.name, broker = %self.settings.socket.display(), %err, "waiting for the broker of an MLE key");
                        is_told = true;
                    }
                    tokio::time::sleep(START_PAUSE).await;
                }
                found => return found,
            }
        }
    }

    /// Tries the current version, then those before it.
    async fn try_versions(&self) -> Result<u32, TrialError> {
        let base = jose_provider().base();
        let mut content_key = Zeroizing::new([0; TRIAL_LEN]);
        base.fill_random(content_key.as_mut_slice()).map_err(|_| TrialError::Module)?;
        let encrypted = self.public.wrap_key(content_key.as_slice()).map_err(|_| TrialError::Module)?;
        let wrapped = [WrappedKey { encrypted_key: &encrypted, length: TRIAL_LEN as u32 }];
        let is_it = |batch: &Batch<Secret>| batch.outputs.first().is_some_and(|found| **found == *content_key);
        let current = self.ask(0, &wrapped).await?;
        let newest = current.descriptor.key_version;
        if is_it(&current) {
            return Ok(newest);
        }
        for version in (1..newest).rev().take(VERSIONS_MAX as usize - 1) {
            match self.ask(version, &wrapped).await {
                Ok(batch) if is_it(&batch) => return Ok(version),
                Ok(_) => {}
                // A disabled version.
                Err(err) if err.code == Code::FailedPrecondition => {}
                Err(err) => return Err(err.into()),
            }
        }
        Err(TrialError::OtherKey)
    }

    async fn ask(&self, version: u32, wrapped: &[WrappedKey<'_>]) -> Result<Batch<Secret>, Error> {
        self.client.unwrap(&self.settings.profile, &self.settings.key, version, wrapped).await
    }

    /// Unwraps content keys. An encrypted key that does not decrypt gives another content key, whose tag then does not verify.
    async fn unwrap(&self, wrapped: &[WrappedKey<'_>]) -> Result<Vec<Secret>, Unavailable> {
        let answer = self.ask(self.version.load(Ordering::Relaxed), wrapped).await;
        let result = if answer.is_ok() { "ok" } else { "failed" };
        counter!("sealway_mle_broker_calls_total", "key" => self.name.clone(), "result" => result).increment(1);
        let err = match answer {
            Ok(batch) => return Ok(batch.outputs),
            Err(err) => err,
        };
        if let Some(kept_back) = self.notices.pass(Instant::now()) {
            tracing::warn!(key = self.name, broker = %self.place(), %err, kept_back, "the broker unwraps no content key");
        }
        Err(Unavailable)
    }
}

impl fmt::Debug for BrokerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerKey").field("name", &self.name).field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The failure of a trial.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("{0}")]
    Broker(#[from] Error),
    #[error("no enabled version of the key is that of the certificate")]
    OtherKey,
    #[error("the cryptographic module failed")]
    Module,
}

impl TrialError {
    fn is_passing(&self) -> bool {
        matches!(self, TrialError::Broker(err) if err.is_passing())
    }
}

/// The keys of one route that brokers hold, by kid.
#[derive(Clone, Debug, Default)]
pub(crate) struct BrokerKeys(HashMap<String, Arc<BrokerKey>>);

impl BrokerKeys {
    pub(super) fn new(keys: impl IntoIterator<Item = (String, Arc<BrokerKey>)>) -> BrokerKeys {
        BrokerKeys(keys.into_iter().collect())
    }

    /// Returns true if a broker holds the key of one of these tokens.
    pub(super) fn hold_any(&self, openings: &[Opening]) -> bool {
        openings.iter().any(|opening| self.0.contains_key(opening.wants().kid()))
    }

    /// Unwraps the content keys of tokens, in their order: `None` for a key that is in this process. Tokens of one key share a call.
    ///
    /// # Errors
    /// [`Unavailable`], of one broker for all tokens.
    pub(super) async fn unwrap(&self, openings: &[Opening]) -> Result<Vec<Option<Secret>>, Unavailable> {
        let mut content_keys: Vec<Option<Secret>> = openings.iter().map(|_| None).collect();
        for (kid, key) in &self.0 {
            let (places, wrapped): (Vec<_>, Vec<_>) = openings
                .iter()
                .zip(&mut content_keys)
                .filter(|(opening, _)| opening.wants().kid() == kid)
                .map(|(opening, place)| (place, wrapped(opening)))
                .unzip();
            if wrapped.is_empty() {
                continue;
            }
            for (place, content_key) in places.into_iter().zip(key.unwrap(&wrapped).await?) {
                *place = Some(content_key);
            }
        }
        Ok(content_keys)
    }
}

fn wrapped(opening: &Opening) -> WrappedKey<'_> {
    WrappedKey { encrypted_key: opening.wants().encrypted_key(), length: length(opening.content_key_len()) }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Waits for a future on a thread that may block: a start, or a reload.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let handle = Handle::try_current().ok().filter(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    let handle = handle.ok_or("a key in a broker needs a runtime of several threads")?;
    Ok(tokio::task::block_in_place(|| handle.block_on(future)))
}
