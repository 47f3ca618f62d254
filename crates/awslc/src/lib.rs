//! Functions of AWS-LC that the safe API of aws-lc-rs does not offer: SHAKE, signatures of any supported pair of key and
//! digest, verification with RSA keys up to 16384 bits and of SHA-1, private keys in all three of their DER forms, and AES-GCM
//! with nonces of 16 bytes.
//!
//! The one crate with unsafe code (docs/adr/0013-one-audited-crate-of-unsafe-code.md). It follows these rules:
//!
//! * Every pointer from the library is owned by one type that frees it once, and never leaves this crate.
//! * Lengths are checked before a call; what is parsed is at most [`DER_MAX`] bytes, to its last byte.
//! * The thread's error queue is empty when a function returns, so that nothing of one request reaches another.
//! * An error says nothing but that it failed: texts of the library may quote their input.
//!
//! This crate does not know profiles, certificates, PEM, or the content that its callers sign.
#![warn(missing_docs)]

#[cfg(feature = "fips")]
use aws_lc_fips_sys as sys;
#[cfg(not(feature = "fips"))]
use aws_lc_sys as sys;

mod bytes;
mod digest;
mod gcm;
mod key;
mod module;
mod signature;

pub use digest::{XOF_MAX, shake128, shake256};
pub use gcm::{GCM_INPUT_MAX, GCM_TAG_LEN, aes_gcm_open, aes_gcm_seal};
pub use key::{Curve, Kind, MlDsa, PrivateKey, PublicKey};
#[cfg(feature = "fips")]
pub use module::approved_services;
pub use module::{is_fips, version};
pub use signature::{Hash, MESSAGE_MAX, Scheme};

/// Longest DER of a key that is parsed, in bytes.
pub const DER_MAX: usize = 64 * 1024;

/// The library failed: malformed input, beyond a bound, not supported, or a signature that does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoError;

impl std::fmt::Display for CryptoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the cryptographic library refused it")
    }
}

impl std::error::Error for CryptoError {}

/// Empties the thread's error queue when it goes out of scope, whatever the calls in between left in it.
struct QueueGuard;

impl Drop for QueueGuard {
    fn drop(&mut self) {
        // SAFETY: takes no argument, touches the calling thread's own queue alone.
        unsafe { sys::ERR_clear_error() }
    }
}

/// Converts a result code of the library: 1 is success; 0 and less are failures.
fn yes(code: std::ffi::c_int) -> Result<(), CryptoError> {
    if code == 1 { Ok(()) } else { Err(CryptoError) }
}
