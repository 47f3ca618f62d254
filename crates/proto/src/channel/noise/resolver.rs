//! `snow` over the crypto seam: the library requests a curve, a cipher and a hash, and gets those of the seam.
//!
//! Its traits cannot report that a crypto module fails. This module records a failure in a flag that the handshake checks after
//! each step; output written meanwhile is zeros.
//!
//! P-256: the library's buffers for keys hold 56 bytes unless its own P-256 is built in, which this product does not use. So a
//! key is a compressed point of 33 bytes, and only here; the seam reads both forms.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher as NoiseCipher, Dh, Hash, Random};
use zeroize::{Zeroize, Zeroizing};

use crate::channel::NativeSuite;
use crate::crypto::AeadKey;
use crate::crypto::agreement::{AgreementKey, AgreementProvider, Cipher, Curve};
use crate::limits::{IV_LEN, KEY_LEN, TAG_LEN};

const HASH_LEN: usize = 32;
const BLOCK_LEN: usize = 64;

/// Longest public key: a compressed point of P-256.
const PUBLIC_LEN_MAX: usize = 33;

/// Flag that the crypto module has failed in a call that could not report it.
#[derive(Clone, Default)]
pub(super) struct FailureFlag(Arc<AtomicBool>);

impl FailureFlag {
    fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The resolver that is handed to `snow`.
pub(super) struct Seam {
    pub(super) provider: &'static dyn AgreementProvider,
    pub(super) suite: NativeSuite,
    pub(super) ephemeral: Option<Zeroizing<[u8; KEY_LEN]>>,
    pub(super) failed: FailureFlag,
}

impl CryptoResolver for Seam {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(NoiseRandom(self.provider)))
    }

    fn resolve_dh(&self, _choice: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(NoiseDh {
            provider: self.provider,
            suite: self.suite,
            given: self.ephemeral.clone(),
            key: None,
            public: [0; PUBLIC_LEN_MAX],
            failed: self.failed.clone(),
        }))
    }

    fn resolve_hash(&self, _choice: &HashChoice) -> Option<Box<dyn Hash>> {
        Some(Box::new(NoiseHash {
            provider: self.provider,
            input: Zeroizing::new(Vec::new()),
            failed: self.failed.clone(),
        }))
    }

    fn resolve_cipher(&self, _choice: &CipherChoice) -> Option<Box<dyn NoiseCipher>> {
        Some(Box::new(NoiseAead {
            provider: self.provider,
            cipher: self.suite.cipher,
            key: None,
            failed: self.failed.clone(),
        }))
    }
}

struct NoiseRandom(&'static dyn AgreementProvider);

impl Random for NoiseRandom {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_random(dest).map_err(|_| snow::Error::Rng)
    }
}

struct NoiseDh {
    provider: &'static dyn AgreementProvider,
    suite: NativeSuite,
    /// The ephemeral key of a test vector; `None` in production.
    given: Option<Zeroizing<[u8; KEY_LEN]>>,
    key: Option<Box<dyn AgreementKey>>,
    public: [u8; PUBLIC_LEN_MAX],
    failed: FailureFlag,
}

/// Converts a public key of the seam to the form that this wire uses.
pub(crate) fn wire_form(curve: Curve, public: &[u8]) -> Option<[u8; PUBLIC_LEN_MAX]> {
    let mut out = [0; PUBLIC_LEN_MAX];
    match curve {
        Curve::X25519 => out.get_mut(..32)?.copy_from_slice(public.get(..32)?),
        Curve::P256 => {
            // 0x04 || X || Y: the sign is the lowest bit of Y.
            let (x, y) = (public.get(1..33)?, public.get(64)?);
            out.get_mut(1..)?.copy_from_slice(x);
            *out.first_mut()? = 0x02 | (y & 1);
        }
    }
    Some(out)
}

impl NoiseDh {
    fn hold(&mut self, key: Option<Box<dyn AgreementKey>>) -> Option<()> {
        let key = key?;
        self.public = wire_form(self.suite.curve, key.public())?;
        self.key = Some(key);
        Some(())
    }
}

impl Dh for NoiseDh {
    fn name(&self) -> &'static str {
        match self.suite.curve {
            Curve::X25519 => "25519",
            Curve::P256 => "P256",
        }
    }

    fn pub_len(&self) -> usize {
        self.suite.public_len()
    }

    fn priv_len(&self) -> usize {
        KEY_LEN
    }

    fn set(&mut self, privkey: &[u8]) {
        let private = privkey.try_into().ok();
        let key = private.and_then(|private| self.provider.agreement_from_private(self.suite.curve, private).ok());
        if self.hold(key).is_none() {
            self.failed.note();
        }
    }

    fn generate(&mut self, _rng: &mut dyn Random) -> Result<(), snow::Error> {
        let key = match self.given.take() {
            Some(private) => self.provider.agreement_from_private(self.suite.curve, &private),
            None => self.provider.agreement_generate(self.suite.curve),
        };
        self.hold(key.ok()).ok_or(snow::Error::Rng)
    }

    fn pubkey(&self) -> &[u8] {
        self.public.get(..self.pub_len()).unwrap_or_default()
    }

    fn privkey(&self) -> &[u8] {
        // The private key stays behind the seam; nothing in a handshake asks for it.
        &[]
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let peer = pubkey.get(..self.pub_len()).ok_or(snow::Error::Dh)?;
        let key = self.key.as_ref().ok_or(snow::Error::Dh)?;
        let shared = key.agree(peer).map_err(|_| snow::Error::Dh)?;
        out.get_mut(..KEY_LEN).ok_or(snow::Error::Dh)?.copy_from_slice(shared.as_slice());
        Ok(())
    }

    fn dh_len(&self) -> usize {
        KEY_LEN
    }
}

struct NoiseAead {
    provider: &'static dyn AgreementProvider,
    cipher: Cipher,
    key: Option<Box<dyn AeadKey>>,
    failed: FailureFlag,
}

impl NoiseAead {
    /// Returns the nonce of Noise, 12.3 and 12.4: four zeros, then the number, in the byte order of the cipher.
    fn iv(&self, nonce: u64) -> [u8; IV_LEN] {
        let [n0, n1, n2, n3, n4, n5, n6, n7] = match self.cipher {
            Cipher::Aes256Gcm => nonce.to_be_bytes(),
            Cipher::ChaCha20Poly1305 => nonce.to_le_bytes(),
        };
        [0, 0, 0, 0, n0, n1, n2, n3, n4, n5, n6, n7]
    }

    fn encrypted(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> Option<usize> {
        let (data, rest) = out.split_at_mut_checked(plaintext.len())?;
        data.copy_from_slice(plaintext);
        let tag = self.key.as_ref()?.seal_in_place(&self.iv(nonce), authtext, data).ok()?;
        rest.get_mut(..TAG_LEN)?.copy_from_slice(&tag);
        Some(plaintext.len() + TAG_LEN)
    }
}

impl NoiseCipher for NoiseAead {
    fn name(&self) -> &'static str {
        match self.cipher {
            Cipher::Aes256Gcm => "AESGCM",
            Cipher::ChaCha20Poly1305 => "ChaChaPoly",
        }
    }

    fn set(&mut self, key: &[u8; KEY_LEN]) {
        self.key = self.provider.aead(self.cipher, key).ok();
        if self.key.is_none() {
            self.failed.note();
        }
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        self.encrypted(nonce, authtext, plaintext, out).unwrap_or_else(|| {
            self.failed.note();
            // The buffer may still hold the plaintext.
            out.fill(0);
            (plaintext.len() + TAG_LEN).min(out.len())
        })
    }

    fn decrypt(&self, nonce: u64, authtext: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, snow::Error> {
        let mut data = Zeroizing::new(ciphertext.to_vec());
        let key = self.key.as_ref().ok_or(snow::Error::Decrypt)?;
        key.open_in_place(&self.iv(nonce), authtext, &mut data).map_err(|_| snow::Error::Decrypt)?;
        let plaintext = data.get(..data.len().saturating_sub(TAG_LEN)).unwrap_or_default();
        out.get_mut(..plaintext.len()).ok_or(snow::Error::Input)?.copy_from_slice(plaintext);
        Ok(plaintext.len())
    }
}

struct NoiseHash {
    provider: &'static dyn AgreementProvider,
    input: Zeroizing<Vec<u8>>,
    failed: FailureFlag,
}

fn put(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

impl Hash for NoiseHash {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        BLOCK_LEN
    }

    fn hash_len(&self) -> usize {
        HASH_LEN
    }

    fn reset(&mut self) {
        self.input.zeroize();
    }

    fn input(&mut self, data: &[u8]) {
        self.input.extend_from_slice(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        put(out, &self.provider.sha256(&[&self.input]));
    }

    fn hmac(&mut self, key: &[u8], data: &[u8], out: &mut [u8]) {
        put(out, self.provider.hmac_sha256(key, &[data]).as_slice());
    }

    fn hkdf(
        &mut self,
        chaining_key: &[u8],
        input_key_material: &[u8],
        outputs: usize,
        out1: &mut [u8],
        out2: &mut [u8],
        out3: &mut [u8],
    ) {
        // Noise, 4.3: HKDF without info, cut into blocks of a hash.
        let mut blocks = Zeroizing::new([0; 3 * HASH_LEN]);
        let asked = blocks.get_mut(..outputs.min(3) * HASH_LEN).unwrap_or_default();
        if self.provider.hkdf_bare(chaining_key, input_key_material, asked).is_err() {
            self.failed.note();
        }
        for (block, out) in asked.chunks(HASH_LEN).zip([out1, out2, out3]) {
            put(out, block);
        }
    }
}
