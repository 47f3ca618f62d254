//! Encryption on W4: one message, a key in the request or of the store, always tags of 16 bytes, and no version of a
//! key.

use super::encrypt::{Cipher, Plain, SealedMessage, TAG_LEN, caller_nonce, cipher_of, seal_batch, seal_random};
use super::{candidates, check_one, failed, mechanism, not_in};
use crate::keys::{self, Key};
use crate::profile::policy::{EncryptPolicy, Profile};
use crate::{Code, Refusal, Result};

/// Source of the key that a request names.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Bytes of the key in the request.
    Raw(RawKey<'a>),
    /// A key of the store.
    Key(&'a Key),
}

/// Bytes of a key, hidden in debug output.
#[derive(Clone, Copy)]
pub struct RawKey<'a>(pub &'a [u8]);

impl std::fmt::Debug for RawKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawKey")
    }
}

/// Encrypts one message of the wire W4.
///
/// # Errors
/// Those of [`super::encrypt`]; [`Code::InvalidArgument`]: the raw key does not have the cipher's length.
pub fn encrypt_one(profile: &Profile, source: Source<'_>, plain: Plain<'_>) -> Result<SealedMessage> {
    let policy = policy_of(profile)?;
    check_one("plaintext", plain.plaintext, plain.aad)?;
    let sealed = match source {
        Source::Key(key) => seal_batch(&policy, key, &[plain], TAG_LEN)?,
        Source::Raw(key) => {
            let cipher = raw_cipher(&policy, key)?;
            match policy.is_nonce_callers {
                true => {
                    let nonce = caller_nonce(plain.nonce)?;
                    return mechanism::seal(&cipher, nonce, plain.aad, plain.plaintext, TAG_LEN, 0);
                }
                false if !plain.nonce.is_empty() => {
                    return Err(Refusal::invalid("nonce: the profile does not leave it to the caller"));
                }
                false => seal_random(&cipher, &[plain], TAG_LEN, 0)?,
            }
        }
    };
    sealed.into_iter().next().ok_or_else(|| failed("EncryptData"))
}

/// Decrypts one message; `cipher.key_version` is ignored.
///
/// # Errors
/// [`Code::InvalidArgument`]: it does not open, or the raw key does not have the cipher's length;
/// [`Code::FailedPrecondition`]: not in the profile, or every version of the key is disabled.
pub fn decrypt_one(profile: &Profile, source: Source<'_>, cipher: &Cipher<'_>) -> Result<Vec<u8>> {
    let policy = policy_of(profile)?;
    check_one("ciphertext", cipher.ciphertext, cipher.aad)?;
    let key = match source {
        Source::Raw(key) => return mechanism::open(&raw_cipher(&policy, key)?, cipher, TAG_LEN),
        Source::Key(key) => key,
    };
    key.current()?;
    for version in candidates(key) {
        match mechanism::open(cipher_of(&policy, key, version)?, cipher, TAG_LEN) {
            Err(refusal) if refusal.code == Code::InvalidArgument => {}
            opened => return opened,
        }
    }
    Err(mechanism::does_not_open())
}

fn policy_of(profile: &Profile) -> Result<EncryptPolicy> {
    profile.encrypt.ok_or_else(|| not_in(profile, "EncryptData"))
}

fn raw_cipher(policy: &EncryptPolicy, key: RawKey<'_>) -> Result<keys::Cipher> {
    keys::Cipher::new(policy.algorithm, key.0)
        .ok_or_else(|| Refusal::invalid("rawKey: its length is not that of the profile's cipher"))
}
