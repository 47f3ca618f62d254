//! The untrusted relay of channels: pairs two endpoints over WebSockets and forwards their messages, which it cannot read.
//! `spec/relay.md` is its contract.
//!
//! * [`settings`] — the settings of a relay, and every bound.
//! * [`server`] — listens, reloads keys, drains.
//! * `upgrade` — HTTP until a connection is a WebSocket; `ws` — the frames of that protocol.
//! * `endpoint` — the task of one connection: reads, and writes to the other end; `conn` — its interface for other tasks.
//! * `relay` — the admission of endpoints; `channel` — pairing, waiting data, replacement, the end; `replay` — used tokens.
//! * `nodes` — several relays for one set of channels; `admit` — the choice among them for an endpoint.
//! * [`control`] — a control plane that mints grants; [`key_file`] — the keys that sign their tokens.
//! * `tick` — everything that depends on time, for all connections in one task.
//!
//! This crate does not know the content of channels: it has no key of a channel, and reads no byte of a record after its
//! header.
#![warn(missing_docs)]

mod admit;
mod batch;
mod budget;
mod channel;
mod conn;
pub mod control;
mod endpoint;
mod input;
pub mod key_file;
mod keyset;
mod measure;
mod metrics_help;
mod nodes;
mod relay;
mod replay;
pub mod server;
pub mod settings;
mod tick;
mod upgrade;
mod ws;

pub use metrics_help::METRICS;
