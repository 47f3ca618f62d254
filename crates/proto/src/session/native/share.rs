//! Shares of a key agreement, both sides, and the secret that they give. `spec/session-3.md#suites`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::Suite;
use crate::crypto::agreement::{AgreementKey, AgreementProvider, KemKey};
use crate::error::Error;
use crate::limits::KEY_LEN;

/// The shared secret of both shares, 32 or 64 bytes.
pub(super) type Secret = Zeroizing<Vec<u8>>;

/// The private halves of a client's share, for one init.
pub struct ShareKey {
    suite: Suite,
    curve: Box<dyn AgreementKey>,
    kem: Option<Box<dyn KemKey>>,
}

/// The random inputs of a server's share.
#[derive(Default)]
pub enum ServerRandoms {
    /// Drawn from the provider when needed.
    #[default]
    Draw,
    /// Given, for test vectors: the curve's private key and, if the suite has it, ML-KEM's ciphertext and its secret.
    Given(Zeroizing<[u8; KEY_LEN]>, Option<(Vec<u8>, Zeroizing<[u8; 32]>)>),
}

impl ShareKey {
    /// Generates the private halves of a share.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn generate(provider: &dyn AgreementProvider, suite: Suite) -> Result<Self, Error> {
        let curve = provider.agreement_generate(suite.curve())?;
        let kem = if suite.is_hybrid() { Some(provider.kem_generate()?) } else { None };
        Ok(ShareKey { suite, curve, kem })
    }

    /// Creates a share from given keys, for test vectors. ML-KEM's must be present if the suite has it, and only then.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn from_parts(suite: Suite, curve: Box<dyn AgreementKey>, kem: Option<Box<dyn KemKey>>) -> Result<Self, Error> {
        if kem.is_some() == suite.is_hybrid() { Ok(ShareKey { suite, curve, kem }) } else { Err(Error::Provider) }
    }

    /// Returns the suite of the share.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Returns the public share, as bytes of the wire.
    pub fn public(&self) -> Vec<u8> {
        let kem = self.kem.as_ref().map_or(&[][..], |kem| kem.public());
        self.suite.join(self.curve.public(), kem)
    }

    /// Computes the secret from the server's share.
    pub(super) fn agree(&self, server: &[u8]) -> Result<Secret, Error> {
        let (point, ciphertext) = self.suite.split_server(server).ok_or(Error::PublicKeyInvalid)?;
        let agreed = self.curve.agree(point)?;
        match &self.kem {
            Some(kem) => {
                let shared = kem.decapsulate(ciphertext)?;
                Ok(join(self.suite, &agreed, &shared))
            }
            None => Ok(Zeroizing::new(agreed.to_vec())),
        }
    }
}

fn join(suite: Suite, agreed: &[u8; KEY_LEN], shared: &[u8; 32]) -> Secret {
    Zeroizing::new(suite.join(agreed, shared))
}

/// Computes the server's share for a client's, and the secret.
pub(super) fn respond(
    provider: &dyn AgreementProvider,
    suite: Suite,
    client: &[u8],
    randoms: ServerRandoms,
) -> Result<(Vec<u8>, Secret), Error> {
    let (point, encapsulation_key) = suite.split_client(client).ok_or(Error::PublicKeyInvalid)?;
    let (private, encapsulated) = match randoms {
        ServerRandoms::Draw => (None, None),
        ServerRandoms::Given(private, encapsulated) => (Some(private), encapsulated),
    };
    let curve = match &private {
        Some(private) => provider.agreement_from_private(suite.curve(), private)?,
        None => provider.agreement_generate(suite.curve())?,
    };
    let agreed = curve.agree(point)?;
    if !suite.is_hybrid() {
        return Ok((curve.public().to_vec(), Zeroizing::new(agreed.to_vec())));
    }
    let (ciphertext, shared) = match encapsulated {
        Some(given) => given,
        None => provider.kem_encapsulate(encapsulation_key)?,
    };
    Ok((suite.join(curve.public(), &ciphertext), join(suite, &agreed, &shared)))
}

impl fmt::Debug for ShareKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareKey").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerRandoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerRandoms(redacted)")
    }
}
