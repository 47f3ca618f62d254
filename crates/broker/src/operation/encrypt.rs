//! Encryption with keys of the store: encrypt, decrypt, and re-encrypt.

use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::{Outputs, check_batch, failed, not_in};
use crate::keys::{Algorithm, Form, Key, Version};
use crate::operation::mechanism;
use crate::profile::policy::{EncryptPolicy, Profile};
use crate::{Code, Refusal, Result};

/// Length of a nonce, in bytes.
pub const NONCE_LEN: usize = 12;
/// Length of a whole tag, in bytes.
pub const TAG_LEN: usize = 16;

/// A plaintext to encrypt, with its parameters.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    /// Plaintext; its length counts for the bound of the batch.
    pub plaintext: &'a [u8],
    /// Additional authenticated data, which is not part of the result.
    pub aad: &'a [u8],
    /// Nonce of 12 bytes if the profile leaves it to the caller; else empty.
    pub nonce: &'a [u8],
}

/// A ciphertext to decrypt, with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Cipher<'a> {
    /// Version of the key; 0 is the current one.
    pub key_version: u32,
    /// Nonce that the encryption used: 12 bytes.
    pub nonce: &'a [u8],
    /// Ciphertext, as long as the plaintext.
    pub ciphertext: &'a [u8],
    /// Tag, of the length in the profile.
    pub tag: &'a [u8],
    /// Additional authenticated data of the encryption.
    pub aad: &'a [u8],
}

/// Authentication tag of 12 to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    bytes: [u8; TAG_LEN],
    len: usize,
}

impl Tag {
    /// Truncates a whole tag to `len` bytes.
    pub(super) fn truncated(bytes: [u8; TAG_LEN], len: usize) -> Tag {
        Tag { bytes, len: len.min(TAG_LEN) }
    }
}

impl AsRef<[u8]> for Tag {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// Output of the encryption of one plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedMessage {
    /// Version of the key; 0 for a key that is not of the store.
    pub key_version: u32,
    /// Nonce from the caller or the broker.
    pub nonce: [u8; NONCE_LEN],
    /// Ciphertext, as long as the plaintext.
    pub ciphertext: Vec<u8>,
    /// Tag, of the length in the profile.
    pub tag: Tag,
}

/// Encrypts a batch under the key's current version.
///
/// # Errors
/// [`Code::InvalidArgument`]: batch, key or nonce; [`Code::FailedPrecondition`]: not in the profile, the key is disabled, or
/// has sealed all that it may; [`Code::Internal`].
pub fn encrypt(profile: &Profile, key: &Key, plains: &[Plain<'_>]) -> Result<Vec<SealedMessage>> {
    let policy = profile.encrypt.ok_or_else(|| not_in(profile, "EncryptData"))?;
    check_batch("plains", plains.iter().map(|plain| plain.plaintext.len().saturating_add(plain.aad.len())))?;
    seal_batch(&policy, key, plains, policy.tag_len)
}

/// Encrypts with tags of this length instead of the policy's.
pub(super) fn seal_batch(
    policy: &EncryptPolicy,
    key: &Key,
    plains: &[Plain<'_>],
    tag_len: usize,
) -> Result<Vec<SealedMessage>> {
    let version = key.current()?;
    let cipher = cipher_of(policy, key, version)?;
    if policy.is_nonce_callers {
        let seal = |plain: &Plain<'_>| {
            let nonce = caller_nonce(plain.nonce)?;
            mechanism::seal(cipher, nonce, plain.aad, plain.plaintext, tag_len, version.number())
        };
        return plains.iter().map(seal).collect();
    }
    if plains.iter().any(|plain| !plain.nonce.is_empty()) {
        return Err(Refusal::invalid("nonce: the profile does not leave it to the caller"));
    }
    key.claim_seals(version, u64::try_from(plains.len()).unwrap_or(u64::MAX))?;
    seal_random(cipher, plains, tag_len, version.number())
}

/// Encrypts with random nonces, all drawn at once.
pub(super) fn seal_random(
    cipher: &crate::keys::Cipher,
    plains: &[Plain<'_>],
    tag_len: usize,
    key_version: u32,
) -> Result<Vec<SealedMessage>> {
    let mut nonces = vec![0; plains.len() * NONCE_LEN];
    rand::fill(&mut nonces).map_err(|_| failed("EncryptData"))?;
    let (nonces, _) = nonces.as_chunks::<NONCE_LEN>();
    let seal = |(plain, nonce): (&Plain<'_>, &[u8; NONCE_LEN])| {
        mechanism::seal_drawn(cipher, *nonce, plain.aad, plain.plaintext, tag_len, key_version)
    };
    plains.iter().zip(nonces).map(seal).collect()
}

/// Draws a data key of `len` bytes, and encrypts it under the key's current version.
///
/// # Errors
/// Those of [`encrypt`].
pub fn data_key(profile: &Profile, key: &Key, len: usize, aad: &[u8]) -> Result<(Zeroizing<Vec<u8>>, SealedMessage)> {
    let mut drawn = Zeroizing::new(vec![0; len]);
    rand::fill(&mut drawn).map_err(|_| failed("EncryptData"))?;
    let plain = Plain { plaintext: &drawn, aad, nonce: &[] };
    let sealed = encrypt(profile, key, &[plain])?.into_iter().next().ok_or_else(|| failed("EncryptData"))?;
    Ok((drawn, sealed))
}

/// Decrypts a batch. A ciphertext that does not open gets its own error, the same for every reason; a disabled version
/// has another one.
///
/// # Errors
/// [`Code::InvalidArgument`]: batch or key; [`Code::FailedPrecondition`]: not in the profile; [`Code::Internal`].
pub fn decrypt(profile: &Profile, key: &Key, ciphers: &[Cipher<'_>]) -> Result<Vec<Result<Vec<u8>>>> {
    let policy = opening(profile, key, ciphers)?;
    each(ciphers, |cipher| open_one(&policy, key, cipher))
}

/// Re-encrypts a batch under the key's current version; the plaintexts stay in the broker.
///
/// # Errors
/// Those of [`decrypt`] and [`encrypt`]; [`Code::FailedPrecondition`] if the profile leaves nonces to the caller.
pub fn rewrap(profile: &Profile, key: &Key, ciphers: &[Cipher<'_>]) -> Result<Vec<Result<SealedMessage>>> {
    let policy = opening(profile, key, ciphers)?;
    if policy.is_nonce_callers {
        let text =
            format!("profile: {} leaves the nonce to the caller, so the broker has none to seal with", profile.name);
        return Err(Refusal::new(Code::FailedPrecondition, text));
    }
    let version = key.current()?;
    let current = cipher_of(&policy, key, version)?;
    let anew = |cipher: &Cipher<'_>| {
        let plaintext = Zeroizing::new(open_one(&policy, key, cipher)?);
        key.claim_seals(version, 1)?;
        let plain = Plain { plaintext: &plaintext, aad: cipher.aad, nonce: &[] };
        let sealed = seal_random(current, &[plain], policy.tag_len, version.number())?;
        sealed.into_iter().next().ok_or_else(|| failed("Rewrap"))
    };
    each(ciphers, anew)
}

/// Runs work on each entry of a batch. A fault of an entry is its own; a key that cannot serve now ends the batch.
fn each<T>(ciphers: &[Cipher<'_>], work: impl Fn(&Cipher<'_>) -> Result<T>) -> Result<Vec<Result<T>>> {
    let mut done = Vec::with_capacity(ciphers.len());
    for cipher in ciphers {
        match work(cipher) {
            Err(refusal) if refusal.code == Code::Unavailable => return Err(refusal),
            one => done.push(one),
        }
    }
    Ok(done)
}

/// Checks a batch that is to be decrypted as a whole.
fn opening(profile: &Profile, key: &Key, ciphers: &[Cipher<'_>]) -> Result<EncryptPolicy> {
    let policy = profile.encrypt.ok_or_else(|| not_in(profile, "EncryptData"))?;
    check_batch("ciphers", ciphers.iter().map(|cipher| cipher.ciphertext.len().saturating_add(cipher.aad.len())))?;
    key.require(Algorithm::Encrypt(policy.algorithm))?;
    Ok(policy)
}

fn open_one(policy: &EncryptPolicy, key: &Key, cipher: &Cipher<'_>) -> Result<Vec<u8>> {
    let version = key.version(cipher.key_version).map_err(|refusal| match refusal.code {
        Code::InvalidArgument => mechanism::does_not_open(),
        _ => refusal,
    })?;
    mechanism::open(cipher_of(policy, key, version)?, cipher, policy.tag_len)
}

/// Returns the parsed cipher of a version of a key, which must be of the policy's algorithm.
pub(super) fn cipher_of<'a>(
    policy: &EncryptPolicy,
    key: &Key,
    version: &'a Version,
) -> Result<&'a crate::keys::Cipher> {
    key.require(Algorithm::Encrypt(policy.algorithm))?;
    match key.form(version)? {
        Form::Cipher(cipher) => Ok(cipher),
        _ => Err(failed("EncryptData")),
    }
}

/// Checks a nonce of the caller.
pub(super) fn caller_nonce(nonce: &[u8]) -> Result<[u8; NONCE_LEN]> {
    nonce.try_into().map_err(|_| Refusal::invalid(format!("nonce: expected {NONCE_LEN} bytes, got {}", nonce.len())))
}

/// Collects the outputs of one version.
pub(super) fn outputs_of<T>(version: &Version, outputs: Vec<T>) -> Outputs<T> {
    Outputs { key_version: version.number(), outputs }
}
