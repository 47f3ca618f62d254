//! Channels as a target: the stages of each, and its grants.

use std::sync::Arc;
use std::time::Duration;

use crate::channel::{Grants, Tally};
use crate::named::named;

/// Channels over a relay. One request of the run is one channel.
#[derive(Clone, Debug)]
pub struct Channels {
    /// Last stage of each channel.
    pub mode: ChannelMode,
    /// Ends of each channel that this generator makes.
    pub role: ChannelRole,
    /// Source of the grants of channels.
    pub grants: Arc<Grants>,
    /// Time limit of the call, opening its stream included.
    pub rpc_timeout: Duration,
    /// Longest time that an end waits for its peer at another generator.
    pub peer_timeout: Duration,
    /// Time between two pings of an open channel; `None` for no pings.
    pub ping_every: Option<Duration>,
    /// Time for which all channels stay open after the last one was made.
    pub steady: Duration,
    /// Counters of results, shared by all threads.
    pub tally: Arc<Tally>,
}

named! {
    /// Last stage that a channel reaches.
    pub enum ChannelMode {
        /// Both ends attach, one message goes from the client to the server, and both leave.
        Attach = "attach",
        /// Both ends complete the handshake; the channel stays open.
        Handshake = "handshake",
        /// After the handshake the client opens a stream and makes a call; the channel stays open.
        Full = "full",
    }
}

named! {
    /// Ends of each channel that this generator runs.
    pub enum ChannelRole {
        /// Both ends of each channel.
        Both = "both",
        /// The client's end; another generator has the servers' ends.
        Client = "client",
        /// The server's end; another generator has the clients' ends.
        Server = "server",
    }
}

impl ChannelRole {
    /// Returns the number of ends of each channel that this generator makes.
    pub fn ends(self) -> u64 {
        if self == ChannelRole::Both { 2 } else { 1 }
    }
}
