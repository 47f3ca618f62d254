//! Channels, both profiles, from outside: the modules of proto's test that need no vectors of the testkit.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "../../../crates/proto/tests/channel/ends.rs"]
mod ends;
#[path = "../../../crates/proto/tests/channel/handshake.rs"]
mod handshake;
#[path = "../../../crates/proto/tests/channel/mutation.rs"]
mod mutation;
#[path = "../../../crates/proto/tests/channel/records.rs"]
mod records;
#[path = "../../../crates/proto/tests/channel/stream.rs"]
mod stream;
