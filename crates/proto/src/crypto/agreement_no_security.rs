//! Key agreement of channels and wire 3 without any security: for fuzzing only.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::AeadKey;
use super::agreement::{AgreementKey, AgreementProvider, Cipher, Curve, Kem, KemKey, P384_SECRET_LEN, P384Key};
use super::no_security::{Aead, NoSecurity, checksum};
use crate::error::Error;
use crate::limits::{KEY_LEN, P256_PUBLIC_LEN, P384_PUBLIC_LEN};

struct Agreement(Vec<u8>);
struct OnP384([u8; P384_PUBLIC_LEN]);
struct Decapsulator(Kem, Vec<u8>);

/// The bytes of X alone, which identify a point in either encoding.
fn abscissa(public: &[u8]) -> &[u8] {
    match public.len() {
        KEY_LEN => public,
        _ => public.get(1..=KEY_LEN).unwrap_or_default(),
    }
}

impl AgreementKey for Agreement {
    fn public(&self) -> &[u8] {
        &self.0
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let form = (self.0.len(), peer.len(), peer.first());
        let is_known = matches!(
            form,
            (KEY_LEN, KEY_LEN, _) | (P256_PUBLIC_LEN, P256_PUBLIC_LEN, Some(4)) | (P256_PUBLIC_LEN, 33, Some(2 | 3))
        );
        if !is_known {
            return Err(Error::PublicKeyInvalid);
        }
        let (mut a, mut b) = (abscissa(&self.0), abscissa(peer));
        if a > b {
            core::mem::swap(&mut a, &mut b);
        }
        Ok(Zeroizing::new(checksum(&[a, b])))
    }
}

impl P384Key for OnP384 {
    fn public(&self) -> &[u8] {
        &self.0
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; P384_SECRET_LEN]>, Error> {
        if peer.len() != P384_PUBLIC_LEN || peer.first() != Some(&0x04) {
            return Err(Error::PublicKeyInvalid);
        }
        let (mut a, mut b) = (self.0.as_slice(), peer);
        if a > b {
            core::mem::swap(&mut a, &mut b);
        }
        Ok(Zeroizing::new(checksum(&[a, b])))
    }
}

/// Repeats a checksum up to a length.
fn long(len: usize, parts: &[&[u8]]) -> Vec<u8> {
    checksum::<64>(parts).into_iter().cycle().take(len).collect()
}

impl KemKey for Decapsulator {
    fn public(&self) -> &[u8] {
        &self.1
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; 32]>, Error> {
        if ciphertext.len() != self.0.ciphertext_len() {
            return Err(Error::PublicKeyInvalid);
        }
        Ok(Zeroizing::new(checksum(&[&self.1, ciphertext])))
    }
}

impl AgreementProvider for NoSecurity {
    fn agreement_generate(&self, curve: Curve) -> Result<Box<dyn AgreementKey>, Error> {
        self.agreement_from_private(curve, &[0x5a; KEY_LEN])
    }

    fn agreement_from_private(&self, curve: Curve, private: &[u8; KEY_LEN]) -> Result<Box<dyn AgreementKey>, Error> {
        let public = match curve {
            Curve::X25519 => checksum::<KEY_LEN>(&[private]).to_vec(),
            Curve::P256 => {
                let mut point = checksum::<P256_PUBLIC_LEN>(&[private]);
                if let Some(first) = point.first_mut() {
                    *first = 0x04;
                }
                point.to_vec()
            }
        };
        Ok(Box::new(Agreement(public)))
    }

    fn aead(&self, _cipher: Cipher, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        Ok(Box::new(Aead(*key)))
    }

    fn p384_generate(&self) -> Result<Box<dyn P384Key>, Error> {
        self.p384_from_private(&[0x5a; P384_SECRET_LEN])
    }

    fn p384_from_private(&self, private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error> {
        let mut point = checksum::<P384_PUBLIC_LEN>(&[private]);
        if let Some(first) = point.first_mut() {
            *first = 0x04;
        }
        Ok(Box::new(OnP384(point)))
    }

    fn kem_generate(&self, kem: Kem) -> Result<Box<dyn KemKey>, Error> {
        self.kem_from_private(kem, b"kem")
    }

    fn kem_from_private(&self, kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
        Ok(Box::new(Decapsulator(kem, long(kem.public_len(), &[private]))))
    }

    fn kem_encapsulate(&self, kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        if public.len() != kem.public_len() {
            return Err(Error::PublicKeyInvalid);
        }
        let ciphertext = long(kem.ciphertext_len(), &[public]);
        let secret = Zeroizing::new(checksum(&[public, &ciphertext]));
        Ok((ciphertext, secret))
    }

    #[cfg(feature = "one-shot")]
    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error> {
        Ok(Box::new(Aead(checksum(&[key]))))
    }

    #[cfg(feature = "one-shot")]
    fn sha3_256(&self, parts: &[&[u8]]) -> [u8; 32] {
        checksum(parts)
    }
}
