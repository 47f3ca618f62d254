//! Parsed forms of a version's material, made once and used from then on.

use std::fmt;

use aws_lc_rs::aead::{LessSafeKey, UnboundKey};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, Prk};
use aws_lc_rs::hmac;
use aws_lc_rs::kem::{DecapsulationKey, EncapsulationKey};
use aws_lc_rs::rsa::{OaepPrivateDecryptingKey, PrivateDecryptingKey};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
#[cfg(not(feature = "fips"))]
use aws_lc_rs::signature::{
    ML_DSA_44_SIGNING, ML_DSA_65_SIGNING, ML_DSA_87_SIGNING, PqdsaKeyPair, PqdsaSigningAlgorithm,
};
use sealway_awslc::{PrivateKey, PublicKey};
use zeroize::Zeroizing;

use super::algorithm::cipher;
use super::{Algorithm, ml_kem};
#[cfg(not(feature = "fips"))]
use crate::profile::policy::MlDsaAlgorithm;
use crate::profile::policy::{EncryptAlgorithm, KemAlgorithm, MacAlgorithm};
use crate::{Code, Refusal, Result};

/// A parsed key. The library wipes its secret parts on drop.
pub(crate) enum Form {
    Cipher(Cipher),
    Mac(Box<hmac::Key>),
    /// Input keying material of a derivation.
    Secret(Zeroizing<Vec<u8>>),
    /// Key pair of RSA or ECDSA.
    Pair(PrivateKey, PublicKey),
    Unwrap(Box<UnwrapKey>),
    Ed25519(Ed25519KeyPair),
    #[cfg(not(feature = "fips"))]
    MlDsa(PqdsaKeyPair),
    /// Both halves of an ML-KEM key pair.
    Kem(KemAlgorithm, DecapsulationKey, EncapsulationKey),
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Form")
    }
}

/// RSA key for content keys of JWE.
pub(crate) struct UnwrapKey {
    pub(crate) key: OaepPrivateDecryptingKey,
    /// Secret of the keys that take the place of those that do not decrypt. It follows from the material, so that a
    /// restart changes none of them.
    pub(crate) decoys: Prk,
    spki: Vec<u8>,
}

impl UnwrapKey {
    fn parse(pkcs8: &[u8]) -> Option<UnwrapKey> {
        let key = PrivateDecryptingKey::from_pkcs8(pkcs8).ok()?;
        let public: PublicKeyX509Der<'_> = key.public_key().as_der().ok()?;
        Some(UnwrapKey {
            spki: public.as_ref().to_vec(),
            decoys: hkdf::Salt::new(HKDF_SHA256, DECOY_SALT).extract(pkcs8),
            key: OaepPrivateDecryptingKey::new(key).ok()?,
        })
    }
}

/// Key of a cipher, with its algorithm.
pub(crate) struct Cipher {
    pub(crate) key: LessSafeKey,
    pub(crate) algorithm: EncryptAlgorithm,
    /// Approved encryption, in which the module draws the nonce: for AES-GCM with 128 and 256 bits.
    #[cfg(feature = "fips")]
    pub(crate) sealing: Option<aws_lc_rs::aead::RandomizedNonceKey>,
}

impl Cipher {
    /// Creates a key of the algorithm's length; `None` for another length.
    pub(crate) fn new(algorithm: EncryptAlgorithm, key: &[u8]) -> Option<Cipher> {
        #[cfg(feature = "fips")]
        let sealing = match algorithm {
            EncryptAlgorithm::Aes128Gcm | EncryptAlgorithm::Aes256Gcm => {
                // A key that cannot encrypt so is rejected: the other way is not an approved service.
                Some(aws_lc_rs::aead::RandomizedNonceKey::new(cipher(algorithm), key).ok()?)
            }
            _ => None,
        };
        let key = LessSafeKey::new(UnboundKey::new(cipher(algorithm), key).ok()?);
        Some(Cipher {
            key,
            algorithm,
            #[cfg(feature = "fips")]
            sealing,
        })
    }
}

impl Form {
    /// Parses material as it is stored.
    ///
    /// # Errors
    /// [`Code::Internal`]: material that was checked at its import does not parse; [`Code::FailedPrecondition`]: this
    /// build does not have the algorithm.
    pub(crate) fn parse(algorithm: Algorithm, material: &[u8]) -> Result<Form> {
        let form = match algorithm {
            Algorithm::Encrypt(algorithm) => Cipher::new(algorithm, material).map(Form::Cipher),
            Algorithm::Mac(algorithm) => Some(Form::Mac(Box::new(hmac::Key::new(hmac_algorithm(algorithm), material)))),
            Algorithm::Derive(_) => Some(Form::Secret(Zeroizing::new(material.to_vec()))),
            Algorithm::Ecdsa(_) | Algorithm::Rsa(_) => pair(material),
            Algorithm::RsaUnwrap(_) => UnwrapKey::parse(material).map(|key| Form::Unwrap(Box::new(key))),
            Algorithm::Ed25519 => Ed25519KeyPair::from_pkcs8(material).ok().map(Form::Ed25519),
            #[cfg(not(feature = "fips"))]
            Algorithm::MlDsa(set) => PqdsaKeyPair::from_pkcs8(ml_dsa(set), material).ok().map(Form::MlDsa),
            #[cfg(feature = "fips")]
            Algorithm::MlDsa(_) => return Err(no_ml_dsa(algorithm)),
            Algorithm::Kem(set) => ml_kem::parse(set, material).map(|(secret, public)| Form::Kem(set, secret, public)),
        };
        form.ok_or_else(|| Refusal::new(Code::Internal, "key store: the material of a key does not parse"))
    }

    /// Encodes the public half as SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: the key has no public half.
    pub(crate) fn spki(&self) -> Result<Vec<u8>> {
        let failed = |_| Refusal::new(Code::Internal, "key store: cannot write the public key");
        match self {
            Form::Pair(_, public) => public.spki().map_err(|_| Refusal::new(Code::Internal, "key store: no memory")),
            Form::Unwrap(key) => Ok(key.spki.clone()),
            Form::Ed25519(pair) => {
                let der: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(failed)?;
                Ok(der.as_ref().to_vec())
            }
            #[cfg(not(feature = "fips"))]
            Form::MlDsa(pair) => {
                let der: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(failed)?;
                Ok(der.as_ref().to_vec())
            }
            Form::Kem(set, _, public) => ml_kem::spki(*set, public).map_err(failed),
            Form::Cipher(_) | Form::Mac(_) | Form::Secret(_) => {
                Err(Refusal::invalid("key_id: a secret key has no public half"))
            }
        }
    }
}

/// Error for an algorithm that only the plain build has.
#[cfg(feature = "fips")]
pub(crate) fn no_ml_dsa(algorithm: Algorithm) -> Refusal {
    let text = format!("{algorithm}: not in this build's cryptographic module");
    Refusal::new(Code::FailedPrecondition, text)
}

/// Parameter set of ML-DSA in the crypto library.
#[cfg(not(feature = "fips"))]
pub(crate) fn ml_dsa(set: MlDsaAlgorithm) -> &'static PqdsaSigningAlgorithm {
    match set {
        MlDsaAlgorithm::MlDsa44 => &ML_DSA_44_SIGNING,
        MlDsaAlgorithm::MlDsa65 => &ML_DSA_65_SIGNING,
        MlDsaAlgorithm::MlDsa87 => &ML_DSA_87_SIGNING,
    }
}

/// Signs with ML-DSA in its pure mode and the empty context; `None` if the library fails.
#[cfg(not(feature = "fips"))]
pub(crate) fn ml_dsa_signed(pair: &PqdsaKeyPair, message: &[u8]) -> Option<Vec<u8>> {
    let mut signature = vec![0; pair.algorithm().signature_len()];
    let len = pair.sign(message, &mut signature).ok()?;
    signature.truncate(len);
    Some(signature)
}

/// Error for Ed25519 in a FIPS build: the library excludes it from approved services.
#[cfg(feature = "fips")]
pub(crate) fn no_ed25519() -> Refusal {
    Refusal::new(Code::FailedPrecondition, "ed25519: not an approved service of this build's cryptographic module")
}

/// Algorithm of a MAC in the crypto library.
pub(crate) fn hmac_algorithm(algorithm: MacAlgorithm) -> hmac::Algorithm {
    match algorithm {
        MacAlgorithm::HmacSha256 => hmac::HMAC_SHA256,
        MacAlgorithm::HmacSha384 => hmac::HMAC_SHA384,
        MacAlgorithm::HmacSha512 => hmac::HMAC_SHA512,
    }
}

fn pair(pkcs8: &[u8]) -> Option<Form> {
    let secret = PrivateKey::from_pkcs8(pkcs8).ok()?;
    let public = PublicKey::from_spki(&secret.public_spki().ok()?).ok()?;
    Some(Form::Pair(secret, public))
}

/// Salt of the secret of decoys, which sets it apart from other uses of a key's material.
const DECOY_SALT: &[u8] = b"sealway broker unwrap 1";
