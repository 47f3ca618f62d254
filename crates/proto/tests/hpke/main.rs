//! HPKE against published vectors and another library, and key configurations, with each provider.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod bad;
mod key_config;
mod oracle;
#[path = "../providers/mod.rs"]
mod providers;
mod psk;
mod vectors;

pub(crate) fn bytes(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2) && text.is_ascii(), "{text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
