//! Session keys wrapped by a broker beside this process, under a key of its store that never leaves it: no key-encryption key
//! is in this process's memory or files.
//!
//! A stored key's `kek_id` is the id of the broker's key and its version, `sessions:3`. The first version there is wraps until
//! the key is rotated in the broker; then its newest one does, and all that are enabled unwrap.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sealway_client::broker::{Cipher, Client, Code, Error, Options, Plain, Refusal, RetryOptions, Sealed, Secret};
use sealway_proto::limits::{IV_LEN, KEY_LEN, TAG_LEN};
use sealway_proto::session::SessionKey;
use sealway_runtime::config::ConfigError;
use zeroize::{Zeroize, Zeroizing};

use super::gather::Gather;
use super::{KeyWrap, UnwrapError, WrapError, Wrapped, mark};
use crate::config::KekBroker;

/// How long a start waits for the broker.
const START_WAIT: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(100);
/// Of one call, its attempts included; the authority waits no longer for a store.
const DEADLINE: Duration = Duration::from_secs(2);
/// A broker that was started again is back well within the deadline: calls wait for it rather than fail.
const RETRY: RetryOptions =
    RetryOptions { attempts: 60, first: Duration::from_millis(10), longest: Duration::from_millis(100) };
/// The longest id of a key, in bytes: `kek_id` has at most 64.
const KEY_ID_LEN_MAX: usize = 53;

/// A broker that wraps.
pub struct BrokerKeys {
    config: Arc<KekBroker>,
    client: Client,
    wraps: Gather<(Vec<u8>, Zeroizing<[u8; KEY_LEN]>), Wrapped>,
    unwraps: Gather<(Vec<u8>, Cipher), Result<Secret, Refusal>>,
    /// The version that wraps, as last told.
    version: Arc<AtomicU32>,
}

impl BrokerKeys {
    /// Asks the broker to wrap something, so that whatever is wrong is told now. It waits ten seconds for a broker that is not
    /// there yet, and says so.
    ///
    /// # Errors
    /// [`ConfigError`], naming the socket or what the broker refused.
    pub async fn open(config: &KekBroker) -> Result<Self, ConfigError> {
        if config.key.len() > KEY_ID_LEN_MAX {
            return Err(ConfigError(format!("sessions.kek_broker.key: expected at most {KEY_ID_LEN_MAX} bytes")));
        }
        // Whoever can put a socket in the broker's place would be sent the keys that are to be wrapped.
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
                        tracing::warn!(broker = %keys.place(), %err, "waiting for the broker that wraps session keys");
                        is_told = true;
                    }
                    tokio::time::sleep(START_PAUSE).await;
                }
                Err(err) => return Err(ConfigError(format!("sessions.kek_broker: {}: {err}", keys.place()))),
            }
        }
        // Also that what it makes has the form in which it is stored.
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

    /// Looks which version wraps now, by wrapping a value that everybody knows; whether it is another one than before.
    async fn look(&self, deadline: Duration) -> Result<bool, Error> {
        let client = self.client.within(deadline);
        let known = Plain { plaintext: &[0; KEY_LEN], ..Plain::default() };
        let sealed = client.encrypt(&self.config.profile, &self.config.key, &[known]).await?;
        let version = sealed.outputs.iter().map(|cipher| cipher.key_version).max().unwrap_or_default();
        Ok(self.version.fetch_max(version, Ordering::SeqCst) < version)
    }

    /// The version in an id that this broker's key made.
    fn version_of(&self, kek_id: &str) -> Option<u32> {
        let (key, version) = kek_id.rsplit_once(':')?;
        let version = version.parse().ok().filter(|version| *version > 0)?;
        (key == self.config.key).then_some(version)
    }

    /// What is to be opened. A version that the broker has not made yet is unknown: its store may be an older copy.
    fn cipher(&self, wrapped: &Wrapped) -> Result<Cipher, UnwrapError> {
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
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<Wrapped>, WrapError> {
        let questions = keys.iter().map(|(aad, key)| (aad.clone(), Zeroizing::new(*key.expose()))).collect();
        self.wraps.ask(questions).await.into_iter().collect::<Result<_, _>>().map_err(WrapError)
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, Wrapped)]) -> Vec<Result<SessionKey, UnwrapError>> {
        let is_newer = |(_, wrapped): &(Vec<u8>, Wrapped)| {
            self.version_of(&wrapped.kek_id).is_some_and(|version| version > self.version.load(Ordering::SeqCst))
        };
        if wrapped.iter().any(is_newer) {
            // Another process has seen a rotation first.
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
                tracing::warn!(broker = %self.place(), %err, "the broker that wraps session keys does not answer");
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
) -> Result<Vec<Wrapped>, String> {
    let plains: Vec<_> =
        keys.iter().map(|(aad, key)| Plain { plaintext: key.as_slice(), aad, ..Plain::default() }).collect();
    let sealed = client.encrypt(&config.profile, &config.key, &plains).await.map_err(|err| err.to_string())?;
    let wrapped = sealed.outputs.into_iter().map(|cipher| {
        version.fetch_max(cipher.key_version, Ordering::SeqCst);
        let bytes = [cipher.nonce, cipher.ciphertext, cipher.tag].concat();
        let bytes = bytes.try_into().map_err(|_| {
            format!("profile {}: its nonces must have {IV_LEN} bytes and its tags {TAG_LEN}", config.profile)
        })?;
        Ok(Wrapped { kek_id: kek_id(&config, cipher.key_version), bytes })
    });
    wrapped.collect()
}

async fn unwrap(
    (client, config): (Client, Arc<KekBroker>),
    wrapped: Vec<(Vec<u8>, Cipher)>,
) -> Result<Vec<Result<Secret, Refusal>>, Error> {
    let sealed: Vec<_> = wrapped.iter().map(|(aad, cipher)| Sealed { cipher, aad }).collect();
    Ok(client.decrypt(&config.profile, &config.key, &sealed).await?.outputs)
}

fn session_key(secret: &Secret) -> Result<SessionKey, UnwrapError> {
    let mut bytes: [u8; KEY_LEN] = secret.as_ref().try_into().map_err(|_| UnwrapError::Damaged)?;
    let key = SessionKey::from_bytes(bytes);
    bytes.zeroize();
    Ok(key)
}

/// What does not open is damaged; a version that is disabled is not at hand, may be enabled again, and ends no session.
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
