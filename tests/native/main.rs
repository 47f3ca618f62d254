//! Sessions of wire 3 at a real `sealway serve`: agreement, messages, streams, clocks and keys, and clients in other languages.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod algorithms;
mod bodies;
mod clocks;
mod ground;
mod inspect;
mod messages;
mod migration_guide;
mod python;
mod rotation;
mod rust_programs;
mod shares;
mod streams;
mod tampering;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
