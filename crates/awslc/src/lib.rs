//! What AWS-LC can do and the safe API of aws-lc-rs does not offer: SHAKE, signatures of any supported pair of key and
//! digest, verification with RSA keys up to 16384 bits and of SHA-1, and private keys in all three of their DER forms.
//!
//! The one crate with unsafe code (docs/adr/0013-one-audited-crate-of-unsafe-code.md). It holds to these rules:
//!
//! * Every pointer from the library is owned by one type that frees it once, and never leaves this crate.
//! * Lengths are checked before a call; what is parsed is at most [`DER_MAX`] bytes, to its last byte.
//! * The thread's error queue is empty when a function returns, so that nothing of one request reaches another.
//! * An error says nothing but that it failed: texts of the library may quote what they read.
//!
//! It may not know: profiles, certificates, PEM, or what its callers sign.
#![warn(missing_docs)]

#[cfg(feature = "fips")]
use aws_lc_fips_sys as sys;
#[cfg(not(feature = "fips"))]
use aws_lc_sys as sys;

mod bytes;
mod digest;
mod key;
mod module;
mod signature;

pub use digest::{XOF_MAX, shake128, shake256};
pub use key::{Curve, Kind, PrivateKey, PublicKey};
#[cfg(feature = "fips")]
pub use module::approved_services;
pub use module::{is_fips, version};
pub use signature::{Hash, MESSAGE_MAX, Scheme};

/// The most bytes that are parsed as a key.
pub const DER_MAX: usize = 64 * 1024;

/// The library did not do it: malformed, beyond a bound, not supported, or a signature that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the cryptographic library refused it")
    }
}

impl std::error::Error for Failed {}

/// Empties the thread's error queue when it goes out of scope, whatever the calls in between left there.
struct QueueEmptied;

impl Drop for QueueEmptied {
    fn drop(&mut self) {
        // SAFETY: takes no argument, touches the calling thread's own queue alone.
        unsafe { sys::ERR_clear_error() }
    }
}

/// 1 is the library's yes; 0 and less are its no.
fn yes(code: std::ffi::c_int) -> Result<(), Failed> {
    if code == 1 { Ok(()) } else { Err(Failed) }
}
