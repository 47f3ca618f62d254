//! The protocol cores of Sealway, without I/O: bytes, time and randomness are arguments, bytes and decisions are results. This
//! is the only crate that knows a byte of a wire; `spec/session.md` is its contract.
//!
//! This crate does not know sockets, clocks, files, HTTP libraries, stores, or any other crate of the workspace.
//!
//! * [`crypto`] — the seam in front of a crypto library.
//! * [`wire`] — header names, identifiers, stamps and bodies as they stand on the wire.
//! * [`session`] — key agreement, sealing and opening, for wires 1 and 2, client and server.
//! * [`exchange`] — a sealed request at a server, in any of its protocols.
//! * [`broker`] — the messages of the broker's wires.
//! * [`rpc`] — remote calls over the streams of a channel.
//! * `channel` — handshakes and records between two peers, behind a feature of that name.
//! * `hpke` — HPKE (RFC 9180), behind the feature `one-shot`.
//! * `ehbp` — the Encrypted HTTP Body Protocol at a server, behind the feature `one-shot`.
//! * `one_shot` — requests that are sealed to a public key without a session, behind a feature of that name.
//! * `mle` — encrypted messages of card schemes (JWE), behind a feature of that name.
//! * `bhttp` — HTTP messages as bytes (RFC 9292), and `ohttp` — those messages sealed (RFC 9458), behind the feature `one-shot`.
//! * [`relay`] — tokens, grants and the attach message of the relay.
//! * [`routes`] — the requests that must be sealed, and the spellings of paths that are rejected.
//! * [`store`] — the format that servers with a shared store agree on: rows, keys, the script of claims.
//! * [`limits`], [`error`] — every bound and every error, in one place each.
#![no_std]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::panic, clippy::indexing_slicing, clippy::expect_used))]

extern crate alloc;

#[cfg(feature = "one-shot")]
mod answer_key;
#[cfg(feature = "one-shot")]
pub mod bhttp;
pub mod broker;
#[cfg(feature = "channel")]
pub mod channel;
pub mod crypto;
#[cfg(feature = "one-shot")]
pub mod ehbp;
pub mod error;
pub mod exchange;
#[cfg(feature = "one-shot")]
pub mod hpke;
pub mod limits;
#[cfg(feature = "mle")]
pub mod mle;
#[cfg(feature = "one-shot")]
pub mod ohttp;
#[cfg(feature = "one-shot")]
pub mod one_shot;
pub mod relay;
pub mod routes;
pub mod rpc;
pub mod session;
pub mod store;
pub mod wire;

pub use error::{Blame, Error};
