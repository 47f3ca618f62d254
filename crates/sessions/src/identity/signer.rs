//! Signers for identity keys: the process itself, or a broker beside it that keeps the key.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sealway_client::broker::{Client, Error, Options, RetryOptions};
use sealway_proto::crypto::identity::{IdentityPair, IdentityPublic, SignatureAlgorithm};
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
/// Bytes before the key in a SubjectPublicKeyInfo (RFC 5480, RFC 9881), by algorithm. All lengths are fixed.
const SPKI_HEADS: [(SignatureAlgorithm, &[u8]); 4] = [
    (
        SignatureAlgorithm::Es256,
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00",
    ),
    (
        SignatureAlgorithm::Es384,
        b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00",
    ),
    (
        SignatureAlgorithm::MlDsa65,
        b"\x30\x82\x07\xb2\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x12\x03\x82\x07\xa1\x00",
    ),
    (
        SignatureAlgorithm::MlDsa87,
        b"\x30\x82\x0a\x32\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x13\x03\x82\x0a\x21\x00",
    ),
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

/// A broker that keeps identity keys, and the profile that it signs under, which has one algorithm.
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

    /// Reads the public half of a key in the broker's store, in the form of identity keys.
    ///
    /// # Errors
    /// [`ConfigError`]: the broker's error, or a key of another kind.
    pub async fn public_key(&self, key: &str) -> Result<Vec<u8>, ConfigError> {
        let place = || format!("the broker at {}", self.socket.display());
        let public = self.client.public_key(key, 0).await;
        let public = public.map_err(|err| ConfigError(format!("{}: {err}", place())))?;
        raw(&public.der)
            .map(<[u8]>::to_vec)
            .ok_or_else(|| ConfigError(format!("{}: key \"{key}\" is none of {}", place(), broker_algorithms())))
    }
}

/// Returns the key in a SubjectPublicKeyInfo; `None` for a key that cannot be an identity key.
fn raw(spki: &[u8]) -> Option<&[u8]> {
    SPKI_HEADS.iter().find_map(|(algorithm, head)| {
        spki.strip_prefix(*head).filter(|key| SignatureAlgorithm::of_public(key) == Some(*algorithm))
    })
}

/// Algorithms of identity keys in a broker, for messages.
fn broker_algorithms() -> String {
    SPKI_HEADS.map(|(algorithm, _)| algorithm.name()).join(", ")
}

/// Settings of `SignData` in the profile of a key of this algorithm.
fn settings(algorithm: SignatureAlgorithm) -> &'static str {
    match algorithm {
        SignatureAlgorithm::Es256 => "SignAlg ecdsa, HashAlg sha-256, Curve P-256, SignatureFormat RAW",
        SignatureAlgorithm::Es384 => "SignAlg ecdsa, HashAlg sha-384, Curve P-384, SignatureFormat RAW",
        SignatureAlgorithm::MlDsa65 => "SignAlg ml-dsa-65",
        SignatureAlgorithm::MlDsa87 => "SignAlg ml-dsa-87",
        SignatureAlgorithm::Es256MlDsa65 | SignatureAlgorithm::Es384MlDsa87 => {
            "none: a broker signs with one algorithm"
        }
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
        let algorithm = self.public.algorithm();
        if signature.len() != algorithm.signature_len() {
            let (len, settings) = (algorithm.signature_len(), settings(algorithm));
            return Err(refuse(&format!("a signature of {algorithm} must have {len} bytes: {settings}")));
        }
        if self.public.verify(message, &signature) {
            Ok(signature)
        } else {
            Err(refuse(
                "it signs with another key than the key file says, or with another digest; was the key rotated there?",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_is_read_by_its_algorithm_and_with_its_whole_length_alone() {
        for (algorithm, head) in SPKI_HEADS {
            let key = vec![4; algorithm.public_len()];
            let spki = [head, &key].concat();
            assert_eq!(raw(&spki), Some(key.as_slice()), "{algorithm}");
            // The two outermost lengths are those of the bytes.
            let len =
                if spki[1] == 0x82 { usize::from(spki[2]) << 8 | usize::from(spki[3]) } else { usize::from(spki[1]) };
            assert_eq!(len + if spki[1] == 0x82 { 4 } else { 2 }, spki.len(), "{algorithm}");
            assert_eq!((raw(&spki[..spki.len() - 1]), raw(&[&spki[..], &[0]].concat())), (None, None), "{algorithm}");
        }
        assert_eq!(broker_algorithms(), "ES256, ES384, ML-DSA-65, ML-DSA-87");
    }
}
