//! The part of the seam that channels and wire 3 need: key agreement on two curves, and on P-384 for wire 3 alone, two AEADs, ML-KEM.
//!
//! Private keys stay behind the seam wherever they can. Where the caller gives one (a static key, a vector's ephemeral key),
//! the caller wipes it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::{AeadKey, Provider};
use crate::error::Error;
use crate::limits::KEY_LEN;

/// A curve for key agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// X25519 (RFC 7748); public keys are 32 bytes.
    X25519,
    /// P-256 (SP 800-186); public keys are uncompressed or compressed points, whichever is asked for.
    P256,
}

/// An AEAD with keys of 32 bytes, nonces of 12 and tags of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-256-GCM (SP 800-38D), in both profiles.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439), in native suites only.
    ChaCha20Poly1305,
}

/// A parameter set of ML-KEM (FIPS 203).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kem {
    /// ML-KEM-768, of channels, HPKE and wire 3.
    MlKem768,
    /// ML-KEM-1024, of wire 3 alone.
    MlKem1024,
}

impl Kem {
    /// Length of an encapsulation key, in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Kem::MlKem768 => KEM_PUBLIC_LEN,
            Kem::MlKem1024 => 1568,
        }
    }

    /// Length of an expanded decapsulation key, in bytes.
    pub const fn private_len(self) -> usize {
        match self {
            Kem::MlKem768 => KEM_PRIVATE_LEN,
            Kem::MlKem1024 => 3168,
        }
    }

    /// Length of a ciphertext, in bytes.
    pub const fn ciphertext_len(self) -> usize {
        match self {
            Kem::MlKem768 => KEM_CIPHERTEXT_LEN,
            Kem::MlKem1024 => 1568,
        }
    }
}

/// A scalar, and a shared secret, of P-384, in bytes.
pub const P384_SECRET_LEN: usize = 48;
/// An ML-KEM-768 encapsulation key (FIPS 203), in bytes.
pub const KEM_PUBLIC_LEN: usize = 1184;
/// An ML-KEM-768 decapsulation key (FIPS 203, expanded), in bytes.
pub const KEM_PRIVATE_LEN: usize = 2400;
/// A seed of ML-KEM: `d ‖ z` of FIPS 203, in bytes.
#[cfg(feature = "one-shot")]
pub const KEM_SEED_LEN: usize = 64;
/// An ML-KEM-768 ciphertext, in bytes.
pub const KEM_CIPHERTEXT_LEN: usize = 1088;

/// The operations that channels and wire 3 need of a crypto library, beside [`Provider`].
pub trait AgreementProvider: Provider {
    /// Generates a key pair, which may agree more than once.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn agreement_generate(&self, curve: Curve) -> Result<Box<dyn AgreementKey>, Error>;

    /// Returns the key pair of a private key of 32 bytes: a static key, or one of a test vector.
    ///
    /// # Errors
    /// [`Error::Provider`] if it is not a private key of the curve.
    fn agreement_from_private(&self, curve: Curve, private: &[u8; KEY_LEN]) -> Result<Box<dyn AgreementKey>, Error>;

    /// HKDF-SHA256 (RFC 5869) without info: fills `out`, at most 96 bytes.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn hkdf_bare(&self, salt: &[u8], ikm: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let prk = self.hmac_sha256(salt, &[ikm]);
        let mut last = Zeroizing::new([0; 32]);
        for (number, chunk) in (1_u8..).zip(out.chunks_mut(32)) {
            let before: &[u8] = if number == 1 { &[] } else { last.as_slice() };
            last = self.hmac_sha256(prk.as_slice(), &[before, &[number]]);
            for (to, from) in chunk.iter_mut().zip(last.iter()) {
                *to = *from;
            }
        }
        Ok(())
    }

    /// Expands a key of an AEAD.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn aead(&self, cipher: Cipher, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error>;

    /// Generates a key pair of P-384.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn p384_generate(&self) -> Result<Box<dyn P384Key>, Error>;

    /// Returns the P-384 key pair of a big-endian scalar, for test vectors.
    ///
    /// # Errors
    /// [`Error::Provider`] if it is zero or not below the group's order.
    fn p384_from_private(&self, private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error>;

    /// Generates an ML-KEM key pair.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn kem_generate(&self, kem: Kem) -> Result<Box<dyn KemKey>, Error>;

    /// Returns the key pair of a decapsulation key, for test vectors.
    ///
    /// # Errors
    /// [`Error::Provider`] if it is not a valid decapsulation key.
    fn kem_from_private(&self, kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error>;

    /// Encapsulates: returns a ciphertext for the holder of `public`, and the secret in it.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] if `public` is not an encapsulation key (its length, or FIPS 203 7.2).
    fn kem_encapsulate(&self, kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error>;

    /// Returns the ML-KEM-768 key pair of a seed, `d ‖ z` of FIPS 203.
    ///
    /// # Errors
    /// [`Error::Provider`].
    #[cfg(feature = "one-shot")]
    fn kem_from_seed(&self, seed: &[u8; KEM_SEED_LEN]) -> Result<Box<dyn KemKey>, Error> {
        self.kem_from_private(Kem::MlKem768, &super::kem_seed::expand(seed)[..])
    }

    /// Expands an AES-128-GCM key (SP 800-38D).
    ///
    /// # Errors
    /// [`Error::Provider`].
    #[cfg(feature = "one-shot")]
    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error>;

    /// SHA3-256 of the concatenation of `parts` (FIPS 202).
    #[cfg(feature = "one-shot")]
    fn sha3_256(&self, parts: &[&[u8]]) -> [u8; 32] {
        use sha3::{Digest, Sha3_256};
        let mut hash = Sha3_256::new();
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().into()
    }
}

/// A key pair for agreement. It may agree more than once: a static key does, and so does an ephemeral one with two keys
/// of one peer.
pub trait AgreementKey: Send + Sync {
    /// The public half: 32 bytes of X25519, 65 of P-256 (`0x04 || X || Y`).
    fn public(&self) -> &[u8];

    /// Computes the shared secret: X25519's output, or the x-coordinate on P-256. `peer` is 32 bytes of X25519, or an
    /// uncompressed or compressed point on P-256.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] if `peer` is not a public key, and if the secret of X25519 is all zeros.
    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error>;
}

/// A key pair of P-384 for agreement.
pub trait P384Key: Send + Sync {
    /// The public half, `0x04 || X || Y`.
    fn public(&self) -> &[u8];

    /// Computes the x-coordinate of the shared point, 48 bytes big-endian. `peer` is an uncompressed point.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] if `peer` is none.
    fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; P384_SECRET_LEN]>, Error>;
}

/// An ML-KEM key pair, whose private half stays behind the seam.
pub trait KemKey: Send + Sync {
    /// The encapsulation key, [`Kem::public_len`] bytes.
    fn public(&self) -> &[u8];

    /// Decapsulates: returns the secret in a ciphertext. Every ciphertext of the right length gives a secret (FIPS 203 6.3);
    /// only later messages show whether it is the peer's.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] for a wrong length.
    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; 32]>, Error>;
}

/// HKDF-Expand (RFC 5869) of a single block: up to 32 bytes.
#[cfg(feature = "channel")]
pub(crate) fn expand<const N: usize>(
    provider: &dyn AgreementProvider,
    prk: &[u8; 32],
    info: &[u8],
) -> Zeroizing<[u8; N]> {
    const { assert!(N <= 32) };
    let block = provider.hmac_sha256(prk, &[info, &[1]]);
    let mut out = Zeroizing::new([0; N]);
    for (to, from) in out.iter_mut().zip(block.iter()) {
        *to = *from;
    }
    out
}

/// Returns the default provider, as [`super::default_provider`].
#[cfg(feature = "aws-lc")]
pub fn default_agreement_provider() -> &'static dyn AgreementProvider {
    &super::aws_lc::AwsLc
}

/// Returns the default provider, as [`super::default_provider`].
#[cfg(all(feature = "ring", not(feature = "aws-lc")))]
pub fn default_agreement_provider() -> &'static dyn AgreementProvider {
    &super::ring::Ring
}

/// Returns the default provider, as [`super::default_provider`].
#[cfg(all(feature = "rust-crypto", not(any(feature = "aws-lc", feature = "ring"))))]
pub fn default_agreement_provider() -> &'static dyn AgreementProvider {
    &super::rust_crypto::RustCrypto
}
