//! Key configurations: a public key and the suites that its owner accepts (RFC 9458 section 3).
//!
//! ```text
//! key configuration = key id (1) ‖ KEM id (2) ‖ public key ‖ length of suites (2) ‖ { KDF id (2) ‖ AEAD id (2) } …
//! list              = { length (2) ‖ key configuration } …
//! ```
// SPEC one-shot.md#keys

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::crypto::Provider;
use crate::crypto::agreement::AgreementProvider;
use crate::hpke::{Aead, HpkeError, KDF_HKDF_SHA256, Kem, PublicKey, Suite};

/// Prefix of a kid of wire 4; the key name follows.
pub const KID_PREFIX: &str = "hpke:";
/// Length of a key name, in hexadecimal digits.
pub const KEY_NAME_LEN: usize = 32;
/// Longest list of key configurations, in bytes.
pub const KEY_LIST_LEN_MAX: usize = 64 * 1024;
/// Longest run of suites, in bytes (RFC 9458 section 3.1).
const SUITES_LEN_MAX: usize = 65532;
/// A pair of KDF and AEAD, in bytes.
const PAIR_LEN: usize = 4;

/// Errors of key configurations and their lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyConfigError {
    /// A configuration ends within one of its parts.
    #[error("key configuration ends too early")]
    Truncated,
    /// Bytes follow the suites of a configuration.
    #[error("key configuration has bytes behind its suites")]
    TrailingBytes,
    /// The KEM is none of [`Kem`].
    #[error("key configuration has the unknown KEM {0:#06x}")]
    UnknownKem(u16),
    /// The public key is not of its KEM.
    #[error("key configuration has a public key that is not of its KEM")]
    PublicKey,
    /// There are no suites, too many, or not a whole number.
    #[error("key configuration has suites of a wrong length")]
    Suites,
    /// Two configurations of a list have one key id.
    #[error("two key configurations have the key id {0}")]
    KeyIdTwice(u8),
    /// A list is longer than [`KEY_LIST_LEN_MAX`].
    #[error("list of key configurations is longer than 65536 bytes")]
    ListTooLong,
}

/// A public key, its one-byte id, and the pairs of KDF and AEAD that its owner accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConfig {
    key_id: u8,
    public_key: PublicKey,
    /// Pairs of ids. Pairs that this build lacks are kept: they are part of the configuration's hash.
    pairs: Vec<(u16, u16)>,
}

impl KeyConfig {
    /// Creates the configuration of a key, with HKDF-SHA256 and each of `aeads`.
    ///
    /// # Errors
    /// [`KeyConfigError::Suites`] for no AEAD or more than 16,383.
    pub fn new(key_id: u8, public_key: PublicKey, aeads: &[Aead]) -> Result<KeyConfig, KeyConfigError> {
        if aeads.is_empty() || aeads.len() > SUITES_LEN_MAX / PAIR_LEN {
            return Err(KeyConfigError::Suites);
        }
        let pairs = aeads.iter().map(|aead| (KDF_HKDF_SHA256, aead.id())).collect();
        Ok(KeyConfig { key_id, public_key, pairs })
    }

    /// The id of the key, which tells the live keys of one server apart.
    pub fn key_id(&self) -> u8 {
        self.key_id
    }

    /// The public key of the configuration.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The ids of KDF and AEAD of each suite, in the owner's order of preference.
    pub fn pairs(&self) -> &[(u16, u16)] {
        &self.pairs
    }

    /// The suites that this build has, in the owner's order of preference.
    pub fn suites(&self) -> impl Iterator<Item = Suite> + '_ {
        let kem = self.public_key.kem().id();
        self.pairs.iter().filter_map(move |&(kdf, aead)| Suite::from_ids(kem, kdf, aead))
    }

    /// Encodes the configuration without an outer length.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(5 + self.public_key.as_bytes().len() + self.pairs.len() * PAIR_LEN);
        bytes.push(self.key_id);
        bytes.extend_from_slice(&self.public_key.kem().id().to_be_bytes());
        bytes.extend_from_slice(self.public_key.as_bytes());
        bytes.extend_from_slice(&((self.pairs.len() * PAIR_LEN) as u16).to_be_bytes());
        for (kdf, aead) in &self.pairs {
            bytes.extend_from_slice(&kdf.to_be_bytes());
            bytes.extend_from_slice(&aead.to_be_bytes());
        }
        bytes
    }

    /// Decodes a configuration that is all of `bytes`, and checks its public key.
    ///
    /// # Errors
    /// Those of [`KeyConfigError`] but the list's. [`KeyConfigError::UnknownKem`] says nothing about the rest: the length of
    /// an unknown KEM's key is not known.
    pub fn decode(provider: &dyn AgreementProvider, bytes: &[u8]) -> Result<KeyConfig, KeyConfigError> {
        let mut rest = bytes;
        let [key_id] = *take::<1>(&mut rest)?;
        let id = u16::from_be_bytes(*take(&mut rest)?);
        let kem = Kem::from_id(id).ok_or(KeyConfigError::UnknownKem(id))?;
        let (public_key, tail) = rest.split_at_checked(kem.public_len()).ok_or(KeyConfigError::Truncated)?;
        rest = tail;
        let len = usize::from(u16::from_be_bytes(*take(&mut rest)?));
        match rest.len() {
            have if have < len => return Err(KeyConfigError::Truncated),
            have if have > len => return Err(KeyConfigError::TrailingBytes),
            _ => {}
        }
        let (pairs, odd) = rest.as_chunks::<PAIR_LEN>();
        if pairs.is_empty() || !odd.is_empty() {
            return Err(KeyConfigError::Suites);
        }
        let pairs = pairs.iter().map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        let public_key = PublicKey::from_bytes(provider, kem, public_key).map_err(|err| match err {
            HpkeError::PublicKey => KeyConfigError::PublicKey,
            // Nothing else comes of bytes of the right length.
            _ => KeyConfigError::Truncated,
        })?;
        Ok(KeyConfig { key_id, public_key, pairs: pairs.collect() })
    }

    /// Encodes a list, `application/ohttp-keys` (RFC 9458 section 3.2).
    ///
    /// # Errors
    /// [`KeyConfigError::KeyIdTwice`], [`KeyConfigError::ListTooLong`].
    pub fn encode_list<'a>(configs: impl IntoIterator<Item = &'a KeyConfig>) -> Result<Vec<u8>, KeyConfigError> {
        let (mut list, mut seen) = (Vec::new(), KeyIds::default());
        for config in configs {
            seen.insert(config.key_id)?;
            let bytes = config.encode();
            let len = u16::try_from(bytes.len()).map_err(|_| KeyConfigError::ListTooLong)?;
            list.extend_from_slice(&len.to_be_bytes());
            list.extend_from_slice(&bytes);
        }
        if list.len() > KEY_LIST_LEN_MAX { Err(KeyConfigError::ListTooLong) } else { Ok(list) }
    }

    /// Decodes a list and returns the configurations of known KEMs; those of other KEMs are skipped. A malformed
    /// configuration makes the whole list invalid (RFC 9458 section 3.2).
    ///
    /// # Errors
    /// Those of [`KeyConfigError`] but [`KeyConfigError::UnknownKem`].
    pub fn decode_list(provider: &dyn AgreementProvider, bytes: &[u8]) -> Result<Vec<KeyConfig>, KeyConfigError> {
        if bytes.len() > KEY_LIST_LEN_MAX {
            return Err(KeyConfigError::ListTooLong);
        }
        let (mut rest, mut configs, mut seen) = (bytes, Vec::new(), KeyIds::default());
        while !rest.is_empty() {
            let len = usize::from(u16::from_be_bytes(*take(&mut rest)?));
            let (config, tail) = rest.split_at_checked(len).ok_or(KeyConfigError::Truncated)?;
            rest = tail;
            match KeyConfig::decode(provider, config) {
                Ok(config) => {
                    seen.insert(config.key_id)?;
                    configs.push(config);
                }
                Err(KeyConfigError::UnknownKem(_)) => {}
                Err(err) => return Err(err),
            }
        }
        Ok(configs)
    }

    /// Computes SHA-256 of the encoded configuration: the scope of the claims that wire 4 makes under the key.
    pub fn hash(&self, provider: &dyn Provider) -> [u8; 32] {
        provider.sha256(&[&self.encode()])
    }

    /// Computes SHA-256 of key id, KEM and public key: the scope of claims of Oblivious HTTP. Other suites of the same key make no
    /// other scope, in which a request could come a second time.
    pub fn key_hash(&self, provider: &dyn Provider) -> [u8; 32] {
        let kem = self.public_key.kem().id().to_be_bytes();
        provider.sha256(&[&[self.key_id], &kem, self.public_key.as_bytes()])
    }

    /// Computes the key name: the first 16 bytes of the hash, in [`KEY_NAME_LEN`] lower-case hexadecimal digits.
    pub fn name(&self, provider: &dyn Provider) -> String {
        let mut name = String::with_capacity(KEY_NAME_LEN);
        for byte in self.hash(provider).iter().take(KEY_NAME_LEN / 2) {
            // Writing to a string does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// Computes the kid of wire 4: `hpke:` and the key name.
    pub fn kid(&self, provider: &dyn Provider) -> String {
        let mut kid = String::from(KID_PREFIX);
        kid.push_str(&self.name(provider));
        kid
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], KeyConfigError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(KeyConfigError::Truncated)?;
    *rest = tail;
    Ok(head)
}

/// The key ids of a list.
#[derive(Default)]
struct KeyIds(Vec<u8>);

impl KeyIds {
    fn insert(&mut self, key_id: u8) -> Result<(), KeyConfigError> {
        if self.0.contains(&key_id) {
            return Err(KeyConfigError::KeyIdTwice(key_id));
        }
        self.0.push(key_id);
        Ok(())
    }
}
