//! Requests that are sealed to a public key of the service, without a session.
//!
//! * [`key_config`] — public keys and their suites, in the form of RFC 9458.
//! * [`key_document`] — the keys that a service publishes, and the signature of a root over them.

pub mod key_config;
pub mod key_document;

pub use self::key_config::{KeyConfig, KeyConfigError};
pub use self::key_document::{DocumentKey, KeyDocument};
