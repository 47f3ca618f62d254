//! A key of the store as an issuer of certificates: a CA's private key never leaves the store.

use std::sync::Arc;

use super::{Form, Key, State, Version};
use crate::certificate::{IssuerKey, public_key_in, scheme};
use crate::profile::policy::{KeyKind, SignatureHash};
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
    /// the current one, so that the certificate's checks report the mismatch.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: keys of this algorithm cannot issue; [`Code::FailedPrecondition`]: every version is
    /// disabled; [`Code::Internal`].
    pub fn new(key: Arc<Key>, ca_certificate: &[u8]) -> Result<StoreIssuer> {
        let algorithm = key.algorithm();
        let (kind, size) = algorithm
            .size()
            .ok_or_else(|| Refusal::invalid(format!("ca_key_ref: a key of {algorithm} issues no certificates")))?;
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

    fn sign(&self, hash: SignatureHash, message: &[u8]) -> Result<Vec<u8>> {
        let failed = || Refusal::new(Code::Internal, "SignCertificate: the cryptographic module failed");
        match self.key.form(&self.version)? {
            Form::Pair(secret, public) => secret.sign(public, scheme(self.kind, hash), message)?.ok_or_else(failed),
            _ => Err(failed()),
        }
    }
}
