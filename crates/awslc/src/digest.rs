//! SHAKE: digests of any length (FIPS 202 section 6.2).

use std::ptr::NonNull;

use crate::{CryptoError, QueueGuard, sys, yes};

/// Most output of a digest, in bytes.
pub const XOF_MAX: usize = 1024 * 1024;

/// A digest's state, freed with its owner.
pub(crate) struct Context(NonNull<sys::EVP_MD_CTX>);

impl Context {
    pub(crate) fn new() -> Result<Context, CryptoError> {
        // SAFETY: takes no argument; NULL, its failure, is looked for.
        NonNull::new(unsafe { sys::EVP_MD_CTX_new() }).map(Context).ok_or(CryptoError)
    }

    pub(crate) fn pointer(&mut self) -> *mut sys::EVP_MD_CTX {
        self.0.as_ptr()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `EVP_MD_CTX_new`, owned by this value alone, never used again. It cleanses what it frees.
        unsafe { sys::EVP_MD_CTX_free(self.0.as_ptr()) }
    }
}

/// Fills `out` with SHAKE128 of `input`.
///
/// # Errors
/// `out` is longer than [`XOF_MAX`], or the library is out of memory.
pub fn shake128(input: &[u8], out: &mut [u8]) -> Result<(), CryptoError> {
    // SAFETY: takes no argument; what it returns is static.
    extendable(unsafe { sys::EVP_shake128() }, input, out)
}

/// Fills `out` with SHAKE256 of `input`.
///
/// # Errors
/// `out` is longer than [`XOF_MAX`], or the library is out of memory.
pub fn shake256(input: &[u8], out: &mut [u8]) -> Result<(), CryptoError> {
    // SAFETY: takes no argument; what it returns is static.
    extendable(unsafe { sys::EVP_shake256() }, input, out)
}

fn extendable(digest: *const sys::EVP_MD, input: &[u8], out: &mut [u8]) -> Result<(), CryptoError> {
    if out.len() > XOF_MAX {
        return Err(CryptoError);
    }
    let _queue = QueueGuard;
    let mut context = Context::new()?;
    // SAFETY: the context is alive, the digest is a static of the library, NULL is "no engine".
    yes(unsafe { sys::EVP_DigestInit_ex(context.pointer(), digest, std::ptr::null_mut()) })?;
    // SAFETY: the context was initialised above; the library reads `input.len()` bytes of `input`.
    yes(unsafe { sys::EVP_DigestUpdate(context.pointer(), input.as_ptr().cast(), input.len()) })?;
    // SAFETY: the same context, with a digest of extendable output; the library writes `out.len()` bytes to `out`.
    yes(unsafe { sys::EVP_DigestFinalXOF(context.pointer(), out.as_mut_ptr(), out.len()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::hex;

    #[test]
    fn digests_of_the_empty_and_of_a_long_message_are_the_published_ones() {
        // FIPS 202's examples: no bits, and 1600 bits of 0xa3.
        let mut short = [0; 32];
        shake128(b"", &mut short).unwrap();
        assert_eq!(hex(&short), "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26");
        shake256(b"", &mut short).unwrap();
        assert_eq!(hex(&short), "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f");
        shake128(&[0xa3; 200], &mut short).unwrap();
        assert_eq!(hex(&short), "131ab8d2b594946b9c81333f9bb6e0ce75c3b93104fa3469d3917457385da037");
        shake256(&[0xa3; 200], &mut short).unwrap();
        assert_eq!(hex(&short), "cd8a920ed141aa0407a22d59288652e9d9f1a7ee0c1e7c1ca699424da84a904d");
    }

    #[test]
    fn a_longer_output_begins_with_the_shorter_one_and_has_a_bound() {
        let (mut short, mut long) = ([0; 16], vec![0; 1000]);
        shake128(b"text", &mut short).unwrap();
        shake128(b"text", &mut long).unwrap();
        assert_eq!(short, long[..16]);
        assert_eq!(shake128(b"text", &mut vec![0; XOF_MAX + 1]), Err(CryptoError));
        assert_eq!(shake256(b"text", &mut []), Ok(()));
    }
}
