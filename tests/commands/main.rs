//! Commands as users see them: `config`, `call`, `certs`, `identity` and the command line itself.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod certs;
mod command_line;
mod config;
mod gateway_api;
mod gateway_api_policies;
mod gateway_api_schema;
mod health;
mod identity;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
