//! The Rust SDK. [`session`] agrees a key with a Sealway service, seals requests and opens their answers.
//!
//! It may not know: how servers are built. Bytes of the wire are `sealway_proto`'s.
#![warn(missing_docs)]

pub mod broker;
#[cfg(feature = "sessions")]
pub mod exchange;
#[cfg(feature = "sessions")]
pub mod session;

#[cfg(feature = "sessions")]
pub use session::{Answer, Client, Error, Options, Timings};
