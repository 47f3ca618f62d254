//! A crypto provider around another: it marks private keys that the library generates, and secrets that a KEM gives, and declares
//! what leaves the library for the wire. So no case has to know where a ciphertext, a tag or a public key comes from.

use sealway_proto::Error;
use sealway_proto::crypto::agreement::{
    AgreementKey, AgreementProvider, Cipher, Curve, Kem, KemKey, P384_SECRET_LEN, P384Key,
};
use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::crypto::{AeadKey, EphemeralKey, MacKey, PeerKey, Provider};
use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::crypto::{AesWrap, CryptoFailure, P256Private, RsaPrivate, Unwrap, Wrap};
use sealway_proto::mle::{Alg, Enc, JoseProvider};
use zeroize::Zeroizing;

use crate::memcheck::{declare, mark, secret};

const CIPHERTEXT: &str = "ciphertext and tag: they go over the wire";
const PUBLIC: &str = "public key or encapsulated secret: they go over the wire";

/// The provider around the one in `0`.
#[derive(Debug)]
pub(crate) struct Seam(pub(crate) &'static dyn AgreementProvider);

struct Aead(Box<dyn AeadKey>);

struct Ephemeral(Box<dyn EphemeralKey>);

fn aead(key: Result<Box<dyn AeadKey>, Error>) -> Result<Box<dyn AeadKey>, Error> {
    Ok(Box::new(Aead(key?)))
}

fn ephemeral(key: Box<dyn EphemeralKey>) -> Box<dyn EphemeralKey> {
    declare(key.public(), PUBLIC);
    Box::new(Ephemeral(key))
}

impl AeadKey for Aead {
    fn seal_in_place(&self, iv: &[u8; 12], aad: &[u8], data: &mut [u8]) -> Result<[u8; 16], Error> {
        // The nonce goes over the wire, or follows from the key by a public derivation: the libraries may branch on none of it.
        let tag = self.0.seal_in_place(iv, aad, data)?;
        declare(data, CIPHERTEXT);
        declare(&tag, CIPHERTEXT);
        Ok(tag)
    }

    fn open_in_place(&self, iv: &[u8; 12], aad: &[u8], ciphertext_and_tag: &mut [u8]) -> Result<(), Error> {
        self.0.open_in_place(iv, aad, ciphertext_and_tag)
    }
}

impl EphemeralKey for Ephemeral {
    fn public(&self) -> &[u8; 65] {
        self.0.public()
    }

    fn agree(self: Box<Self>, peer: Box<dyn PeerKey>) -> Result<Zeroizing<[u8; 32]>, Error> {
        self.0.agree(peer)
    }
}

impl Provider for Seam {
    fn name(&self) -> String {
        self.0.name()
    }

    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error> {
        self.0.fill_random(out)
    }

    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error> {
        self.p256_from_scalar(&secret([0x51; 32]))
    }

    fn p256_from_scalar(&self, scalar: &[u8; 32]) -> Result<Box<dyn EphemeralKey>, Error> {
        self.0.p256_from_scalar(scalar).map(ephemeral)
    }

    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error> {
        self.0.p256_public(point)
    }

    fn hkdf_sha256(&self, ikm: &[u8], salt: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; 32]>, Error> {
        self.0.hkdf_sha256(ikm, salt, info)
    }

    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.0.sha256(parts)
    }

    fn hmac_sha256(&self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        self.0.hmac_sha256(key, parts)
    }

    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey> {
        self.0.mac_key(key)
    }

    fn aes256_gcm(&self, key: &[u8; 32]) -> Result<Box<dyn AeadKey>, Error> {
        aead(self.0.aes256_gcm(key))
    }
}

impl AgreementProvider for Seam {
    fn agreement_generate(&self, curve: Curve) -> Result<Box<dyn AgreementKey>, Error> {
        self.agreement_from_private(curve, &secret([0x52; 32]))
    }

    fn agreement_from_private(&self, curve: Curve, private: &[u8; 32]) -> Result<Box<dyn AgreementKey>, Error> {
        let key = self.0.agreement_from_private(curve, private)?;
        declare(key.public(), PUBLIC);
        Ok(key)
    }

    fn hkdf_bare(&self, salt: &[u8], ikm: &[u8], out: &mut [u8]) -> Result<(), Error> {
        self.0.hkdf_bare(salt, ikm, out)
    }

    fn aead(&self, cipher: Cipher, key: &[u8; 32]) -> Result<Box<dyn AeadKey>, Error> {
        aead(self.0.aead(cipher, key))
    }

    fn p384_generate(&self) -> Result<Box<dyn P384Key>, Error> {
        self.p384_from_private(&secret([0x53; P384_SECRET_LEN]))
    }

    fn p384_from_private(&self, private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error> {
        let key = self.0.p384_from_private(private)?;
        declare(key.public(), PUBLIC);
        Ok(key)
    }

    fn kem_generate(&self, kem: Kem) -> Result<Box<dyn KemKey>, Error> {
        match kem {
            Kem::MlKem768 => self.kem_from_seed(&secret([0x54; 64])),
            // The seam reads no seed of the other set: its key is the library's own, and the shared secret is marked.
            kem => Ok(Box::new(Decapsulation(self.0.kem_generate(kem)?))),
        }
    }

    fn kem_from_private(&self, kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
        let key = self.0.kem_from_private(kem, private)?;
        declare(key.public(), PUBLIC);
        Ok(Box::new(Decapsulation(key)))
    }

    fn kem_encapsulate(&self, kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        let (ciphertext, mut shared) = self.0.kem_encapsulate(kem, public)?;
        mark(shared.as_mut_slice());
        Ok((ciphertext, shared))
    }

    fn kem_from_seed(&self, seed: &[u8; 64]) -> Result<Box<dyn KemKey>, Error> {
        let key = self.0.kem_from_seed(seed)?;
        declare(key.public(), PUBLIC);
        Ok(Box::new(Decapsulation(key)))
    }

    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error> {
        aead(self.0.aes128_gcm(key))
    }

    fn sha3_256(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.0.sha3_256(parts)
    }
}

struct Decapsulation(Box<dyn KemKey>);

impl KemKey for Decapsulation {
    fn public(&self) -> &[u8] {
        self.0.public()
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; 32]>, Error> {
        let mut shared = self.0.decapsulate(ciphertext)?;
        mark(shared.as_mut_slice());
        Ok(shared)
    }
}

/// A provider whose AES-256-GCM keys are secrets, whatever they came from.
#[derive(Debug)]
pub(crate) struct SecretKeys(pub(crate) &'static dyn AgreementProvider);

impl Provider for SecretKeys {
    fn name(&self) -> String {
        self.0.name()
    }

    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error> {
        self.0.fill_random(out)
    }

    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error> {
        self.0.p256_generate()
    }

    fn p256_from_scalar(&self, scalar: &[u8; 32]) -> Result<Box<dyn EphemeralKey>, Error> {
        self.0.p256_from_scalar(scalar)
    }

    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error> {
        self.0.p256_public(point)
    }

    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.0.sha256(parts)
    }

    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey> {
        self.0.mac_key(key)
    }

    fn aes256_gcm(&self, key: &[u8; 32]) -> Result<Box<dyn AeadKey>, Error> {
        self.0.aes256_gcm(&secret(*key))
    }
}

/// The provider of JWE around AWS-LC: it marks unwrapped keys and private keys, and declares ciphertexts, tags and wrapped keys.
#[derive(Debug)]
pub(crate) struct Jose(pub(crate) AwsLcJose);

struct AroundWrap<T: ?Sized>(Box<T>);

const WRAPPED: &str = "an encrypted key: it goes over the wire";

impl<T: Unwrap + ?Sized> Unwrap for AroundWrap<T> {
    fn unwrap_key(&self, encrypted_key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut key = self.0.unwrap_key(encrypted_key)?;
        mark(&mut key);
        Some(key)
    }
}

impl<T: Wrap + ?Sized> Wrap for AroundWrap<T> {
    fn wrap_key(&self, cek: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        let wrapped = self.0.wrap_key(cek)?;
        declare(&wrapped, WRAPPED);
        Ok(wrapped)
    }
}

impl RsaPrivate for AroundWrap<dyn RsaPrivate> {
    fn public_spki(&self) -> Result<Vec<u8>, CryptoFailure> {
        self.0.public_spki()
    }
}

impl P256Private for AroundWrap<dyn P256Private> {
    fn public_point(&self) -> [u8; 65] {
        let point = self.0.public_point();
        declare(&point, PUBLIC);
        point
    }
}

impl AesWrap for AroundWrap<dyn AesWrap> {}

static BASE: Seam = Seam(&AwsLc);

impl JoseProvider for Jose {
    fn base(&self) -> &dyn Provider {
        &BASE
    }

    fn open_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
        tag: &[u8],
    ) -> Result<(), CryptoFailure> {
        self.0.open_content(enc, cek, iv, aad, data, tag)
    }

    fn seal_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<Vec<u8>, CryptoFailure> {
        let tag = self.0.seal_content(enc, cek, iv, aad, data)?;
        declare(data, CIPHERTEXT);
        declare(&tag, CIPHERTEXT);
        Ok(tag)
    }

    fn encrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure> {
        self.0.encrypt_blocks(key, iv, data)?;
        declare(data, CIPHERTEXT);
        Ok(())
    }

    fn decrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure> {
        self.0.decrypt_blocks(key, iv, data)
    }

    fn rsa_private(&self, alg: Alg, pkcs8: &[u8]) -> Result<Box<dyn RsaPrivate>, CryptoFailure> {
        Ok(Box::new(AroundWrap(self.0.rsa_private(alg, pkcs8)?)))
    }

    fn rsa_public(&self, alg: Alg, spki: &[u8]) -> Result<Box<dyn Wrap>, CryptoFailure> {
        Ok(Box::new(AroundWrap(self.0.rsa_public(alg, spki)?)))
    }

    fn p256_private(&self, scalar: &[u8; 32]) -> Result<Box<dyn P256Private>, CryptoFailure> {
        Ok(Box::new(AroundWrap(self.0.p256_private(&secret(*scalar))?)))
    }

    fn aes_wrap(&self, key: &[u8]) -> Result<Box<dyn AesWrap>, CryptoFailure> {
        Ok(Box::new(AroundWrap(self.0.aes_wrap(key)?)))
    }
}
