//! The relay and channels as real processes: `sealway relay`, `sealway channel`, and endpoints of Flowersec v1.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod cases;
mod channel_commands;
mod channel_ground;
mod channel_interop;
mod channel_interop_relay;
mod commands;
mod conformance;
mod faults_nodes;
mod memory;
mod node_identity;
mod nodes;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
