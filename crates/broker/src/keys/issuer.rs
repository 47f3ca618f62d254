//! A key of the store as an issuer of certificates: a CA's private key never leaves the store.

use std::sync::Arc;

use sealway_awslc::{Hash, PublicKey, Scheme};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::parse_x509_pem;

use super::{Algorithm, Form, Key, State, Version};
use crate::certificate::IssuerKey;
use crate::profile::policy::{Curve, KeyKind, SignatureHash};
use crate::refusal::{Code, Refusal};

/// Most versions that are compared with the CA's certificate, the newest first.
const VERSIONS_TRIED_MAX: usize = 32;

/// One version of a key, as an issuer.
pub struct StoreIssuer {
    key: Arc<Key>,
    version: Version,
    kind: KeyKind,
    size: u32,
    spki: Vec<u8>,
}

impl StoreIssuer {
    /// Selects the enabled version whose public key is in the CA's certificate (PEM or DER). If there is none, selects
    /// the current one, so that the certificate's checks report the mismatch.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: keys of this algorithm cannot issue; [`Code::FailedPrecondition`]: every version is
    /// disabled; [`Code::Internal`].
    pub fn new(key: Arc<Key>, ca_certificate: &[u8]) -> Result<StoreIssuer, Refusal> {
        let (kind, size) = match key.algorithm() {
            Algorithm::Rsa(bits) => (KeyKind::Rsa, bits),
            Algorithm::Ecdsa(Curve::P256) => (KeyKind::Ecdsa, 256),
            Algorithm::Ecdsa(Curve::P384) => (KeyKind::Ecdsa, 384),
            Algorithm::Ecdsa(Curve::P521) => (KeyKind::Ecdsa, 521),
            other => return Err(Refusal::invalid(format!("ca_key_ref: a key of {other} issues no certificates"))),
        };
        let wanted = public_key_in(ca_certificate);
        let current = key.current()?;
        let mut found = (current.clone(), key.form(current)?.spki()?);
        let enabled = key.versions().iter().rev().filter(|version| version.state() == State::Enabled);
        for version in enabled.take(VERSIONS_TRIED_MAX) {
            let spki = key.form(version)?.spki()?;
            if wanted.as_ref() == Some(&spki) {
                found = (version.clone(), spki);
                break;
            }
        }
        let (version, spki) = found;
        Ok(StoreIssuer { key, version, kind, size, spki })
    }

    /// Number of the issuing version.
    pub fn version(&self) -> u32 {
        self.version.number()
    }
}

/// SubjectPublicKeyInfo in a certificate; `None` if it does not parse.
fn public_key_in(certificate: &[u8]) -> Option<Vec<u8>> {
    let spki = |der: &[u8]| {
        let (_, parsed) = parse_x509_certificate(der).ok()?;
        // Encoded canonically, like the store's own: a point has more than one encoding.
        PublicKey::from_spki(parsed.public_key().raw).and_then(|key| key.spki()).ok()
    };
    spki(certificate).or_else(|| spki(&parse_x509_pem(certificate).ok()?.1.contents))
}

impl IssuerKey for StoreIssuer {
    fn kind(&self) -> KeyKind {
        self.kind
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn spki(&self) -> Vec<u8> {
        self.spki.clone()
    }

    fn sign(&self, hash: SignatureHash, message: &[u8]) -> Result<Vec<u8>, Refusal> {
        let hash = match hash {
            SignatureHash::Sha256 => Hash::Sha256,
            SignatureHash::Sha384 => Hash::Sha384,
            SignatureHash::Sha512 => Hash::Sha512,
        };
        let scheme = match self.kind {
            KeyKind::Rsa => Scheme::RsaPkcs1(hash),
            KeyKind::Ecdsa => Scheme::Ecdsa(hash),
        };
        let failed = || Refusal::new(Code::Internal, "SignCertificate: the cryptographic module failed");
        match self.key.form(&self.version)? {
            Form::Pair(secret, _) => secret.sign(scheme, message).map_err(|_| failed()),
            _ => Err(failed()),
        }
    }
}
