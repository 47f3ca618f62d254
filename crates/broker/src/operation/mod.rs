//! Operations with keys: each is a function of a profile, a key and a batch of inputs, with results in the batch's
//! order.
//!
//! The module does not know callers, the audit log or the wire. Its inputs are decoded and allowed; the functions check
//! that key, profile and inputs fit each other. spec/broker.md, operations.

mod derive;
mod encrypt;
mod kem;
mod mac;
mod mechanism;
mod raw;
mod sign;
mod unwrap;

use crate::keys::{Key, Version};
use crate::profile::policy::Profile;
use crate::{Code, Refusal, Result};

pub use derive::{Derivation, derive};
pub use encrypt::{Cipher, NONCE_LEN, Plain, SealedMessage, TAG_LEN, Tag, data_key, decrypt, encrypt, rewrap};
pub use kem::{Encapsulation, Recipient, decapsulate, encapsulate};
pub use mac::{mac, verify_mac};
pub use raw::{RawKey, Source, decrypt_one, encrypt_one};
pub use sign::{SignedInput, may_sign, sign, sign_digests, verify, verify_digests, verify_one};
pub use unwrap::{EncryptedKey, unwrap};

/// Most inputs of a batch.
pub const BATCH_MAX: usize = 1024;
/// Longest batch, in bytes: its inputs together with their additional data; also its outputs.
pub const BATCH_LEN_MAX: usize = 1024 * 1024;
/// Longest additional authenticated data of the one message of W4, in bytes.
pub const AAD_LEN_MAX: usize = 64 * 1024;
/// Most random bytes of one call.
pub const RANDOM_LEN_MAX: usize = 64 * 1024;

/// Results of a batch, and the version of the key that made them.
#[derive(Debug)]
pub struct Outputs<T> {
    /// Version of the key, from 1; 0 without a key of the store.
    pub key_version: u32,
    /// Results, in the order of the inputs.
    pub outputs: Vec<T>,
}

/// Draws random bytes: `count` outputs of `length` bytes each, at most [`RANDOM_LEN_MAX`] in all.
///
/// # Errors
/// [`Code::FailedPrecondition`]: not in the profile; [`Code::InvalidArgument`]: beyond the bounds; [`Code::Internal`].
pub fn random(profile: &Profile, length: usize, count: usize) -> Result<Vec<Vec<u8>>> {
    if !profile.random {
        return Err(not_in(profile, "Random"));
    }
    let all = length.checked_mul(count).filter(|all| (1..=RANDOM_LEN_MAX).contains(all) && count <= BATCH_MAX);
    if all.is_none() {
        let text = format!("length: expected 1 to {RANDOM_LEN_MAX} bytes in all, in 1 to {BATCH_MAX} outputs");
        return Err(Refusal::invalid(text));
    }
    let draw = |_| {
        let mut output = vec![0; length];
        aws_lc_rs::rand::fill(&mut output).map_err(|_| failed("Random"))?;
        Ok(output)
    };
    (0..count).map(draw).collect()
}

/// Checks the number and total length of a batch's inputs.
pub(crate) fn check_batch(field: &str, lens: impl ExactSizeIterator<Item = usize>) -> Result<()> {
    let count = lens.len();
    if !(1..=BATCH_MAX).contains(&count) {
        return Err(Refusal::invalid(format!("{field}: expected 1 to {BATCH_MAX}, got {count}")));
    }
    if lens.fold(0_usize, usize::saturating_add) > BATCH_LEN_MAX {
        return Err(Refusal::invalid(format!("{field}: too large (max {BATCH_LEN_MAX} bytes in all)")));
    }
    Ok(())
}

/// Checks one message and its additional data, each by its own bound.
fn check_one(field: &str, text: &[u8], aad: &[u8]) -> Result<()> {
    check_batch(field, [text.len()].into_iter())?;
    if aad.len() > AAD_LEN_MAX {
        return Err(Refusal::invalid(format!("aad: too large (max {AAD_LEN_MAX})")));
    }
    Ok(())
}

/// Versions to try if a wire does not name one: the newest enabled ones.
fn candidates(key: &Key) -> impl Iterator<Item = &Version> {
    const TRIED_MAX: usize = 8;
    key.versions().iter().rev().filter(|version| key.may_open(version)).take(TRIED_MAX)
}

/// Error for a profile without the operation's section.
fn not_in(profile: &Profile, operation: &str) -> Refusal {
    Refusal::new(Code::FailedPrecondition, format!("profile: {} has no {operation}", profile.name))
}

/// Error for a failed call of the module: a defect of the broker, or of the machine.
fn failed(operation: &str) -> Refusal {
    Refusal::new(Code::Internal, format!("{operation}: the cryptographic module failed"))
}
