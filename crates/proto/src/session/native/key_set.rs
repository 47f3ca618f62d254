//! Identity keys: their ids, the set that a service publishes, and the signature of a root over it.
// SPEC session-3.md#identity-keys

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;

use super::message::is_algorithm_name;
use super::{Fields, signed_list};
use crate::crypto::Provider;
use crate::crypto::identity::{IdentityLibrary, IdentityPair, SignatureAlgorithm};
use crate::error::Error;
use crate::limits::SIGNATURE_LEN_MAX;
use crate::wire::base64;

/// Most keys of a set.
pub const KEYS_MAX: usize = 16;
/// Longest JSON text of a set, in bytes.
pub const KEY_SET_LEN_MAX: usize = 64 * 1024;
/// A key id in text: lower-case hexadecimal digits.
pub const KEY_ID_LEN: usize = 32;
/// Latest time that a set may name, in Unix milliseconds: 15 digits, exact in every JSON library's numbers.
pub const TIME_MS_MAX: u64 = 999_999_999_999_999;
/// Prefix of the hash that a root signs, so that its signature is valid for nothing else.
const ROOT_LABEL: &[u8] = b"sealway/3 keys";

/// The id of an identity key or of a root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; KEY_ID_LEN]);

impl KeyId {
    /// Computes the id of a public key.
    pub fn of(provider: &dyn Provider, public_key: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let hash = provider.sha256(&[public_key]);
        let mut text = [b'0'; KEY_ID_LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(hash) {
            let digits = [byte >> 4, byte & 15].map(|digit| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0'));
            pair.copy_from_slice(&digits);
        }
        KeyId(text)
    }

    /// Parses 32 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::FieldInvalid`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bytes = text.as_bytes().try_into().map_err(|_| Error::FieldInvalid("key_id"))?;
        let is_digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if text.bytes().all(|b| is_digit(&b)) { Ok(KeyId(bytes)) } else { Err(Error::FieldInvalid("key_id")) }
    }

    /// Returns the 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        // ASCII by construction.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl AsRef<[u8]> for KeyId {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An identity key's public half, and the time in which it is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityKey {
    /// The key's id, which is derived from the public key.
    pub key_id: KeyId,
    /// The name of its algorithm, which may be one that this build does not know. Such a key is never trusted.
    pub alg: Box<str>,
    /// The public key in the form of its algorithm; the verifier checks that a point is on its curve.
    pub public_key: Box<[u8]>,
    /// Live from this time on, in Unix milliseconds.
    pub not_before_ms: u64,
    /// Live until before this time, in Unix milliseconds.
    pub not_after_ms: u64,
}

impl IdentityKey {
    /// Creates the entry of a key, whose length names its algorithm, and computes its id.
    ///
    /// # Errors
    /// [`Error::PublicKeyInvalid`] for a key that has the form of no algorithm.
    pub fn new(
        provider: &dyn Provider,
        public_key: &[u8],
        not_before_ms: u64,
        not_after_ms: u64,
    ) -> Result<Self, Error> {
        let algorithm = SignatureAlgorithm::of_public(public_key).filter(|named| named.is_public_form(public_key));
        let alg = algorithm.ok_or(Error::PublicKeyInvalid)?.name().into();
        let key_id = KeyId::of(provider, public_key);
        Ok(IdentityKey { key_id, alg, public_key: public_key.into(), not_before_ms, not_after_ms })
    }

    /// Returns its algorithm; `None` for one that this build does not know.
    pub fn algorithm(&self) -> Option<SignatureAlgorithm> {
        SignatureAlgorithm::from_name(&self.alg)
    }

    /// Returns whether it is live: from the first time on, up to and without the second.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.not_before_ms <= now_ms && now_ms < self.not_after_ms
    }

    fn signed_part(&self) -> Fields {
        Fields::new().field(self.key_id).field(&self.public_key).number(self.not_before_ms).number(self.not_after_ms)
    }
}

/// A root's signature over a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSignature {
    /// The id of the root that signed.
    pub key_id: KeyId,
    /// The root's signature over [`KeySet::signed_message`].
    pub signature: Vec<u8>,
}

/// The reason for which a client rejects a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetFault {
    /// No root has signed the set.
    #[error("no root signed the key set")]
    Unsigned,
    /// The set names another root than the pinned one.
    #[error("another root signed the key set")]
    OtherRoot,
    /// The signature does not verify.
    #[error("the root's signature over the key set does not verify")]
    SignatureInvalid,
    /// The lifetime of the set is over.
    #[error("the key set has expired")]
    Expired,
    /// The set is older than one that was accepted before: a retired key must not come back.
    #[error("the key set is older than one that was taken before")]
    RolledBack,
    /// The pinned root is not a public key of an algorithm that the library has.
    #[error("the root is not a public key of an algorithm that is available here")]
    RootInvalid,
}

impl KeySetFault {
    /// Checks the signature over a message by a pinned root.
    pub(crate) fn check(
        provider: &dyn Provider,
        library: &dyn IdentityLibrary,
        root: &[u8],
        by: Option<&RootSignature>,
        message: &[u8],
    ) -> Result<(), KeySetFault> {
        let by = by.ok_or(KeySetFault::Unsigned)?;
        if by.key_id != KeyId::of(provider, root) {
            return Err(KeySetFault::OtherRoot);
        }
        let root = library.public(root).map_err(|_| KeySetFault::RootInvalid)?;
        if root.verify(message, &by.signature) { Ok(()) } else { Err(KeySetFault::SignatureInvalid) }
    }

    /// Checks the times of a set that was issued, and expires, at these times.
    pub(crate) fn check_times(
        (issued_ms, expires_ms): (u64, u64),
        now_ms: u64,
        last_issued_ms: u64,
    ) -> Result<(), KeySetFault> {
        match () {
            () if now_ms >= expires_ms => Err(KeySetFault::Expired),
            () if issued_ms < last_issued_ms => Err(KeySetFault::RolledBack),
            () => Ok(()),
        }
    }
}

/// A service's identity keys, as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// Time of issue, in Unix milliseconds.
    pub issued_ms: u64,
    /// Time from which on the set is expired, in Unix milliseconds.
    pub expires_ms: u64,
    /// The keys, at most [`KEYS_MAX`].
    pub keys: Vec<IdentityKey>,
    /// A root's signature over all of the above.
    pub root: Option<RootSignature>,
}

impl KeySet {
    /// Encodes the JSON text of the set.
    pub fn encode(&self) -> String {
        let keys = self.keys.iter().map(|key| {
            let public_key = base64::encode(&key.public_key);
            format!(
                r#"{{"key_id":"{}","alg":"{}","public_key":"{public_key}","not_before_ms":{},"not_after_ms":{}}}"#,
                key.key_id, key.alg, key.not_before_ms, key.not_after_ms
            )
        });
        signed_list::encode((self.issued_ms, self.expires_ms), keys, self.root.as_ref())
    }

    /// Parses the JSON text. Unknown members are ignored, `null` counts as absent; a key with the id of another key, or that
    /// occurs twice, rejects the whole. Nothing is verified yet.
    ///
    /// # Errors
    /// [`Error::BodyTooLarge`], [`Error::JsonInvalid`], [`Error::FieldInvalid`].
    pub fn parse(provider: &dyn Provider, bytes: &[u8]) -> Result<Self, Error> {
        let is_same = |one: &IdentityKey, other: &IdentityKey| one.key_id == other.key_id;
        let parsed = signed_list::parse(bytes, |key| parse_key(provider, key), ("key_id", is_same))?;
        let (issued_ms, expires_ms, keys, root) = parsed;
        Ok(KeySet { issued_ms, expires_ms, keys, root })
    }

    /// Returns the message that a root signs.
    pub fn signed_message(&self, provider: &dyn Provider) -> Vec<u8> {
        let keys = self.keys.iter().map(IdentityKey::signed_part);
        signed_list::message(provider, ROOT_LABEL, (self.issued_ms, self.expires_ms), keys)
    }

    /// Signs the set with a root, and replaces any signature before.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn sign(&mut self, provider: &dyn Provider, root: &IdentityPair) -> Result<(), Error> {
        self.root = Some(signed_list::sign(provider, root, &self.signed_message(provider))?);
        Ok(())
    }

    /// Verifies the set for a client that pins `root`. `last_issued_ms` is that of the set accepted last, 0 for none.
    ///
    /// # Errors
    /// [`KeySetFault`].
    pub fn verify(
        &self,
        provider: &dyn Provider,
        library: &dyn IdentityLibrary,
        root: &[u8],
        now_ms: u64,
        last_issued_ms: u64,
    ) -> Result<(), KeySetFault> {
        KeySetFault::check(provider, library, root, self.root.as_ref(), &self.signed_message(provider))?;
        KeySetFault::check_times((self.issued_ms, self.expires_ms), now_ms, last_issued_ms)
    }

    /// Returns the key of this id, if this build knows its algorithm and it may have signed an init's answer with this `server_time_ms`: for a client that pins
    /// the root, at every init, whenever it fetched the set. `now_ms` is the client's own clock.
    ///
    /// The ends of the key and of the set must also be later than the client's own clock and the set's issue: a thief of an
    /// expired key would sign an earlier time.
    // SPEC session-3.md#identity-keys
    pub fn signer(&self, key_id: &KeyId, server_time_ms: u64, now_ms: u64) -> Option<&IdentityKey> {
        let latest_ms = server_time_ms.max(now_ms).max(self.issued_ms);
        let is_live = |key: &&IdentityKey| key.not_before_ms <= server_time_ms && latest_ms < key.not_after_ms;
        let key = self.get(key_id).filter(|key| key.algorithm().is_some());
        key.filter(is_live).filter(|_| latest_ms < self.expires_ms)
    }

    /// Returns the key of this id.
    pub fn get(&self, key_id: &KeyId) -> Option<&IdentityKey> {
        self.keys.iter().find(|key| key.key_id == *key_id)
    }
}

fn parse_key(provider: &dyn Provider, key: &Value) -> Result<IdentityKey, Error> {
    let text = |name| key.get(name).and_then(Value::as_str).ok_or(Error::FieldInvalid(name));
    let alg = Some(text("alg")?).filter(|name| is_algorithm_name(name)).ok_or(Error::FieldInvalid("alg"))?;
    let named = SignatureAlgorithm::from_name(alg);
    let of_form = |public_key: &Vec<u8>| match named {
        Some(algorithm) => algorithm.is_public_form(public_key),
        // The length of a known algorithm's key belongs to that algorithm alone.
        None => {
            (1..=SIGNATURE_LEN_MAX).contains(&public_key.len()) && SignatureAlgorithm::of_public(public_key).is_none()
        }
    };
    let public_key =
        base64::decode(text("public_key")?).ok().filter(of_form).ok_or(Error::FieldInvalid("public_key"))?;
    let (not_before_ms, not_after_ms) = (time(key, "not_before_ms")?, time(key, "not_after_ms")?);
    let key_id = KeyId::of(provider, &public_key);
    // Otherwise a root's signature over one key could pass for its signature over another.
    if KeyId::parse(text("key_id")?)? != key_id {
        return Err(Error::FieldInvalid("key_id"));
    }
    Ok(IdentityKey { key_id, alg: alg.into(), public_key: public_key.into(), not_before_ms, not_after_ms })
}

pub(crate) fn time(object: &Value, name: &'static str) -> Result<u64, Error> {
    object.get(name).and_then(Value::as_u64).filter(|ms| *ms <= TIME_MS_MAX).ok_or(Error::FieldInvalid(name))
}

#[cfg(all(test, feature = "aws-lc"))]
mod tests;
