//! AWS-LC behind the seam, through `aws-lc-rs`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::any::Any;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, ECDH_P256, ParsedPublicKey, PrivateKey, UnparsedPublicKey};
use aws_lc_rs::{digest, hkdf, hmac, rand};
use zeroize::Zeroizing;

use super::{AeadKey, EphemeralKey, MacKey, PeerKey, Provider};
use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, P256_PUBLIC_LEN, TAG_LEN};

/// Longest input that is hashed on the stack; a claim has at most 387 bytes, nearly always 70.
const SHORT_INPUT: usize = 128;

/// The provider over AWS-LC, which production uses.
#[derive(Debug, Clone, Copy)]
pub struct AwsLc;

struct Ephemeral {
    private: PrivateKey,
    public: [u8; P256_PUBLIC_LEN],
}

impl Ephemeral {
    fn boxed(private: PrivateKey) -> Result<Box<dyn EphemeralKey>, Error> {
        let public = private.compute_public_key().map_err(|_| Error::Provider)?;
        let public = public.as_ref().try_into().map_err(|_| Error::Provider)?;
        Ok(Box::new(Ephemeral { private, public }))
    }
}

struct Peer(Option<ParsedPublicKey>);

/// An expanded key of an AEAD with a nonce of 12 bytes and a tag of 16.
pub(super) struct Aead(pub(super) LessSafeKey);

struct Mac(hmac::Key);

impl MacKey for Mac {
    fn mac(&self, parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        let mut out = Zeroizing::new([0; 32]);
        for (to, from) in out.iter_mut().zip(context.sign().as_ref()) {
            *to = *from;
        }
        out
    }
}

impl Provider for AwsLc {
    fn name(&self) -> String {
        format!("AWS-LC {}", aws_lc_rs::awslc_version())
    }

    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error> {
        rand::fill(out).map_err(|_| Error::Provider)
    }

    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error> {
        Ephemeral::boxed(PrivateKey::generate(&ECDH_P256).map_err(|_| Error::Provider)?)
    }

    fn p256_from_scalar(&self, scalar: &[u8; KEY_LEN]) -> Result<Box<dyn EphemeralKey>, Error> {
        Ephemeral::boxed(PrivateKey::from_private_key(&ECDH_P256, scalar).map_err(|_| Error::Provider)?)
    }

    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error> {
        // The library also reads compressed, hybrid and DER forms; the wires know one.
        if point.len() != P256_PUBLIC_LEN || point.first() != Some(&0x04) {
            return Err(Error::PublicKeyInvalid);
        }
        let parsed = ParsedPublicKey::try_from(&UnparsedPublicKey::new(&ECDH_P256, point))
            .map_err(|_| Error::PublicKeyInvalid)?;
        Ok(Box::new(Peer(Some(parsed))))
    }

    fn hkdf_sha256(&self, ikm: &[u8], salt: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let mut out = Zeroizing::new([0_u8; KEY_LEN]);
        hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
            .extract(ikm)
            .expand(info, hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(out.as_mut_slice()))
            .map_err(|_| Error::Provider)?;
        Ok(out)
    }

    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32] {
        // One call on a short input costs a little more than half of what a context on the heap costs.
        let mut short = [0_u8; SHORT_INPUT];
        let mut rest = short.as_mut_slice();
        let fits = parts.iter().all(|part| match core::mem::take(&mut rest).split_at_mut_checked(part.len()) {
            Some((head, tail)) => {
                head.copy_from_slice(part);
                rest = tail;
                true
            }
            None => false,
        });
        let len = SHORT_INPUT - rest.len();
        let hash = match short.get(..len) {
            Some(input) if fits => digest::digest(&digest::SHA256, input),
            _ => {
                let mut context = digest::Context::new(&digest::SHA256);
                parts.iter().for_each(|part| context.update(part));
                context.finish()
            }
        };
        let mut out = [0_u8; 32];
        for (to, from) in out.iter_mut().zip(hash.as_ref()) {
            *to = *from;
        }
        out
    }

    fn hmac_sha256(&self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        Mac(hmac::Key::new(hmac::HMAC_SHA256, key)).mac(parts)
    }

    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey> {
        Box::new(Mac(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    fn aes256_gcm(&self, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| Error::Provider)?;
        Ok(Box::new(Aead(LessSafeKey::new(key))))
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
        let peer = peer.as_any().downcast_mut::<Peer>().and_then(|peer| peer.0.take());
        let peer = peer.ok_or(Error::PublicKeyInvalid)?;
        agreement::agree(&self.private, peer, Error::PublicKeyInvalid, |z| {
            let mut out = Zeroizing::new([0_u8; KEY_LEN]);
            if z.len() != KEY_LEN {
                return Err(Error::Provider);
            }
            out.copy_from_slice(z);
            Ok(out)
        })
    }
}

impl AeadKey for Aead {
    fn seal_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], Error> {
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(*iv), Aad::from(aad), data)
            .map_err(|_| Error::Provider)?;
        tag.as_ref().try_into().map_err(|_| Error::Provider)
    }

    fn open_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], ciphertext_and_tag: &mut [u8]) -> Result<(), Error> {
        self.0
            .open_in_place(Nonce::assume_unique_for_key(*iv), Aad::from(aad), ciphertext_and_tag)
            .map(|_| ())
            .map_err(|_| Error::Unsealable)
    }
}
