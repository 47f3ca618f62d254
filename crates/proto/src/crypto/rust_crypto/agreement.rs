//! Key agreement of channels and wire 3 by RustCrypto, for this provider and for ring's.

use alloc::boxed::Box;
use alloc::vec::Vec;

use ml_kem::kem::{Decapsulate, KeyExport, TryKeyInit};
use ml_kem::{DecapsulationKey, EncapsulationKey, MlKem768};
use p256::{PublicKey, SecretKey};
use subtle::ConstantTimeEq;
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

use super::{RustCrypto, chacha20_poly1305, fill_random, p256_agree, p256_private, uncompressed};
use crate::crypto::agreement::{
    AgreementKey, AgreementProvider, Cipher, Curve, KEM_CIPHERTEXT_LEN, KEM_PRIVATE_LEN, KEM_PUBLIC_LEN, KemKey,
};
use crate::crypto::{AeadKey, Provider};
use crate::error::Error;
use crate::limits::{KEY_LEN, P256_PUBLIC_LEN};

struct OnP256 {
    private: SecretKey,
    public: [u8; P256_PUBLIC_LEN],
}

struct OnX25519 {
    private: StaticSecret,
    public: [u8; KEY_LEN],
}

struct Kem {
    private: DecapsulationKey<MlKem768>,
    public: Vec<u8>,
}

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

pub(in crate::crypto) fn kem_generate() -> Result<Box<dyn KemKey>, Error> {
    let mut seed = Zeroizing::new([0; 64]);
    fill_random(seed.as_mut_slice())?;
    Kem::boxed(DecapsulationKey::from_seed((*seed).into()))
}

#[expect(deprecated, reason = "vectors hold expanded keys, which FIPS 203 defines and other libraries write")]
pub(in crate::crypto) fn kem_from_private(private: &[u8; KEM_PRIVATE_LEN]) -> Result<Box<dyn KemKey>, Error> {
    let private = (&private[..]).try_into().map_err(|_| Error::Provider)?;
    Kem::boxed(DecapsulationKey::from_expanded(private).map_err(|_| Error::Provider)?)
}

pub(in crate::crypto) fn kem_encapsulate(public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
    if public.len() != KEM_PUBLIC_LEN {
        return Err(Error::PublicKeyInvalid);
    }
    // Reading it performs the checks of FIPS 203 section 7.2.
    let key = EncapsulationKey::<MlKem768>::new_from_slice(public).map_err(|_| Error::PublicKeyInvalid)?;
    let mut message = Zeroizing::new([0; 32]);
    fill_random(message.as_mut_slice())?;
    let (ciphertext, shared) = key.encapsulate_deterministic((&*message).into());
    Ok((ciphertext.to_vec(), Zeroizing::new(shared.into())))
}

impl Kem {
    fn boxed(private: DecapsulationKey<MlKem768>) -> Result<Box<dyn KemKey>, Error> {
        let public = private.encapsulation_key().to_bytes().to_vec();
        Ok(Box::new(Kem { private, public }))
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
        if bool::from(shared.as_slice().ct_eq(&[0; KEY_LEN])) {
            return Err(Error::PublicKeyInvalid);
        }
        Ok(shared)
    }
}

impl KemKey for Kem {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; 32]>, Error> {
        if ciphertext.len() != KEM_CIPHERTEXT_LEN {
            return Err(Error::PublicKeyInvalid);
        }
        let shared = self.private.decapsulate_slice(ciphertext).map_err(|_| Error::PublicKeyInvalid)?;
        Ok(Zeroizing::new(shared.into()))
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

    fn kem_generate(&self) -> Result<Box<dyn KemKey>, Error> {
        kem_generate()
    }

    fn kem_from_private(&self, private: &[u8; KEM_PRIVATE_LEN]) -> Result<Box<dyn KemKey>, Error> {
        kem_from_private(private)
    }

    fn kem_encapsulate(&self, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        kem_encapsulate(public)
    }

    #[cfg(feature = "one-shot")]
    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error> {
        Ok(super::aes128_gcm(key))
    }
}
