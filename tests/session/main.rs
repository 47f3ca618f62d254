//! Sessions of wires 1 and 2 at a real `sealway serve`: inits, sealed calls, rejections, old deployments, and secrecy.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod concurrency;
mod deployments;
mod init_anonymous;
mod init_session;
mod init_v1;
mod key_endpoint;
mod sealed_bodies;
mod sealed_refusals;
mod secrecy;
mod service_answers;

use sealway_proto::wire::Wire;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
/// The wires that these tests speak.
const BOTH: [Wire; 2] = [Wire::V1, Wire::V2];
const MIB: usize = 1024 * 1024;
