//! ring behind the seam: AEADs, hashes, signatures and randomness (ADR 0019). Its key agreement is [`super::rust_crypto`]'s:
//! ring makes no key of a given scalar, agrees with no key twice, reads no compressed point and has no ML-KEM. So all suites
//! are offered.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use ring::{digest, hmac};
use zeroize::Zeroizing;

use super::agreement::{AgreementKey, AgreementProvider, Cipher, Curve, KEM_PRIVATE_LEN, KemKey};
use super::es256::{ES256_PKCS8_LEN_MAX, ES256_SIGNATURE_LEN, Es256, Es256Key, Es256Public, NewKey};
use super::rust_crypto::{RustCrypto, agreement};
use super::{AeadKey, EphemeralKey, MacKey, PeerKey, Provider};
use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, P256_PUBLIC_LEN, TAG_LEN};

/// The provider over ring, with the key agreement of RustCrypto.
#[derive(Debug, Clone, Copy)]
pub struct Ring;

struct Aead(LessSafeKey);

struct Mac(hmac::Key);

struct Public(UnparsedPublicKey<[u8; P256_PUBLIC_LEN]>);

struct Pair {
    pair: EcdsaKeyPair,
    public: [u8; P256_PUBLIC_LEN],
}

impl Pair {
    fn boxed(document: &[u8]) -> Result<Box<dyn Es256Key>, Error> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random);
        let pair = pair.map_err(|_| Error::Provider)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| Error::Provider)?;
        Ok(Box::new(Pair { pair, public }))
    }
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

    fn kem_generate(&self) -> Result<Box<dyn KemKey>, Error> {
        agreement::kem_generate()
    }

    fn kem_from_private(&self, private: &[u8; KEM_PRIVATE_LEN]) -> Result<Box<dyn KemKey>, Error> {
        agreement::kem_from_private(private)
    }

    fn kem_encapsulate(&self, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        agreement::kem_encapsulate(public)
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

impl Es256 for Ring {
    fn public(&self, point: &[u8]) -> Result<Box<dyn Es256Public>, Error> {
        // ring checks a key when it verifies; this code must report a bad key when it is read.
        RustCrypto.public(point)?;
        let point = point.try_into().map_err(|_| Error::PublicKeyInvalid)?;
        Ok(Box::new(Public(UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point))))
    }

    fn generate(&self) -> Result<NewKey, Error> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let document = Zeroizing::new(document.map_err(|_| Error::Provider)?.as_ref().to_vec());
        let pair = Pair::boxed(&document)?;
        Ok((document, pair))
    }

    fn from_pkcs8(&self, document: &[u8]) -> Result<Box<dyn Es256Key>, Error> {
        if document.len() > ES256_PKCS8_LEN_MAX {
            return Err(Error::Provider);
        }
        Pair::boxed(document)
    }
}

impl Es256Public for Public {
    fn verify(&self, message: &[u8], signature: &[u8; ES256_SIGNATURE_LEN]) -> bool {
        self.0.verify(message, signature).is_ok()
    }
}

impl Es256Key for Pair {
    fn public(&self) -> &[u8; P256_PUBLIC_LEN] {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; ES256_SIGNATURE_LEN], Error> {
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| Error::Provider)?;
        signature.as_ref().try_into().map_err(|_| Error::Provider)
    }
}
