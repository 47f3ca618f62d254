//! AES-GCM (SP 800-38D) with the nonce as a slice. The safe API takes nonces of 12 bytes alone; senders of JWE exist that use 16.

use std::ptr::{NonNull, null};

use crate::{CryptoError, QueueGuard, sys, yes};

/// Length of the tag of AES-GCM, in bytes. No shorter tag is verified.
pub const GCM_TAG_LEN: usize = 16;

/// Largest input of AES-GCM that is sealed or opened, and largest additional data, in bytes.
pub const GCM_INPUT_MAX: usize = 64 * 1024 * 1024;

/// The nonce lengths that are opened: that of SP 800-38D and RFC 7518 section 5.3, and that of one AES block.
const OPENED_NONCE_LENS: [usize; 2] = [12, 16];

/// The nonce length that is sealed with.
const SEALED_NONCE_LEN: usize = 12;

/// An expanded key of the library, freed with its owner.
struct Context(NonNull<sys::EVP_AEAD_CTX>);

impl Context {
    /// Expands a key of 16, 24 or 32 bytes.
    fn new(key: &[u8]) -> Result<Context, CryptoError> {
        // SAFETY: none takes an argument; what they return is static.
        let aead = unsafe {
            match key.len() {
                16 => sys::EVP_aead_aes_128_gcm(),
                24 => sys::EVP_aead_aes_192_gcm(),
                32 => sys::EVP_aead_aes_256_gcm(),
                _ => return Err(CryptoError),
            }
        };
        // SAFETY: the algorithm is static; the library reads `key.len()` bytes of `key`. NULL, its failure, is looked for.
        let made = unsafe { sys::EVP_AEAD_CTX_new(aead, key.as_ptr(), key.len(), GCM_TAG_LEN) };
        NonNull::new(made).map(Context).ok_or(CryptoError)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `EVP_AEAD_CTX_new`, owned by this value alone, never used again. It cleanses what it frees.
        unsafe { sys::EVP_AEAD_CTX_free(self.0.as_ptr()) }
    }
}

/// Verifies `tag` over `aad` and `data`, and decrypts `data` in place. The key has 16, 24 or 32 bytes (AES-128, -192, -256), the
/// nonce 12 or 16, the tag exactly [`GCM_TAG_LEN`].
///
/// # Errors
/// The tag does not verify, or a length is another one. After an error `data` is all zero.
pub fn aes_gcm_open(key: &[u8], nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> Result<(), CryptoError> {
    let _queue = QueueGuard;
    let opened = open_in_place(key, nonce, aad, data, tag);
    if opened.is_err() {
        data.fill(0);
    }
    opened
}

fn open_in_place(key: &[u8], nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> Result<(), CryptoError> {
    if !OPENED_NONCE_LENS.contains(&nonce.len()) || tag.len() != GCM_TAG_LEN || !is_bounded(aad, data) {
        return Err(CryptoError);
    }
    let context = Context::new(key)?;
    let (bytes, len) = (data.as_mut_ptr(), data.len());
    // SAFETY: the context is alive. The library reads `len` bytes at `bytes` and writes as many to the same place, which it allows
    // (input and output are equal, not merely overlapping); both pointers come from the one mutable borrow. It reads the nonce,
    // the tag and the additional data within their lengths.
    yes(unsafe {
        sys::EVP_AEAD_CTX_open_gather(
            context.0.as_ptr(),
            bytes,
            nonce.as_ptr(),
            nonce.len(),
            bytes.cast_const(),
            len,
            tag.as_ptr(),
            tag.len(),
            aad.as_ptr(),
            aad.len(),
        )
    })
}

/// Encrypts `data` in place and returns its tag. The key has 16, 24 or 32 bytes (AES-128, -192, -256), the nonce 12; a nonce must
/// never repeat under one key.
///
/// # Errors
/// A length is another one, or the library is out of memory; then `data` must not be used.
pub fn aes_gcm_seal(key: &[u8], nonce: &[u8], aad: &[u8], data: &mut [u8]) -> Result<[u8; GCM_TAG_LEN], CryptoError> {
    let _queue = QueueGuard;
    if nonce.len() != SEALED_NONCE_LEN || !is_bounded(aad, data) {
        return Err(CryptoError);
    }
    let context = Context::new(key)?;
    let (mut tag, mut tag_len) = ([0; GCM_TAG_LEN], 0);
    let (bytes, len) = (data.as_mut_ptr(), data.len());
    // SAFETY: as in `open_in_place`; the library writes at most `tag.len()` bytes to `tag`, and there is no extra input.
    yes(unsafe {
        sys::EVP_AEAD_CTX_seal_scatter(
            context.0.as_ptr(),
            bytes,
            tag.as_mut_ptr(),
            &mut tag_len,
            tag.len(),
            nonce.as_ptr(),
            nonce.len(),
            bytes.cast_const(),
            len,
            null(),
            0,
            aad.as_ptr(),
            aad.len(),
        )
    })?;
    if tag_len == GCM_TAG_LEN { Ok(tag) } else { Err(CryptoError) }
}

fn is_bounded(aad: &[u8], data: &[u8]) -> bool {
    aad.len() <= GCM_INPUT_MAX && data.len() <= GCM_INPUT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_the_lists_are_rejected_and_the_data_is_zeroed() {
        for key_len in [0, 15, 16, 24, 31, 32, 33] {
            let key = vec![7; key_len];
            let mut data = *b"text";
            let sealed = aes_gcm_seal(&key, &[1; 12], b"aad", &mut data);
            assert_eq!(sealed.is_ok(), [16, 24, 32].contains(&key_len), "{key_len}");
            let Ok(tag) = sealed else { continue };
            for nonce_len in [0, 1, 8, 11, 13, 16, 96] {
                assert_eq!(aes_gcm_seal(&key, &vec![1; nonce_len], b"", &mut [0; 4]), Err(CryptoError), "{nonce_len}");
                assert_eq!(aes_gcm_open(&key, &vec![1; nonce_len], b"aad", &mut data.clone(), &tag), Err(CryptoError));
            }
            for tag_len in 0..16 {
                let mut cut = data;
                assert_eq!(aes_gcm_open(&key, &[1; 12], b"aad", &mut cut, &tag[..tag_len]), Err(CryptoError));
                assert_eq!(cut, [0; 4]);
            }
            let longer = [tag.as_slice(), &[0]].concat();
            assert_eq!(aes_gcm_open(&key, &[1; 12], b"aad", &mut data.clone(), &longer), Err(CryptoError));
            assert_eq!(aes_gcm_open(&key, &[1; 12], b"aad", &mut data, &tag), Ok(()));
            assert_eq!(&data, b"text");
        }
    }

    #[test]
    fn each_flipped_bit_is_rejected() {
        let (key, nonce) = ([7; 32], [1; 12]);
        let mut data = *b"a message of more than one block";
        let tag = aes_gcm_seal(&key, &nonce, b"aad", &mut data).unwrap();
        for bit in 0..data.len() * 8 {
            let mut changed = data;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(aes_gcm_open(&key, &nonce, b"aad", &mut changed, &tag), Err(CryptoError), "data {bit}");
            assert_eq!(changed, [0; 32]);
        }
        for bit in 0..tag.len() * 8 {
            let mut changed = tag;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(aes_gcm_open(&key, &nonce, b"aad", &mut data.clone(), &changed), Err(CryptoError), "tag {bit}");
        }
        assert_eq!(aes_gcm_open(&key, &nonce, b"Aad", &mut data.clone(), &tag), Err(CryptoError));
        assert_eq!(aes_gcm_open(&key, &nonce, b"aad", &mut data, &tag), Ok(()));
    }
}
