//! Parsed forms of a version's material, made once and used from then on.

use std::fmt;

use aws_lc_rs::aead::{LessSafeKey, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
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
use sealway_awslc::{PrivateKey, PublicKey, Scheme};
use zeroize::Zeroizing;

use super::algorithm::cipher;
use super::token::{self, TokenKey, Tokens};
use super::{Algorithm, ml_kem};
#[cfg(not(feature = "fips"))]
use crate::profile::policy::MlDsaAlgorithm;
use crate::profile::policy::{EncryptAlgorithm, KemAlgorithm, MacAlgorithm};
use crate::{Code, Refusal, Result};

/// A parsed key. The library wipes its secret parts on drop.
pub(crate) enum Form {
    Cipher(Cipher),
    Mac(MacKey),
    /// Input keying material of a derivation.
    Secret(Zeroizing<Vec<u8>>),
    /// Key pair of RSA or ECDSA, or of ML-DSA on a token.
    Pair(Secret, PublicKey),
    Unwrap(Box<UnwrapKey>),
    Ed25519(Ed25519KeyPair),
    /// Ed25519 on a token, and the SubjectPublicKeyInfo.
    TokenEd25519(TokenKey, Vec<u8>),
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

/// Private half of RSA or ECDSA, or of ML-DSA on a token.
pub(crate) enum Secret {
    Here(PrivateKey),
    Token(TokenKey),
}

/// Content of an input to sign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A message, of which the broker computes the digest.
    Message,
    /// A digest of the scheme's length.
    Digest,
}

impl Secret {
    /// Signs an input: ECDSA in DER form. `None`: the library failed.
    pub(crate) fn sign(
        &self,
        public: &PublicKey,
        scheme: Scheme,
        content: Content,
        input: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        match (self, content) {
            (Secret::Here(key), Content::Message) => Ok(key.sign(scheme, input).ok()),
            (Secret::Here(key), Content::Digest) => Ok(key.sign_digest(scheme, input).ok()),
            (Secret::Token(key), _) => key.sign(public, scheme, content, input).map(Some),
        }
    }
}

/// Key of HMAC, in memory or on a token.
pub(crate) enum MacKey {
    Here(Box<hmac::Key>),
    Token(TokenKey, MacAlgorithm),
}

impl MacKey {
    /// Computes the tag of a message.
    pub(crate) fn tag(&self, message: &[u8]) -> Result<Vec<u8>> {
        match self {
            MacKey::Here(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            MacKey::Token(key, algorithm) => key.mac(*algorithm, message),
        }
    }

    /// Verifies a tag in constant time; a truncated one is invalid.
    pub(crate) fn is_valid(&self, message: &[u8], tag: &[u8]) -> Result<bool> {
        match self {
            MacKey::Here(key) => Ok(hmac::verify(key, message, tag).is_ok()),
            MacKey::Token(..) => Ok(verify_slices_are_equal(&self.tag(message)?, tag).is_ok()),
        }
    }
}

/// RSA key that decrypts, in memory or on a token.
pub(crate) enum OaepKey {
    Here(OaepPrivateDecryptingKey),
    Token(TokenKey),
}

/// RSA key for content keys of JWE.
pub(crate) struct UnwrapKey {
    pub(crate) key: OaepKey,
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
            key: OaepKey::Here(OaepPrivateDecryptingKey::new(key).ok()?),
        })
    }
}

/// Place of a cipher's key.
pub(crate) enum CipherKey {
    Here(LessSafeKey),
    Token(TokenKey),
}

/// Key of a cipher, with its algorithm.
pub(crate) struct Cipher {
    pub(crate) key: CipherKey,
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
        let key = CipherKey::Here(LessSafeKey::new(UnboundKey::new(cipher(algorithm), key).ok()?));
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
    pub(crate) fn parse(tokens: &Tokens, algorithm: Algorithm, material: &[u8]) -> Result<Form> {
        if token::is_on_token(material) {
            return on_token(tokens, algorithm, material);
        }
        let form = match algorithm {
            Algorithm::Encrypt(algorithm) => Cipher::new(algorithm, material).map(Form::Cipher),
            Algorithm::Mac(algorithm) => {
                Some(Form::Mac(MacKey::Here(Box::new(hmac::Key::new(hmac_algorithm(algorithm), material)))))
            }
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
            Form::TokenEd25519(_, spki) => Ok(spki.clone()),
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
    Some(Form::Pair(Secret::Here(secret), public))
}

/// Parses the material of a key on a token; the token is not asked.
fn on_token(tokens: &Tokens, algorithm: Algorithm, material: &[u8]) -> Result<Form> {
    let damaged = || Refusal::new(Code::Internal, "key store: the material of a key on a token does not parse");
    let token::TokenMaterial { key, public, decoys } = token::parse_stored(tokens, material)?;
    match algorithm {
        Algorithm::Encrypt(algorithm) => Ok(Form::Cipher(Cipher {
            key: CipherKey::Token(key),
            algorithm,
            #[cfg(feature = "fips")]
            sealing: None,
        })),
        Algorithm::Mac(algorithm) => Ok(Form::Mac(MacKey::Token(key, algorithm))),
        Algorithm::Ecdsa(_) | Algorithm::Rsa(_) | Algorithm::MlDsa(_) => {
            Ok(Form::Pair(Secret::Token(key), PublicKey::from_spki(&public).map_err(|_| damaged())?))
        }
        Algorithm::Ed25519 => Ok(Form::TokenEd25519(key, public)),
        Algorithm::RsaUnwrap(_) => Ok(Form::Unwrap(Box::new(UnwrapKey {
            key: OaepKey::Token(key),
            decoys: hkdf::Salt::new(HKDF_SHA256, DECOY_SALT).extract(&decoys),
            spki: public,
        }))),
        Algorithm::Derive(_) | Algorithm::Kem(_) => Err(damaged()),
    }
}

/// Salt of the secret of decoys, which sets it apart from other uses of a key's material.
const DECOY_SALT: &[u8] = b"sealway broker unwrap 1";
