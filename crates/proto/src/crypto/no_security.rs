//! A provider without any security, for fuzzing only: every tag is a checksum that a fuzzer can learn, every agreement a sum.
//! It makes the code behind the tag reachable. No service can be configured to use it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;

use zeroize::Zeroizing;

use super::{AeadKey, EphemeralKey, MacKey, PeerKey, Provider};
use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, P256_PUBLIC_LEN, TAG_LEN};

/// The provider without any security, for fuzzing.
#[derive(Debug, Clone, Copy)]
pub struct NoSecurity;

struct Ephemeral([u8; P256_PUBLIC_LEN]);
struct Peer([u8; P256_PUBLIC_LEN]);
struct Mac(Vec<u8>);
pub(super) struct Aead(pub(super) [u8; KEY_LEN]);

/// FNV-1a over the parts, repeated into `N` bytes with a counter.
pub(super) fn checksum<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().copied().flatten() {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut out = [0_u8; N];
    for chunk in out.chunks_mut(8) {
        state = state.wrapping_mul(0x0100_0000_01b3).wrapping_add(1);
        for (to, from) in chunk.iter_mut().zip(state.to_le_bytes()) {
            *to = from;
        }
    }
    out
}

fn point(seed: &[u8]) -> [u8; P256_PUBLIC_LEN] {
    let mut out: [u8; P256_PUBLIC_LEN] = checksum(&[seed]);
    if let Some(first) = out.first_mut() {
        *first = 0x04;
    }
    out
}

impl Provider for NoSecurity {
    fn name(&self) -> String {
        "no security (fuzzing only)".into()
    }

    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error> {
        out.fill(0x5a);
        Ok(())
    }

    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error> {
        Ok(Box::new(Ephemeral(point(b"ephemeral"))))
    }

    fn p256_from_scalar(&self, scalar: &[u8; KEY_LEN]) -> Result<Box<dyn EphemeralKey>, Error> {
        Ok(Box::new(Ephemeral(point(scalar))))
    }

    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error> {
        match <[u8; P256_PUBLIC_LEN]>::try_from(point) {
            Ok(point) if point.first() == Some(&0x04) => Ok(Box::new(Peer(point))),
            _ => Err(Error::PublicKeyInvalid),
        }
    }

    fn hkdf_sha256(&self, ikm: &[u8], salt: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let info: [u8; 8] = checksum(info);
        Ok(Zeroizing::new(checksum(&[ikm, salt, &info])))
    }

    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32] {
        checksum(parts)
    }

    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey> {
        Box::new(Mac(key.into()))
    }

    fn aes256_gcm(&self, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error> {
        Ok(Box::new(Aead(*key)))
    }
}

impl MacKey for Mac {
    fn mac(&self, parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        let parts: [u8; 32] = checksum(parts);
        Zeroizing::new(checksum(&[&self.0, &parts]))
    }
}

impl PeerKey for Peer {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl EphemeralKey for Ephemeral {
    fn public(&self) -> &[u8; P256_PUBLIC_LEN] {
        &self.0
    }

    fn agree(self: Box<Self>, mut peer: Box<dyn PeerKey>) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let peer = peer.as_any().downcast_mut::<Peer>().ok_or(Error::PublicKeyInvalid)?;
        let (mut a, mut b) = (&self.0, &peer.0);
        if a > b {
            core::mem::swap(&mut a, &mut b);
        }
        Ok(Zeroizing::new(checksum(&[a.as_slice(), b.as_slice()])))
    }
}

impl AeadKey for Aead {
    fn seal_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], Error> {
        Ok(checksum(&[&self.0, iv, aad, data]))
    }

    fn open_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], ciphertext_and_tag: &mut [u8]) -> Result<(), Error> {
        let (data, tag) = ciphertext_and_tag.split_last_chunk::<TAG_LEN>().ok_or(Error::Unsealable)?;
        let want: [u8; TAG_LEN] = checksum(&[&self.0, iv, aad, data]);
        if *tag == want { Ok(()) } else { Err(Error::Unsealable) }
    }
}
