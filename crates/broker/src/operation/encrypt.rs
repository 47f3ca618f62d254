//! Encryption with keys of the store: sealing, opening, and opening to seal anew.

use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::{Made, check_batch, failed, not_in};
use crate::keys::{Algorithm, Form, Key, Version};
use crate::operation::mechanism;
use crate::profile::policy::{EncryptPolicy, Profile};
use crate::refusal::{Code, Refusal};

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 12;
/// Bytes of a whole tag.
pub const TAG_LEN: usize = 16;

/// What is to be sealed.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    /// The text.
    pub plaintext: &'a [u8],
    /// What is authenticated with it, and not kept.
    pub aad: &'a [u8],
    /// 12 bytes where the profile leaves it to the caller; else empty.
    pub nonce: &'a [u8],
}

/// What is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Cipher<'a> {
    /// 0 is the current one.
    pub key_version: u32,
    /// As it was sealed with.
    pub nonce: &'a [u8],
    /// As long as the text.
    pub ciphertext: &'a [u8],
    /// As long as the profile says.
    pub tag: &'a [u8],
    /// As it was sealed with.
    pub aad: &'a [u8],
}

/// A tag: 12 to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    bytes: [u8; TAG_LEN],
    len: usize,
}

impl Tag {
    /// The first `len` bytes of a whole tag, at most all of it.
    pub(super) fn truncated(bytes: [u8; TAG_LEN], len: usize) -> Tag {
        Tag { bytes, len: len.min(TAG_LEN) }
    }
}

impl AsRef<[u8]> for Tag {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// What was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Under which version; 0 where the key is not of the store.
    pub key_version: u32,
    /// The caller's or the broker's.
    pub nonce: [u8; NONCE_LEN],
    /// As long as the text.
    pub ciphertext: Vec<u8>,
    /// As long as the profile says.
    pub tag: Tag,
}

/// Seals a batch under the key's current version.
///
/// # Errors
/// [`Code::InvalidArgument`]: batch, key or nonce; [`Code::FailedPrecondition`]: not in the profile, the key is disabled, or
/// has sealed all that it may; [`Code::Internal`].
pub fn encrypt(profile: &Profile, key: &Key, plains: &[Plain<'_>]) -> Result<Vec<Sealed>, Refusal> {
    let policy = profile.encrypt.ok_or_else(|| not_in(profile, "EncryptData"))?;
    check_batch("plains", plains.iter().map(|plain| plain.plaintext.len().saturating_add(plain.aad.len())))?;
    seal_batch(&policy, key, plains, policy.tag_len)
}

/// Seals with tags of this length, whatever the policy's is.
pub(super) fn seal_batch(
    policy: &EncryptPolicy,
    key: &Key,
    plains: &[Plain<'_>],
    tag_len: usize,
) -> Result<Vec<Sealed>, Refusal> {
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

/// Seals with nonces of the broker's, all drawn at once.
pub(super) fn seal_random(
    cipher: &crate::keys::Cipher,
    plains: &[Plain<'_>],
    tag_len: usize,
    key_version: u32,
) -> Result<Vec<Sealed>, Refusal> {
    let mut nonces = vec![0; plains.len() * NONCE_LEN];
    rand::fill(&mut nonces).map_err(|_| failed("EncryptData"))?;
    let (nonces, _) = nonces.as_chunks::<NONCE_LEN>();
    let seal = |(plain, nonce): (&Plain<'_>, &[u8; NONCE_LEN])| {
        mechanism::seal_drawn(cipher, *nonce, plain.aad, plain.plaintext, tag_len, key_version)
    };
    plains.iter().zip(nonces).map(seal).collect()
}

/// Opens a batch. What does not open has its own refusal, and every reason for that has the same; a disabled version has
/// another one.
///
/// # Errors
/// [`Code::InvalidArgument`]: batch or key; [`Code::FailedPrecondition`]: not in the profile; [`Code::Internal`].
pub fn decrypt(profile: &Profile, key: &Key, ciphers: &[Cipher<'_>]) -> Result<Vec<Result<Vec<u8>, Refusal>>, Refusal> {
    let policy = opening(profile, key, ciphers)?;
    Ok(ciphers.iter().map(|cipher| open_one(&policy, key, cipher)).collect())
}

/// Opens a batch and seals it anew under the key's current version; the texts stay here.
///
/// # Errors
/// As [`decrypt`] and [`encrypt`]; [`Code::FailedPrecondition`] where the profile leaves nonces to the caller.
pub fn rewrap(profile: &Profile, key: &Key, ciphers: &[Cipher<'_>]) -> Result<Vec<Result<Sealed, Refusal>>, Refusal> {
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
    Ok(ciphers.iter().map(anew).collect())
}

/// What holds for every item of a batch that is to be opened.
fn opening(profile: &Profile, key: &Key, ciphers: &[Cipher<'_>]) -> Result<EncryptPolicy, Refusal> {
    let policy = profile.encrypt.ok_or_else(|| not_in(profile, "EncryptData"))?;
    check_batch("ciphers", ciphers.iter().map(|cipher| cipher.ciphertext.len().saturating_add(cipher.aad.len())))?;
    key.require(Algorithm::Encrypt(policy.algorithm))?;
    Ok(policy)
}

fn open_one(policy: &EncryptPolicy, key: &Key, cipher: &Cipher<'_>) -> Result<Vec<u8>, Refusal> {
    let version = key.version(cipher.key_version).map_err(|refusal| match refusal.code {
        Code::InvalidArgument => mechanism::does_not_open(),
        _ => refusal,
    })?;
    mechanism::open(cipher_of(policy, key, version)?, cipher, policy.tag_len)
}

/// The parsed cipher of a version of a key that must be of the policy's algorithm.
pub(super) fn cipher_of<'a>(
    policy: &EncryptPolicy,
    key: &Key,
    version: &'a Version,
) -> Result<&'a crate::keys::Cipher, Refusal> {
    key.require(Algorithm::Encrypt(policy.algorithm))?;
    match key.form(version)? {
        Form::Cipher(cipher) => Ok(cipher),
        _ => Err(failed("EncryptData")),
    }
}

/// A nonce that the caller brings.
pub(super) fn caller_nonce(nonce: &[u8]) -> Result<[u8; NONCE_LEN], Refusal> {
    nonce.try_into().map_err(|_| Refusal::invalid(format!("nonce: expected {NONCE_LEN} bytes, got {}", nonce.len())))
}

/// Made of several outputs under one version.
pub(super) fn made<T>(version: &Version, outputs: Vec<T>) -> Made<T> {
    Made { key_version: version.number(), outputs }
}
