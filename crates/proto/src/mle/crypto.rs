//! The seam between this module and a crypto library: content encryption, key wrapping and RSA. The provider over AWS-LC is
//! `aws_lc`, behind the feature of that name.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::algorithm::{Alg, Enc};
use crate::crypto::Provider;

/// The library failed: a tag does not verify, a length is wrong, or a key is malformed. It says no more, by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cryptographic library rejected the input")]
pub struct CryptoFailure;

/// The operations that JWE needs of a crypto library besides those of [`Provider`].
pub trait JoseProvider: Send + Sync + fmt::Debug {
    /// Returns the provider of hashes and randomness, which is of the same library.
    fn base(&self) -> &dyn Provider;

    /// Verifies the tag over `aad` and `data`, and decrypts `data`. On success `data` is the plaintext.
    ///
    /// # Errors
    /// [`CryptoFailure`], whatever the cause; the content of `data` is then undefined and must be dropped.
    fn open_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
        tag: &[u8],
    ) -> Result<(), CryptoFailure>;

    /// Encrypts `data` and returns the tag. The IV has [`Enc::iv_len`] bytes and never repeats under one key.
    ///
    /// # Errors
    /// [`CryptoFailure`] for a wrong length.
    fn seal_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<Vec<u8>, CryptoFailure>;

    /// Encrypts whole blocks in place by AES-128-CBC, without padding and without integrity: for the field-level form alone.
    ///
    /// # Errors
    /// [`CryptoFailure`] unless key and IV have 16 bytes and `data` is whole blocks.
    fn encrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure>;

    /// Decrypts whole blocks in place by AES-128-CBC; the reverse of [`JoseProvider::encrypt_blocks`]. Its time depends on the
    /// number of blocks alone.
    ///
    /// # Errors
    /// As [`JoseProvider::encrypt_blocks`].
    fn decrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure>;

    /// Loads an RSA private key from its PKCS#8 form, for an `alg` of RSA-OAEP.
    ///
    /// # Errors
    /// [`CryptoFailure`] if it is not such a key, has fewer than 2048 or more than 8192 bits, or `alg` is another one.
    fn rsa_private(&self, alg: Alg, pkcs8: &[u8]) -> Result<Box<dyn RsaPrivate>, CryptoFailure>;

    /// Loads an RSA public key from its SubjectPublicKeyInfo, for an `alg` of RSA-OAEP.
    ///
    /// # Errors
    /// As [`JoseProvider::rsa_private`].
    fn rsa_public(&self, alg: Alg, spki: &[u8]) -> Result<Box<dyn Wrap>, CryptoFailure>;

    /// Loads a private key on P-256 from its scalar. It unwraps an ephemeral point (`0x04 || X || Y`) into the shared secret.
    ///
    /// # Errors
    /// [`CryptoFailure`] if the scalar is zero or not below the group's order.
    fn p256_private(&self, scalar: &[u8; 32]) -> Result<Box<dyn P256Private>, CryptoFailure>;

    /// Expands a key of AES key wrap (RFC 3394) of 16 or 32 bytes.
    ///
    /// # Errors
    /// [`CryptoFailure`] for another length.
    fn aes_wrap(&self, key: &[u8]) -> Result<Box<dyn AesWrap>, CryptoFailure>;
}

/// A private operation that turns an encrypted key into a content encryption key.
pub trait Unwrap: Send + Sync {
    /// Returns the content encryption key; `None` if the encrypted key does not decrypt. Its time must not depend on why.
    fn unwrap_key(&self, encrypted_key: &[u8]) -> Option<Zeroizing<Vec<u8>>>;
}

/// An operation that encrypts a content encryption key to its recipient.
pub trait Wrap: Send + Sync {
    /// Returns the key in its encrypted form.
    ///
    /// # Errors
    /// [`CryptoFailure`] if the library is out of memory or randomness.
    fn wrap_key(&self, cek: &[u8]) -> Result<Vec<u8>, CryptoFailure>;
}

/// An RSA private key in memory.
pub trait RsaPrivate: Unwrap {
    /// Returns the SubjectPublicKeyInfo of its public half.
    ///
    /// # Errors
    /// [`CryptoFailure`] if the library is out of memory.
    fn public_spki(&self) -> Result<Vec<u8>, CryptoFailure>;
}

/// A private key on P-256 in memory. What it unwraps is an ephemeral point, which is checked to be on the curve.
pub trait P256Private: Unwrap {
    /// Returns its public half, `0x04 || X || Y`.
    fn public_point(&self) -> [u8; 65];
}

/// A shared key of AES key wrap, which works both ways.
pub trait AesWrap: Unwrap + Wrap {}
