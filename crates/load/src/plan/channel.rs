//! Channels as a target: what is made of each, and what it is made with.

use std::sync::Arc;
use std::time::Duration;

use crate::channel::{Grants, Tally};

/// Channels over a relay. One request of the run is one channel.
#[derive(Clone, Debug)]
pub struct Channels {
    /// How far each goes.
    pub mode: ChannelMode,
    /// Which of its ends are here.
    pub role: ChannelRole,
    /// Where grants come from.
    pub grants: Arc<Grants>,
    /// How long the call may take, opening its stream included.
    pub rpc_timeout: Duration,
    /// How long an end that is here alone waits for the other one.
    pub peer_timeout: Duration,
    /// How often an open channel asks its peer for a sign of life; none for never.
    pub ping_every: Option<Duration>,
    /// How long all of them stay open after the last one was made.
    pub steady: Duration,
    /// Where what became of them is counted.
    pub tally: Arc<Tally>,
}

/// How far a channel goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelMode {
    /// Both ends attach, one message goes from the client to the server, and both leave.
    Attach,
    /// Up to the end of the handshake at both ends; it stays open.
    Handshake,
    /// Also a stream and a call on it; it stays open.
    Full,
}

/// Which ends of a channel are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelRole {
    /// Both.
    Both,
    /// The client's; another generator has the servers'.
    Client,
    /// The server's; another generator has the clients'.
    Server,
}

impl ChannelMode {
    /// All of them, by their names.
    pub const ALL: [(&'static str, ChannelMode); 3] =
        [("attach", ChannelMode::Attach), ("handshake", ChannelMode::Handshake), ("full", ChannelMode::Full)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

impl ChannelRole {
    /// All of them, by their names.
    pub const ALL: [(&'static str, ChannelRole); 3] =
        [("both", ChannelRole::Both), ("client", ChannelRole::Client), ("server", ChannelRole::Server)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, role)| *role == self).map_or("", |(name, _)| name)
    }

    /// Ends of each channel that are here.
    pub fn ends(self) -> u64 {
        if self == ChannelRole::Both { 2 } else { 1 }
    }
}
