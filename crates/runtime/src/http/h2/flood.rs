//! Bounds on frames that carry neither a request nor an answer: they cost their sender next to nothing. A peer that sends more of
//! them than its traffic explains is a flood, and its connection ends.
//!
//! Time since the connection began is an argument.

use std::time::Duration;

use super::error::ConnectionError;
use super::frame::{Head, Kind};

/// Length from which on a DATA frame lets its reader send more frames about it, in bytes.
const DATA_LEN_SMALL: usize = 16;

/// The number of frames that a peer may still send. It grows with time up to its initial value, and with the data sent to the
/// peer up to a bound.
#[derive(Debug)]
struct Budget {
    left: u32,
    first: u32,
    per_second: u32,
    max: u32,
    grown_at: Duration,
}

impl Budget {
    fn new(first: u32, per_second: u32, max: u32) -> Self {
        Budget { left: first, first, per_second, max, grown_at: Duration::ZERO }
    }

    fn earn(&mut self, frames: u32) {
        self.left = self.left.saturating_add(frames).min(self.max);
    }

    fn spend(&mut self, now: Duration) -> bool {
        let grown = now.saturating_sub(self.grown_at).as_millis() * u128::from(self.per_second) / 1000;
        if grown > 0 {
            self.grown_at = now;
            let grown = u32::try_from(grown).unwrap_or(u32::MAX);
            self.left = self.left.max(self.left.saturating_add(grown).min(self.first));
        }
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }
}

/// The counts of a connection.
#[derive(Debug)]
pub(super) struct FloodGuard {
    /// Budget for frames that carry no message.
    idle: Budget,
    /// Budget for streams that the peer resets.
    resets: Budget,
    /// Budget for streams that this side resets for a fault of the peer.
    faults: Budget,
}

impl FloodGuard {
    pub(super) fn new() -> Self {
        FloodGuard {
            // Some clients send a WINDOW_UPDATE for each DATA frame on its stream and on the connection, and a PING to measure
            // the round trip.
            idle: Budget::new(2000, 200, 100_000),
            resets: Budget::new(1000, 100, 10_000),
            faults: Budget::new(256, 10, 256),
        }
    }

    /// Counts a frame from the peer.
    ///
    /// # Errors
    /// Too many frames of its kind.
    pub(super) fn received(&mut self, head: Head, now: Duration) -> Result<(), ConnectionError> {
        let is_within = match head.kind {
            Kind::Headers => true,
            Kind::Data if head.len > 0 || head.ends_stream() => true,
            Kind::RstStream => self.resets.spend(now),
            _ => self.idle.spend(now),
        };
        if is_within { Ok(()) } else { Err(ConnectionError::flood(head.kind.name())) }
    }

    /// Counts a DATA frame from the peer that is nothing but padding.
    ///
    /// # Errors
    /// Too many frames that carry no message.
    pub(super) fn received_padding(&mut self, now: Duration) -> Result<(), ConnectionError> {
        if self.idle.spend(now) { Ok(()) } else { Err(ConnectionError::flood(Kind::Data.name())) }
    }

    /// Counts a stream that is reset for a fault of the peer.
    ///
    /// # Errors
    /// Too many of them.
    pub(super) fn faulted(&mut self, now: Duration) -> Result<(), ConnectionError> {
        if self.faults.spend(now) { Ok(()) } else { Err(ConnectionError::flood("malformed")) }
    }

    /// Counts a DATA frame to the peer, which allows some frames about it.
    pub(super) fn sent_data(&mut self, len: usize) {
        if len > 0 {
            self.idle.earn(if len < DATA_LEN_SMALL { 1 } else { 4 });
        }
    }

    /// Counts the end of a message to the peer.
    pub(super) fn sent_end(&mut self) {
        self.idle.earn(8);
        self.resets.earn(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: Kind, flags: u8, len: usize) -> Head {
        Head { len, kind, flags, stream: 1 }
    }

    #[test]
    fn too_many_frames_without_a_message_are_a_flood() {
        for (kind, len) in [
            (Kind::Data, 0),
            (Kind::Priority, 5),
            (Kind::RstStream, 4),
            (Kind::Settings, 0),
            (Kind::Ping, 8),
            (Kind::WindowUpdate, 4),
            (Kind::Continuation, 0),
            (Kind::Unknown, 200),
        ] {
            let mut guard = FloodGuard::new();
            let count = (0..3000).take_while(|_| guard.received(head(kind, 0, len), Duration::ZERO).is_ok()).count();
            assert_eq!(count, if kind == Kind::RstStream { 1000 } else { 2000 }, "{kind:?}");
            assert!(guard.received(head(kind, 0, len), Duration::from_secs(1)).is_ok(), "{kind:?}: time allows more");
        }
    }

    #[test]
    fn messages_are_never_a_flood_and_answers_allow_frames_about_them() {
        let mut guard = FloodGuard::new();
        for _ in 0..100_000 {
            guard.received(head(Kind::Headers, 5, 30), Duration::ZERO).unwrap();
            guard.received(head(Kind::Data, 0, 10), Duration::ZERO).unwrap();
            guard.received(head(Kind::Data, 1, 0), Duration::ZERO).unwrap();
        }
        // A long answer whose reader acknowledges each frame twice, after all of it.
        (0..20_000).for_each(|_| guard.sent_data(100));
        let update = head(Kind::WindowUpdate, 0, 4);
        (0..40_000).for_each(|_| guard.received(update, Duration::ZERO).unwrap());
        // A reader that gets one byte for each of them is allowed no more.
        let mut guard = FloodGuard::new();
        let count = (0..3000).take_while(|_| {
            guard.sent_data(1);
            (0..2).all(|_| guard.received(update, Duration::ZERO).is_ok())
        });
        assert_eq!(count.count(), 2000);
    }

    #[test]
    fn resets_are_allowed_by_answers_and_not_by_a_download() {
        let mut guard = FloodGuard::new();
        let reset = head(Kind::RstStream, 0, 4);
        for _ in 0..50_000 {
            guard.received(reset, Duration::ZERO).unwrap();
            guard.sent_end();
        }
        let mut guard = FloodGuard::new();
        (0..20_000).for_each(|_| guard.sent_data(100));
        assert_eq!((0..2000).take_while(|_| guard.received(reset, Duration::ZERO).is_ok()).count(), 1000);
    }
}
