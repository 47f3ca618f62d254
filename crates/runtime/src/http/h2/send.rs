//! Frames to the peer: heads at once, data as the peer's windows allow, its streams in turn.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::block::BlockWriter;
use super::connection::{Connection, STREAM_MAX};
use super::error::Reason;
use super::frame::{PAYLOAD_LEN_MAX, put_data_head, put_reset};
use super::message::RequestHead;
use super::read::register;
use super::stream::{Finish, Progress, Stream, StreamError};

/// Most requests before the server's settings have arrived: no server should allow fewer (RFC 9113 section 6.5.2).
const STREAMS_FIRST: usize = 100;

impl Connection {
    fn writer(&mut self) -> BlockWriter<'_> {
        let payload_len_max = self.peer.payload_len_max.min(PAYLOAD_LEN_MAX);
        BlockWriter { out: self.output.tail(), encoder: &mut self.encoder, payload_len_max }
    }

    /// Polls for a place for one more request: the peer bounds their number.
    ///
    /// # Errors
    /// The connection takes no more requests.
    pub fn poll_can_open(&mut self, cx: &Context<'_>) -> Poll<Result<(), StreamError>> {
        if let Some(error) = self.error {
            return Poll::Ready(Err(error));
        }
        if self.go_away.is_some() || self.last_id >= STREAM_MAX - 2 {
            return Poll::Ready(Err(StreamError::Unprocessed));
        }
        if self.places() == 0 {
            self.wait_to_open(cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the number of requests that may be sent now.
    pub(super) fn places(&self) -> usize {
        let streams_max = self.peer_streams_max();
        // The server's settings may reject more requests than this.
        let streams_max = if self.expects_settings { streams_max.min(STREAMS_FIRST) } else { streams_max };
        if self.output.takes_heads() { streams_max.saturating_sub(self.open) } else { 0 }
    }

    /// Notes that a task which [`Connection::poll_can_open`] has registered does not wait any more. If it was woken for a place,
    /// the next one gets it.
    pub fn cancel_open(&mut self, waker: &Waker) {
        match self.openers.iter().position(|opener| opener.will_wake(waker)) {
            // Woken, as another wait of the same task may share the registration.
            Some(at) => drop(self.openers.remove(at).map(Waker::wake)),
            None => self.wake_openers(),
        }
    }

    /// Returns whether the connection takes further requests, now or later.
    pub fn is_open(&self) -> bool {
        self.error.is_none() && self.go_away.is_none() && self.last_id < STREAM_MAX - 2
    }

    /// Returns whether the server accepts extended CONNECT (RFC 8441), once its settings have arrived.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn poll_accepts_connect(&mut self, cx: &Context<'_>) -> Poll<Result<bool, StreamError>> {
        match self.error {
            Some(error) => Poll::Ready(Err(error)),
            None if self.expects_settings => {
                self.wait_to_open(cx);
                Poll::Pending
            }
            None => Poll::Ready(Ok(self.peer.connect_protocol)),
        }
    }

    /// Returns the most streams that the peer allows at once.
    pub fn peer_streams_max(&self) -> usize {
        usize::try_from(self.peer.streams_max).unwrap_or(usize::MAX)
    }

    fn wait_to_open(&mut self, cx: &Context<'_>) {
        if !self.openers.iter().any(|opener| opener.will_wake(cx.waker())) {
            self.openers.push_back(cx.waker().clone());
        }
    }

    /// Opens a stream with the head of a request, and returns its identifier. Only after [`Connection::poll_can_open`].
    pub fn open(&mut self, head: &RequestHead, is_last: bool) -> u32 {
        let id = if self.last_id == 0 { 1 } else { self.last_id + 2 };
        self.last_id = id;
        let mut stream = Stream::new(id, self.config.stream_window, self.peer.initial_window);
        stream.is_head = head.method == Method::HEAD;
        stream.is_tunnel = head.protocol.is_some();
        if is_last {
            stream.finish = Finish::Sent;
            stream.has_writer = false;
        }
        self.insert(stream);
        // The server may reset it at once.
        self.guard.sent_end();
        self.writer().request(id, head, is_last);
        self.wake_driver();
        id
    }

    /// Notes that the client waits for a 100 before it sends its body (RFC 9110 section 10.1.1). It is sent when the body is
    /// first polled, and not once the answer has begun.
    pub fn hold_body(&mut self, id: u32) {
        if let Some(stream) = self.stream(id) {
            stream.awaits_continue = true;
        }
    }

    /// Sends an interim response, before the response itself.
    pub fn interim(&mut self, id: u32, status: StatusCode, headers: &HeaderMap) {
        let Some(stream) = self.stream(id).filter(|stream| stream.error.is_none()) else { return };
        // One that was passed on stands for this side's own.
        stream.awaits_continue &= status != StatusCode::CONTINUE;
        if !stream.has_responded {
            self.writer().response(id, status, headers, false);
            self.wake_driver();
        }
    }

    /// Sends the head of a response; with `is_last` it has neither body nor trailers.
    pub fn respond(&mut self, id: u32, status: StatusCode, headers: &HeaderMap, is_last: bool) {
        let Some(stream) = self.stream(id).filter(|stream| stream.error.is_none()) else { return };
        (stream.has_responded, stream.awaits_continue) = (true, false);
        self.writer().response(id, status, headers, is_last);
        if is_last {
            self.sent(id);
        }
        self.wake_driver();
    }

    /// Polls for room for the next piece of a stream's body. Call it again only after a piece was sent.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn poll_room(&mut self, id: u32, cx: &Context<'_>) -> Poll<Result<(), StreamError>> {
        let (gone, pending_max) = (self.error.unwrap_or(StreamError::Closed), self.config.pending_max);
        let Some(stream) = self.stream(id) else { return Poll::Ready(Err(gone)) };
        if let Some(error) = stream.error {
            return Poll::Ready(Err(error));
        }
        register(&mut stream.writer, cx);
        if stream.pending_len < pending_max { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Ready once a stream has ended early.
    pub fn poll_ended(&mut self, id: u32, cx: &Context<'_>) -> Poll<StreamError> {
        let gone = self.error.unwrap_or(StreamError::Closed);
        let Some(stream) = self.stream(id) else { return Poll::Ready(gone) };
        if let Some(error) = stream.error {
            return Poll::Ready(error);
        }
        register(&mut stream.writer, cx);
        Poll::Pending
    }

    /// Sends a piece of a body; the last one ends the message.
    pub fn send(&mut self, id: u32, data: Bytes, is_last: bool) {
        let now = self.now;
        let Some(stream) = self.stream(id) else { return };
        if stream.error.is_some() || !matches!(stream.finish, Finish::Open) {
            return;
        }
        if stream.pending.is_empty() {
            stream.uptake.begin(now);
        }
        stream.pending_len += data.len();
        if !data.is_empty() {
            stream.pending.push_back(data);
        }
        if is_last {
            stream.finish = Finish::Data;
        }
        self.enqueue(id);
        self.wake_driver();
    }

    /// Ends a message with trailers.
    pub fn send_trailers(&mut self, id: u32, trailers: HeaderMap) {
        let Some(stream) = self.stream(id) else { return };
        if stream.error.is_none() && matches!(stream.finish, Finish::Open) {
            stream.finish = Finish::Trailers(trailers);
            self.enqueue(id);
            self.wake_driver();
        }
    }

    /// Resets a stream, and drops its messages.
    pub fn reset(&mut self, id: u32, reason: Reason) {
        self.end_stream(id, reason, StreamError::GivenUp(reason));
    }

    /// Notes that nobody will send anything on a stream. A message that has no end yet ends the stream with `reason`.
    pub fn drop_writer(&mut self, id: u32, reason: Reason) {
        let Some(stream) = self.stream(id) else { return };
        let was_closed = stream.is_closed();
        stream.has_writer = false;
        stream.writer = None;
        if !was_closed && matches!(stream.finish, Finish::Open) {
            self.end_stream(id, reason, StreamError::GivenUp(reason));
        } else {
            self.settle(id, was_closed);
        }
    }

    /// Ends a stream early, and tells the peer unless it knows.
    pub(super) fn end_stream(&mut self, id: u32, reason: Reason, error: StreamError) {
        let Some(stream) = self.stream(id) else { return };
        if stream.is_closed() {
            return;
        }
        stream.fail(error);
        put_reset(self.output.tail(), id, reason);
        self.remember_reset(id);
        self.settle(id, false);
        self.wake_driver();
    }

    /// Puts a stream into the queue of those that can send.
    pub(super) fn enqueue(&mut self, id: u32) {
        if let Some(stream) = self.stream(id)
            && !std::mem::replace(&mut stream.is_queued, true)
        {
            self.queue.push_back(id);
        }
    }

    /// Notes that a stream waits for the window of the connection.
    fn block(&mut self, id: u32) {
        if self.blocked.len() > 2 * self.open {
            // Some have ended since.
            let mut blocked = std::mem::take(&mut self.blocked);
            blocked.retain(|id| self.stream(*id).is_some_and(|stream| stream.error.is_none()));
            self.blocked = blocked;
        }
        self.blocked.push(id);
    }

    /// Makes frames of pending data, a frame of each stream in turn, as the windows and the output allow.
    pub(super) fn pump(&mut self) {
        while self.output.takes_more() {
            let Some(id) = self.queue.pop_front() else { return };
            let (now, window, pending_max) = (self.now, self.send_window, self.config.pending_max);
            let payload_len_max = self.peer.payload_len_max.min(PAYLOAD_LEN_MAX);
            let Some(stream) = self.stream(id) else { continue };
            stream.is_queued = false;
            if stream.error.is_some() {
                continue;
            }
            if stream.pending.is_empty() {
                self.finish(id);
                continue;
            }
            let both = usize::try_from(stream.send_window.min(window)).unwrap_or(0);
            let len = stream.pending_len.min(payload_len_max).min(both);
            if len == 0 {
                // A WINDOW_UPDATE of the stream, or of the connection, continues it.
                if stream.send_window > 0 {
                    stream.is_queued = true;
                    self.block(id);
                }
                continue;
            }
            stream.send_window -= len as i64;
            stream.pending_len -= len;
            stream.uptake.take(len, now);
            let is_last = stream.pending_len == 0 && matches!(stream.finish, Finish::Data);
            // Small pieces share a frame: most often there is one.
            let first = take(&mut stream.pending, len);
            let mut left = len - first.len();
            let mut others = Vec::new();
            while left > 0 && !stream.pending.is_empty() {
                let piece = take(&mut stream.pending, left);
                left -= piece.len();
                others.push(piece);
            }
            if stream.pending_len < pending_max {
                stream.wake_writer();
            }
            let has_more = stream.wants_to_send() && !is_last;
            put_data_head(self.output.tail(), id, len, is_last);
            self.output.push(first);
            others.into_iter().for_each(|piece| self.output.push(piece));
            self.send_window -= len as i64;
            self.uptake.take(len, now);
            self.guard.sent_data(len);
            if is_last {
                self.sent(id);
            } else if has_more {
                self.enqueue(id);
            }
        }
    }

    /// Ends a message whose data is sent.
    fn finish(&mut self, id: u32) {
        let Some(stream) = self.stream(id) else { return };
        match std::mem::replace(&mut stream.finish, Finish::Sent) {
            Finish::Data => put_data_head(self.output.tail(), id, 0, true),
            Finish::Trailers(trailers) => self.writer().trailers(id, &trailers),
            other => {
                stream.finish = other;
                return;
            }
        }
        self.sent(id);
    }

    /// Notes that the end of a message is sent.
    fn sent(&mut self, id: u32) {
        self.guard.sent_end();
        let Some(stream) = self.stream(id) else { return };
        // It was open: its end was not sent before.
        let was_closed = stream.error.is_some();
        stream.finish = Finish::Sent;
        stream.wake_writer();
        if !stream.has_reader && stream.received != Progress::All && self.role == super::connection::Role::Server {
            // The answer is complete without the rest of the request (RFC 9113 section 8.1).
            self.end_stream(id, Reason::NoError, StreamError::GivenUp(Reason::NoError));
            return;
        }
        self.settle(id, was_closed);
    }
}

/// Takes up to `len_max` bytes off the first piece.
fn take(pending: &mut VecDeque<Bytes>, len_max: usize) -> Bytes {
    match pending.front_mut() {
        Some(piece) if piece.len() > len_max => piece.split_to(len_max),
        _ => pending.pop_front().unwrap_or_default(),
    }
}
