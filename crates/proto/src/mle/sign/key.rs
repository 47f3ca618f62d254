//! Keys that sign and keys that verify. A key has one algorithm, as those of [`crate::mle::keys`] have, and no key does both work.
//! SPEC mle.md#keys

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::seam::{JwsProvider, Sign, Verify};
use crate::crypto::Provider;
use crate::mle::algorithm::JwsAlg;
use crate::mle::crypto::CryptoFailure;
use crate::mle::key_error::KeyError;
use crate::mle::kid::{self, KidSource};
use crate::mle::load::{Numbers, Public, private_pkcs8, rsa_defect};

/// A private key that signs requests.
pub struct SigningKey {
    kid: String,
    alg: JwsAlg,
    material: Box<dyn Sign>,
    public: Option<Public>,
}

impl SigningKey {
    /// Loads an RSA private key, PKCS#8 or PKCS#1, PEM or DER, for `RS256` or `PS256`. Names that derive from a certificate need one.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::JwsAlgorithm`] if `alg` is not of RSA.
    pub fn rsa(
        alg: JwsAlg,
        private: &[u8],
        certificate: Option<&[u8]>,
        kid: &KidSource,
        provider: &dyn JwsProvider,
        hashes: &dyn Provider,
    ) -> Result<SigningKey, KeyError> {
        check_rsa(alg)?;
        let pkcs8 = private_pkcs8(private)?;
        let material = provider.signing_key(alg, &pkcs8);
        let material = material.map_err(|_| rsa_defect(&pkcs8).unwrap_or(KeyError::Der))?;
        let own = Public::spki(&material.public_spki().map_err(|_| KeyError::Der)?)?;
        let public = own.with_certificate(certificate)?;
        Ok(SigningKey { kid: kid.derive(&public, hashes)?, alg, material, public: Some(public) })
    }

    /// Loads a private key on P-256 for `ES256`, in PKCS#8, PEM or DER.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::Curve`] for a key of another kind.
    pub fn es256(private: &[u8], kid: &str, provider: &dyn JwsProvider) -> Result<SigningKey, KeyError> {
        let pkcs8 = private_pkcs8(private).map_err(of_curve)?;
        let material = provider.signing_key(JwsAlg::Es256, &pkcs8).map_err(|_| KeyError::Curve)?;
        Ok(SigningKey { kid: kid::check(kid.to_owned())?, alg: JwsAlg::Es256, material, public: None })
    }

    /// Returns the name of the key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Returns the one algorithm of the key.
    pub fn alg(&self) -> JwsAlg {
        self.alg
    }

    /// Returns the public half of an RSA key, and its certificate with the times of its validity.
    pub fn public(&self) -> Option<&Public> {
        self.public.as_ref()
    }

    /// Signs a message, in the form of RFC 7518 section 3. This blocks: some 700 µs for RSA-2048.
    ///
    /// # Errors
    /// [`CryptoFailure`] if the library is out of memory or randomness.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        self.material.sign(message)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("kid", &self.kid).field("alg", &self.alg).finish_non_exhaustive()
    }
}

/// A public key that verifies signatures.
pub struct VerifyingKey {
    kid: String,
    alg: JwsAlg,
    material: Box<dyn Verify>,
    pub(super) certificate_sha256: Option<[u8; 32]>,
}

impl VerifyingKey {
    /// Loads the signer's certificate or public key, PEM or DER: RSA for `RS256` and `PS256`, P-256 for `ES256`.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::Kind`] for a key that `alg` does not take.
    pub fn load(
        alg: JwsAlg,
        public: &[u8],
        kid: &KidSource,
        provider: &dyn JwsProvider,
        hashes: &dyn Provider,
    ) -> Result<VerifyingKey, KeyError> {
        let public = Public::load(public)?;
        if matches!(public.numbers, Numbers::P256(_)) != (alg == JwsAlg::Es256) {
            return Err(KeyError::Kind);
        }
        let material = provider.verifying_key(alg, &public.spki).map_err(|_| KeyError::Der)?;
        let certificate_sha256 = public.certificate.as_ref().map(|it| kid::certificate_sha256(it, hashes));
        Ok(VerifyingKey { kid: kid.derive(&public, hashes)?, alg, material, certificate_sha256 })
    }

    /// Returns the name of the key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Returns the one algorithm of the key.
    pub fn alg(&self) -> JwsAlg {
        self.alg
    }

    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.material.verify(message, signature)
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey").field("kid", &self.kid).field("alg", &self.alg).finish_non_exhaustive()
    }
}

/// The live keys of one signer, by name.
#[derive(Clone, Debug, Default)]
pub struct VerifyingKeys(BTreeMap<String, Arc<VerifyingKey>>);

impl VerifyingKeys {
    /// Puts the keys of one signer together.
    ///
    /// # Errors
    /// [`KeyError::KidTwice`].
    pub fn new(keys: impl IntoIterator<Item = Arc<VerifyingKey>>) -> Result<VerifyingKeys, KeyError> {
        let mut by_kid = BTreeMap::new();
        for key in keys {
            if let Some(other) = by_kid.insert(key.kid.clone(), key) {
                return Err(KeyError::KidTwice(other.kid.clone()));
            }
        }
        Ok(VerifyingKeys(by_kid))
    }

    /// Returns the key of exactly this name; without a name the key if there is exactly one.
    pub(super) fn get(&self, kid: Option<&str>) -> Option<&VerifyingKey> {
        let mut keys = self.0.values();
        match kid {
            Some(kid) => self.0.get(kid).map(Arc::as_ref),
            None => keys.next().filter(|_| keys.next().is_none()).map(Arc::as_ref),
        }
    }
}

fn check_rsa(alg: JwsAlg) -> Result<(), KeyError> {
    if alg == JwsAlg::Es256 { Err(KeyError::JwsAlgorithm(alg)) } else { Ok(()) }
}

/// Returns the error of a file that was read for a key on P-256 in place of an RSA key.
fn of_curve(err: KeyError) -> KeyError {
    if err == KeyError::Kind { KeyError::Curve } else { err }
}
