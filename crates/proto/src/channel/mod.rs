//! Channels: two peers agree keys over a middle that neither trusts, then exchange sealed records. Two profiles behind one
//! face: `flowersec-v1`, and our own over the Noise framework. `spec/channel.md`.
//!
//! ```text
//! Handshake::client(settings) ─► first message      Handshake::server(settings)
//!            read(message) ◄─ Progress::{Wait, Send, SendThenDone, Done} ─► read(message)
//!            into_records() ─► (Sealer, Opener)     one BINARY message a record, either way
//! ```
//!
//! It may not know: sockets, the relay, streams, what the bytes mean.

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
pub use noise::static_public;
pub use record::{CloseReason, Content, Opened, Opener, Sealer};
pub use settings::{ChannelSettings, HandshakeRandoms, KemRandoms};
pub use suite::{NativeSuite, Pattern, Suite};
