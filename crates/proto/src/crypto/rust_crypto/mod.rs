//! RustCrypto behind the seam: `aes-gcm`, `chacha20poly1305`, `hmac`, `sha2`, `p256`, `p384`, `x25519-dalek`, `ml-kem`, `ml-dsa`, in
//! Rust alone and without unsafe code of this crate, for targets that AWS-LC is not built for (ADR 0019). It offers all suites and both
//! AEADs.
//!
//! It is slower than AWS-LC, and where a target has no AES and carry-less multiplication in hardware, AES-GCM runs in
//! constant-time software, much slower still. Randomness is the operating system's.

pub(super) mod agreement;
mod identity;

use alloc::boxed::Box;
use alloc::string::String;
use core::any::Any;

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{AeadInOut, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::{Hmac, Mac as _};
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{PublicKey, SecretKey};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::agreement::P384_SECRET_LEN;
use super::{AeadKey, EphemeralKey, MacKey, PeerKey, Provider};
use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, P256_PUBLIC_LEN, TAG_LEN};

/// Most draws of a scalar before the generator counts as failed: one in 2³² is not a scalar of P-256.
const DRAWS_MAX: usize = 16;

/// The provider over RustCrypto's crates.
#[derive(Debug, Clone, Copy)]
pub struct RustCrypto;

struct Ephemeral {
    private: SecretKey,
    public: [u8; P256_PUBLIC_LEN],
}

struct Peer(PublicKey);

/// An expanded key of an AEAD with a nonce of 12 bytes and a tag of 16.
struct Aead<C>(C);

struct Mac(Hmac<Sha256>);

pub(super) fn fill_random(out: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(out).map_err(|_| Error::Provider)
}

/// Generates a private key of P-256.
fn p256_private() -> Result<SecretKey, Error> {
    let mut scalar = Zeroizing::new([0; KEY_LEN]);
    for _ in 0..DRAWS_MAX {
        fill_random(scalar.as_mut_slice())?;
        if let Ok(private) = SecretKey::from_slice(scalar.as_slice()) {
            return Ok(private);
        }
    }
    Err(Error::Provider)
}

/// Generates a private key of P-384.
fn p384_private() -> Result<p384::SecretKey, Error> {
    let mut scalar = Zeroizing::new([0; P384_SECRET_LEN]);
    for _ in 0..DRAWS_MAX {
        fill_random(scalar.as_mut_slice())?;
        if let Ok(private) = p384::SecretKey::from_slice(scalar.as_slice()) {
            return Ok(private);
        }
    }
    Err(Error::Provider)
}

/// Encodes a point as `0x04 || X || Y`.
fn uncompressed(public: &PublicKey) -> Result<[u8; P256_PUBLIC_LEN], Error> {
    public.to_sec1_point(false).as_bytes().try_into().map_err(|_| Error::Provider)
}

/// Computes the x-coordinate of the shared point.
fn p256_agree(private: &SecretKey, peer: &PublicKey) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
    let shared = private.diffie_hellman(peer);
    let mut out = Zeroizing::new([0; KEY_LEN]);
    out.copy_from_slice(shared.raw_secret_bytes());
    Ok(out)
}

impl Ephemeral {
    fn boxed(private: SecretKey) -> Result<Box<dyn EphemeralKey>, Error> {
        let public = uncompressed(&private.public_key())?;
        Ok(Box::new(Ephemeral { private, public }))
    }
}

impl Provider for RustCrypto {
    fn name(&self) -> String {
        "RustCrypto".into()
    }

    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error> {
        fill_random(out)
    }

    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error> {
        Ephemeral::boxed(p256_private()?)
    }

    fn p256_from_scalar(&self, scalar: &[u8; KEY_LEN]) -> Result<Box<dyn EphemeralKey>, Error> {
        Ephemeral::boxed(SecretKey::from_slice(scalar).map_err(|_| Error::Provider)?)
    }

    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error> {
        // The library also reads compressed points; the wires know one form.
        if point.len() != P256_PUBLIC_LEN || point.first() != Some(&0x04) {
            return Err(Error::PublicKeyInvalid);
        }
        Ok(Box::new(Peer(PublicKey::from_sec1_bytes(point).map_err(|_| Error::PublicKeyInvalid)?)))
    }

    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().into()
    }

    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey> {
        // HMAC accepts a key of any length; if the library ever says otherwise, the fallback is a key that no peer has.
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key);
        Box::new(Mac(mac.unwrap_or_else(|_| <Hmac<Sha256> as KeyInit>::new(&Default::default()))))
    }

    fn aes256_gcm(&self, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        Ok(Box::new(Aead(Aes256Gcm::new(key.into()))))
    }
}

#[cfg(feature = "one-shot")]
fn aes128_gcm(key: &[u8; 16]) -> Box<dyn AeadKey> {
    Box::new(Aead(aes_gcm::Aes128Gcm::new(key.into())))
}

fn chacha20_poly1305(key: &[u8; KEY_LEN]) -> Box<dyn AeadKey> {
    Box::new(Aead(ChaCha20Poly1305::new(key.into())))
}

impl MacKey for Mac {
    fn mac(&self, parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        Zeroizing::new(mac.finalize().into_bytes().into())
    }
}

impl PeerKey for Peer {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl EphemeralKey for Ephemeral {
    fn public(&self) -> &[u8; P256_PUBLIC_LEN] {
        &self.public
    }

    fn agree(self: Box<Self>, mut peer: Box<dyn PeerKey>) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let peer = peer.as_any().downcast_ref::<Peer>().ok_or(Error::PublicKeyInvalid)?;
        p256_agree(&self.private, &peer.0)
    }
}

/// Both libraries' ciphers have nonces of 12 bytes and tags of 16.
impl<C> AeadKey for Aead<C>
where
    C: AeadInOut<NonceSize = U12, TagSize = U16> + Send + Sync,
{
    fn seal_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], Error> {
        let tag = self.0.encrypt_inout_detached(iv.into(), aad, data.into()).map_err(|_| Error::Provider)?;
        Ok(tag.into())
    }

    fn open_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], ciphertext_and_tag: &mut [u8]) -> Result<(), Error> {
        let (data, tag) = ciphertext_and_tag.split_last_chunk_mut::<TAG_LEN>().ok_or(Error::Unsealable)?;
        let tag = *tag;
        self.0.decrypt_inout_detached(iv.into(), aad, data.into(), (&tag).into()).map_err(|_| Error::Unsealable)
    }
}
