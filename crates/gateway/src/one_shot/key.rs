//! One key of a one-shot mode: its use, its times, and its public half in encoded form.

use std::fmt;

use bytes::Bytes;
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::hpke::{Aead, Kem, PrivateKey};
use sealway_proto::one_shot::KeyConfig;
use sealway_runtime::clock::iso8601;
use serde::{Deserialize, Serialize};

/// Longest life of a key, from its publication to its end, in milliseconds: 400 days.
const LIFE_MS_MAX: u64 = 400 * 86_400_000;

/// The mode that a key is for. A key has one, since the labels of two modes would not keep their secrets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Sealed requests of wire 4 (`spec/one-shot.md`).
    Hpke,
    /// Encapsulated requests of Oblivious HTTP (RFC 9458).
    Ohttp,
    /// Requests of the Encrypted HTTP Body Protocol.
    Ehbp,
}

impl Purpose {
    /// All purposes, in the order of lists.
    pub const ALL: [Purpose; 3] = [Purpose::Hpke, Purpose::Ohttp, Purpose::Ehbp];

    /// Returns the name in key files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Hpke => "hpke",
            Purpose::Ohttp => "ohttp",
            Purpose::Ehbp => "ehbp",
        }
    }

    /// Returns the AEADs of a new key of this KEM, the preferred one first.
    pub fn aeads(self, kem: Kem) -> &'static [Aead] {
        match (self, kem) {
            (Purpose::Hpke | Purpose::Ehbp, _) => &[Aead::Aes256Gcm],
            // What clients of Oblivious HTTP have in common comes first.
            (Purpose::Ohttp, Kem::P256 | Kem::MlKem768P256) => &[Aead::Aes128Gcm, Aead::Aes256Gcm],
            (Purpose::Ohttp, _) => &[Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305],
        }
    }

    /// Checks that a key of this use may have the KEM, the AEADs and the id.
    fn check(self, kem: Kem, aeads: &[Aead], key_id: u8) -> Result<(), String> {
        match self {
            Purpose::Ehbp if kem != Kem::X25519 => Err("kem: a key of use ehbp is of x25519, always".into()),
            Purpose::Ehbp | Purpose::Hpke if aeads != [Aead::Aes256Gcm] => {
                Err(format!("suites: a key of use {} has the suite aes-256-gcm alone", self.name()))
            }
            Purpose::Ehbp if key_id != 0 => Err("key_id: it is 0 with use ehbp, which sends no key id".into()),
            Purpose::Hpke if kem == Kem::MlKem768 => Err("kem: wire 4 has no mlkem768; see spec/one-shot.md".into()),
            _ => Ok(()),
        }
    }
}

/// Returns the name of a KEM in key files and on the command line.
pub fn kem_name(kem: Kem) -> &'static str {
    match kem {
        Kem::P256 => "p256",
        Kem::X25519 => "x25519",
        Kem::MlKem768 => "mlkem768",
        Kem::MlKem768P256 => "mlkem768-p256",
        Kem::XWing => "x-wing",
    }
}

/// Parses the name of a KEM.
///
/// # Errors
/// A text with the names that there are.
pub fn parse_kem(name: &str) -> Result<Kem, String> {
    let names = || Kem::ALL.map(kem_name).join(", ");
    Kem::ALL.into_iter().find(|kem| kem_name(*kem) == name).ok_or_else(|| format!("\"{name}\" is none of {}", names()))
}

/// AEADs that a key may have, with their names in key files.
const AEADS: [(&str, Aead); 3] =
    [("aes-128-gcm", Aead::Aes128Gcm), ("aes-256-gcm", Aead::Aes256Gcm), ("chacha20-poly1305", Aead::ChaCha20Poly1305)];

/// Returns the name of an AEAD in key files.
pub(super) fn aead_name(aead: Aead) -> &'static str {
    AEADS.iter().find(|(_, known)| *known == aead).map_or("none", |(name, _)| name)
}

/// Parses the name of an AEAD.
pub(super) fn parse_aead(name: &str) -> Result<Aead, String> {
    let known = AEADS.iter().find(|(known, _)| *known == name).map(|(_, aead)| *aead);
    known.ok_or_else(|| format!("suites: \"{name}\" is none of {}", AEADS.map(|(name, _)| name).join(", ")))
}

/// The life of a key, in Unix milliseconds. Each time is at or after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The key is published and accepted from this time on.
    pub published_ms: u64,
    /// The key takes precedence over older keys from this time on.
    pub preferred_ms: u64,
    /// The key is published until before this time.
    pub published_until_ms: u64,
    /// The key is accepted until before this time; then it is over.
    pub accepted_until_ms: u64,
}

/// The state of a key at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// The key is not published yet.
    Future,
    /// The key is published and accepted, and not preferred yet.
    Published,
    /// Published, and preferred over older keys.
    Preferred,
    /// Published no longer, and still accepted.
    Accepted,
    /// Over: nothing opens with it.
    Over,
}

impl Times {
    /// Returns the state of a key with these times.
    pub fn condition(&self, now_ms: u64) -> Condition {
        match () {
            () if now_ms < self.published_ms => Condition::Future,
            () if now_ms >= self.accepted_until_ms => Condition::Over,
            () if now_ms >= self.published_until_ms => Condition::Accepted,
            () if now_ms < self.preferred_ms => Condition::Published,
            () => Condition::Preferred,
        }
    }

    /// Returns whether a message to the key is opened.
    pub fn is_accepted(&self, now_ms: u64) -> bool {
        self.published_ms <= now_ms && now_ms < self.accepted_until_ms
    }

    /// Returns whether the key is published.
    pub fn is_published(&self, now_ms: u64) -> bool {
        self.published_ms <= now_ms && now_ms < self.published_until_ms
    }

    fn check(&self) -> Result<(), String> {
        let Times { published_ms, preferred_ms, published_until_ms, accepted_until_ms } = *self;
        for ((before, before_ms), (after, after_ms)) in [
            (("published", published_ms), ("preferred", preferred_ms)),
            (("preferred", preferred_ms), ("published_until", published_until_ms)),
            (("published_until", published_until_ms), ("accepted_until", accepted_until_ms)),
        ] {
            if before_ms > after_ms {
                return Err(format!("{after} {} is before {before} {}", iso8601(after_ms), iso8601(before_ms)));
            }
        }
        if accepted_until_ms - published_ms > LIFE_MS_MAX {
            return Err(format!("it would live from {} on for more than 400 days", iso8601(published_ms)));
        }
        Ok(())
    }
}

/// A key with its private half, which its `Debug` does not show.
pub struct Key {
    purpose: Purpose,
    private: PrivateKey,
    config: KeyConfig,
    encoded: Bytes,
    hash: [u8; 32],
    key_hash: [u8; 32],
    name: String,
    pub(super) times: Times,
}

impl Key {
    /// Reads a key of its seed: 32 bytes, or 64 of mlkem768.
    ///
    /// # Errors
    /// A text that names the member at fault, and never the seed.
    pub(super) fn new(
        provider: &dyn AgreementProvider,
        purpose: Purpose,
        (kem, aeads): (Kem, &[Aead]),
        key_id: u8,
        seed: &[u8],
        times: Times,
    ) -> Result<Key, String> {
        purpose.check(kem, aeads, key_id)?;
        times.check()?;
        if seed.len() != kem.private_len() {
            let (name, len) = (kem_name(kem), kem.private_len());
            return Err(format!("seed: a key of {name} has {len} bytes, and this one {}", seed.len()));
        }
        let private = PrivateKey::from_bytes(provider, kem, seed).map_err(|err| format!("seed: {err}"))?;
        let config = KeyConfig::new(key_id, private.public_key().clone(), aeads);
        let config = config.map_err(|err| format!("suites: {err}"))?;
        let (hash, key_hash, name) = (config.hash(provider), config.key_hash(provider), config.name(provider));
        Ok(Key { purpose, private, encoded: config.encode().into(), config, hash, key_hash, name, times })
    }

    /// Returns the mode that the key is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Returns the private half of the key.
    pub fn private(&self) -> &PrivateKey {
        &self.private
    }

    /// Returns the key configuration (RFC 9458 section 3.1).
    pub fn config(&self) -> &KeyConfig {
        &self.config
    }

    /// Returns the key configuration in bytes, without an outer length.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Returns SHA-256 of the key configuration: the scope of claims under the key, but for Oblivious HTTP.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// Returns SHA-256 of key id, KEM and public key: the scope of claims of Oblivious HTTP, which other suites leave as it is.
    pub fn key_hash(&self) -> &[u8; 32] {
        &self.key_hash
    }

    /// Returns the name: 32 hexadecimal digits, the first half of the hash. In wire 4 the kid is `hpke:` and the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the life of the key.
    pub fn times(&self) -> &Times {
        &self.times
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("purpose", &self.purpose).field("name", &self.name).finish_non_exhaustive()
    }
}
