//! Answers that the peer does not read, or reads too slowly: each would hold its memory, and the connection behind it, for ever.
//!
//! Only data that waits for nothing but the peer's windows counts. The driver checks what waits for the transport.

use std::time::Duration;

use super::connection::Connection;
use super::error::Reason;
use super::stream::StreamError;

/// Number of bytes of an answer, which waits for nothing but its peer, that the peer must take within the time of
/// [`Connection::end_unread`]: with 60 s, 17 bytes a second. HTTP/1 has the same bound.
pub const UNREAD_LEN: usize = 1024;

/// Progress of data that waits for the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uptake {
    /// Time at which the peer had last taken [`UNREAD_LEN`] bytes, or at which the wait began.
    since: Duration,
    /// Number of bytes that the peer has taken since.
    len: usize,
}

impl Uptake {
    /// Begins a wait in which nothing was taken yet.
    pub(super) fn begin(&mut self, now: Duration) {
        *self = Uptake { since: now, len: 0 };
    }

    /// Notes that the peer has taken `len` bytes.
    pub(super) fn take(&mut self, len: usize, now: Duration) {
        self.len += len;
        if self.len >= UNREAD_LEN {
            self.begin(now);
        }
    }

    fn is_over(self, now: Duration, time: Duration) -> bool {
        now.saturating_sub(self.since) >= time
    }
}

impl Connection {
    /// Resets the streams that wait for their own windows, if the peer took fewer than [`UNREAD_LEN`] bytes of one within
    /// `time`; tunnels are left to their idle time. Returns false if that holds for the window of the connection, so that no
    /// stream can go on. Call it from time to time, with a current [`Connection::set_now`].
    #[must_use]
    pub fn end_unread(&mut self, time: Duration) -> bool {
        let (now, is_full) = (self.now, self.send_window <= 0);
        let (mut unread, mut waits) = (Vec::new(), false);
        for stream in self.each_stream().filter(|stream| !stream.pending.is_empty() && !stream.is_tunnel) {
            if stream.send_window > 0 {
                waits |= is_full;
                stream.uptake.begin(now);
            } else if stream.uptake.is_over(now, time) {
                unread.push(stream.id);
            }
        }
        for id in &unread {
            self.end_stream(*id, Reason::Cancel, StreamError::GivenUp(Reason::Cancel));
        }
        // A peer that drops what it has of a stream gives that back to the connection's window.
        if !waits || !unread.is_empty() {
            self.uptake.begin(now);
        }
        !self.uptake.is_over(now, time)
    }
}
