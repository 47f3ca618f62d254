//! The seam for Ed25519 (RFC 8032), the signatures of relay tokens.
//!
//! A service chooses a [`Signatures`] where it starts and passes it on, as it does a [`super::Provider`]. Public keys are
//! expanded once, when a keyset is read.

use alloc::boxed::Box;
use core::fmt;

use crate::error::Error;

/// An Ed25519 public key, in bytes.
pub const ED25519_PUBLIC_LEN: usize = 32;
/// An Ed25519 seed, which is its private key, in bytes.
pub const ED25519_SEED_LEN: usize = 32;
/// An Ed25519 signature, in bytes.
pub const ED25519_SIGNATURE_LEN: usize = 64;

/// A library that signs and verifies Ed25519.
pub trait Signatures: Send + Sync + fmt::Debug {
    /// Expands a public key for verification.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] if the bytes are not a point of the curve.
    fn ed25519_public(&self, public: &[u8; ED25519_PUBLIC_LEN]) -> Result<Box<dyn VerifyKey>, Error>;

    /// Returns the key pair of a seed.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn ed25519_from_seed(&self, seed: &[u8; ED25519_SEED_LEN]) -> Result<Box<dyn SigningKey>, Error>;
}

/// An expanded Ed25519 public key.
pub trait VerifyKey: Send + Sync {
    /// Returns whether `signature` is this key's over `message`.
    fn verify(&self, message: &[u8], signature: &[u8; ED25519_SIGNATURE_LEN]) -> bool;
}

/// A key pair. It has no `Debug`: only its public half may be printed.
pub trait SigningKey: Send + Sync {
    /// Returns the public half, 32 bytes.
    fn public(&self) -> [u8; ED25519_PUBLIC_LEN];

    /// Signs a message. The same message gives the same signature.
    fn sign(&self, message: &[u8]) -> [u8; ED25519_SIGNATURE_LEN];
}

/// Returns the default library, which production uses.
#[cfg(feature = "aws-lc")]
pub fn default_signatures() -> &'static dyn Signatures {
    &aws_lc::AwsLc
}

#[cfg(feature = "aws-lc")]
mod aws_lc {
    use alloc::boxed::Box;

    use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, ParsedPublicKey};

    pub(super) use crate::crypto::aws_lc::AwsLc;
    use crate::error::Error;

    use super::{ED25519_PUBLIC_LEN, ED25519_SEED_LEN, ED25519_SIGNATURE_LEN, Signatures, SigningKey, VerifyKey};

    struct Public(ParsedPublicKey);

    struct Pair(Ed25519KeyPair);

    impl Signatures for AwsLc {
        fn ed25519_public(&self, public: &[u8; ED25519_PUBLIC_LEN]) -> Result<Box<dyn VerifyKey>, Error> {
            let key = ParsedPublicKey::new(&ED25519, public.as_slice()).map_err(|_| Error::PublicKeyInvalid)?;
            Ok(Box::new(Public(key)))
        }

        fn ed25519_from_seed(&self, seed: &[u8; ED25519_SEED_LEN]) -> Result<Box<dyn SigningKey>, Error> {
            let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| Error::Provider)?;
            Ok(Box::new(Pair(pair)))
        }
    }

    impl VerifyKey for Public {
        fn verify(&self, message: &[u8], signature: &[u8; ED25519_SIGNATURE_LEN]) -> bool {
            self.0.verify_sig(message, signature).is_ok()
        }
    }

    impl SigningKey for Pair {
        fn public(&self) -> [u8; ED25519_PUBLIC_LEN] {
            let mut out = [0; ED25519_PUBLIC_LEN];
            for (to, from) in out.iter_mut().zip(self.0.public_key().as_ref()) {
                *to = *from;
            }
            out
        }

        fn sign(&self, message: &[u8]) -> [u8; ED25519_SIGNATURE_LEN] {
            let mut out = [0; ED25519_SIGNATURE_LEN];
            for (to, from) in out.iter_mut().zip(self.0.sign(message).as_ref()) {
                *to = *from;
            }
            out
        }
    }
}
