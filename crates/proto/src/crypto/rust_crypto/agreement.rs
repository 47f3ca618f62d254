//! Key agreement of channels and wire 3 by RustCrypto, for this provider and for ring's.

use alloc::boxed::Box;
use alloc::vec::Vec;

use ml_kem::kem::{Decapsulate, KeyExport, TryKeyInit};
use ml_kem::{DecapsulationKey, EncapsulationKey, MlKem768, MlKem1024};
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{PublicKey, SecretKey};
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

use super::{RustCrypto, chacha20_poly1305, fill_random, p256_agree, p256_private, p384_private, uncompressed};
use crate::crypto::agreement::{AgreementKey, AgreementProvider, Cipher, Curve, Kem, KemKey, P384_SECRET_LEN, P384Key};
use crate::crypto::{AeadKey, Provider, is_equal};
use crate::error::Error;
use crate::limits::{KEY_LEN, P256_PUBLIC_LEN, P384_PUBLIC_LEN};

struct OnP256 {
    private: SecretKey,
    public: [u8; P256_PUBLIC_LEN],
}

struct OnX25519 {
    private: StaticSecret,
    public: [u8; KEY_LEN],
}

struct OnP384 {
    private: p384::SecretKey,
    public: Vec<u8>,
}

/// The operations of one parameter set. The crate's trait over all of them is private.
macro_rules! parameter_set {
    ($name:ident, $kem:expr, $set:ty) => {
        struct $name {
            private: DecapsulationKey<$set>,
            public: Vec<u8>,
        }

        impl $name {
            fn boxed(private: DecapsulationKey<$set>) -> Box<dyn KemKey> {
                let public = private.encapsulation_key().to_bytes().to_vec();
                Box::new($name { private, public })
            }

            #[expect(
                deprecated,
                reason = "vectors hold expanded keys, which FIPS 203 defines and other libraries write"
            )]
            fn from_private(private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
                let private = private.try_into().map_err(|_| Error::Provider)?;
                Ok($name::boxed(DecapsulationKey::from_expanded(private).map_err(|_| Error::Provider)?))
            }

            fn encapsulate(public: &[u8], message: &[u8; 32]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
                // Reading it performs the checks of FIPS 203 section 7.2.
                let key = EncapsulationKey::<$set>::new_from_slice(public).map_err(|_| Error::PublicKeyInvalid)?;
                let (ciphertext, shared) = key.encapsulate_deterministic(message.into());
                Ok((ciphertext.to_vec(), Zeroizing::new(shared.into())))
            }
        }

        impl KemKey for $name {
            fn public(&self) -> &[u8] {
                &self.public
            }

            fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; 32]>, Error> {
                if ciphertext.len() != $kem.ciphertext_len() {
                    return Err(Error::PublicKeyInvalid);
                }
                let shared = self.private.decapsulate_slice(ciphertext).map_err(|_| Error::PublicKeyInvalid)?;
                Ok(Zeroizing::new(shared.into()))
            }
        }
    };
}

parameter_set!(Of768, Kem::MlKem768, MlKem768);
parameter_set!(Of1024, Kem::MlKem1024, MlKem1024);

pub(in crate::crypto) fn generate(curve: Curve) -> Result<Box<dyn AgreementKey>, Error> {
    match curve {
        Curve::P256 => on_p256(p256_private()?),
        Curve::X25519 => {
            let mut private = Zeroizing::new([0; KEY_LEN]);
            fill_random(private.as_mut_slice())?;
            Ok(on_x25519(&private))
        }
    }
}

pub(in crate::crypto) fn from_private(curve: Curve, private: &[u8; KEY_LEN]) -> Result<Box<dyn AgreementKey>, Error> {
    match curve {
        Curve::P256 => on_p256(SecretKey::from_slice(private).map_err(|_| Error::Provider)?),
        Curve::X25519 => Ok(on_x25519(private)),
    }
}

fn on_p256(private: SecretKey) -> Result<Box<dyn AgreementKey>, Error> {
    let public = uncompressed(&private.public_key())?;
    Ok(Box::new(OnP256 { private, public }))
}

fn on_x25519(private: &[u8; KEY_LEN]) -> Box<dyn AgreementKey> {
    let private = StaticSecret::from(*private);
    let public = x25519_dalek::PublicKey::from(&private).to_bytes();
    Box::new(OnX25519 { private, public })
}

pub(in crate::crypto) fn p384_generate() -> Result<Box<dyn P384Key>, Error> {
    Ok(on_p384(p384_private()?))
}

pub(in crate::crypto) fn p384_from_private(private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error> {
    Ok(on_p384(p384::SecretKey::from_slice(private).map_err(|_| Error::Provider)?))
}

fn on_p384(private: p384::SecretKey) -> Box<dyn P384Key> {
    let public = private.public_key().to_sec1_point(false).as_bytes().to_vec();
    Box::new(OnP384 { private, public })
}

pub(in crate::crypto) fn kem_generate(kem: Kem) -> Result<Box<dyn KemKey>, Error> {
    let mut seed = Zeroizing::new([0; 64]);
    fill_random(seed.as_mut_slice())?;
    Ok(match kem {
        Kem::MlKem768 => Of768::boxed(DecapsulationKey::from_seed((*seed).into())),
        Kem::MlKem1024 => Of1024::boxed(DecapsulationKey::from_seed((*seed).into())),
    })
}

pub(in crate::crypto) fn kem_from_private(kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
    match kem {
        Kem::MlKem768 => Of768::from_private(private),
        Kem::MlKem1024 => Of1024::from_private(private),
    }
}

pub(in crate::crypto) fn kem_encapsulate(kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
    if public.len() != kem.public_len() {
        return Err(Error::PublicKeyInvalid);
    }
    let mut message = Zeroizing::new([0; 32]);
    fill_random(message.as_mut_slice())?;
    match kem {
        Kem::MlKem768 => Of768::encapsulate(public, &message),
        Kem::MlKem1024 => Of1024::encapsulate(public, &message),
    }
}

impl AgreementKey for OnP256 {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let is_known = match peer.first() {
            Some(0x04) => peer.len() == P256_PUBLIC_LEN,
            Some(0x02 | 0x03) => peer.len() == KEY_LEN + 1,
            _ => false,
        };
        let peer = PublicKey::from_sec1_bytes(peer).ok().filter(|_| is_known).ok_or(Error::PublicKeyInvalid)?;
        p256_agree(&self.private, &peer)
    }
}

impl AgreementKey for OnX25519 {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let peer: [u8; KEY_LEN] = peer.try_into().map_err(|_| Error::PublicKeyInvalid)?;
        let shared = Zeroizing::new(self.private.diffie_hellman(&x25519_dalek::PublicKey::from(peer)).to_bytes());
        // A point of small order gives a secret that every observer knows.
        if is_equal(shared.as_slice(), &[0; KEY_LEN]) {
            return Err(Error::PublicKeyInvalid);
        }
        Ok(shared)
    }
}

impl P384Key for OnP384 {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; P384_SECRET_LEN]>, Error> {
        let is_known = peer.len() == P384_PUBLIC_LEN && peer.first() == Some(&0x04);
        let peer = p384::PublicKey::from_sec1_bytes(peer).ok().filter(|_| is_known).ok_or(Error::PublicKeyInvalid)?;
        let shared = self.private.diffie_hellman(&peer);
        let mut out = Zeroizing::new([0; P384_SECRET_LEN]);
        out.copy_from_slice(shared.raw_secret_bytes());
        Ok(out)
    }
}

impl AgreementProvider for RustCrypto {
    fn agreement_generate(&self, curve: Curve) -> Result<Box<dyn AgreementKey>, Error> {
        generate(curve)
    }

    fn agreement_from_private(&self, curve: Curve, private: &[u8; KEY_LEN]) -> Result<Box<dyn AgreementKey>, Error> {
        from_private(curve, private)
    }

    fn aead(&self, cipher: Cipher, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        match cipher {
            Cipher::Aes256Gcm => self.aes256_gcm(key),
            Cipher::ChaCha20Poly1305 => Ok(chacha20_poly1305(key)),
        }
    }

    fn p384_generate(&self) -> Result<Box<dyn P384Key>, Error> {
        p384_generate()
    }

    fn p384_from_private(&self, private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error> {
        p384_from_private(private)
    }

    fn kem_generate(&self, kem: Kem) -> Result<Box<dyn KemKey>, Error> {
        kem_generate(kem)
    }

    fn kem_from_private(&self, kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
        kem_from_private(kem, private)
    }

    fn kem_encapsulate(&self, kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        kem_encapsulate(kem, public)
    }

    #[cfg(feature = "one-shot")]
    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error> {
        Ok(super::aes128_gcm(key))
    }
}
