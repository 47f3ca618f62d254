//! The seam between signatures and a crypto library. HMAC-SHA-256 and SHA-256 are those of [`crate::crypto::Provider`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::mle::algorithm::JwsAlg;
use crate::mle::crypto::CryptoFailure;

/// The operations that JWS needs of a crypto library.
pub trait JwsProvider: Send + Sync {
    /// Loads a private key from its PKCS#8 form.
    ///
    /// # Errors
    /// [`CryptoFailure`] if it is not a key of `alg`: RSA of 2048 to 8192 bits, or ECDSA on P-256.
    fn signing_key(&self, alg: JwsAlg, pkcs8: &[u8]) -> Result<Box<dyn Sign>, CryptoFailure>;

    /// Loads a public key from its SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// As [`JwsProvider::signing_key`].
    fn verifying_key(&self, alg: JwsAlg, spki: &[u8]) -> Result<Box<dyn Verify>, CryptoFailure>;
}

/// A private key that signs with one algorithm.
pub trait Sign: Send + Sync {
    /// Signs a message, in the form of RFC 7518 section 3: that of ECDSA is `r || s`. RSA-2048 takes some 700 µs.
    ///
    /// # Errors
    /// [`CryptoFailure`] if the library is out of memory or randomness.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoFailure>;

    /// Returns the SubjectPublicKeyInfo of its public half.
    ///
    /// # Errors
    /// [`CryptoFailure`] if the library is out of memory.
    fn public_spki(&self) -> Result<Vec<u8>, CryptoFailure>;
}

/// A public key that verifies with one algorithm.
pub trait Verify: Send + Sync {
    /// Returns whether the signature is this key's over the message.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool;
}
