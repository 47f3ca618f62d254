//! A token for operations: its host process is started, watched, and restarted in the background.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use crate::message::{Decrypt, GcmText, Generate, GenerateKey, KeyName, Operation, Scheme, SecretKind, Sign};
use crate::supervisor::{SharedState, supervise};
use crate::{Error, Fault, Uri, UriError, spki};

/// Settings of a token and its host process.
#[derive(Clone, Debug)]
pub struct Options {
    /// URI of the token, with `module-path` and `pin-source`.
    pub uri: Uri,
    /// Program of the host process.
    pub program: PathBuf,
    /// Arguments of the program that make it call [`crate::run_host`].
    pub arguments: Vec<String>,
    /// Environment variables that the host does not inherit; that of the PIN is one without being named.
    pub hidden: Vec<String>,
    /// Deadline of an operation; also the longest wait for a session.
    pub deadline: Duration,
    /// Concurrent sessions, 1 to 64.
    pub sessions: u32,
}

/// Digest of a signature or a MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256 (FIPS 180-4), 32 bytes.
    Sha256,
    /// SHA-384 (FIPS 180-4), 48 bytes.
    Sha384,
    /// SHA-512 (FIPS 180-4), 64 bytes.
    Sha512,
}

/// Algorithm of a signature or a MAC over a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// ECDSA in DER form; the number is the length of the curve's order in bytes.
    Ecdsa(Hash, usize),
    /// RSASSA-PKCS1-v1_5 (RFC 8017 section 8.2).
    RsaPkcs1(Hash),
    /// RSASSA-PSS (RFC 8017 section 8.1), with a salt of the digest's length.
    RsaPss(Hash),
    /// Ed25519 of the message (RFC 8032).
    Ed25519,
    /// ML-DSA of the message in its pure mode with an empty context (FIPS 204 section 5.2).
    MlDsa,
    /// HMAC of the message (RFC 2104).
    Hmac(Hash),
}

/// Parameters of AES-GCM besides the text.
#[derive(Clone, Copy, Debug)]
pub struct Gcm<'a> {
    /// Nonce of 12 bytes, used once.
    pub nonce: &'a [u8],
    /// Additional authenticated data; may be empty.
    pub aad: &'a [u8],
    /// Length of the tag at the ciphertext's end: 12 to 16 bytes.
    pub tag_len: usize,
}

/// A token with its host process. Clones share both; the last one ends the process.
#[derive(Clone)]
pub struct Token(Arc<Owner>);

struct Owner(Arc<SharedState>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Token").field(&self.0.0.name).finish()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        if let Some(host) = state.host.take() {
            host.kill();
        }
        self.0.changed.notify_all();
    }
}

impl Token {
    /// Starts the host process in the background. A token that is absent is waited for.
    ///
    /// # Errors
    /// [`UriError`]: the URI does not name a token, its module and the PIN's source.
    pub fn start(options: Options) -> Result<Token, UriError> {
        let uri = &options.uri;
        let (module, pin) = uri.token_parts()?;
        let name = uri.token_name();
        let shared = Arc::new(SharedState::new(options, module, pin, name));
        let supervised = shared.clone();
        let spawned = std::thread::Builder::new().name("pkcs11-host".into()).spawn(move || supervise(&supervised));
        spawned.map_err(|_| UriError("no thread for the host process".into()))?;
        Ok(Token(Arc::new(Owner(shared))))
    }

    /// URI of the token, without module and PIN.
    pub fn name(&self) -> &str {
        &self.0.0.name
    }

    /// Returns the URI from the settings.
    pub fn uri(&self) -> &Uri {
        &self.0.0.options.uri
    }

    /// Returns the state of the token: an error if operations would fail now.
    ///
    /// # Errors
    /// The reason why the token is not ready.
    pub fn health(&self) -> Result<(), Error> {
        let state = self.0.0.state.lock();
        if state.host.is_some() { Ok(()) } else { Err(state.why.clone()) }
    }

    /// Waits until the token is ready; returns at once if its PIN is rejected or locked.
    ///
    /// # Errors
    /// The reason why it is not ready, also at the end of the wait.
    pub fn wait_ready(&self, wait: Duration) -> Result<(), Error> {
        let (shared, end) = (&self.0.0, Instant::now() + wait);
        let mut state = shared.state.lock();
        loop {
            if state.host.is_some() {
                return Ok(());
            }
            let is_final = matches!(state.why.fault, Fault::PinWrong | Fault::PinLocked | Fault::PinFinalTry);
            if is_final || shared.changed.wait_until(&mut state, end).timed_out() {
                return Err(state.why.clone());
            }
        }
    }

    /// Waits until the first start of the host has ended, well or not, or that of a host that has just ended.
    ///
    /// # Errors
    /// The reason why the token is not ready, also at the end of the wait.
    pub fn wait_started(&self, wait: Duration) -> Result<(), Error> {
        let (shared, end) = (&self.0.0, Instant::now() + wait);
        let mut state = shared.state.lock();
        while state.host.is_none() && state.is_starting && !shared.changed.wait_until(&mut state, end).timed_out() {}
        if state.host.is_some() { Ok(()) } else { Err(state.why.clone()) }
    }

    /// Process id of the host.
    #[doc(hidden)]
    pub fn host_id(&self) -> Option<u32> {
        self.0.0.state.lock().host.as_ref().map(|host| host.id())
    }

    /// Reads the public half of a private key as SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Error`]: no such key, or the token is not ready.
    pub fn public_key(&self, key: &KeyName) -> Result<Vec<u8>, Error> {
        self.call(Operation::Public(key.clone()))
    }

    /// Reads the type of a secret key and its length in bytes; 0 if the token does not tell it.
    ///
    /// # Errors
    /// [`Error`]: no such key, or the token is not ready.
    pub fn secret_key(&self, key: &KeyName) -> Result<(SecretKind, usize), Error> {
        let answer = self.call(Operation::Secret(key.clone()))?;
        let parsed = answer.split_first().and_then(|(kind, len)| {
            let len = u32::from_be_bytes(len.try_into().ok()?);
            Some((SecretKind::try_from(i32::from(*kind)).ok()?, usize::try_from(len).ok()?))
        });
        parsed.ok_or_else(|| Fault::HostDied.into())
    }

    /// Signs a message, or computes its MAC.
    ///
    /// # Errors
    /// [`Error`]: the key, the mechanism, or the token's state.
    pub fn sign(&self, key: &KeyName, signing: Signing, message: &[u8]) -> Result<Vec<u8>, Error> {
        match signing {
            Signing::Ecdsa(hash, _) | Signing::RsaPkcs1(hash) | Signing::RsaPss(hash) => {
                self.sign_digest(key, signing, &hash.of(message))
            }
            Signing::Ed25519 | Signing::MlDsa | Signing::Hmac(_) => self.sign_input(key, signing, message),
        }
    }

    /// Signs a digest by RSA or ECDSA.
    ///
    /// # Errors
    /// [`Fault::Mechanism`]: the algorithm signs messages only; [`Fault::Data`]: a digest of another length; otherwise
    /// the key, the mechanism, or the token's state.
    pub fn sign_digest(&self, key: &KeyName, signing: Signing, digest: &[u8]) -> Result<Vec<u8>, Error> {
        match signing {
            Signing::Ecdsa(hash, _) | Signing::RsaPkcs1(hash) | Signing::RsaPss(hash) => {
                if digest.len() != hash.len() {
                    return Err(Fault::Data.into());
                }
                self.sign_input(key, signing, digest)
            }
            Signing::Ed25519 | Signing::MlDsa | Signing::Hmac(_) => Err(Fault::Mechanism.into()),
        }
    }

    /// Signs what the token gets: a digest, for Ed25519, ML-DSA and HMAC a message.
    fn sign_input(&self, key: &KeyName, signing: Signing, input: &[u8]) -> Result<Vec<u8>, Error> {
        let (scheme, input) = match signing {
            // Some modules reject a digest that is longer than the order. FIPS 186-5 section 6.4.1: its leftmost bits.
            Signing::Ecdsa(_, order_len) => (Scheme::Ecdsa, input.get(..order_len).unwrap_or(input).to_vec()),
            Signing::RsaPkcs1(hash) => (Scheme::RsaPkcs1, [hash.digest_info(), input].concat()),
            Signing::RsaPss(Hash::Sha256) => (Scheme::RsaPss256, input.to_vec()),
            Signing::RsaPss(Hash::Sha384) => (Scheme::RsaPss384, input.to_vec()),
            Signing::RsaPss(Hash::Sha512) => (Scheme::RsaPss512, input.to_vec()),
            Signing::Ed25519 => (Scheme::Ed25519, input.to_vec()),
            Signing::MlDsa => (Scheme::MlDsa, input.to_vec()),
            Signing::Hmac(Hash::Sha256) => (Scheme::Hmac256, input.to_vec()),
            Signing::Hmac(Hash::Sha384) => (Scheme::Hmac384, input.to_vec()),
            Signing::Hmac(Hash::Sha512) => (Scheme::Hmac512, input.to_vec()),
        };
        let signature = self.call(Operation::Sign(Sign { key: key.clone(), scheme: scheme.into(), input }))?;
        match signing {
            Signing::Ecdsa(..) => {
                spki::ecdsa(&signature).ok_or_else(|| Error::new(Fault::Device, "a signature of an odd length"))
            }
            _ => Ok(signature),
        }
    }

    /// Decrypts by RSA-OAEP with an empty label; the digest is SHA-1 or SHA-256, and that of MGF1 too.
    ///
    /// # Errors
    /// [`Fault::Data`]: it does not decrypt; otherwise the key, the mechanism, or the token's state.
    pub fn decrypt_oaep(&self, key: &KeyName, is_sha1: bool, input: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let decrypt = Decrypt { key: key.clone(), is_sha1, input: input.to_vec() };
        self.call(Operation::Decrypt(decrypt)).map(Zeroizing::new)
    }

    /// Encrypts by AES-GCM; the tag stands at the end.
    ///
    /// # Errors
    /// [`Error`]: the key, the mechanism, or the token's state.
    pub fn seal(&self, key: &KeyName, gcm: Gcm<'_>, plaintext: &[u8]) -> Result<Vec<u8>, Error> {
        self.gcm(key, gcm, plaintext, false)
    }

    /// Decrypts by AES-GCM, and checks the tag.
    ///
    /// # Errors
    /// [`Fault::Data`]: it does not open; otherwise the key, the mechanism, or the token's state.
    pub fn open(&self, key: &KeyName, gcm: Gcm<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.gcm(key, gcm, sealed, true).map(Zeroizing::new)
    }

    fn gcm(&self, key: &KeyName, gcm: Gcm<'_>, input: &[u8], opens: bool) -> Result<Vec<u8>, Error> {
        self.call(Operation::Gcm(GcmText {
            key: key.clone(),
            opens,
            nonce: gcm.nonce.to_vec(),
            aad: gcm.aad.to_vec(),
            tag_len: u32::try_from(gcm.tag_len).unwrap_or(u32::MAX),
            input: input.to_vec(),
        }))
    }

    /// Generates a key on the token that never leaves it, with a random id; returns its name. After an error the token
    /// may have the key: it is not generated again.
    ///
    /// # Errors
    /// [`Fault::KeyExists`]: a key has the label; otherwise the mechanism, or the token's state.
    pub fn generate(&self, label: &str, kind: Generate, size: u32) -> Result<KeyName, Error> {
        let mut id = vec![0; 16];
        rand::fill(&mut id).map_err(|_| Error::new(Fault::Device, "no randomness"))?;
        let key = KeyName { id: Some(id), label: Some(label.to_owned()) };
        self.call(Operation::Generate(GenerateKey { key: key.clone(), kind: kind.into(), size }))?;
        Ok(key)
    }

    /// Runs an operation in a session of the host. It is never sent twice.
    fn call(&self, operation: Operation) -> Result<Vec<u8>, Error> {
        let shared = &self.0.0;
        let done = shared.call(operation);
        // An input that does not decrypt is no fault of the token, and no reader of metrics learns of it.
        let failed = done.as_ref().err().filter(|err| err.fault != Fault::Data);
        let result = failed.map_or("done", |err| err.fault.name());
        metrics::counter!("sealway_pkcs11_operations_total", "token" => shared.name.clone(), "result" => result)
            .increment(1);
        done
    }
}

impl Hash {
    /// Length of the digest, in bytes.
    fn len(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    fn of(self, message: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => &SHA256,
            Hash::Sha384 => &SHA384,
            Hash::Sha512 => &SHA512,
        };
        digest::digest(algorithm, message).as_ref().to_vec()
    }

    /// DER before the digest (RFC 8017 section 9.2, note 1).
    fn digest_info(self) -> &'static [u8] {
        match self {
            Hash::Sha256 => b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20",
            Hash::Sha384 => b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30",
            Hash::Sha512 => b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40",
        }
    }
}
