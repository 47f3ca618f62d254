//! Requests that are sealed to a public key of the service, without a session.
//!
//! * [`key_config`] — public keys and their suites, in the form of RFC 9458.

pub mod key_config;

pub use self::key_config::{KeyConfig, KeyConfigError};
