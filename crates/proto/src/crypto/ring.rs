//! ring behind the seam: AEADs, hashes, signatures and randomness (ADR 0019). Its key agreement is [`super::rust_crypto`]'s:
//! ring makes no key of a given scalar, agrees with no key twice, reads no compressed point and has no ML-KEM. ML-DSA is RustCrypto's
//! too. So all suites and signature algorithms are offered.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, EcdsaVerificationAlgorithm, KeyPair, UnparsedPublicKey,
};
use ring::{digest, hmac};
use zeroize::Zeroizing;

use super::agreement::{AgreementKey, AgreementProvider, Cipher, Curve, Kem, KemKey, P384_SECRET_LEN, P384Key};
use super::identity::{IdentityLibrary, NewSchemeKey, PKCS8_LEN_MAX, Scheme, SchemeKey, SchemePublic};
use super::rust_crypto::{RustCrypto, agreement};
use super::{AeadKey, EphemeralKey, MacKey, PeerKey, Provider};
use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, TAG_LEN};

/// The provider over ring, with the key agreement of RustCrypto.
#[derive(Debug, Clone, Copy)]
pub struct Ring;

struct Aead(LessSafeKey);

struct Mac(hmac::Key);

struct Public(UnparsedPublicKey<Vec<u8>>);

struct Pair(EcdsaKeyPair);

/// Returns the library's algorithms of ECDSA; `None` for the schemes that it lacks.
fn ecdsa(scheme: Scheme) -> Option<(&'static EcdsaSigningAlgorithm, &'static EcdsaVerificationAlgorithm)> {
    match scheme {
        Scheme::Es256 => Some((&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P256_SHA256_FIXED)),
        Scheme::Es384 => Some((&ECDSA_P384_SHA384_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED)),
        Scheme::MlDsa65 | Scheme::MlDsa87 => None,
    }
}

fn pair(algorithm: &'static EcdsaSigningAlgorithm, document: &[u8]) -> Result<Box<dyn SchemeKey>, Error> {
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document, &SystemRandom::new());
    Ok(Box::new(Pair(pair.map_err(|_| Error::Provider)?)))
}

fn array(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    out
}

impl Provider for Ring {
    fn name(&self) -> String {
        "ring".into()
    }

    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error> {
        SystemRandom::new().fill(out).map_err(|_| Error::Provider)
    }

    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error> {
        RustCrypto.p256_generate()
    }

    fn p256_from_scalar(&self, scalar: &[u8; KEY_LEN]) -> Result<Box<dyn EphemeralKey>, Error> {
        RustCrypto.p256_from_scalar(scalar)
    }

    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error> {
        RustCrypto.p256_public(point)
    }

    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA256);
        parts.iter().for_each(|part| context.update(part));
        array(context.finish().as_ref())
    }

    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey> {
        Box::new(Mac(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    fn aes256_gcm(&self, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        self.aead(Cipher::Aes256Gcm, key)
    }
}

impl AgreementProvider for Ring {
    fn agreement_generate(&self, curve: Curve) -> Result<Box<dyn AgreementKey>, Error> {
        agreement::generate(curve)
    }

    fn agreement_from_private(&self, curve: Curve, private: &[u8; KEY_LEN]) -> Result<Box<dyn AgreementKey>, Error> {
        agreement::from_private(curve, private)
    }

    fn aead(&self, cipher: Cipher, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        let algorithm = match cipher {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        Ok(Box::new(Aead(LessSafeKey::new(UnboundKey::new(algorithm, key).map_err(|_| Error::Provider)?))))
    }

    fn p384_generate(&self) -> Result<Box<dyn P384Key>, Error> {
        agreement::p384_generate()
    }

    fn p384_from_private(&self, private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error> {
        agreement::p384_from_private(private)
    }

    fn kem_generate(&self, kem: Kem) -> Result<Box<dyn KemKey>, Error> {
        agreement::kem_generate(kem)
    }

    fn kem_from_private(&self, kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
        agreement::kem_from_private(kem, private)
    }

    fn kem_encapsulate(&self, kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        agreement::kem_encapsulate(kem, public)
    }

    #[cfg(feature = "one-shot")]
    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error> {
        let key = UnboundKey::new(&ring::aead::AES_128_GCM, key).map_err(|_| Error::Provider)?;
        Ok(Box::new(Aead(LessSafeKey::new(key))))
    }
}

impl MacKey for Mac {
    fn mac(&self, parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        Zeroizing::new(array(context.sign().as_ref()))
    }
}

impl AeadKey for Aead {
    fn seal_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], Error> {
        let nonce = Nonce::assume_unique_for_key(*iv);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), data).map_err(|_| Error::Provider)?;
        tag.as_ref().try_into().map_err(|_| Error::Provider)
    }

    fn open_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], ciphertext_and_tag: &mut [u8]) -> Result<(), Error> {
        let nonce = Nonce::assume_unique_for_key(*iv);
        let opened = self.0.open_in_place(nonce, Aad::from(aad), ciphertext_and_tag);
        opened.map(drop).map_err(|_| Error::Unsealable)
    }
}

impl IdentityLibrary for Ring {
    fn has(&self, scheme: Scheme) -> bool {
        RustCrypto.has(scheme)
    }

    fn scheme_public(&self, scheme: Scheme, key: &[u8]) -> Result<Box<dyn SchemePublic>, Error> {
        // ring checks a key when it verifies; this code must report a bad key when it is read.
        let checked = RustCrypto.scheme_public(scheme, key)?;
        Ok(match ecdsa(scheme) {
            Some((_, algorithm)) => Box::new(Public(UnparsedPublicKey::new(algorithm, key.to_vec()))),
            None => checked,
        })
    }

    fn scheme_generate(&self, scheme: Scheme) -> Result<NewSchemeKey, Error> {
        let Some((algorithm, _)) = ecdsa(scheme) else { return RustCrypto.scheme_generate(scheme) };
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
        let document = Zeroizing::new(document.map_err(|_| Error::Provider)?.as_ref().to_vec());
        let pair = pair(algorithm, &document)?;
        Ok((document, pair))
    }

    fn scheme_from_pkcs8(&self, scheme: Scheme, document: &[u8]) -> Result<Box<dyn SchemeKey>, Error> {
        match ecdsa(scheme) {
            Some(_) if document.len() > PKCS8_LEN_MAX => Err(Error::Provider),
            Some((algorithm, _)) => pair(algorithm, document),
            None => RustCrypto.scheme_from_pkcs8(scheme, document),
        }
    }
}

impl SchemePublic for Public {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify(message, signature).is_ok()
    }
}

impl SchemeKey for Pair {
    fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.0.sign(&SystemRandom::new(), message).map_err(|_| Error::Provider)?;
        Ok(signature.as_ref().to_vec())
    }
}
