//! Stores of sessions and nonces under real gateways: restarts, shared servers, key files, and servers that fail under load
//! (`faults_*`, `linearizability`).
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod commands;
mod drill;
mod faults_failover;
mod faults_gateways;
mod faults_postgres;
mod faults_redis;
mod faults_redis_failover;
mod faults_replay;
mod linearizability;
mod restart;
mod shared;

use std::time::Duration;

use sealway_testkit::ground::Ground;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
/// The longest wait for an expected event.
const SOON: Duration = Duration::from_secs(20);

/// A fault of a server, and its repair.
struct Fault {
    name: &'static str,
    begin: fn(&Ground),
    end: fn(&Ground),
}
