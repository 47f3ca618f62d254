//! The broker as a real `sealway broker`: its wires, clients, files, keys, telemetry and deployments.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod client;
mod deployments;
mod exports;
mod files;
mod guide;
mod inventory;
mod kek;
mod kek_postgres;
mod keys;
mod ml_dsa_token;
mod original_clients;
mod pkcs11;
mod restarts;
mod wires;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
