//! Requests that are sealed to a public key of the service, without a session: `spec/one-shot.md`.
//!
//! * [`key_config`] — public keys and their suites, in the form of RFC 9458.
//! * [`key_document`] — the keys that a service publishes, and the signature of a root over them.
//! * [`prefix`] — the head of a stream on wire 4; `setup` — the secrets of a request, on both sides.
//! * [`client`] — seals a request and opens its answer. The server's side is a variant of [`crate::exchange`].

pub mod client;
pub mod key_config;
pub mod key_document;
pub mod prefix;
pub(crate) mod setup;

pub use self::client::{ClientPsk, OneShotCall, seal};
pub use self::key_config::{KeyConfig, KeyConfigError};
pub use self::key_document::{DocumentKey, KeyDocument};
pub use self::prefix::{PSK_ID_LEN_MAX, Prefix, is_psk_id};
pub use self::setup::RecipientKey;
