//! The key store: named, versioned keys that never leave the broker. Each key is a file in a private folder, with each
//! version's material wrapped under a key-encryption key. Reads come from memory, and parsed keys are cached.
//!
//! The module does not know callers, names of profiles, or the wire.
//!
//! All writes and the generation of RSA keys block: call them only where blocking is allowed.
// SPEC broker.md#keys

mod algorithm;
mod document;
mod faults;
mod folder;
mod form;
mod issuer;
mod kek;
mod key;
mod material;
mod ml_kem;
mod rules;
mod seals;
mod store;
mod token;

pub use algorithm::Algorithm;
pub use folder::{Backend, Folder};
pub use issuer::StoreIssuer;
pub use kek::{Kek, Wrap, WrappedKey};
pub use key::{Key, State, Version};
pub use rules::{RuleChange, Rules};
pub use store::{Page, Store};
pub use token::{TokenKek, Tokens};

#[cfg(not(feature = "fips"))]
pub(crate) use form::ml_dsa_signed;
pub(crate) use form::{Cipher, CipherKey, Content, Form, MacKey, OaepKey, UnwrapKey};
pub(crate) use ml_kem::encapsulation_key;

/// Most keys of a store.
pub const KEYS_MAX: usize = 10_000;
/// Most versions of a key.
pub const VERSIONS_MAX: usize = 1_000;
/// Longest id of a key, in bytes.
pub const KEY_ID_LEN_MAX: usize = 64;
/// Longest imported material, in bytes, with its PEM encoding.
pub const MATERIAL_LEN_MAX: usize = 64 * 1024;
/// Most keys on a page of the list.
pub const LIST_MAX: usize = 256;

/// True for a valid id of a key: 1 to 64 letters, digits, `.`, `_` or `-`.
pub fn is_key_id(id: &str) -> bool {
    (1..=KEY_ID_LEN_MAX).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
