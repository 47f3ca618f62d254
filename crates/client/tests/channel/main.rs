//! Channels between two ends in one process: streams, calls, how they end, and simulated faults between them.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod end;
mod pair;
mod registry;
mod simulation;

/// `flowersec-v1` on X25519, and NNpsk0 on 25519 with AES-256-GCM.
const SUITES: [u16; 2] = [1, 0x100];
