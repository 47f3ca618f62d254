//! The seam in front of a crypto library: AES-256-GCM, ECDH on P-256, HKDF-SHA256, HMAC-SHA256, SHA-256 and randomness.
//!
//! A service chooses a [`Provider`] when it starts and passes it on; nothing else in this crate names a library. The providers
//! are `aws_lc`, which production uses, `ring` and `rust_crypto`, each behind a feature (ADR 0019). Keys are expanded once (an
//! [`AeadKey`] per session) and never printable.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, P256_PUBLIC_LEN, TAG_LEN};

pub mod agreement;
#[cfg(feature = "aws-lc")]
mod agreement_aws_lc;
#[cfg(any(feature = "no-security", test))]
mod agreement_no_security;
#[cfg(feature = "aws-lc")]
pub mod aws_lc;
pub mod identity;
#[cfg(feature = "one-shot")]
pub(crate) mod kem_seed;
#[cfg(any(feature = "no-security", test))]
pub mod no_security;
#[cfg(feature = "ring")]
pub mod ring;
#[cfg(feature = "rust-crypto")]
pub mod rust_crypto;
pub mod signature;

/// A crypto library. Implementations are stateless handles.
pub trait Provider: Send + Sync + fmt::Debug {
    /// Name and version of the crypto module, for `--version` and logs.
    fn name(&self) -> String;

    /// Fills `out` from the module's generator (SP 800-90A or better).
    ///
    /// # Errors
    /// [`Error::Provider`] when the generator fails.
    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error>;

    /// Generates an ephemeral P-256 key pair.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error>;

    /// Returns the key pair of a given big-endian scalar, for test vectors.
    ///
    /// # Errors
    /// [`Error::Provider`] when the scalar is zero or not below the group's order.
    fn p256_from_scalar(&self, scalar: &[u8; KEY_LEN]) -> Result<Box<dyn EphemeralKey>, Error>;

    /// Checks that `point` is an uncompressed point on P-256 and not the point at infinity (SP 800-56A 5.6.2.3.3).
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`].
    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error>;

    /// HKDF-SHA256 (RFC 5869), 32 bytes out. `info` is the concatenation of its parts.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn hkdf_sha256(&self, ikm: &[u8], salt: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let prk = self.hmac_sha256(salt, &[ikm]);
        let mut parts = info.to_vec();
        parts.push(&[1]);
        Ok(self.hmac_sha256(prk.as_slice(), &parts))
    }

    /// SHA-256 of the concatenation of `parts` (FIPS 180-4).
    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32];

    /// HMAC-SHA256 (FIPS 198-1) of the concatenation of `parts`. HKDF-Extract is this with the salt as its key.
    fn hmac_sha256(&self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        self.mac_key(key).mac(parts)
    }

    /// Expands a key of HMAC-SHA256 that is used more than once.
    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey>;

    /// Expands an AES-256-GCM key (SP 800-38D).
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn aes256_gcm(&self, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error>;
}

/// A peer's public key that has passed its checks.
pub trait PeerKey: Send {
    /// Access to the concrete type, for the provider that made it.
    fn as_any(&mut self) -> &mut dyn core::any::Any;
}

/// An ephemeral P-256 private key: used once, then gone.
pub trait EphemeralKey: Send {
    /// The public half, `0x04 || X || Y`.
    fn public(&self) -> &[u8; P256_PUBLIC_LEN];

    /// Performs ECDH: returns the x-coordinate of the shared point, 32 bytes big-endian (SP 800-56A 5.7.1.2).
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] if the agreement fails or the peer's key is of another provider.
    fn agree(self: Box<Self>, peer: Box<dyn PeerKey>) -> Result<Zeroizing<[u8; KEY_LEN]>, Error>;
}

/// An expanded key of HMAC-SHA256 (FIPS 198-1).
pub trait MacKey: Send + Sync {
    /// Computes the HMAC of the concatenation of `parts`.
    fn mac(&self, parts: &[&[u8]]) -> Zeroizing<[u8; 32]>;
}

/// An expanded AES-256-GCM key, or another AEAD's of the same lengths.
pub trait AeadKey: Send + Sync {
    /// Encrypts `data` in place and returns the tag. `iv` must never repeat under one key.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn seal_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], Error>;

    /// Decrypts `ciphertext || tag` in place; the plaintext is its first `len - 16` bytes.
    ///
    /// # Errors
    /// [`Error::Unsealable`], whatever the cause; the content of the buffer is then undefined.
    fn open_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], ciphertext_and_tag: &mut [u8]) -> Result<(), Error>;
}

/// Random bytes drawn from a provider in bulk: one draw costs the generator the same for 28 bytes and for a hundred times as
/// many. For values that go over the wire in the clear (IVs, nonces), never for keys. Each byte is returned once.
pub struct RandomPool {
    bytes: Zeroizing<[u8; RANDOM_POOL_LEN]>,
    used: usize,
}

const RANDOM_POOL_LEN: usize = 2048;

impl RandomPool {
    /// Creates an empty pool: the first [`RandomPool::take`] fills it.
    pub fn new() -> Self {
        RandomPool { bytes: Zeroizing::new([0; RANDOM_POOL_LEN]), used: RANDOM_POOL_LEN }
    }

    /// Returns `N` bytes that no caller has had before; `N` is at most 2048.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn take<const N: usize>(&mut self, provider: &dyn Provider) -> Result<[u8; N], Error> {
        if self.bytes.len().saturating_sub(self.used) < N {
            // Until the generator has succeeded the pool has nothing to return.
            self.used = self.bytes.len();
            provider.fill_random(self.bytes.as_mut_slice())?;
            self.used = 0;
        }
        let taken = self.bytes.get(self.used..).and_then(|rest| rest.first_chunk::<N>()).ok_or(Error::Provider)?;
        self.used += N;
        Ok(*taken)
    }
}

impl Default for RandomPool {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RandomPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RandomPool(redacted)")
    }
}

/// Compares two secrets. Its time depends on their lengths alone.
///
/// It compares words of 8 bytes: byte by byte, the measured time depends on the place of a difference by parts of a nanosecond
/// (docs/assurance/constant-time.md).
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    equality(one, other).into()
}

/// Compares two secrets, as [`is_equal`], for a result that no branch may depend on yet.
pub(crate) fn equality(one: &[u8], other: &[u8]) -> Choice {
    let words = one.chunks(WORD_LEN).zip(other.chunks(WORD_LEN)).map(|(one, other)| word(one).ct_eq(&word(other)));
    words.fold(Choice::from(u8::from(one.len() == other.len())), |all, equal| all & equal)
}

const WORD_LEN: usize = 8;

/// Returns up to 8 bytes as a number, with zeros behind them.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_LEN];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_ne_bytes(word)
}

/// Returns the default provider: of those that are built in, AWS-LC before ring, and ring before RustCrypto.
#[cfg(any(feature = "aws-lc", feature = "rust-crypto"))]
pub fn default_provider() -> &'static dyn agreement::AgreementProvider {
    agreement::default_agreement_provider()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_hands_out_no_byte_twice() {
        let mut pool = RandomPool::new();
        let mut seen = alloc::collections::BTreeSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(pool.take::<28>(default_provider()).unwrap()));
        }
        assert_eq!(pool.take::<{ RANDOM_POOL_LEN + 1 }>(default_provider()), Err(Error::Provider));
    }

    #[test]
    fn secrets_are_equal_if_all_of_their_bytes_are() {
        assert!(is_equal(b"", b"") && is_equal(b"secret", b"secret"));
        for other in [&b"Secret"[..], b"secreT", b"secre", b"secrets", b"secret\0", b""] {
            assert!(!is_equal(b"secret", other));
        }
        for len in 1..40 {
            let secret = alloc::vec![0x61; len];
            assert!(is_equal(&secret, &secret.clone()));
            for at in 0..len {
                let mut other = secret.clone();
                other[at] ^= 0x80;
                assert!(!is_equal(&secret, &other), "{at} of {len}");
            }
        }
    }

    #[test]
    fn a_hash_is_the_same_on_the_stack_and_off_it() {
        let provider = default_provider();
        let input = [0x61_u8; 300];
        for len in [0, 1, 127, 128, 129, 300] {
            let (head, tail) = input[..len].split_at(len / 3);
            assert_eq!(
                provider.sha256(&[head, tail]),
                aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &input[..len]).as_ref()
            );
        }
    }
}
