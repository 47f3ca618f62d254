//! The load generator against servers that record the truth, and against the rest of Sealway.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod broker;
mod channel;
mod ground;
mod guide;
mod input;
mod mle;
mod one_shot;
mod outcome;
mod protocols;
mod report;
mod sealed;
mod targets;
mod truth;
mod tui;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
