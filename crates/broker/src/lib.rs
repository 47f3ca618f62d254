//! The broker: a process beside an application that does its cryptography under named profiles, on a Unix socket. The
//! application says what, the operator's profile says how.
//!
//! It may not know: sessions, the gateway, or who uses what it makes.
#![warn(missing_docs)]

pub mod audit;
pub mod benchmark;
pub mod callers;
pub mod certificate;
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
mod shares;
pub mod socket;
pub mod telemetry;
pub mod wire;

pub use metrics_help::METRICS;
pub use refusal::{Code, Refusal};
