//! Defects planted to see that the invariants find them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// A defect of the relay's nodes. Each takes away a defence that the product has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The script uses up a token that is used up.
    TokensForgotten,
    /// The script does not look at the floor of the epoch.
    NoFloor,
    /// The script keeps a used token for a second.
    ShortTokens,
    /// A used token is kept only for as long as the clock of the node that took it says.
    OwnClock,
    /// The script does not look at the server's replication id.
    NoServer,
    /// The script gives every channel to the node that asks.
    NoOwner,
    /// The lease of a node does not end.
    Immortal,
    /// The nodes do not read a changed keyset.
    StaleKeys,
    /// A node sends an endpoint a frame twice.
    Repeats,
}

impl Defect {
    /// All of them, each with its name.
    pub const ALL: [(&'static str, Defect); 9] = [
        ("relay-tokens-forgotten", Defect::TokensForgotten),
        ("relay-no-floor", Defect::NoFloor),
        ("relay-short-tokens", Defect::ShortTokens),
        ("relay-own-clock", Defect::OwnClock),
        ("relay-no-server", Defect::NoServer),
        ("relay-no-owner", Defect::NoOwner),
        ("relay-immortal", Defect::Immortal),
        ("relay-stale-keys", Defect::StaleKeys),
        ("relay-repeats", Defect::Repeats),
    ];

    /// Returns the changes of the product's scripts.
    pub(crate) fn changes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Defect::TokensForgotten => &[("ARGV[3], 'NX', 'PX'", "ARGV[3], 'PX'")],
            Defect::NoFloor => &[("if tonumber(ARGV[2]) <= tonumber(e[3])", "if false")],
            Defect::ShortTokens => &[("'NX', 'PX', ARGV[4])", "'NX', 'PX', 1000)")],
            Defect::OwnClock => &[("'NX', 'PX', ARGV[4])", "'NX', 'PX', ARGV[4] - 30000)")],
            Defect::NoServer => {
                &[("e[1] ~= ARGV[1] or e[2] ~= server", "e[1] ~= ARGV[1]"), ("id == '' or e[2] ~= server", "id == ''")]
            }
            Defect::NoOwner => &[("if owner and owner ~= ARGV[5]", "if false")],
            Defect::Immortal => &[("ARGV[6], 'PX', ARGV[7])", "ARGV[6])")],
            Defect::StaleKeys | Defect::Repeats => &[],
        }
    }
}

/// A connection on which every twentieth short write of a message comes twice.
pub(super) struct Repeating {
    stream: DuplexStream,
    writes: u32,
}

impl Repeating {
    pub(super) fn new(stream: DuplexStream) -> Self {
        Repeating { stream, writes: 0 }
    }
}

impl AsyncRead for Repeating {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Repeating {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.writes += 1;
        let is_message = bytes.first() == Some(&0x82);
        if is_message && len == bytes.len() && len < 1024 && self.writes.is_multiple_of(20) {
            let _ = Pin::new(&mut self.stream).poll_write(cx, bytes)?;
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
