//! Key agreement of channels and wire 3 by AWS-LC, through `aws-lc-rs`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use aws_lc_rs::aead::{AES_256_GCM, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384, PrivateKey, UnparsedPublicKey, X25519};
#[cfg(feature = "one-shot")]
use aws_lc_rs::digest;
use aws_lc_rs::hkdf;
use aws_lc_rs::kem::{self, Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768, ML_KEM_1024};
use zeroize::Zeroizing;

use super::agreement::{AgreementKey, AgreementProvider, Cipher, Curve, Kem, KemKey, P384_SECRET_LEN, P384Key};
use super::aws_lc::{Aead, AwsLc};
use super::{AeadKey, is_equal};
use crate::error::Error;
use crate::limits::{KEY_LEN, P256_PUBLIC_LEN, P384_PUBLIC_LEN};

struct Agreement {
    curve: Curve,
    private: PrivateKey,
    public: Vec<u8>,
}

struct OnP384 {
    private: PrivateKey,
    public: Vec<u8>,
}

struct Decapsulator {
    kem: Kem,
    private: DecapsulationKey,
    public: Vec<u8>,
}

/// The length of HKDF's output, in bytes.
struct OutLen(usize);

impl hkdf::KeyType for OutLen {
    fn len(&self) -> usize {
        self.0
    }
}

fn algorithm(curve: Curve) -> &'static agreement::Algorithm {
    match curve {
        Curve::X25519 => &X25519,
        Curve::P256 => &ECDH_P256,
    }
}

fn kem_algorithm(kem: Kem) -> &'static kem::Algorithm<kem::AlgorithmId> {
    match kem {
        Kem::MlKem768 => &ML_KEM_768,
        Kem::MlKem1024 => &ML_KEM_1024,
    }
}

fn secret<const N: usize>(bytes: &[u8]) -> Result<Zeroizing<[u8; N]>, Error> {
    let mut out = Zeroizing::new([0; N]);
    if bytes.len() != out.len() {
        return Err(Error::Provider);
    }
    out.copy_from_slice(bytes);
    Ok(out)
}

impl Agreement {
    fn boxed(curve: Curve, private: PrivateKey) -> Result<Box<dyn AgreementKey>, Error> {
        let public = private.compute_public_key().map_err(|_| Error::Provider)?.as_ref().to_vec();
        Ok(Box::new(Agreement { curve, private, public }))
    }

    /// Returns whether a peer's key has a form of the wires. The library also reads DER and hybrid forms; the wires know
    /// neither.
    fn has_known_form(&self, peer: &[u8]) -> bool {
        match self.curve {
            Curve::X25519 => peer.len() == KEY_LEN,
            Curve::P256 => match peer.first() {
                Some(0x04) => peer.len() == P256_PUBLIC_LEN,
                Some(0x02 | 0x03) => peer.len() == KEY_LEN + 1,
                _ => false,
            },
        }
    }
}

impl AgreementKey for Agreement {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        if !self.has_known_form(peer) {
            return Err(Error::PublicKeyInvalid);
        }
        let peer = UnparsedPublicKey::new(algorithm(self.curve), peer);
        let shared = agreement::agree(&self.private, peer, Error::PublicKeyInvalid, secret)?;
        // The library rejects a point of small order; this check keeps the contract if it ever stops.
        if is_equal(shared.as_slice(), &[0; KEY_LEN]) {
            return Err(Error::PublicKeyInvalid);
        }
        Ok(shared)
    }
}

impl KemKey for Decapsulator {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; 32]>, Error> {
        if ciphertext.len() != self.kem.ciphertext_len() {
            return Err(Error::PublicKeyInvalid);
        }
        let shared = self.private.decapsulate(Ciphertext::from(ciphertext)).map_err(|_| Error::PublicKeyInvalid)?;
        secret(shared.as_ref())
    }
}

impl OnP384 {
    fn boxed(private: PrivateKey) -> Result<Box<dyn P384Key>, Error> {
        let public = private.compute_public_key().map_err(|_| Error::Provider)?.as_ref().to_vec();
        Ok(Box::new(OnP384 { private, public }))
    }
}

impl P384Key for OnP384 {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; P384_SECRET_LEN]>, Error> {
        // The library also reads compressed points and DER.
        if peer.len() != P384_PUBLIC_LEN || peer.first() != Some(&0x04) {
            return Err(Error::PublicKeyInvalid);
        }
        let peer = UnparsedPublicKey::new(&ECDH_P384, peer);
        agreement::agree(&self.private, peer, Error::PublicKeyInvalid, secret)
    }
}

impl AgreementProvider for AwsLc {
    fn agreement_generate(&self, curve: Curve) -> Result<Box<dyn AgreementKey>, Error> {
        Agreement::boxed(curve, PrivateKey::generate(algorithm(curve)).map_err(|_| Error::Provider)?)
    }

    fn agreement_from_private(&self, curve: Curve, private: &[u8; KEY_LEN]) -> Result<Box<dyn AgreementKey>, Error> {
        let private = PrivateKey::from_private_key(algorithm(curve), private).map_err(|_| Error::Provider)?;
        Agreement::boxed(curve, private)
    }

    fn hkdf_bare(&self, salt: &[u8], ikm: &[u8], out: &mut [u8]) -> Result<(), Error> {
        // One call of the library instead of one for each block.
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(ikm);
        let filled = prk.expand(&[], OutLen(out.len())).and_then(|okm| okm.fill(out));
        filled.map_err(|_| Error::Provider)
    }

    fn aead(&self, cipher: Cipher, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        let algorithm = match cipher {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| Error::Provider)?;
        Ok(Box::new(Aead(LessSafeKey::new(key))))
    }

    fn p384_generate(&self) -> Result<Box<dyn P384Key>, Error> {
        OnP384::boxed(PrivateKey::generate(&ECDH_P384).map_err(|_| Error::Provider)?)
    }

    fn p384_from_private(&self, private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error> {
        OnP384::boxed(PrivateKey::from_private_key(&ECDH_P384, private).map_err(|_| Error::Provider)?)
    }

    fn kem_generate(&self, kem: Kem) -> Result<Box<dyn KemKey>, Error> {
        let private = DecapsulationKey::generate(kem_algorithm(kem)).map_err(|_| Error::Provider)?;
        let public = private.encapsulation_key().and_then(|key| key.key_bytes().map(|bytes| bytes.as_ref().to_vec()));
        Ok(Box::new(Decapsulator { kem, private, public: public.map_err(|_| Error::Provider)? }))
    }

    fn kem_from_private(&self, kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
        let key = DecapsulationKey::new(kem_algorithm(kem), private).map_err(|_| Error::Provider)?;
        // AWS-LC returns no public half for a key that it has read; in the private one (FIPS 203 7.1) two hashes follow it.
        let end = private.len().checked_sub(64).ok_or(Error::Provider)?;
        let begin = end.checked_sub(kem.public_len()).ok_or(Error::Provider)?;
        let public = private.get(begin..end).ok_or(Error::Provider)?.to_vec();
        Ok(Box::new(Decapsulator { kem, private: key, public }))
    }

    fn kem_encapsulate(&self, kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        let key = EncapsulationKey::new(kem_algorithm(kem), public).map_err(|_| Error::PublicKeyInvalid)?;
        let (ciphertext, shared) = key.encapsulate().map_err(|_| Error::PublicKeyInvalid)?;
        Ok((ciphertext.as_ref().to_vec(), secret(shared.as_ref())?))
    }

    #[cfg(feature = "one-shot")]
    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error> {
        let key = UnboundKey::new(&aws_lc_rs::aead::AES_128_GCM, key).map_err(|_| Error::Provider)?;
        Ok(Box::new(Aead(LessSafeKey::new(key))))
    }

    #[cfg(feature = "one-shot")]
    fn sha3_256(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA3_256);
        parts.iter().for_each(|part| context.update(part));
        let mut out = [0; 32];
        for (to, from) in out.iter_mut().zip(context.finish().as_ref()) {
            *to = *from;
        }
        out
    }
}
