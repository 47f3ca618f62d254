//! The recipient's half of the KEMs: private keys and decapsulation.

use alloc::boxed::Box;
use core::fmt;

use zeroize::Zeroizing;

use super::hybrid::{self, Group, Pair};
use super::kem::Form;
use super::labeled::shake256_derive;
use super::{HpkeError, Kem, PublicKey, Secret, dh};
use crate::crypto::agreement::{AgreementKey, AgreementProvider, KemKey};

/// A private key, expanded once. It is never printable, and the crypto library wipes it.
pub struct PrivateKey {
    public: PublicKey,
    private: Private,
}

enum Private {
    Dh(Box<dyn AgreementKey>),
    MlKem(Box<dyn KemKey>),
    Hybrid(Group, Pair),
}

impl PrivateKey {
    /// Reads a private key of [`Kem::private_len`] bytes: a scalar of P-256 or X25519, or the seed of ML-KEM or a hybrid.
    ///
    /// # Errors
    /// [`HpkeError::PrivateKey`], [`HpkeError::Provider`].
    pub fn from_bytes(provider: &dyn AgreementProvider, kem: Kem, bytes: &[u8]) -> Result<PrivateKey, HpkeError> {
        let (private, public) = match kem.form() {
            Form::Dh(curve) => {
                let key = dh::private(provider, curve, bytes)?;
                let public = key.public().to_vec();
                (Private::Dh(key), public)
            }
            Form::MlKem => {
                let seed = bytes.try_into().map_err(|_| HpkeError::PrivateKey)?;
                let key = provider.kem_from_seed(seed).map_err(|_| HpkeError::Provider)?;
                let public = key.public().to_vec();
                (Private::MlKem(key), public)
            }
            Form::Hybrid(group) => {
                let pair = hybrid::expand(provider, group, bytes)?;
                let public = [pair.post_quantum.public(), pair.traditional.public()].concat();
                (Private::Hybrid(group, pair), public)
            }
        };
        Ok(PrivateKey { public: PublicKey::of_private(kem, public), private })
    }

    /// Derives a private key of secret `ikm` (`DeriveKeyPair` of RFC 9180 section 7.1.3 and draft-ietf-hpke-pq). Returns the
    /// bytes that [`PrivateKey::from_bytes`] reads, and the key.
    ///
    /// # Errors
    /// [`HpkeError::PrivateKey`] for an `ikm` shorter than a private key, [`HpkeError::Provider`].
    pub fn derive(
        provider: &dyn AgreementProvider,
        kem: Kem,
        ikm: &[u8],
    ) -> Result<(Zeroizing<alloc::vec::Vec<u8>>, PrivateKey), HpkeError> {
        if ikm.len() < kem.private_len() {
            return Err(HpkeError::PrivateKey);
        }
        let mut bytes = Zeroizing::new(alloc::vec![0; kem.private_len()]);
        match kem.form() {
            Form::Dh(curve) => bytes.copy_from_slice(dh::derive(provider, kem, curve, ikm)?.as_slice()),
            Form::MlKem | Form::Hybrid(_) => shake256_derive(ikm, &kem.suite_id(), "DeriveKeyPair", &mut bytes),
        }
        let key = PrivateKey::from_bytes(provider, kem, &bytes)?;
        Ok((bytes, key))
    }

    /// The public half of the key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn decapsulate(&self, provider: &dyn AgreementProvider, enc: &[u8]) -> Result<Secret, HpkeError> {
        match &self.private {
            Private::Dh(key) => dh::decapsulate(provider, self.public.kem(), &**key, enc),
            Private::MlKem(key) => key.decapsulate(enc).map_err(|_| HpkeError::Encapsulated),
            Private::Hybrid(group, pair) => hybrid::decapsulate(provider, *group, pair, enc),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?}, redacted)", self.public.kem())
    }
}
