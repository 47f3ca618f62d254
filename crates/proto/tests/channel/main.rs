//! Channels, both profiles, from outside: two ends in memory.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod ends;
mod handshake;
mod mutation;
mod records;
mod registry;
mod stream;
