//! The blind middle of channels: pairs two endpoints over WebSockets and forwards their messages, which it cannot read.
//! `spec/relay.md` is its contract.
//!
//! * [`settings`] — all that can be set, and every bound.
//! * [`server`] — listens, reloads keys, drains.
//! * `upgrade` — HTTP until a connection is a WebSocket; `ws` — that protocol's frames.
//! * `endpoint` — the task of one connection: reads, and writes to the other end; `conn` — what others may do with it.
//! * `relay` — who may attach; `channel` — pairing, what waits, replacement, the end; `replay` — used tokens.
//! * `nodes` — several relays for one set of channels; `admit` — on which of them an endpoint attaches.
//! * [`control`] — a control plane that hands out grants; [`key_file`] — the keys that sign their tokens.
//! * `tick` — everything that happens by time, for all connections in one task.
//!
//! It may not know what endpoints say to each other: no key of a channel is here, and no byte of a record behind its
//! header is looked at.
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
