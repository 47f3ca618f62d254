//! Blocking calls of the broker, by a runtime of the calling thread: the module starts no thread.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cryptoki_sys::{CKR_GENERAL_ERROR, CKR_HOST_MEMORY, CKR_TOKEN_NOT_PRESENT};
use sealway_client::broker::{Client, Code, Error, Options, ProfileOperations, UsableKey};
use tokio::runtime::{Builder, Runtime};

use crate::config::Config;
use crate::failure::{Failure, Result, of_broker};
use crate::signal::BlockedPipe;

/// Time for which the list of profiles is taken as known: programs ask for each mechanism of a token one by one.
const KNOWN_FOR: Duration = Duration::from_secs(2);

/// The broker behind its socket.
pub(crate) struct Broker {
    client: Client,
    /// Made at the first call, so that initialising opens nothing.
    runtime: OnceLock<Option<Runtime>>,
    known: Mutex<Option<(Instant, Vec<ProfileOperations>)>>,
    is_verbose: bool,
}

impl Broker {
    pub(crate) fn new(config: &Config) -> Broker {
        let options = Options {
            broker_uid: config.broker_uid,
            deadline: config.deadline,
            // A broker that is back must be used at once.
            breaker: None,
            ..Options::new(&config.socket)
        };
        Broker {
            client: Client::new(options),
            runtime: OnceLock::new(),
            known: Mutex::default(),
            is_verbose: config.is_verbose,
        }
    }

    /// Runs a call to its end, or to its deadline. `has_key` if it names a key.
    pub(crate) fn run<T>(&self, has_key: bool, call: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T> {
        let build = || Builder::new_current_thread().enable_io().enable_time().build().ok();
        let runtime = self.runtime.get_or_init(build).as_ref().ok_or(Failure(CKR_HOST_MEMORY))?;
        let _blocked = BlockedPipe::new();
        runtime.block_on(call(&self.client)).map_err(|error| {
            if self.is_verbose {
                tell(&error);
            }
            if error.code == Code::Unavailable {
                self.forget();
            }
            of_broker(&error, has_key)
        })
    }

    /// Returns the algorithms of a profile that the caller may use.
    ///
    /// # Errors
    /// `CKR_TOKEN_NOT_PRESENT`: the broker cannot be reached, or has no such profile for this caller.
    pub(crate) fn operations(&self, profile: &str) -> Result<ProfileOperations> {
        let absent = Failure(CKR_TOKEN_NOT_PRESENT);
        let find = |all: &[ProfileOperations]| all.iter().find(|one| one.profile == profile).cloned().ok_or(absent);
        if let Some((at, all)) = &*self.lock()
            && at.elapsed() < KNOWN_FOR
        {
            return find(all);
        }
        let all = self.run(false, async |client| client.information().await).map_err(|_| absent)?.operations;
        let found = find(&all);
        *self.lock() = Some((Instant::now(), all));
        found
    }

    /// Lists the keys that the caller may use under a profile.
    pub(crate) fn keys(&self, profile: &str) -> Result<Vec<UsableKey>> {
        let mut keys: Vec<UsableKey> = Vec::new();
        loop {
            let after = keys.last().map_or_else(String::new, |key| key.id.clone());
            let (page, has_more) = self.run(false, async |client| client.usable_keys(profile, &after).await)?;
            let is_end = page.is_empty() || !has_more;
            keys.extend(page);
            if is_end {
                return Ok(keys);
            }
        }
    }

    fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Vec<ProfileOperations>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the one result of a call with one input.
pub(crate) fn only<T>(outputs: Vec<T>) -> Result<T> {
    outputs.into_iter().next().ok_or(Failure(CKR_GENERAL_ERROR))
}

/// Writes a line to standard error, which may be closed.
pub(crate) fn tell(text: &impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "sealway-pkcs11: {text}");
}
