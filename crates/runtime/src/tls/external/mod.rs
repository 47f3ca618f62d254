//! Private keys that are outside this process, such as on a PKCS#11 token: a signature may take seconds, and may fail.
//!
//! rustls computes a signature while it processes a message, and blocks meanwhile. A handshake that needs a signature of such a
//! key is processed in a thread apart from those of the reactor, as often as the key has a [`Turns`] for it; its connection
//! waits. One that resumes a session needs none, and waits for nothing.

mod handshake;
mod signer;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

pub(super) use self::handshake::handshake;
pub(super) use self::signer::certified;
pub use self::turns::Turns;

/// Algorithm of a handshake's signature, with an ECDSA signature in DER form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScheme {
    /// ECDSA on P-256 with SHA-256.
    EcdsaP256,
    /// ECDSA on P-384 with SHA-384.
    EcdsaP384,
    /// RSASSA-PSS with SHA-256 (RFC 8017 section 8.1).
    RsaPss256,
    /// RSASSA-PSS with SHA-384 as its digest.
    RsaPss384,
    /// RSASSA-PSS with SHA-512 as its digest.
    RsaPss512,
    /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2): TLS 1.2 alone.
    RsaPkcs1Sha256,
    /// RSASSA-PKCS1-v1_5 with SHA-384: TLS 1.2 alone.
    RsaPkcs1Sha384,
    /// RSASSA-PKCS1-v1_5 with SHA-512: TLS 1.2 alone.
    RsaPkcs1Sha512,
}

/// A private key outside this process. Its `Debug` is the text of its settings: two keys of the same text are one.
pub trait ExternalKey: fmt::Debug + Send + Sync {
    /// Checks that the key can sign now, and that its public half is `public`, a SubjectPublicKeyInfo in DER. It blocks, and
    /// waits up to `wait` for a key that is just becoming ready.
    ///
    /// # Errors
    /// [`KeyFault`].
    fn check(&self, public: &[u8], wait: Duration) -> Result<(), KeyFault>;

    /// Signs a message. It blocks within a bound of its own. The signature has been verified under `public`.
    ///
    /// # Errors
    /// [`KeyFault`].
    fn sign(&self, public: &[u8], scheme: KeyScheme, message: &[u8]) -> Result<Vec<u8>, KeyFault>;

    /// Returns the turns for signatures, which all keys of one token share.
    fn turns(&self) -> Arc<Turns>;
}

/// The reason why a key outside this process does not sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFault {
    /// A short name for metrics and `/ready`.
    pub reason: &'static str,
    /// A sentence without a full stop that names the key.
    pub text: String,
    /// True if only an operator can repair it: the key is missing, or is another one.
    pub is_final: bool,
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The key outside this process of one listener, and its share of the key's turns.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: Arc<dyn ExternalKey>,
    turns: Arc<Turns>,
    number: u64,
    /// Fault of the last check.
    fault: Mutex<Option<KeyFault>>,
}

impl Lane {
    pub(super) fn new(key: Arc<dyn ExternalKey>) -> Lane {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (turns, number) = (key.turns(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Lane { key, turns, number, fault: Mutex::default() }
    }

    /// Checks the key, and keeps the result.
    pub(super) fn check(&self, public: &[u8], wait: Duration) -> Option<KeyFault> {
        let fault = self.key.check(public, wait).err();
        self.fault.lock().clone_from(&fault);
        fault
    }

    pub(super) fn fault(&self) -> Option<KeyFault> {
        self.fault.lock().clone()
    }
}
