//! Counts the frames of an HTTP/2 connection (RFC 9113 section 4.1) that carry neither a request nor an answer, in the bytes
//! that pass below the library, and ends a connection that sends more of them than its traffic explains: such a frame costs
//! its sender next to nothing. The library itself bounds CONTINUATION frames, small and empty DATA frames, and streams that
//! were reset before they were accepted; it has no bound on PING, SETTINGS, PRIORITY, WINDOW_UPDATE, unknown frames and
//! streams that are reset later.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::connections::Connections;
use super::{PREFACE_LEN, Peer};

const HEAD_LEN: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
/// Length from which on a reader may send more frames about a DATA frame of its answer.
const DATA_LEN_SMALL: usize = 16;

/// The head of a frame.
#[derive(Clone, Copy)]
struct Frame {
    len: usize,
    kind: u8,
    flags: u8,
}

impl Frame {
    fn ends_stream(self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    fn name(self) -> &'static str {
        const NAMES: [&str; 10] = [
            "DATA",
            "HEADERS",
            "PRIORITY",
            "RST_STREAM",
            "SETTINGS",
            "PUSH_PROMISE",
            "PING",
            "GOAWAY",
            "WINDOW_UPDATE",
            "CONTINUATION",
        ];
        NAMES.get(usize::from(self.kind)).copied().unwrap_or("unknown")
    }
}

/// Finds the heads of frames in the bytes of one direction.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; HEAD_LEN],
    /// Number of bytes of `head` that have arrived.
    have: usize,
    /// Number of bytes until the next head.
    skip: usize,
}

impl Frames {
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Frame> {
        let (_, rest) = bytes.split_at(self.skip.min(bytes.len()));
        self.skip -= bytes.len() - rest.len();
        let (taken, rest) = rest.split_at((HEAD_LEN - self.have).min(rest.len()));
        self.head[self.have..][..taken.len()].copy_from_slice(taken);
        self.have += taken.len();
        *bytes = rest;
        if self.have < HEAD_LEN {
            return None;
        }
        self.have = 0;
        let [high, middle, low, kind, flags, ..] = self.head;
        self.skip = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        Some(Frame { len: self.skip, kind, flags })
    }
}

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

/// More frames of a kind than the traffic of the connection explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a flood of {0} frames")]
pub(super) struct Flood(pub(super) &'static str);

/// The counts of a connection. Without I/O or a clock: bytes and the time since the connection began are arguments.
#[derive(Debug)]
pub(super) struct Meter {
    received: Frames,
    sent: Frames,
    /// Budget for frames that carry no message.
    idle: Budget,
    /// Budget for streams that the peer resets.
    resets: Budget,
}

impl Meter {
    pub(super) fn new() -> Self {
        Meter {
            received: Frames { skip: PREFACE_LEN, ..Frames::default() },
            sent: Frames::default(),
            // Some clients send a WINDOW_UPDATE for each DATA frame on its stream and on the connection, and a PING to measure
            // the round trip.
            idle: Budget::new(2000, 200, 100_000),
            resets: Budget::new(1000, 100, 10_000),
        }
    }

    /// Counts the frames from the peer.
    ///
    /// # Errors
    /// [`Flood`]: the connection must end.
    pub(super) fn received(&mut self, mut bytes: &[u8], now: Duration) -> Result<(), Flood> {
        while let Some(frame) = self.received.next(&mut bytes) {
            let is_within = match frame.kind {
                HEADERS => true,
                DATA if frame.len > 0 || frame.ends_stream() => true,
                RST_STREAM => self.resets.spend(now),
                _ => self.idle.spend(now),
            };
            if !is_within {
                return Err(Flood(frame.name()));
            }
        }
        Ok(())
    }

    /// Counts the frames to the peer: answers, which allow it some frames.
    pub(super) fn sent(&mut self, mut bytes: &[u8]) {
        while let Some(frame) = self.sent.next(&mut bytes) {
            if frame.kind == DATA && frame.len > 0 {
                self.idle.earn(if frame.len < DATA_LEN_SMALL { 1 } else { 4 });
            }
            if frame.ends_stream() {
                self.idle.earn(8);
                self.resets.earn(1);
            }
        }
    }
}

/// A connection whose frames are counted. Reading fails after a flood.
pub(super) struct MeterStream<IO> {
    io: IO,
    meter: Meter,
    began: Instant,
    peer: Peer,
    connections: Arc<Connections>,
}

impl<IO> MeterStream<IO> {
    /// Wraps a connection; floods are counted and logged by `connections`.
    pub(super) fn new(io: IO, peer: Peer, connections: Arc<Connections>) -> Self {
        MeterStream { io, meter: Meter::new(), began: Instant::now(), peer, connections }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for MeterStream<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        let counted = this.meter.received(&buf.filled()[before..], this.began.elapsed());
        Poll::Ready(counted.map_err(|flood| {
            this.connections.note_flood(&this.peer, flood);
            io::Error::other(flood)
        }))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for MeterStream<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.meter.sent(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, slices))?;
        let mut left = len;
        for slice in slices {
            let of_slice = left.min(slice.len());
            self.meter.sent(&slice[..of_slice]);
            left -= of_slice;
        }
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, len: u8) -> Vec<u8> {
        [&[0, 0, len, kind, flags, 0, 0, 0, 1][..], &vec![0xaa; usize::from(len)]].concat()
    }

    fn begun() -> Meter {
        let mut meter = Meter::new();
        meter.received(&[b'P'; PREFACE_LEN], Duration::ZERO).unwrap();
        meter
    }

    #[test]
    fn each_kind_of_frame_that_carries_nothing_is_a_flood_in_the_end_however_the_bytes_are_cut() {
        for (kind, len, name) in [
            (0, 0, "DATA"),
            (2, 5, "PRIORITY"),
            (3, 4, "RST_STREAM"),
            (4, 0, "SETTINGS"),
            (6, 8, "PING"),
            (8, 4, "WINDOW_UPDATE"),
            (9, 0, "CONTINUATION"),
            (0x42, 200, "unknown"),
        ] {
            for cut in [1, 7, 9, 1000] {
                let mut meter = begun();
                let bytes = frame(kind, 0, len).repeat(2001);
                let counted: Result<(), Flood> =
                    bytes.chunks(cut).try_for_each(|part| meter.received(part, Duration::ZERO));
                assert_eq!(counted, Err(Flood(name)), "{cut}");
            }
        }
    }

    #[test]
    fn requests_and_bodies_are_no_flood_and_time_and_answers_allow_more() {
        let mut meter = begun();
        for bytes in [frame(1, 4, 30), frame(0, 0, 10), frame(0, 1, 0)] {
            meter.received(&bytes.repeat(100_000), Duration::ZERO).unwrap();
        }
        let (update, ping) = (frame(8, 0, 4), frame(6, 0, 8));
        for second in 1..100 {
            meter.received(&ping.repeat(200), Duration::from_secs(second)).unwrap();
        }
        // A long answer whose reader acknowledges each frame twice, after all of it.
        meter.sent(&frame(0, 0, 100).repeat(20_000));
        meter.received(&update.repeat(40_000), Duration::from_secs(100)).unwrap();
        // A reader that gets one byte for each of them is allowed no more.
        let mut meter = begun();
        let told = (0..3000).take_while(|_| {
            meter.sent(&frame(0, 0, 1));
            meter.received(&update.repeat(2), Duration::ZERO).is_ok()
        });
        assert_eq!(told.count(), 2000);
    }

    #[test]
    fn streams_are_reset_as_often_as_requests_are_answered_and_not_by_what_a_download_earns() {
        let mut meter = begun();
        let (request, reset) = (frame(1, 5, 30), frame(3, 0, 4));
        for _ in 0..50_000 {
            meter.received(&[request.clone(), request.clone(), reset.clone()].concat(), Duration::ZERO).unwrap();
            meter.sent(&frame(1, 5, 20));
        }
        let mut meter = begun();
        meter.sent(&frame(0, 0, 100).repeat(20_000));
        let rapid = [request, reset].concat();
        meter.received(&rapid.repeat(1000), Duration::ZERO).unwrap();
        assert_eq!(meter.received(&rapid, Duration::ZERO), Err(Flood("RST_STREAM")));
        assert!(begun().received(&rapid.repeat(100), Duration::from_secs(1)).is_ok());
    }
}
