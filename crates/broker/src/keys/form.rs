//! Parsed forms of a version's material, made once and used from then on.

use std::fmt;

use aws_lc_rs::aead::{LessSafeKey, UnboundKey};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, Prk};
use aws_lc_rs::kem::{DecapsulationKey, EncapsulationKey, ML_KEM_768};
use aws_lc_rs::rsa::{OaepPrivateDecryptingKey, PrivateDecryptingKey};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
#[cfg(not(feature = "fips"))]
use aws_lc_rs::signature::{ML_DSA_65_SIGNING, PqdsaKeyPair};
use aws_lc_rs::{digest, hmac};
use sealway_awslc::{PrivateKey, PublicKey};
use zeroize::Zeroizing;

use super::Algorithm;
use super::algorithm::cipher;
use crate::profile::policy::{EncryptAlgorithm, MacAlgorithm};
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
    MlDsa65(PqdsaKeyPair),
    /// Both halves of an ML-KEM-768 key pair.
    Kem(DecapsulationKey, EncapsulationKey),
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
            Algorithm::MlDsa65 => PqdsaKeyPair::from_pkcs8(&ML_DSA_65_SIGNING, material).ok().map(Form::MlDsa65),
            #[cfg(feature = "fips")]
            Algorithm::MlDsa65 => return Err(no_ml_dsa()),
            Algorithm::Kem(_) => kem(material),
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
            Form::MlDsa65(pair) => {
                let der: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(failed)?;
                Ok(der.as_ref().to_vec())
            }
            Form::Kem(_, public) => {
                let bytes = public.key_bytes().map_err(failed)?;
                Ok([ML_KEM_768_SPKI, bytes.as_ref()].concat())
            }
            Form::Cipher(_) | Form::Mac(_) | Form::Secret(_) => {
                Err(Refusal::invalid("key_id: a secret key has no public half"))
            }
        }
    }
}

/// Error for an algorithm that only the plain build has.
#[cfg(feature = "fips")]
pub(crate) fn no_ml_dsa() -> Refusal {
    Refusal::new(Code::FailedPrecondition, "ml-dsa-65: not in this build's cryptographic module")
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
/// Length of an ML-KEM-768 decapsulation key (FIPS 203 table 3).
const ML_KEM_768_SECRET_LEN: usize = 2400;
/// Length of an ML-KEM-768 encapsulation key.
const ML_KEM_768_PUBLIC_LEN: usize = 1184;
/// Fixed bytes before an ML-KEM-768 encapsulation key in its SubjectPublicKeyInfo (RFC 9935).
const ML_KEM_768_SPKI: &[u8] = &[
    0x30, 0x82, 0x04, 0xb2, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x04, 0x02, 0x03, 0x82,
    0x04, 0xa1, 0x00,
];

/// Parses a decapsulation key (FIPS 203 algorithm 16), which contains the encapsulation key and its digest; checks the
/// digest as section 7.3 demands.
fn kem(material: &[u8]) -> Option<Form> {
    if material.len() != ML_KEM_768_SECRET_LEN {
        return None;
    }
    // Bytes: 384 k of the secret vector, the encapsulation key, its digest, 32 for implicit rejection.
    let (public, told) = (material.get(1152..2336)?, material.get(2336..2368)?);
    if digest::digest(&digest::SHA3_256, public).as_ref() != told {
        return None;
    }
    let secret = DecapsulationKey::new(&ML_KEM_768, material).ok()?;
    Some(Form::Kem(secret, encapsulation_key(public)?))
}

/// Parses an encapsulation key, raw or in a SubjectPublicKeyInfo.
pub(crate) fn encapsulation_key_of(public: &[u8]) -> Option<EncapsulationKey> {
    encapsulation_key(public.strip_prefix(ML_KEM_768_SPKI).unwrap_or(public))
}

/// Parses an encapsulation key with the check of FIPS 203 section 7.2: each coefficient is below q.
fn encapsulation_key(public: &[u8]) -> Option<EncapsulationKey> {
    const Q: u16 = 3329;
    if public.len() != ML_KEM_768_PUBLIC_LEN {
        return None;
    }
    let (coefficients, _seed) = public.split_at(1152);
    let in_range = coefficients.chunks_exact(3).all(|bytes| {
        let [a, b, c] = [bytes[0], bytes[1], bytes[2]].map(u16::from);
        (a | (b & 15) << 8) < Q && (b >> 4 | c << 4) < Q
    });
    in_range.then(|| EncapsulationKey::new(&ML_KEM_768, public).ok())?
}
