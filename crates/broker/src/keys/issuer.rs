//! A key of the store as an issuer of certificates: a CA's private key never leaves the store.

use std::sync::Arc;

#[cfg(not(feature = "fips"))]
use super::form::ml_dsa_signed;
use super::{Content, Form, Key, State, Version};
use crate::certificate::{IssuerKey, public_key_in, scheme};
use crate::profile::policy::{CertificateSignature, KeyKind};
use crate::{Code, Refusal, Result};

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
    /// the current one, so that the certificate's checks report the mismatch. Without a certificate, selects the newest
    /// enabled version that one is kept with.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: keys of this algorithm cannot issue, no certificate is kept with the key, or it is another
    /// one; [`Code::FailedPrecondition`]: every version is
    /// disabled; [`Code::Internal`].
    pub fn new(key: Arc<Key>, ca_certificate: &[u8]) -> Result<StoreIssuer> {
        let algorithm = key.algorithm();
        let (kind, size) = algorithm
            .size()
            .ok_or_else(|| Refusal::invalid(format!("ca_key_ref: a key of {algorithm} issues no certificates")))?;
        let lowest = key.rules().min_decryption.max(key.rules().min_encryption);
        let is_usable = |version: &&Version| version.state() == State::Enabled && version.number() >= lowest;
        let enabled = || key.versions().iter().rev().filter(is_usable);
        let kept = enabled().find_map(|version| version.certificate.as_deref());
        let wanted = match kept.filter(|_| ca_certificate.is_empty()) {
            None if ca_certificate.is_empty() => {
                return Err(Refusal::invalid("ca_certificate: required, as none is kept with the key"));
            }
            kept => public_key_in(kept.unwrap_or(ca_certificate)),
        };
        let current = key.current()?;
        let mut found = (current.clone(), key.form(current)?.spki()?);
        for version in enabled().take(VERSIONS_TRIED_MAX) {
            let spki = key.form(version)?.spki()?;
            if wanted.as_ref() == Some(&spki) {
                found = (version.clone(), spki);
                break;
            }
        }
        let (version, spki) = found;
        if let Some(kept) = version.certificate.as_deref().filter(|_| !ca_certificate.is_empty())
            && crate::certificate::ca_certificate(ca_certificate).is_none_or(|sent| sent != kept)
        {
            return Err(Refusal::invalid("ca_certificate: not the one that is kept with the key; send none"));
        }
        Ok(StoreIssuer { key, version, kind, size, spki })
    }

    /// Certificate that is kept with the issuing version, in DER.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.version.certificate.as_deref()
    }

    /// Number of the issuing version.
    pub fn version(&self) -> u32 {
        self.version.number()
    }
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

    fn sign(&self, signature: CertificateSignature, message: &[u8]) -> Result<Vec<u8>> {
        let failed = || Refusal::new(Code::Internal, "SignCertificate: the cryptographic module failed");
        // All checks of the certificate have passed: no other request can take a key from its signing of data.
        self.key.becomes_issuer()?;
        match self.key.form(&self.version)? {
            Form::Pair(secret, public) => {
                secret.sign(public, scheme(signature), Content::Message, message)?.ok_or_else(failed)
            }
            #[cfg(not(feature = "fips"))]
            Form::MlDsa(pair) if signature.fits(self.kind, self.size) => {
                ml_dsa_signed(pair, message).ok_or_else(failed)
            }
            _ => Err(failed()),
        }
    }
}
