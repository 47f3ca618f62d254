//! Channels: two peers agree keys over a relay that neither trusts, then exchange encrypted records. Two profiles behind one
//! interface: `flowersec-v1`, and a native one over the Noise framework. `spec/channel.md`.
//!
//! ```text
//! Handshake::client(settings) ─► first message      Handshake::server(settings)
//!            read(message) ◄─ Progress::{Wait, Send, SendThenDone, Done} ─► read(message)
//!            into_records() ─► (Sealer, Opener)     one BINARY message a record, either way
//! ```
//!
//! This module does not know sockets, the relay, streams, or the meaning of the bytes.

pub mod error;
pub(crate) mod frame;
pub mod handshake;
pub mod limits;
mod noise;
pub mod record;
mod sequence;
pub mod settings;
pub mod suite;
mod v1;

pub use error::{ChannelError, Stage};
pub use frame::looks_like_record;
pub use handshake::{Handshake, Progress};
pub use record::{CloseReason, Content, Opener, RecordContent, Sealer};
pub use settings::{ChannelSettings, HandshakeRandoms, KemRandoms};
pub use suite::{NativeSuite, Pattern, Suite};
