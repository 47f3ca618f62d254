//! A key outside this process as a signing key of rustls.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{ExternalKey, KeyFault, KeyScheme};
use crate::tls::files::Content;
use crate::tls::used::KeyKind;
use crate::tls::{TlsError, identity};

/// Schemes of a P-256 key.
const P256: &[(SignatureScheme, KeyScheme)] = &[(SignatureScheme::ECDSA_NISTP256_SHA256, KeyScheme::EcdsaP256)];
/// Schemes of a P-384 key.
const P384: &[(SignatureScheme, KeyScheme)] = &[(SignatureScheme::ECDSA_NISTP384_SHA384, KeyScheme::EcdsaP384)];
/// Schemes of an RSA key, the preferred first: more tokens have SHA-256 than longer digests.
const RSA: &[(SignatureScheme, KeyScheme)] = &[
    (SignatureScheme::RSA_PSS_SHA256, KeyScheme::RsaPss256),
    (SignatureScheme::RSA_PSS_SHA384, KeyScheme::RsaPss384),
    (SignatureScheme::RSA_PSS_SHA512, KeyScheme::RsaPss512),
    (SignatureScheme::RSA_PKCS1_SHA256, KeyScheme::RsaPkcs1Sha256),
    (SignatureScheme::RSA_PKCS1_SHA384, KeyScheme::RsaPkcs1Sha384),
    (SignatureScheme::RSA_PKCS1_SHA512, KeyScheme::RsaPkcs1Sha512),
];

/// Work of the signer in one step of a handshake.
#[derive(Debug)]
struct Step {
    /// True in a thread that may wait for the key.
    may_block: bool,
    is_needed: bool,
    fault: Option<KeyFault>,
}

thread_local! {
    /// The step of the handshake that this thread processes.
    static STEP: RefCell<Option<Step>> = const { RefCell::new(None) };
}

fn within_step<T>(may_block: bool, process: impl FnOnce() -> T) -> (T, Option<Step>) {
    STEP.set(Some(Step { may_block, is_needed: false, fault: None }));
    let done = process();
    (done, STEP.take())
}

/// Processes a step of a handshake in a thread that must not block. Returns true beside its result if the step failed because
/// it needs a signature.
pub(super) fn without_key<T>(process: impl FnOnce() -> T) -> (T, bool) {
    let (done, step) = within_step(false, process);
    (done, step.is_some_and(|step| step.is_needed))
}

/// Processes a step of a handshake in a thread that may block, and returns the key's fault beside its result.
pub(super) fn with_key<T>(process: impl FnOnce() -> T) -> (T, Option<KeyFault>) {
    let (done, step) = within_step(true, process);
    (done, step.and_then(|step| step.fault))
}

/// Reads a chain in PEM, whose first certificate says which key is outside.
pub(in crate::tls) fn certified(cert: &Content, key: &Arc<dyn ExternalKey>) -> Result<CertifiedKey, TlsError> {
    let chain = identity::chain(cert)?;
    let fault = |text: &str| TlsError::new("cert", &cert.path, text);
    let leaf = chain.first().and_then(|leaf| X509Certificate::from_der(leaf).ok());
    let (_, leaf) = leaf.ok_or_else(|| fault("holds no certificate"))?;
    let (algorithm, schemes) = match KeyKind::of(&leaf) {
        KeyKind { algorithm: "ecdsa-p256", .. } => (SignatureAlgorithm::ECDSA, P256),
        KeyKind { algorithm: "ecdsa-p384", .. } => (SignatureAlgorithm::ECDSA, P384),
        KeyKind { algorithm: "rsa", size: 2048.. } => (SignatureAlgorithm::RSA, RSA),
        _ => {
            let text =
                "is of a key that a token does not sign for: RSA of at least 2048 bits, or ECDSA on P-256 or P-384";
            return Err(fault(text));
        }
    };
    let public: Arc<[u8]> = leaf.public_key().raw.into();
    Ok(CertifiedKey::new(chain, Arc::new(Key { key: key.clone(), public, algorithm, schemes })))
}

#[derive(Clone, Debug)]
struct Key {
    key: Arc<dyn ExternalKey>,
    /// SubjectPublicKeyInfo of the certificate, in DER.
    public: Arc<[u8]>,
    algorithm: SignatureAlgorithm,
    schemes: &'static [(SignatureScheme, KeyScheme)],
}

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let chosen = self.schemes.iter().find(|(name, _)| offered.contains(name))?;
        Some(Box::new(KeySigner { key: self.clone(), name: chosen.0, scheme: chosen.1 }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(&*self.public))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }
}

#[derive(Debug)]
struct KeySigner {
    key: Key,
    name: SignatureScheme,
    scheme: KeyScheme,
}

impl Signer for KeySigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let may_block = STEP.with_borrow_mut(|step| {
            step.as_mut().is_some_and(|step| {
                step.is_needed = true;
                step.may_block
            })
        });
        // A thread of the reactor never waits for a token.
        if !may_block {
            return Err(Error::General(
                "a signature of a key outside this process, in a thread that must not block".into(),
            ));
        }
        let signed = self.key.key.sign(&self.key.public, self.scheme, message);
        STEP.with_borrow_mut(|step| {
            if let Some(step) = step {
                step.fault = signed.as_ref().err().cloned();
            }
        });
        signed.map_err(|fault| Error::General(fault.text))
    }

    fn scheme(&self) -> SignatureScheme {
        self.name
    }
}
