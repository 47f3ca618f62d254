//! The relay's keyset (public keys of issuers, by name) and an issuer's own key file.
//! SPEC relay.md#keys

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::{b64u, json};
use crate::crypto::signature::{
    ED25519_PUBLIC_LEN, ED25519_SEED_LEN, ED25519_SIGNATURE_LEN, Signatures, SigningKey, VerifyKey,
};

/// Largest file of keys, in bytes.
pub const KEYSET_LEN_MAX: usize = 256 * 1024;
/// Most keys in a keyset.
const KEYS_MAX: usize = 1024;
/// Longest name of a key, in bytes.
const KID_LEN_MAX: usize = 256;

/// The defect of a file of keys. It contains nothing of the file but the names of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileInvalid {
    /// The file is longer than [`KEYSET_LEN_MAX`].
    #[error("is longer than {KEYSET_LEN_MAX} bytes")]
    TooLarge,
    /// The file is not JSON, or of another shape.
    #[error("is not JSON of the form {0}")]
    Shape(&'static str),
    /// The file has no key, or more than 1024.
    #[error("holds no key, or more than {KEYS_MAX}")]
    Count,
    /// A key's name is empty, too long, or occurs twice.
    #[error("the name of a key is empty, longer than {KID_LEN_MAX} bytes, or there twice: \"{0}\"")]
    Kid(String),
    /// A key's binding has members of wrong types.
    #[error("\"iss\" of the key \"{0}\" is a text, \"aud\" a list of 1 to 64 texts")]
    Binding(String),
    /// A key is not 32 bytes in base64url, or not a point.
    #[error("key \"{0}\" is not 32 bytes of Ed25519 in base64url without padding")]
    Key(String),
}

/// Most audiences that a key is bound to.
const AUDIENCES_MAX: usize = 64;

/// The tokens that a key may sign: of one issuer, for some audiences. An absent member does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The issuer; an empty one is that of tokens without `iss`.
    pub iss: Option<String>,
    /// The audiences; `None` for any.
    pub aud: Option<Vec<String>>,
}

impl Binding {
    /// Returns whether it binds both issuer and audiences.
    pub fn is_whole(&self) -> bool {
        self.iss.is_some() && self.aud.is_some()
    }

    pub(super) fn allows_iss(&self, iss: &str) -> bool {
        self.iss.as_deref().is_none_or(|bound| bound == iss)
    }

    pub(super) fn allows_aud(&self, aud: &str) -> bool {
        self.aud.as_ref().is_none_or(|bound| bound.iter().any(|bound| bound == aud))
    }

    /// Reads the members of a keyset's entry.
    fn parse(entry: &Value) -> Option<Binding> {
        let iss = match entry.get("iss") {
            None => None,
            Some(iss) => Some(iss.as_str()?.to_owned()),
        };
        let aud = match entry.get("aud") {
            None => None,
            Some(list) => {
                let list = list.as_array().filter(|list| (1..=AUDIENCES_MAX).contains(&list.len()))?;
                Some(list.iter().map(|aud| aud.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()?)
            }
        };
        Some(Binding { iss, aud })
    }

    fn encode(&self, out: &mut String) {
        if let Some(iss) = &self.iss {
            json::push_member(out, "iss", iss);
        }
        if let Some(list) = &self.aud {
            json::push_name(out, "aud");
            for (index, aud) in list.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                json::push_text(out, aud);
            }
            out.push(']');
        }
    }
}

/// Public keys by name. Its `Debug` shows the names.
pub struct Keyset(BTreeMap<String, Entry>);

pub(super) struct Entry {
    public: [u8; ED25519_PUBLIC_LEN],
    pub(super) key: Box<dyn VerifyKey>,
    pub(super) binding: Binding,
}

impl Keyset {
    /// Reads `{"keys":[{"kid":"k1","pubkey_b64u":"…","iss":"…","aud":["…"]}]}`; `iss` and `aud` may be absent.
    ///
    /// # Errors
    /// [`KeyFileInvalid`].
    pub fn parse(bytes: &[u8], signatures: &dyn Signatures) -> Result<Keyset, KeyFileInvalid> {
        const SHAPE: KeyFileInvalid = KeyFileInvalid::Shape(r#"{"keys":[{"kid":"k1","pubkey_b64u":"..."}]}"#);
        if bytes.len() > KEYSET_LEN_MAX {
            return Err(KeyFileInvalid::TooLarge);
        }
        let object = json::object(bytes).ok_or(SHAPE)?;
        let list = object.get("keys").and_then(Value::as_array).ok_or(SHAPE)?;
        if list.is_empty() || list.len() > KEYS_MAX {
            return Err(KeyFileInvalid::Count);
        }
        let mut keys = BTreeMap::new();
        for item in list {
            let (Some(kid), Some(text)) = (json::text(item, "kid"), json::text(item, "pubkey_b64u")) else {
                return Err(SHAPE);
            };
            if kid.is_empty() || kid.len() > KID_LEN_MAX || keys.contains_key(kid) {
                return Err(KeyFileInvalid::Kid(kid.chars().take(64).collect()));
            }
            let invalid = || KeyFileInvalid::Key(kid.to_owned());
            let public = b64u::decode_array(text).ok_or_else(invalid)?;
            let key = signatures.ed25519_public(&public).map_err(|_| invalid())?;
            let binding = Binding::parse(item).ok_or_else(|| KeyFileInvalid::Binding(kid.to_owned()))?;
            keys.insert(kid.to_owned(), Entry { public, key, binding });
        }
        Ok(Keyset(keys))
    }

    /// The key of a name.
    pub(super) fn get(&self, kid: &str) -> Option<&Entry> {
        self.0.get(kid)
    }

    /// Iterates over the names of keys that are not bound to an issuer and to audiences: they sign for every tenant of a relay.
    pub fn unbound(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, entry)| !entry.binding.is_whole()).map(|(kid, _)| kid.as_str())
    }

    /// Iterates over the names of the keys.
    pub fn kids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Encodes the text that [`Keyset::parse`] reads.
    pub fn encode(&self) -> String {
        let mut out = String::from(r#"{"keys":["#);
        for (index, (kid, entry)) in self.0.iter().enumerate() {
            out.push_str(if index == 0 { "{" } else { ",{" });
            json::push_member(&mut out, "kid", kid);
            json::push_member(&mut out, "pubkey_b64u", &b64u::encode(&entry.public));
            entry.binding.encode(&mut out);
            out.push('}');
        }
        out.push_str("]}");
        out
    }
}

impl fmt::Debug for Keyset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// An issuer's key, which signs tokens. Its `Debug` shows the name alone.
pub struct IssuerKey {
    kid: String,
    key: Box<dyn SigningKey>,
}

impl IssuerKey {
    /// Returns the key of a seed.
    ///
    /// # Errors
    /// [`KeyFileInvalid`] for a bad name, or if the library rejects the seed.
    pub fn from_seed(
        kid: &str,
        seed: &[u8; ED25519_SEED_LEN],
        signatures: &dyn Signatures,
    ) -> Result<Self, KeyFileInvalid> {
        if kid.is_empty() || kid.len() > KID_LEN_MAX {
            return Err(KeyFileInvalid::Kid(kid.chars().take(64).collect()));
        }
        let key = signatures.ed25519_from_seed(seed).map_err(|_| KeyFileInvalid::Key(kid.to_owned()))?;
        Ok(IssuerKey { kid: kid.to_owned(), key })
    }

    /// Parses a key file `{"kid":"k1","seed_b64u":"…"}`.
    ///
    /// # Errors
    /// [`KeyFileInvalid`].
    pub fn parse(bytes: &[u8], signatures: &dyn Signatures) -> Result<Self, KeyFileInvalid> {
        const SHAPE: KeyFileInvalid = KeyFileInvalid::Shape(r#"{"kid":"k1","seed_b64u":"..."}"#);
        if bytes.len() > KEYSET_LEN_MAX {
            return Err(KeyFileInvalid::TooLarge);
        }
        let mut object = json::object(bytes).ok_or(SHAPE)?;
        let seed = match object.get_mut("seed_b64u").map(Value::take) {
            Some(Value::String(text)) => Zeroizing::new(text),
            _ => return Err(SHAPE),
        };
        let kid = json::text(&object, "kid").ok_or(SHAPE)?;
        let mut seed: [u8; ED25519_SEED_LEN] =
            b64u::decode_array(&seed).ok_or_else(|| KeyFileInvalid::Key(kid.to_owned()))?;
        let key = Self::from_seed(kid, &seed, signatures);
        seed.zeroize();
        key
    }

    /// Encodes the text that [`IssuerKey::parse`] reads, of a seed that the caller keeps secret.
    pub fn encode_seed(kid: &str, seed: &[u8; ED25519_SEED_LEN]) -> Zeroizing<String> {
        // The whole capacity at once: a text that grows leaves copies behind.
        let mut out = Zeroizing::new(String::with_capacity(kid.len() * 6 + 96));
        let encoded = Zeroizing::new(b64u::encode(seed));
        out.push('{');
        json::push_member(&mut out, "kid", kid);
        json::push_member(&mut out, "seed_b64u", &encoded);
        out.push_str("}\n");
        out
    }

    /// Returns the key's name, `kid`.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Encodes a keyset of this key alone, bound to nothing: for a relay with one tenant.
    pub fn keyset_text(&self) -> String {
        self.bound_keyset_text(&Binding::default())
    }

    /// Encodes a keyset of this key alone, bound to an issuer and audiences.
    pub fn bound_keyset_text(&self, binding: &Binding) -> String {
        let mut out = String::from(r#"{"keys":[{"#);
        json::push_member(&mut out, "kid", &self.kid);
        json::push_member(&mut out, "pubkey_b64u", &b64u::encode(&self.key.public()));
        binding.encode(&mut out);
        out.push_str("}]}");
        out
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; ED25519_SIGNATURE_LEN] {
        self.key.sign(message)
    }
}

impl fmt::Debug for IssuerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
