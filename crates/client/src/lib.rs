//! The Rust SDK. [`session`] agrees a key with a Sealway service, seals requests and opens their answers; [`channel`] is for
//! two peers that trust nothing between them; [`broker`] asks the broker beside an application.
//!
//! It may not know: how servers are built. Bytes of the wire are `sealway_proto`'s.
#![warn(missing_docs)]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod broker;
#[cfg(feature = "channel")]
pub mod channel;
#[cfg(feature = "sessions")]
mod error;
#[cfg(feature = "sessions")]
pub mod exchange;
#[cfg(feature = "sessions")]
mod old;
#[cfg(feature = "sessions")]
pub mod sealed;
#[cfg(feature = "sessions")]
pub mod session;
#[cfg(feature = "sessions")]
mod transport;
#[cfg(any(feature = "sessions", feature = "channel"))]
mod trust;

#[cfg(feature = "sessions")]
pub use session::{Answer, Client, Error, Options, Recognised, Timings};
