//! Signing and verifying with a key of the library.

use std::ptr::{NonNull, null_mut};

use crate::digest::Context;
use crate::key::{Kind, MlDsa};
use crate::{CryptoError, QueueGuard, sys, yes};

/// Longest message that is signed or verified, in bytes.
pub const MESSAGE_MAX: usize = 2 * 1024 * 1024;

/// The digest of a signature. MD5 is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-1: only for verification, never for signing.
    Sha1,
    /// SHA-256 (FIPS 180-4), 32 bytes.
    Sha256,
    /// SHA-384 (FIPS 180-4), 48 bytes.
    Sha384,
    /// SHA-512 (FIPS 180-4), 64 bytes.
    Sha512,
}

impl Hash {
    /// Returns the length of its digests, in bytes.
    fn len(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    fn digest(self) -> *const sys::EVP_MD {
        // SAFETY: none takes an argument; what they return is static.
        unsafe {
            match self {
                Hash::Sha1 => sys::EVP_sha1(),
                Hash::Sha256 => sys::EVP_sha256(),
                Hash::Sha384 => sys::EVP_sha384(),
                Hash::Sha512 => sys::EVP_sha512(),
            }
        }
    }
}

/// The signature scheme, with its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// RSASSA-PKCS1-v1_5 (RFC 8017 section 8.2).
    RsaPkcs1(Hash),
    /// RSASSA-PSS (RFC 8017 section 8.1), MGF1 with the same digest, a salt of the digest's length.
    RsaPss(Hash),
    /// ECDSA, in the DER form of RFC 3279 section 2.2.3.
    Ecdsa(Hash),
    /// ML-DSA (FIPS 204) in its pure mode with the empty context, as certificates have it (RFC 9881 section 3). It has no
    /// digest.
    MlDsa(MlDsa),
}

impl Scheme {
    fn hash(self) -> Option<Hash> {
        match self {
            Scheme::RsaPkcs1(hash) | Scheme::RsaPss(hash) | Scheme::Ecdsa(hash) => Some(hash),
            Scheme::MlDsa(_) => None,
        }
    }

    /// Returns the digest in the library; NULL for a scheme without one.
    fn digest(self) -> *const sys::EVP_MD {
        self.hash().map_or(std::ptr::null(), Hash::digest)
    }

    /// Returns whether the bytes have the length of the scheme's digest; false for a scheme without one.
    fn fits_digest(self, digest: &[u8]) -> bool {
        self.hash().is_some_and(|hash| hash.len() == digest.len())
    }

    fn fits(self, kind: Kind) -> bool {
        match self {
            Scheme::RsaPkcs1(_) | Scheme::RsaPss(_) => matches!(kind, Kind::Rsa(_)),
            Scheme::Ecdsa(_) => matches!(kind, Kind::Ec(_)),
            Scheme::MlDsa(set) => kind == Kind::MlDsa(set),
        }
    }

    /// Sets the padding in the library, for schemes with a choice.
    ///
    /// # Safety
    /// `context` is alive and initialised for signing or verifying; for the RSA schemes, with an RSA key.
    unsafe fn pad(self, context: *mut sys::EVP_PKEY_CTX) -> Result<(), CryptoError> {
        let padding = match self {
            Scheme::RsaPkcs1(_) => sys::RSA_PKCS1_PADDING,
            Scheme::RsaPss(_) => sys::RSA_PKCS1_PSS_PADDING,
            Scheme::Ecdsa(_) | Scheme::MlDsa(_) => return Ok(()),
        };
        // SAFETY: the caller's promise.
        yes(unsafe { sys::EVP_PKEY_CTX_set_rsa_padding(context, padding) })?;
        if let Scheme::RsaPss(_) = self {
            // SAFETY: the caller's promise, and the padding is PSS since above.
            yes(unsafe { sys::EVP_PKEY_CTX_set_rsa_pss_saltlen(context, sys::RSA_PSS_SALTLEN_DIGEST) })?;
        }
        Ok(())
    }
}

/// Signs a message; see [`crate::PrivateKey::sign`].
///
/// # Safety
/// `key` is alive during the call, of this kind, and has a private half.
pub(crate) unsafe fn sign(
    key: NonNull<sys::EVP_PKEY>,
    kind: Kind,
    scheme: Scheme,
    message: &[u8],
) -> Result<Vec<u8>, CryptoError> {
    if !scheme.fits(kind) || scheme.hash() == Some(Hash::Sha1) || message.len() > MESSAGE_MAX {
        return Err(CryptoError);
    }
    let _queue = QueueGuard;
    let (mut context, mut inner) = (Context::new()?, null_mut());
    let digest = scheme.digest();
    // SAFETY: the context and the key are alive, the digest is static or NULL for "none", NULL is "no engine". `inner` belongs to the context.
    yes(unsafe { sys::EVP_DigestSignInit(context.pointer(), &mut inner, digest, null_mut(), key.as_ptr()) })?;
    // SAFETY: `inner` was initialised for signing with this key, whose kind fits the scheme.
    unsafe { scheme.pad(inner) }?;
    // SAFETY: the key is alive; of a signing key it is the most bytes that a signature of its has.
    let most = usize::try_from(unsafe { sys::EVP_PKEY_size(key.as_ptr()) }).map_err(|_| CryptoError)?;
    let mut signature = vec![0; most];
    let mut len = signature.len();
    // SAFETY: the library reads `message.len()` bytes of `message`, writes at most `len` bytes, the length of `signature`, and
    // sets `len` to what it wrote.
    yes(unsafe {
        sys::EVP_DigestSign(context.pointer(), signature.as_mut_ptr(), &mut len, message.as_ptr(), message.len())
    })?;
    if len > most {
        return Err(CryptoError);
    }
    signature.truncate(len);
    Ok(signature)
}

/// Verifies a signature of a message; see [`crate::PublicKey::verify`].
///
/// # Safety
/// `key` is alive during the call, and of this kind.
pub(crate) unsafe fn verify(
    key: NonNull<sys::EVP_PKEY>,
    kind: Kind,
    scheme: Scheme,
    message: &[u8],
    signature: &[u8],
) -> Result<(), CryptoError> {
    if !scheme.fits(kind) || message.len() > MESSAGE_MAX || signature.len() > crate::DER_MAX {
        return Err(CryptoError);
    }
    let _queue = QueueGuard;
    let (mut context, mut inner) = (Context::new()?, null_mut());
    let digest = scheme.digest();
    // SAFETY: the context and the key are alive, the digest is static or NULL for "none", NULL is "no engine". `inner` belongs to the context.
    yes(unsafe { sys::EVP_DigestVerifyInit(context.pointer(), &mut inner, digest, null_mut(), key.as_ptr()) })?;
    // SAFETY: `inner` was initialised for verifying with this key, whose kind fits the scheme.
    unsafe { scheme.pad(inner) }?;
    // SAFETY: the library reads `signature.len()` bytes of `signature` and `message.len()` bytes of `message`.
    yes(unsafe {
        sys::EVP_DigestVerify(context.pointer(), signature.as_ptr(), signature.len(), message.as_ptr(), message.len())
    })
}

/// A context of the library for one operation with one key, freed with its owner.
struct KeyContext(NonNull<sys::EVP_PKEY_CTX>);

impl KeyContext {
    /// Creates a context for a key.
    ///
    /// # Safety
    /// `key` is alive; the context takes a reference of its own.
    unsafe fn new(key: NonNull<sys::EVP_PKEY>) -> Result<KeyContext, CryptoError> {
        // SAFETY: the caller's promise; NULL is "no engine".
        let made = unsafe { sys::EVP_PKEY_CTX_new(key.as_ptr(), null_mut()) };
        NonNull::new(made).map(KeyContext).ok_or(CryptoError)
    }

    /// Sets the padding and the digest of the scheme.
    ///
    /// # Safety
    /// The context is initialised for signing or verifying, with a key of the scheme's kind.
    unsafe fn set(&self, scheme: Scheme) -> Result<(), CryptoError> {
        // SAFETY: the caller's promise.
        unsafe { scheme.pad(self.0.as_ptr()) }?;
        // SAFETY: as above; the digest is static.
        yes(unsafe { sys::EVP_PKEY_CTX_set_signature_md(self.0.as_ptr(), scheme.digest()) })
    }
}

impl Drop for KeyContext {
    fn drop(&mut self) {
        // SAFETY: this value owns the context, and is not used again.
        unsafe { sys::EVP_PKEY_CTX_free(self.0.as_ptr()) }
    }
}

/// Signs a digest; see [`crate::PrivateKey::sign_digest`].
///
/// # Safety
/// `key` is alive during the call, of this kind, and has a private half.
pub(crate) unsafe fn sign_digest(
    key: NonNull<sys::EVP_PKEY>,
    kind: Kind,
    scheme: Scheme,
    digest: &[u8],
) -> Result<Vec<u8>, CryptoError> {
    if !scheme.fits(kind) || !scheme.fits_digest(digest) || scheme.hash() == Some(Hash::Sha1) {
        return Err(CryptoError);
    }
    let _queue = QueueGuard;
    // SAFETY: the key is alive.
    let context = unsafe { KeyContext::new(key) }?;
    // SAFETY: the context is alive.
    yes(unsafe { sys::EVP_PKEY_sign_init(context.0.as_ptr()) })?;
    // SAFETY: initialised above for signing with this key, whose kind fits the scheme.
    unsafe { context.set(scheme) }?;
    // SAFETY: the key is alive; of a signing key it is the most bytes that a signature of its has.
    let most = usize::try_from(unsafe { sys::EVP_PKEY_size(key.as_ptr()) }).map_err(|_| CryptoError)?;
    let mut signature = vec![0; most];
    let mut len = signature.len();
    // SAFETY: the library reads `digest.len()` bytes of `digest`, writes at most `len` bytes, the length of `signature`, and
    // sets `len` to what it wrote.
    yes(unsafe {
        sys::EVP_PKEY_sign(context.0.as_ptr(), signature.as_mut_ptr(), &mut len, digest.as_ptr(), digest.len())
    })?;
    if len > most {
        return Err(CryptoError);
    }
    signature.truncate(len);
    Ok(signature)
}

/// Verifies a signature of a digest; see [`crate::PublicKey::verify_digest`].
///
/// # Safety
/// `key` is alive during the call, and of this kind.
pub(crate) unsafe fn verify_digest(
    key: NonNull<sys::EVP_PKEY>,
    kind: Kind,
    scheme: Scheme,
    digest: &[u8],
    signature: &[u8],
) -> Result<(), CryptoError> {
    if !scheme.fits(kind) || !scheme.fits_digest(digest) || signature.len() > crate::DER_MAX {
        return Err(CryptoError);
    }
    let _queue = QueueGuard;
    // SAFETY: the key is alive.
    let context = unsafe { KeyContext::new(key) }?;
    // SAFETY: the context is alive.
    yes(unsafe { sys::EVP_PKEY_verify_init(context.0.as_ptr()) })?;
    // SAFETY: initialised above for verifying with this key, whose kind fits the scheme.
    unsafe { context.set(scheme) }?;
    // SAFETY: the library reads `signature.len()` bytes of `signature` and `digest.len()` bytes of `digest`.
    yes(unsafe {
        sys::EVP_PKEY_verify(context.0.as_ptr(), signature.as_ptr(), signature.len(), digest.as_ptr(), digest.len())
    })
}

/// Verifies an ML-DSA signature of a message representative (FIPS 204 algorithm 8, line 7), for vectors of the internal interface.
///
/// # Safety
/// `key` is alive during the call, and of ML-DSA.
#[cfg(all(test, not(feature = "fips")))]
pub(crate) unsafe fn verify_representative(
    key: NonNull<sys::EVP_PKEY>,
    representative: &[u8; 64],
    signature: &[u8],
) -> Result<(), CryptoError> {
    let _queue = QueueGuard;
    // SAFETY: the key is alive.
    let context = unsafe { KeyContext::new(key) }?;
    // SAFETY: the context is alive.
    yes(unsafe { sys::EVP_PKEY_verify_init(context.0.as_ptr()) })?;
    let (message, message_len) = (representative.as_ptr(), representative.len());
    // SAFETY: initialised above; the library reads `signature.len()` bytes of `signature` and `message_len` of `message`.
    yes(unsafe { sys::EVP_PKEY_verify(context.0.as_ptr(), signature.as_ptr(), signature.len(), message, message_len) })
}
