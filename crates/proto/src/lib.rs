//! The protocol cores of Sealway, without I/O: bytes, time and randomness come in as arguments, bytes and decisions
//! go out. This is the only crate that knows a byte of a wire; `spec/session.md` is its contract.
//!
//! It may not know: sockets, clocks, files, HTTP libraries, stores, or any other crate of the workspace.
//!
//! * [`crypto`] — the seam behind which a crypto library stands.
//! * [`wire`] — header names, identifiers, stamps and bodies as they stand on the wire.
//! * [`session`] — key agreement, sealing and opening, for wires 1 and 2, client and server.
//! * [`exchange`] — a sealed request at a server, whichever protocol it speaks.
//! * [`broker`] — the messages of the broker's wires.
//! * [`rpc`] — remote calls over the streams of a channel.
//! * `channel` — handshakes and records between two peers, behind a feature of that name.
//! * [`relay`] — tokens, grants and the attach message of the relay.
//! * [`routes`] — which requests must be sealed, and which spellings of paths are refused.
//! * [`store`] — what servers that share a store agree on: rows, keys, the script of claims.
//! * [`limits`], [`error`] — every bound and every error, in one place each.
#![no_std]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::panic, clippy::indexing_slicing, clippy::expect_used))]

extern crate alloc;

pub mod broker;
#[cfg(feature = "channel")]
pub mod channel;
pub mod crypto;
pub mod error;
pub mod exchange;
pub mod limits;
pub mod relay;
pub mod routes;
pub mod rpc;
pub mod session;
pub mod store;
pub mod wire;

pub use error::{Blame, Error};
