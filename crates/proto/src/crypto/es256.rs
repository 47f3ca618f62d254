//! The seam for ES256 (RFC 7518 section 3.4: ECDSA on P-256 with SHA-256, `r || s`). The identity keys of wire 3 and their
//! roots sign with it.
//!
//! A service chooses an [`Es256`] where it starts and passes it on, as it does a [`super::Provider`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::error::Error;
use crate::limits::P256_PUBLIC_LEN;

/// A signature, in bytes: `r || s`.
pub const ES256_SIGNATURE_LEN: usize = 64;
/// Longest PKCS #8 document of a key that is accepted, in bytes.
pub const ES256_PKCS8_LEN_MAX: usize = 512;

/// A new key pair, after its PKCS #8 document.
pub type NewKey = (Zeroizing<Vec<u8>>, Box<dyn Es256Key>);

/// A library that signs and verifies ES256.
pub trait Es256: Send + Sync + fmt::Debug {
    /// Expands a public key, `0x04 || X || Y`.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] if the bytes are not an uncompressed point of P-256.
    fn public(&self, point: &[u8]) -> Result<Box<dyn Es256Public>, Error>;

    /// Generates a key pair, and returns it with its PKCS #8 document (RFC 5958).
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn generate(&self) -> Result<NewKey, Error>;

    /// Returns the key pair of a PKCS #8 document.
    ///
    /// # Errors
    /// [`Error::Provider`] if it holds no P-256 key, or one whose halves do not belong together.
    #[expect(clippy::wrong_self_convention, reason = "the library reads a key from the document")]
    fn from_pkcs8(&self, document: &[u8]) -> Result<Box<dyn Es256Key>, Error>;
}

/// An expanded ES256 public key.
pub trait Es256Public: Send + Sync {
    /// Returns whether `signature` is this key's over `message`.
    fn verify(&self, message: &[u8], signature: &[u8; ES256_SIGNATURE_LEN]) -> bool;
}

/// A key pair. It has no `Debug`: only its public half may be printed.
pub trait Es256Key: Send + Sync {
    /// The public half, `0x04 || X || Y`.
    fn public(&self) -> &[u8; P256_PUBLIC_LEN];

    /// Signs `message`. Two signatures of one message differ.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn sign(&self, message: &[u8]) -> Result<[u8; ES256_SIGNATURE_LEN], Error>;
}

/// Returns the default library, as [`super::default_provider`].
#[cfg(feature = "aws-lc")]
pub fn default_es256() -> &'static dyn Es256 {
    &aws_lc::AwsLc
}

/// Returns the default library, as [`super::default_provider`].
#[cfg(all(feature = "ring", not(feature = "aws-lc")))]
pub fn default_es256() -> &'static dyn Es256 {
    &super::ring::Ring
}

/// Returns the default library, as [`super::default_provider`].
#[cfg(all(feature = "rust-crypto", not(any(feature = "aws-lc", feature = "ring"))))]
pub fn default_es256() -> &'static dyn Es256 {
    &super::rust_crypto::RustCrypto
}

#[cfg(feature = "aws-lc")]
mod aws_lc {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, ParsedPublicKey,
    };

    pub(super) use crate::crypto::aws_lc::AwsLc;

    use super::*;

    struct Public(ParsedPublicKey);

    struct Pair {
        pair: EcdsaKeyPair,
        public: [u8; P256_PUBLIC_LEN],
    }

    impl Pair {
        fn boxed(pair: EcdsaKeyPair) -> Result<Box<dyn Es256Key>, Error> {
            let public = pair.public_key().as_ref().try_into().map_err(|_| Error::Provider)?;
            Ok(Box::new(Pair { pair, public }))
        }
    }

    impl Es256 for AwsLc {
        fn public(&self, point: &[u8]) -> Result<Box<dyn Es256Public>, Error> {
            // The library also reads compressed points and DER.
            if point.len() != P256_PUBLIC_LEN || point.first() != Some(&0x04) {
                return Err(Error::PublicKeyInvalid);
            }
            let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).map_err(|_| Error::PublicKeyInvalid)?;
            Ok(Box::new(Public(key)))
        }

        fn generate(&self) -> Result<NewKey, Error> {
            let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| Error::Provider)?;
            let document = pair.to_pkcs8v1().map_err(|_| Error::Provider)?;
            let document = Zeroizing::new(document.as_ref().to_vec());
            Ok((document, Pair::boxed(pair)?))
        }

        fn from_pkcs8(&self, document: &[u8]) -> Result<Box<dyn Es256Key>, Error> {
            if document.len() > ES256_PKCS8_LEN_MAX {
                return Err(Error::Provider);
            }
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document);
            Pair::boxed(pair.map_err(|_| Error::Provider)?)
        }
    }

    impl Es256Public for Public {
        fn verify(&self, message: &[u8], signature: &[u8; ES256_SIGNATURE_LEN]) -> bool {
            self.0.verify_sig(message, signature).is_ok()
        }
    }

    impl Es256Key for Pair {
        fn public(&self) -> &[u8; P256_PUBLIC_LEN] {
            &self.public
        }

        fn sign(&self, message: &[u8]) -> Result<[u8; ES256_SIGNATURE_LEN], Error> {
            let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| Error::Provider)?;
            signature.as_ref().try_into().map_err(|_| Error::Provider)
        }
    }
}

#[cfg(all(test, feature = "aws-lc"))]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_written_down_signs_what_its_public_half_verifies() {
        let library = default_es256();
        let (document, key) = library.generate().unwrap();
        let again = library.from_pkcs8(&document).unwrap();
        assert_eq!(key.public(), again.public());
        let signature = again.sign(b"message").unwrap();
        let public = library.public(key.public()).unwrap();
        assert!(public.verify(b"message", &signature));
        assert!(!public.verify(b"massage", &signature));
        assert_eq!(library.public(&key.public()[..64]).err(), Some(Error::PublicKeyInvalid));
        assert_eq!(library.from_pkcs8(&document[1..]).err(), Some(Error::Provider));
    }
}
