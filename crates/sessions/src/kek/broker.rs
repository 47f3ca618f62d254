//! Session keys wrapped by a broker beside this process, under a key that never leaves the broker's store: this
//! process's memory and files contain no key-encryption key.
//!
//! A stored key's `kek_id` is the id of the broker's key and its version, `sessions:3`. The broker's newest version
//! wraps, all enabled versions unwrap.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sealway_client::broker::{
    Cipher, Client, Code, DecryptInput, Error, Options, Plain, Refusal, RetryOptions, Secret,
};
use sealway_proto::limits::{IV_LEN, KEY_LEN, TAG_LEN};
use sealway_proto::session::SessionKey;
use sealway_runtime::config::ConfigError;
use zeroize::{Zeroize, Zeroizing};

use super::gather::Gather;
use super::{KeyWrap, UnwrapError, WrapError, WrappedKey, mark};
use crate::config::KekBroker;

/// Maximum time that a start waits for the broker.
const START_WAIT: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(100);
/// Deadline of one call, all attempts included, equal to the default store deadline.
const DEADLINE: Duration = Duration::from_secs(2);
/// A broker that restarts is back well within the deadline: calls wait for it rather than fail.
const RETRY: RetryOptions =
    RetryOptions { attempts: 60, first: Duration::from_millis(10), longest: Duration::from_millis(100) };
/// Maximum length of a key's id, in bytes: `kek_id` has at most 64.
const KEY_ID_LEN_MAX: usize = 53;

/// A broker that wraps and unwraps session keys.
pub struct BrokerKeys {
    config: Arc<KekBroker>,
    client: Client,
    wraps: Gather<(Vec<u8>, Zeroizing<[u8; KEY_LEN]>), WrappedKey>,
    unwraps: Gather<(Vec<u8>, Cipher), Result<Secret, Refusal>>,
    /// Latest known version, which wraps.
    version: Arc<AtomicU32>,
}

impl BrokerKeys {
    /// Asks the broker to wrap a trial value, so that errors show at start. Waits up to ten seconds for a broker that
    /// is not up yet, and logs that.
    ///
    /// # Errors
    /// [`ConfigError`], naming the socket or the broker's error.
    pub async fn open(config: &KekBroker) -> Result<Self, ConfigError> {
        if config.key.len() > KEY_ID_LEN_MAX {
            return Err(ConfigError(format!("sessions.kek_broker.key: expected at most {KEY_ID_LEN_MAX} bytes")));
        }
        // Without the check, a process that replaces the broker's socket would be sent the keys that are to be wrapped.
        let broker_uid = config.uid;
        let options = Options {
            deadline: DEADLINE,
            retry: RETRY,
            breaker: None,
            broker_uid,
            ..Options::new(config.socket.clone())
        };
        let keys = BrokerKeys::new(config.clone(), Client::new(options));
        let begin = Instant::now();
        let mut is_told = false;
        loop {
            match keys.look(Duration::from_millis(500)).await {
                Ok(_) => break,
                Err(err) if err.is_passing() && begin.elapsed() < START_WAIT => {
                    if !is_told {
                        tracing::warn!(broker = %keys.place(), %err, "waiting for the broker of session keys");
                        is_told = true;
                    }
                    tokio::time::sleep(START_PAUSE).await;
                }
                Err(err) => return Err(ConfigError(format!("sessions.kek_broker: {}: {err}", keys.place()))),
            }
        }
        // Also checks that the wrapped form fits the store.
        mark(&keys).await.map_err(|err| ConfigError(format!("sessions.kek_broker: {err}")))?;
        tracing::info!(broker = %keys.place(), active = keys.active_id(), "a broker wraps session keys");
        Ok(keys)
    }

    fn new(config: KekBroker, client: Client) -> Self {
        let (config, version) = (Arc::new(config), Arc::new(AtomicU32::new(0)));
        let (of_wraps, of_unwraps) =
            ((client.clone(), config.clone(), version.clone()), (client.clone(), config.clone()));
        BrokerKeys {
            wraps: Gather::new(move |keys| wrap(of_wraps.clone(), keys)),
            unwraps: Gather::new(move |wrapped| unwrap(of_unwraps.clone(), wrapped)),
            config,
            client,
            version,
        }
    }

    /// Finds the version that wraps now, by wrapping a constant value; returns true if it is newer than before.
    async fn look(&self, deadline: Duration) -> Result<bool, Error> {
        let client = self.client.within(deadline);
        let known = Plain { plaintext: &[0; KEY_LEN], ..Plain::default() };
        let sealed = client.encrypt(&self.config.profile, &self.config.key, &[known]).await?;
        let version = sealed.outputs.iter().map(|cipher| cipher.key_version).max().unwrap_or_default();
        Ok(self.version.fetch_max(version, Ordering::SeqCst) < version)
    }

    /// Returns the version in an id that this broker's key made.
    fn version_of(&self, kek_id: &str) -> Option<u32> {
        let (key, version) = kek_id.rsplit_once(':')?;
        let version = version.parse().ok().filter(|version| *version > 0)?;
        (key == self.config.key).then_some(version)
    }

    /// Returns the ciphertext to unwrap. A version newer than the broker's latest is unknown: the broker's store may be
    /// an older copy.
    fn cipher(&self, wrapped: &WrappedKey) -> Result<Cipher, UnwrapError> {
        let version =
            self.version_of(&wrapped.kek_id).filter(|version| *version <= self.version.load(Ordering::SeqCst));
        let key_version = version.ok_or_else(|| UnwrapError::UnknownKek(wrapped.kek_id.clone()))?;
        let (nonce, sealed) = wrapped.bytes.split_at(IV_LEN);
        let (ciphertext, tag) = sealed.split_at(KEY_LEN);
        Ok(Cipher { key_version, nonce: nonce.to_vec(), ciphertext: ciphertext.to_vec(), tag: tag.to_vec() })
    }
}

#[async_trait]
impl KeyWrap for BrokerKeys {
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<WrappedKey>, WrapError> {
        let questions = keys.iter().map(|(aad, key)| (aad.clone(), Zeroizing::new(*key.expose()))).collect();
        self.wraps.ask(questions).await.into_iter().collect::<Result<_, _>>().map_err(WrapError)
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, WrappedKey)]) -> Vec<Result<SessionKey, UnwrapError>> {
        let is_newer = |(_, wrapped): &(Vec<u8>, WrappedKey)| {
            self.version_of(&wrapped.kek_id).is_some_and(|version| version > self.version.load(Ordering::SeqCst))
        };
        if wrapped.iter().any(is_newer) {
            // Another process may have seen a rotation first.
            let _ = self.look(DEADLINE).await;
        }
        let ciphers: Vec<_> = wrapped.iter().map(|(_, wrapped)| self.cipher(wrapped)).collect();
        let known = wrapped
            .iter()
            .zip(&ciphers)
            .filter_map(|((aad, _), cipher)| Some((aad.clone(), cipher.as_ref().ok()?.clone())));
        let mut answers = self.unwraps.ask(known.collect()).await.into_iter();
        let mut opened = |cipher: Result<Cipher, UnwrapError>, kek_id: &str| {
            cipher?;
            match answers.next() {
                Some(Ok(Ok(secret))) => session_key(&secret),
                Some(Ok(Err(refusal))) => Err(refused(refusal, kek_id)),
                Some(Err(text)) => Err(UnwrapError::Unavailable(text)),
                None => Err(UnwrapError::Unavailable("nothing was answered".into())),
            }
        };
        ciphers.into_iter().zip(wrapped).map(|(cipher, (_, wrapped))| opened(cipher, &wrapped.kek_id)).collect()
    }

    async fn refresh(&self) -> bool {
        match self.look(DEADLINE).await {
            Ok(is_newer) => {
                if is_newer {
                    tracing::info!(active = self.active_id(), "the broker's key was rotated; its new version wraps");
                }
                is_newer
            }
            Err(err) => {
                tracing::warn!(broker = %self.place(), %err, "the broker for session keys does not answer");
                false
            }
        }
    }

    fn active_id(&self) -> String {
        kek_id(&self.config, self.version.load(Ordering::SeqCst))
    }

    fn place(&self) -> String {
        format!("the broker at {} (key {})", self.config.socket.display(), self.config.key)
    }
}

fn kek_id(config: &KekBroker, version: u32) -> String {
    format!("{}:{version}", config.key)
}

async fn wrap(
    (client, config, version): (Client, Arc<KekBroker>, Arc<AtomicU32>),
    keys: Vec<(Vec<u8>, Zeroizing<[u8; KEY_LEN]>)>,
) -> Result<Vec<WrappedKey>, String> {
    let plains: Vec<_> =
        keys.iter().map(|(aad, key)| Plain { plaintext: key.as_slice(), aad, ..Plain::default() }).collect();
    let sealed = client.encrypt(&config.profile, &config.key, &plains).await.map_err(|err| err.to_string())?;
    let wrapped = sealed.outputs.into_iter().map(|cipher| {
        version.fetch_max(cipher.key_version, Ordering::SeqCst);
        let bytes = [cipher.nonce, cipher.ciphertext, cipher.tag].concat();
        let bytes = bytes.try_into().map_err(|_| {
            format!("profile {}: its nonces must have {IV_LEN} bytes and its tags {TAG_LEN}", config.profile)
        })?;
        Ok(WrappedKey { kek_id: kek_id(&config, cipher.key_version), bytes })
    });
    wrapped.collect()
}

async fn unwrap(
    (client, config): (Client, Arc<KekBroker>),
    wrapped: Vec<(Vec<u8>, Cipher)>,
) -> Result<Vec<Result<Secret, Refusal>>, Error> {
    let sealed: Vec<_> = wrapped.iter().map(|(aad, cipher)| DecryptInput { cipher, aad }).collect();
    Ok(client.decrypt(&config.profile, &config.key, &sealed).await?.outputs)
}

fn session_key(secret: &Secret) -> Result<SessionKey, UnwrapError> {
    let mut bytes: [u8; KEY_LEN] = secret.as_ref().try_into().map_err(|_| UnwrapError::Damaged)?;
    let key = SessionKey::from_bytes(bytes);
    bytes.zeroize();
    Ok(key)
}

/// Maps a broker's rejection: one that does not open is damaged; a disabled version is unavailable, may be enabled
/// again, and ends no session.
fn refused(refusal: Refusal, kek_id: &str) -> UnwrapError {
    match refusal.code {
        Code::InvalidArgument => UnwrapError::Damaged,
        Code::FailedPrecondition => UnwrapError::UnknownKek(kek_id.to_owned()),
        _ => UnwrapError::Unavailable(refusal.text),
    }
}

impl fmt::Debug for BrokerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerKeys").field("config", &self.config).finish_non_exhaustive()
    }
}
