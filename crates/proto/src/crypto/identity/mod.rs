//! The seam for signatures of identity keys and their roots: ECDSA on P-256 and P-384, ML-DSA-65 and ML-DSA-87, and both at once.
//! `spec/session-3.md#algorithms`.
//!
//! A service chooses an [`IdentityLibrary`] where it starts and passes it on, as it does a [`super::Provider`]. A library knows
//! single [`Scheme`]s; composite keys are put together here, alike for all libraries.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::error::Error;

mod algorithm;
#[cfg(feature = "aws-lc")]
mod aws_lc;
#[cfg(all(test, feature = "aws-lc"))]
mod tests;

pub use algorithm::{Scheme, SignatureAlgorithm};

/// Longest PKCS #8 document of a key that is accepted, in bytes. An ML-DSA-87 key with its seed and its expanded form has 4966.
pub const PKCS8_LEN_MAX: usize = 5 * 1024;

/// A new key of one scheme, after its PKCS #8 document.
pub type NewSchemeKey = (Zeroizing<Vec<u8>>, Box<dyn SchemeKey>);

/// A library that signs and verifies by single schemes. Callers use the functions that know composite keys too:
/// `public`, `generate` and `from_pkcs8` of `dyn IdentityLibrary`.
pub trait IdentityLibrary: Send + Sync + fmt::Debug {
    /// Returns whether the library has the scheme.
    fn has(&self, scheme: Scheme) -> bool;

    /// Expands a public key in the form of the scheme.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] if the bytes are no public key of the scheme, [`Error::Provider`] if the library lacks it.
    fn scheme_public(&self, scheme: Scheme, key: &[u8]) -> Result<Box<dyn SchemePublic>, Error>;

    /// Generates a key pair, and returns it with its PKCS #8 document (RFC 5958; ML-DSA as a seed, RFC 9881 section 6).
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn scheme_generate(&self, scheme: Scheme) -> Result<NewSchemeKey, Error>;

    /// Returns the key pair of a PKCS #8 document.
    ///
    /// # Errors
    /// [`Error::Provider`] if it holds no key of the scheme, or one whose halves do not belong together.
    fn scheme_from_pkcs8(&self, scheme: Scheme, document: &[u8]) -> Result<Box<dyn SchemeKey>, Error>;
}

/// An expanded public key of one scheme.
pub trait SchemePublic: Send + Sync {
    /// Returns whether `signature` is this key's over `message`; a signature of another length is not.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool;
}

/// A key pair of one scheme. It has no `Debug`: only its public half may be printed.
pub trait SchemeKey: Send + Sync {
    /// The public half, in the form of the scheme.
    fn public(&self) -> &[u8];

    /// Signs `message`. Two signatures of one message differ.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error>;
}

impl dyn IdentityLibrary + '_ {
    /// Returns whether the library has all parts of an algorithm.
    pub fn offers(&self, algorithm: SignatureAlgorithm) -> bool {
        algorithm.schemes().all(|scheme| self.has(scheme))
    }

    /// Expands a public key, whose length names its algorithm.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] for another length and for a point off its curve, [`Error::Provider`] for an algorithm that the
    /// library lacks.
    pub fn public(&self, key: &[u8]) -> Result<IdentityPublic, Error> {
        let algorithm = SignatureAlgorithm::of_public(key).ok_or(Error::PublicKeyInvalid)?;
        let mut rest = key;
        let mut parts = Vec::new();
        for scheme in algorithm.schemes() {
            let (part, behind) = rest.split_at_checked(scheme.public_len()).ok_or(Error::PublicKeyInvalid)?;
            parts.push((scheme, self.scheme_public(scheme, part)?));
            rest = behind;
        }
        Ok(IdentityPublic { algorithm, parts })
    }

    /// Generates a key pair, and returns it with its document: PKCS #8, of a composite key that of each part, the ECDSA one first.
    ///
    /// # Errors
    /// [`Error::Provider`], also for an algorithm that the library lacks.
    pub fn generate(&self, algorithm: SignatureAlgorithm) -> Result<(Zeroizing<Vec<u8>>, IdentityPair), Error> {
        let mut document = Zeroizing::new(Vec::with_capacity(PKCS8_LEN_MAX));
        let mut parts = Vec::new();
        for scheme in algorithm.schemes() {
            let (own, key) = self.scheme_generate(scheme)?;
            // Within the capacity, so that no copy stays behind.
            document.extend_from_slice(&own);
            parts.push(key);
        }
        Ok((document, IdentityPair::new(algorithm, parts)))
    }

    /// Returns the key pair of a document as [`generate`](#method.generate) makes it. The document names the algorithm.
    ///
    /// # Errors
    /// [`Error::Provider`] if it holds no key of an algorithm that the library has.
    pub fn from_pkcs8(&self, document: &[u8]) -> Result<IdentityPair, Error> {
        let (mut rest, mut schemes, mut parts) = (document, Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (part, behind) = der_element(rest).filter(|_| parts.len() < 2).ok_or(Error::Provider)?;
            let read = |scheme: Scheme| Some((scheme, self.scheme_from_pkcs8(scheme, part).ok()?));
            let (scheme, key) = Scheme::ALL.into_iter().find_map(read).ok_or(Error::Provider)?;
            schemes.push(scheme);
            parts.push(key);
            rest = behind;
        }
        let is_same = |algorithm: &SignatureAlgorithm| algorithm.schemes().eq(schemes.iter().copied());
        let algorithm = SignatureAlgorithm::ALL.into_iter().find(is_same).ok_or(Error::Provider)?;
        Ok(IdentityPair::new(algorithm, parts))
    }
}

/// Splits the first element of DER off; `None` if it is beyond [`PKCS8_LEN_MAX`] or cut.
fn der_element(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, len) = match *bytes {
        [_, len @ 0..=0x7f, ..] => (2, usize::from(len)),
        [_, 0x81, len, ..] => (3, usize::from(len)),
        [_, 0x82, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
        _ => return None,
    };
    if head + len > PKCS8_LEN_MAX { None } else { bytes.split_at_checked(head + len) }
}

/// Returns the message that the parts of a key sign in place of `message`. No single key signs such a message.
fn signed<'m>(algorithm: SignatureAlgorithm, message: &'m [u8], buffer: &'m mut Vec<u8>) -> &'m [u8] {
    if !algorithm.is_composite() {
        return message;
    }
    let name = algorithm.name().as_bytes();
    buffer.extend_from_slice(&(name.len() as u32).to_be_bytes());
    buffer.extend_from_slice(name);
    buffer.extend_from_slice(message);
    buffer
}

/// An expanded public key of an identity key or a root.
pub struct IdentityPublic {
    algorithm: SignatureAlgorithm,
    parts: Vec<(Scheme, Box<dyn SchemePublic>)>,
}

impl IdentityPublic {
    /// Puts a key together from its parts, which are those of the algorithm.
    pub fn from_parts(algorithm: SignatureAlgorithm, parts: Vec<Box<dyn SchemePublic>>) -> Self {
        IdentityPublic { algorithm, parts: algorithm.schemes().zip(parts).collect() }
    }

    /// Returns the algorithm of the key.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }

    /// Returns whether `signature` is this key's over `message`; of a composite key, that of both parts.
    // SPEC session-3.md#algorithms
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        if signature.len() != self.algorithm.signature_len() || self.parts.len() != self.algorithm.schemes().count() {
            return false;
        }
        let mut buffer = Vec::new();
        let message = signed(self.algorithm, message, &mut buffer);
        let mut rest = signature;
        self.parts.iter().all(|(scheme, key)| {
            let Some((own, behind)) = rest.split_at_checked(scheme.signature_len()) else { return false };
            rest = behind;
            key.verify(message, own)
        })
    }
}

impl fmt::Debug for IdentityPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdentityPublic").field(&self.algorithm).finish()
    }
}

/// A key pair of an identity key or a root. Only its public half is printed.
pub struct IdentityPair {
    algorithm: SignatureAlgorithm,
    public: Vec<u8>,
    parts: Vec<Box<dyn SchemeKey>>,
}

impl IdentityPair {
    fn new(algorithm: SignatureAlgorithm, parts: Vec<Box<dyn SchemeKey>>) -> Self {
        let public = parts.iter().flat_map(|part| part.public()).copied().collect();
        IdentityPair { algorithm, public, parts }
    }

    /// Returns the algorithm of the key.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }

    /// Returns the public half, in the form of the algorithm.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Signs `message`. Two signatures of one message differ.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut buffer = Vec::new();
        let message = signed(self.algorithm, message, &mut buffer);
        let mut signature = Vec::with_capacity(self.algorithm.signature_len());
        for part in &self.parts {
            signature.extend_from_slice(&part.sign(message)?);
        }
        if signature.len() == self.algorithm.signature_len() { Ok(signature) } else { Err(Error::Provider) }
    }
}

impl fmt::Debug for IdentityPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityPair").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Returns the default library, as [`super::default_provider`].
#[cfg(feature = "aws-lc")]
pub fn default_identity_library() -> &'static dyn IdentityLibrary {
    &super::aws_lc::AwsLc
}

/// Returns the default library, as [`super::default_provider`].
#[cfg(all(feature = "ring", not(feature = "aws-lc")))]
pub fn default_identity_library() -> &'static dyn IdentityLibrary {
    &super::ring::Ring
}

/// Returns the default library, as [`super::default_provider`].
#[cfg(all(feature = "rust-crypto", not(any(feature = "aws-lc", feature = "ring"))))]
pub fn default_identity_library() -> &'static dyn IdentityLibrary {
    &super::rust_crypto::RustCrypto
}
