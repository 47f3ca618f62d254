//! Signers for identity keys: the process itself, or a broker beside it that keeps the key.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sealway_client::broker::{Client, Error, Options, RetryOptions};
use sealway_proto::crypto::identity::{IdentityPair, IdentityPublic};
use sealway_proto::limits::P256_PUBLIC_LEN;
use sealway_proto::session::native::KeyId;
use sealway_runtime::config::ConfigError;

/// Maximum time that a start waits for the broker.
const START_WAIT: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(100);
/// Deadline of one signature, all attempts included.
const DEADLINE: Duration = Duration::from_secs(2);
/// A broker that restarts is back well within the deadline.
const RETRY: RetryOptions =
    RetryOptions { attempts: 60, first: Duration::from_millis(10), longest: Duration::from_millis(100) };
/// Message of a trial signature. No message of wire 3 begins with these bytes.
const TRIAL: &[u8] = b"sealway: is this the key?";
/// Bytes before the point in the SubjectPublicKeyInfo of a P-256 key (RFC 5480).
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Reason for a missing signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The key is not live, or is not there.
    #[error("identity key {0} is not live")]
    NotLive(KeyId),
    /// The signer is away, or rejects the request. A retry is safe.
    #[error("{0}")]
    Unavailable(String),
}

/// Signs with one identity key.
#[async_trait]
pub trait Signer: Send + Sync {
    /// Returns the signature over `message`, of the key's algorithm.
    ///
    /// # Errors
    /// [`SignError::Unavailable`].
    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError>;

    /// Checks at a start that the signer can sign.
    ///
    /// # Errors
    /// [`SignError::Unavailable`].
    async fn try_out(&self) -> Result<(), SignError>;
}

/// A signer with a key in this process.
pub(super) struct FileSigner(pub(super) IdentityPair);

#[async_trait]
impl Signer for FileSigner {
    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        self.0.sign(message).map_err(|err| SignError::Unavailable(err.to_string()))
    }

    async fn try_out(&self) -> Result<(), SignError> {
        Ok(())
    }
}

/// A broker that keeps identity keys, and the profile that it signs under: ECDSA on P-256 with SHA-256, `RAW`.
#[derive(Clone)]
pub struct BrokerAccess {
    client: Client,
    socket: PathBuf,
    profile: String,
}

impl BrokerAccess {
    /// Creates the client of a broker at a socket; `uid` is the user that it must run as.
    pub fn new(socket: PathBuf, profile: String, uid: Option<u32>) -> Self {
        let options = Options {
            deadline: DEADLINE,
            retry: RETRY,
            breaker: None,
            broker_uid: uid,
            ..Options::new(socket.clone())
        };
        BrokerAccess { client: Client::new(options), socket, profile }
    }

    /// Reads the public half of a P-256 key in the broker's store.
    ///
    /// # Errors
    /// [`ConfigError`]: the broker's error, or a key of another kind.
    pub async fn public_key(&self, key: &str) -> Result<[u8; P256_PUBLIC_LEN], ConfigError> {
        let place = || format!("the broker at {}", self.socket.display());
        let public = self.client.public_key(key, 0).await;
        let public = public.map_err(|err| ConfigError(format!("{}: {err}", place())))?;
        let point = public.der.strip_prefix(&P256_SPKI).and_then(|point| point.try_into().ok());
        point.ok_or_else(|| ConfigError(format!("{}: key \"{key}\" is none on P-256", place())))
    }
}

impl fmt::Debug for BrokerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerAccess")
            .field("socket", &self.socket)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

/// A signer with a key in a broker.
pub(super) struct BrokerSigner {
    access: BrokerAccess,
    key: String,
    public: IdentityPublic,
}

impl BrokerSigner {
    pub(super) fn new(access: BrokerAccess, key: String, public: IdentityPublic) -> Self {
        BrokerSigner { access, key, public }
    }

    async fn ask(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let BrokerAccess { client, profile, .. } = &self.access;
        Ok(client.sign(profile, &self.key, &[message]).await?.outputs.pop().unwrap_or_default())
    }

    /// Checks that a signature is this key's. After a rotation, a broker's key signs with a new version that no client
    /// knows; such a signature is rejected here, not by every client.
    fn check(&self, message: &[u8], signature: Vec<u8>) -> Result<Vec<u8>, SignError> {
        let BrokerAccess { socket, profile, .. } = &self.access;
        let refuse = |what: &str| {
            let what = format!("the broker at {}, key \"{}\", profile {profile}: {what}", socket.display(), self.key);
            SignError::Unavailable(what)
        };
        if signature.len() != self.public.algorithm().signature_len() {
            return Err(refuse("a signature must have 64 bytes: SignAlg ecdsa, Curve P-256, SignatureFormat RAW"));
        }
        if self.public.verify(message, &signature) {
            Ok(signature)
        } else {
            Err(refuse(
                "it signs with another key than the key file says, or not with sha-256; was the key rotated there?",
            ))
        }
    }
}

#[async_trait]
impl Signer for BrokerSigner {
    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let signature = self.ask(message).await.map_err(|err| SignError::Unavailable(err.to_string()))?;
        self.check(message, signature)
    }

    async fn try_out(&self) -> Result<(), SignError> {
        let begin = Instant::now();
        let mut is_told = false;
        loop {
            match self.ask(TRIAL).await {
                Ok(signature) => return self.check(TRIAL, signature).map(drop),
                Err(err) if err.is_passing() && begin.elapsed() < START_WAIT => {
                    if !is_told {
                        let broker = self.access.socket.display();
                        tracing::warn!(%broker, %err, "waiting for the broker of identity keys");
                        is_told = true;
                    }
                    tokio::time::sleep(START_PAUSE).await;
                }
                Err(err) => {
                    return Err(SignError::Unavailable(format!(
                        "the broker at {}, key \"{}\": {err}",
                        self.access.socket.display(),
                        self.key
                    )));
                }
            }
        }
    }
}
