//! The broker: a process beside an application that runs its cryptography under named profiles, over a Unix socket. The
//! application names the operation, and the operator's profile decides the algorithm.
//!
//! The crate does not know sessions, the gateway, or the use of its results.
#![warn(missing_docs)]

mod accept;
pub mod audit;
pub mod benchmark;
mod call;
pub mod callers;
pub mod certificate;
mod connection;
mod folders;
pub mod hash;
pub mod keys;
pub mod known_answers;
mod metrics_help;
pub mod module;
pub mod operation;
pub mod profile;
pub mod refusal;
mod scrape;
pub mod serve;
pub mod server;
pub mod service;
pub mod settings;
pub mod socket;
pub mod wire;

pub use metrics_help::METRICS;
pub use refusal::{Code, Refusal, Result};
