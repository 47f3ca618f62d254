//! The PKCS#11 module in real programs, against a real `sealway broker`: OpenSC, OpenSSH, OpenSSL, curl and Java.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod fixture;
mod interface;
mod programs;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
