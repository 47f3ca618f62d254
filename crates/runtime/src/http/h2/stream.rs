//! A stream: what has arrived of a message and was not read yet, and what waits to be sent.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use super::error::{ConnectionError, Reason};
use super::message::ResponseHead;
use super::unread::Uptake;

/// Longest part of a body that is copied if it stays unread, in bytes. A longer one keeps at most eight times its length: a read.
const PART_COPIED_MAX: usize = 8 * 1024;
/// Longest part that copies are joined to, in bytes.
const PART_MERGED_MAX: usize = 16 * 1024;

/// The cause for which a stream ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The peer reset the stream.
    #[error("the peer reset the stream: {0}")]
    Reset(Reason),
    /// The peer states that it did not process the request: it may be sent again (RFC 9113 section 8.7).
    #[error("the peer did not process the request")]
    Unprocessed,
    /// The peer's message is malformed.
    #[error("the message is malformed: {0}")]
    Malformed(&'static str),
    /// This side gave the stream up.
    #[error("the stream was given up: {0}")]
    GivenUp(Reason),
    /// The connection ended by an error of the protocol.
    #[error("the connection ended: {0}")]
    Connection(ConnectionError),
    /// The connection was closed, or is gone.
    #[error("the connection was closed")]
    Closed,
}

/// Progress of the peer's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No head yet, but for interim responses.
    Nothing,
    /// The head, and a part of the body.
    Head,
    /// The whole message, its end included.
    All,
}

/// The end of this side's message.
#[derive(Debug)]
pub(super) enum Finish {
    Open,
    /// It ends with the pending data.
    Data,
    /// It ends with trailers behind the pending data.
    Trailers(HeaderMap),
    /// The end of the message is sent.
    Sent,
}

/// One stream of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) received: Progress,
    /// Responses whose heads were not read yet; only at a client.
    pub(super) heads: VecDeque<ResponseHead>,
    pub(super) data: VecDeque<Bytes>,
    pub(super) trailers: Option<HeaderMap>,
    /// Number of bytes of the body that are to come, if its length was announced.
    pub(super) left: Option<u64>,
    /// True if the response has no body whatever it announces: one to a HEAD.
    pub(super) is_head: bool,
    /// True if the stream is a tunnel (RFC 8441), or has asked to become one: it has no length and no trailers.
    pub(super) is_tunnel: bool,
    /// Number of its unread bytes that the connection's window does not count; only of a tunnel.
    pub(super) lent: usize,
    /// Time at which data was last read, or began to wait.
    pub(super) read_at: Duration,
    /// Number of bytes that the peer may still send.
    pub(super) window: u32,
    /// Number of bytes that were read and are not yet given back to the peer.
    pub(super) credit: u32,
    /// True while the client waits for a 100 before it sends the body, and has not received one; only at a server.
    pub(super) awaits_continue: bool,
    /// False once nobody will read the message: its rest is dropped as it arrives.
    pub(super) has_reader: bool,
    /// True if data is dropped as it arrives although the message is read.
    pub(super) skips_data: bool,
    /// False once nobody will send anything.
    pub(super) has_writer: bool,
    pub(super) error: Option<StreamError>,
    /// True once the head of the response was sent; only at a server.
    pub(super) has_responded: bool,
    /// Number of bytes that this side may still send; negative after the peer has reduced its initial window.
    pub(super) send_window: i64,
    pub(super) pending: VecDeque<Bytes>,
    pub(super) pending_len: usize,
    pub(super) finish: Finish,
    /// True while it is in the connection's queue of streams that can send.
    pub(super) is_queued: bool,
    /// Progress of the pending data.
    pub(super) uptake: Uptake,
    /// The task that waits for the peer's message.
    pub(super) reader: Option<Waker>,
    /// The task that waits for room, or for the end of the stream.
    pub(super) writer: Option<Waker>,
}

impl Stream {
    pub(super) fn new(id: u32, window: u32, send_window: u32) -> Self {
        Stream {
            id,
            received: Progress::Nothing,
            heads: VecDeque::new(),
            data: VecDeque::new(),
            trailers: None,
            left: None,
            is_head: false,
            is_tunnel: false,
            lent: 0,
            read_at: Duration::ZERO,
            window,
            credit: 0,
            awaits_continue: false,
            has_reader: true,
            skips_data: false,
            has_writer: true,
            error: None,
            has_responded: false,
            send_window: i64::from(send_window),
            pending: VecDeque::new(),
            pending_len: 0,
            finish: Finish::Open,
            is_queued: false,
            uptake: Uptake::default(),
            reader: None,
            writer: None,
        }
    }

    /// Returns whether neither side will send more (RFC 9113 section 5.1, closed).
    pub(super) fn is_closed(&self) -> bool {
        self.error.is_some() || (self.received == Progress::All && matches!(self.finish, Finish::Sent))
    }

    /// Returns whether there is data, or an end, that waits to be sent.
    pub(super) fn wants_to_send(&self) -> bool {
        !self.pending.is_empty() || matches!(self.finish, Finish::Data | Finish::Trailers(_))
    }

    /// Keeps a part of the body until it is read. A part keeps all that was read with it in memory; so behind an unread one,
    /// small parts are copied into one.
    pub(super) fn push_data(&mut self, data: Bytes) {
        // The first is most often read before another one arrives.
        if self.data.is_empty() || data.len() > PART_COPIED_MAX {
            return self.data.push_back(data);
        }
        let has_copies = self.data.len() > 1;
        match self.data.pop_back_if(|last| has_copies && last.len() + data.len() <= PART_MERGED_MAX) {
            Some(last) => {
                let mut merged = last.try_into_mut().unwrap_or_else(|last| BytesMut::from(&last[..]));
                merged.extend_from_slice(&data);
                self.data.push_back(merged.freeze());
            }
            None => self.data.push_back(Bytes::copy_from_slice(&data)),
        }
    }

    pub(super) fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    pub(super) fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// Ends the stream early. What has arrived can still be read; what was to be sent is dropped.
    pub(super) fn fail(&mut self, error: StreamError) {
        if self.error.is_none() {
            self.error = Some(error);
        }
        self.pending.clear();
        self.pending_len = 0;
        self.wake_reader();
        self.wake_writer();
    }
}
