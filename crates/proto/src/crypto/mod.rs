//! The seam behind which a crypto library stands: AES-256-GCM, ECDH on P-256, HKDF-SHA256, SHA-256 and randomness.
//!
//! A [`Provider`] is chosen when a service starts and handed in; nothing else in this crate names a library.
//! Keys are expanded once (an [`AeadKey`] per session) and never printable.

use alloc::boxed::Box;
use core::fmt;

use zeroize::Zeroizing;

use crate::error::Error;
use crate::limits::{IV_LEN, KEY_LEN, P256_PUBLIC_LEN, TAG_LEN};

#[cfg(feature = "aws-lc")]
pub mod aws_lc;
#[cfg(any(feature = "no-security", test))]
pub mod no_security;

/// A crypto library. Implementations are stateless handles.
pub trait Provider: Send + Sync + fmt::Debug {
    /// Name and version of the crypto module, for `--version` and logs.
    fn name(&self) -> &'static str;

    /// Fills `out` from the module's generator (SP 800-90A or better).
    ///
    /// # Errors
    /// [`Error::Provider`] when the generator fails.
    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error>;

    /// A new ephemeral P-256 key pair.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error>;

    /// The key pair of a given big-endian scalar, for test vectors.
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
    fn hkdf_sha256(&self, ikm: &[u8], salt: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; KEY_LEN]>, Error>;

    /// SHA-256 of the concatenation of `parts` (FIPS 180-4).
    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32];

    /// Expands an AES-256-GCM key (SP 800-38D).
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn aes256_gcm(&self, key: &[u8; KEY_LEN]) -> Result<Box<dyn AeadKey>, Error>;
}

/// A peer's public key that has passed its checks.
pub trait PeerKey: Send {
    /// For the provider that made it.
    fn as_any(&mut self) -> &mut dyn core::any::Any;
}

/// An ephemeral P-256 private key: used once, then gone.
pub trait EphemeralKey: Send {
    /// The public half, `0x04 || X || Y`.
    fn public(&self) -> &[u8; P256_PUBLIC_LEN];

    /// ECDH: the x-coordinate of the shared point, 32 bytes big-endian (SP 800-56A 5.7.1.2).
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] when the agreement fails or the peer's key is of another provider.
    fn agree(self: Box<Self>, peer: Box<dyn PeerKey>) -> Result<Zeroizing<[u8; KEY_LEN]>, Error>;
}

/// An expanded AES-256-GCM key.
pub trait AeadKey: Send + Sync {
    /// Encrypts `data` in place and returns the tag. `iv` must never repeat under one key.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn seal_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], Error>;

    /// Decrypts `ciphertext || tag` in place; the plaintext is its first `len - 16` bytes.
    ///
    /// # Errors
    /// [`Error::Unsealable`], whatever the cause; the buffer then holds nothing of use.
    fn open_in_place(&self, iv: &[u8; IV_LEN], aad: &[u8], ciphertext_and_tag: &mut [u8]) -> Result<(), Error>;
}

/// The provider that production uses.
#[cfg(feature = "aws-lc")]
pub fn default_provider() -> &'static dyn Provider {
    &aws_lc::AwsLc
}
