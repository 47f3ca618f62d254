//! The key store: named, versioned keys that never leave the broker. Each key is a file in a folder of the broker's own,
//! each version's material wrapped under a key-encryption key; reads come from memory, what a key is parsed to is kept.
//!
//! It may not know: callers, profiles' names, the wire.
//!
//! Everything that writes, and the making of RSA keys, blocks: call it where blocking is allowed.
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
mod seals;
mod store;

pub use algorithm::Algorithm;
pub use folder::{Backend, Folder};
pub use issuer::Issuing;
pub use kek::{Kek, Wrap, Wrapped};
pub use key::{Key, State, Version};
pub use store::{Page, Store};

pub(crate) use form::{Cipher, Form, encapsulation_key_of};

/// Keys of a store.
pub const KEYS_MAX: usize = 10_000;
/// Versions of a key.
pub const VERSIONS_MAX: usize = 1_000;
/// Bytes of a key's id.
pub const KEY_ID_LEN_MAX: usize = 64;
/// Bytes of material that is imported, as it comes (PEM included).
pub const MATERIAL_LEN_MAX: usize = 64 * 1024;
/// Keys on a page of the list.
pub const LIST_MAX: usize = 256;

/// Whether a text can name a key: 1 to 64 letters, digits, `.`, `_` or `-`.
pub fn is_key_id(id: &str) -> bool {
    (1..=KEY_ID_LEN_MAX).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
