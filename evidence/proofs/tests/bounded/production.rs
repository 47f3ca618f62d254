//! Files of the product that its crates keep private, compiled from the same source.
#![allow(dead_code, reason = "a harness uses a part of each file")]
#![allow(missing_docs, unreachable_pub, reason = "the files are written for their own crates")]

/// The frame layer of channels.
#[path = "../../../../crates/proto/src/channel/frame.rs"]
pub(crate) mod channel_frame;

#[path = "../../../../crates/proto/src/bhttp/varint.rs"]
pub(crate) mod varint;

/// The relay's memory of used tokens.
#[path = "../../../../crates/relay/src/replay.rs"]
pub(crate) mod replay;
