//! What the peer sends: frames, checked against the state of the connection and of their streams.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;

use super::connection::{Arrival, Block, Connection, PREFACE, Piece, Role};
use super::error::{ConnectionError, Reason};
use super::frame::{
    ACK, END_HEADERS, END_STREAM, HEAD_LEN, Head, Kind, PAYLOAD_LEN_MAX, PRIORITY, four_bytes, put_head, put_ping,
    put_reset, without_padding,
};
use super::message::{Collector, Fault, ResponseHead, content_length};
use super::settings::WINDOW_MAX;
use super::stream::{Finish, Received, Stream, StreamError};

/// Most interim responses to a request that are kept unread.
const INTERIM_MAX: usize = 32;

fn violated<T>(what: &'static str) -> Result<T, ConnectionError> {
    Err(ConnectionError::new(Reason::ProtocolError, what))
}

fn closed<T>(what: &'static str) -> Result<T, ConnectionError> {
    Err(ConnectionError::new(Reason::StreamClosed, what))
}

impl Connection {
    /// Takes all complete frames from the front of `input`. `now` is the time since the connection began.
    ///
    /// # Errors
    /// [`ConnectionError`]; pass it to [`Connection::fail`], and close once the output is written.
    pub fn receive(&mut self, input: &mut BytesMut, now: Duration) -> Result<(), ConnectionError> {
        self.now = now;
        if self.expects_preface {
            let len = input.len().min(PREFACE.len());
            if input.get(..len) != PREFACE.get(..len) {
                return violated("no preface of HTTP/2");
            }
            if len < PREFACE.len() {
                return Ok(());
            }
            input.advance(len);
            self.expects_preface = false;
        }
        while let Some(head) = Head::parse(input) {
            if head.len > PAYLOAD_LEN_MAX {
                return Err(ConnectionError::new(Reason::FrameSizeError, "a frame is over its bound"));
            }
            if self.expects_settings && (head.kind != Kind::Settings || head.has(ACK)) {
                return violated("the first frame is no SETTINGS");
            }
            if input.len() < HEAD_LEN + head.len {
                return Ok(());
            }
            self.expects_settings = false;
            self.guard.received(head, now)?;
            input.advance(HEAD_LEN);
            let payload = input.split_to(head.len).freeze();
            self.frame(head, payload)?;
            self.received_units += u64::from(self.block.is_none());
        }
        Ok(())
    }

    fn frame(&mut self, head: Head, payload: Bytes) -> Result<(), ConnectionError> {
        if let Some(block) = &self.block
            && (head.kind != Kind::Continuation || head.stream != block.stream)
        {
            return violated("another frame within a field block");
        }
        match head.kind {
            Kind::Data => self.data(head, payload),
            Kind::Headers => self.headers(head, payload),
            Kind::Continuation => self.continuation(head, &payload),
            Kind::RstStream => self.reset_by_peer(head, &payload),
            Kind::Settings => self.settings(head, &payload),
            Kind::Ping => self.ping_received(head, &payload),
            Kind::GoAway => self.go_away_received(head, payload),
            Kind::WindowUpdate => self.window_update(head, &payload),
            Kind::Priority => self.priority(head, &payload),
            Kind::PushPromise => violated("PUSH_PROMISE, which is not enabled"),
            Kind::Unknown => Ok(()),
        }
    }

    fn data(&mut self, head: Head, mut payload: Bytes) -> Result<(), ConnectionError> {
        let len = payload.len();
        if head.stream == 0 {
            return violated("DATA on the connection");
        }
        let size = u32::try_from(len).unwrap_or(u32::MAX);
        let Some(window) = self.window.checked_sub(size) else {
            return Err(ConnectionError::new(Reason::FlowControlError, "more data than the connection's window"));
        };
        self.window = window;
        without_padding(head, &mut payload)?;
        if payload.is_empty() && len > 0 && !head.ends_stream() {
            self.guard.received_padding(self.now)?;
        }
        let id = head.stream;
        let Some(stream) = self.stream(id) else {
            if self.is_idle(id) {
                return violated("DATA on an idle stream");
            }
            self.give_back(id, len, false);
            return if self.was_reset(id) { Ok(()) } else { closed("DATA on a closed stream") };
        };
        if let Some(error) = stream.error {
            self.give_back(id, len, false);
            return if matches!(error, StreamError::Reset(_)) { closed("DATA on a closed stream") } else { Ok(()) };
        }
        let fault = match stream.received {
            Received::All => Some((Reason::StreamClosed, "DATA behind the end of the stream")),
            Received::Nothing => Some((Reason::ProtocolError, "DATA before the head")),
            Received::Head if size > stream.window => {
                Some((Reason::FlowControlError, "more data than the stream's window"))
            }
            Received::Head => match stream.left {
                Some(left) if payload.len() as u64 > left => {
                    Some((Reason::ProtocolError, "the body is longer than announced"))
                }
                Some(left) if head.ends_stream() && payload.len() as u64 != left => {
                    Some((Reason::ProtocolError, "the body is shorter than announced"))
                }
                _ => None,
            },
        };
        if let Some((reason, what)) = fault {
            self.give_back(id, len, false);
            return self.fault(id, reason, what);
        }
        stream.window -= size;
        if let Some(left) = &mut stream.left {
            *left -= payload.len() as u64;
        }
        let was_closed = stream.is_closed();
        if head.ends_stream() {
            stream.received = Received::All;
        }
        let (padding, is_read) = (len - payload.len(), stream.has_reader);
        let dropped = if is_read { padding } else { len };
        if is_read && !payload.is_empty() {
            stream.push_data(payload);
        }
        stream.wake_reader();
        if dropped > 0 {
            self.give_back(id, dropped, is_read);
        }
        if head.ends_stream() {
            self.settle(id, was_closed);
        }
        Ok(())
    }

    fn headers(&mut self, head: Head, mut payload: Bytes) -> Result<(), ConnectionError> {
        if head.stream == 0 || head.stream.is_multiple_of(2) {
            return violated("HEADERS on a stream that no client can open");
        }
        without_padding(head, &mut payload)?;
        let mut depends_on_itself = false;
        if head.has(PRIORITY) {
            let Some(dependency) = payload.first_chunk::<4>().filter(|_| payload.len() >= 5) else {
                return Err(ConnectionError::new(Reason::FrameSizeError, "HEADERS are shorter than their priority"));
            };
            depends_on_itself = u32::from_be_bytes(*dependency) & 0x7fff_ffff == head.stream;
            payload.advance(5);
        }
        let is_last = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.field_block(head.stream, is_last, depends_on_itself, &payload);
        }
        self.block =
            Some(Block { stream: head.stream, is_last, depends_on_itself, bytes: BytesMut::from(&payload[..]) });
        self.bound_block()
    }

    fn continuation(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let Some(mut block) = self.block.take() else { return violated("CONTINUATION without HEADERS") };
        block.bytes.extend_from_slice(payload);
        if head.has(END_HEADERS) {
            return self.field_block(block.stream, block.is_last, block.depends_on_itself, &block.bytes);
        }
        self.block = Some(block);
        self.bound_block()
    }

    /// Bounds a block that has not arrived whole. Encoded it may be smaller than its fields, and hardly ever larger.
    fn bound_block(&self) -> Result<(), ConnectionError> {
        let bytes_max = self.config.fields.bytes_max.saturating_mul(2);
        match &self.block {
            Some(block) if block.bytes.len() > bytes_max => {
                Err(ConnectionError::new(Reason::EnhanceYourCalm, "a field block is over its bound"))
            }
            _ => Ok(()),
        }
    }

    fn field_block(&mut self, id: u32, is_last: bool, on_itself: bool, block: &[u8]) -> Result<(), ConnectionError> {
        let mut fields = Collector::new(self.config.fields);
        // Decoded in any case: the table of the decoder must follow that of the peer.
        if self.decoder.decode(block, &mut |field, size| fields.push(field, size)).is_err() {
            return Err(ConnectionError::new(Reason::CompressionError, "a field block cannot be decoded"));
        }
        let Some(stream) = self.stream(id) else { return self.unknown_stream(id, is_last, on_itself, fields) };
        match (stream.error, stream.received) {
            (Some(StreamError::Reset(_)), _) => return closed("HEADERS on a closed stream"),
            (Some(_), _) => return Ok(()),
            (None, Received::All) => {
                return self.fault(id, Reason::StreamClosed, "HEADERS behind the end of the stream");
            }
            (None, Received::Nothing) => return self.response(id, is_last, fields),
            (None, Received::Head) => {}
        }
        let what = match (is_last, stream.left, fields.into_trailers()) {
            (false, ..) => "HEADERS within a body",
            (true, Some(1..), _) => "the body is shorter than announced",
            (true, _, Err(Fault::TooLarge)) => "trailers are over their bound",
            (true, _, Err(Fault::Malformed(what))) => what,
            (true, _, Ok(trailers)) => {
                let was_closed = stream.is_closed();
                stream.trailers = stream.has_reader.then_some(trailers);
                stream.received = Received::All;
                stream.wake_reader();
                self.settle(id, was_closed);
                return Ok(());
            }
        };
        self.fault(id, Reason::ProtocolError, what)
    }

    /// Handles a field block on a stream that is not open: at a server most often a new request.
    fn unknown_stream(
        &mut self,
        id: u32,
        is_last: bool,
        on_itself: bool,
        fields: Collector,
    ) -> Result<(), ConnectionError> {
        if self.role == Role::Client {
            // The last frames of a stream that was given up.
            return if self.is_idle(id) { violated("HEADERS on an idle stream") } else { Ok(()) };
        }
        if id <= self.last_id {
            return if self.was_reset(id) { Ok(()) } else { closed("HEADERS on a closed stream") };
        }
        if self.said_last.is_some_and(|said| id > said) {
            // Announced: the client sends it again over another connection.
            self.last_id = id;
            return Ok(());
        }
        self.last_id = id;
        if on_itself {
            return self.reject_stream(id, Reason::ProtocolError);
        }
        if self.open >= usize::try_from(self.config.streams_max).unwrap_or(usize::MAX) {
            return self.reject_stream(id, Reason::RefusedStream);
        }
        let head = match fields.into_request() {
            // No setting allows it (RFC 8441 section 3).
            Ok(head) if head.protocol.is_some() => return self.reject_stream(id, Reason::ProtocolError),
            Ok(head) => Ok(head),
            Err(Fault::TooLarge) => Err(Fault::TooLarge),
            Err(Fault::Malformed(_)) => return self.reject_stream(id, Reason::ProtocolError),
        };
        let mut stream = Stream::new(id, self.config.stream_window, self.peer.initial_window);
        stream.received = if is_last { Received::All } else { Received::Head };
        stream.has_reader = !is_last;
        if let Ok(head) = &head {
            stream.left = match content_length(&head.headers) {
                Ok(Some(1..)) if is_last => return self.reject_stream(id, Reason::ProtocolError),
                Ok(left) => left,
                Err(_) => return self.reject_stream(id, Reason::ProtocolError),
            };
        }
        self.insert(stream);
        self.arrivals.push_back(Arrival { stream: id, head, is_whole: is_last });
        Ok(())
    }

    /// Resets a stream that was never opened.
    fn reject_stream(&mut self, id: u32, reason: Reason) -> Result<(), ConnectionError> {
        self.guard.faulted(self.now)?;
        put_reset(self.output.tail(), id, reason);
        self.remember_reset(id);
        Ok(())
    }

    /// Resets a stream for a fault of the peer.
    fn fault(&mut self, id: u32, reason: Reason, what: &'static str) -> Result<(), ConnectionError> {
        self.guard.faulted(self.now)?;
        self.end_stream(id, reason, StreamError::Malformed(what));
        Ok(())
    }

    /// Handles the head of a response.
    fn response(&mut self, id: u32, is_last: bool, fields: Collector) -> Result<(), ConnectionError> {
        let head = match fields.into_response() {
            Ok(head) => head,
            Err(Fault::TooLarge) => return self.fault(id, Reason::ProtocolError, "the head is over its bound"),
            Err(Fault::Malformed(what)) => return self.fault(id, Reason::ProtocolError, what),
        };
        let length = content_length(&head.headers);
        let Some(stream) = self.stream(id) else { return Ok(()) };
        let is_interim = head.status.is_informational();
        let has_no_body = stream.is_head || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let what = match length {
            Err(_) => Some("Content-Length is no length"),
            Ok(_) if is_interim && is_last => Some("an interim response ends the stream"),
            Ok(_) if is_interim && stream.heads.len() >= INTERIM_MAX => Some("too many interim responses"),
            Ok(Some(1..)) if is_last && !has_no_body => Some("the body is shorter than announced"),
            Ok(_) => None,
        };
        if let Some(what) = what {
            return self.fault(id, Reason::ProtocolError, what);
        }
        let was_closed = stream.is_closed();
        if !is_interim {
            stream.left = if has_no_body { Some(0) } else { length.unwrap_or(None) };
            stream.received = if is_last { Received::All } else { Received::Head };
        }
        stream.heads.push_back(head);
        stream.wake_reader();
        self.settle(id, was_closed);
        Ok(())
    }

    fn reset_by_peer(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let reason = Reason::from(four_bytes(payload)?);
        let id = head.stream;
        if id == 0 || self.is_idle(id) {
            return violated("RST_STREAM on an idle stream");
        }
        let Some(stream) = self.stream(id) else { return Ok(()) };
        let was_closed = stream.is_closed();
        // A response that is whole stays so, whatever happens to the rest of its request (RFC 9113 section 8.1).
        if stream.received == Received::All && self.role == Role::Client {
            let Some(stream) = self.stream(id) else { return Ok(()) };
            stream.pending.clear();
            stream.pending_len = 0;
            stream.finish = Finish::Sent;
            stream.wake_writer();
        } else if let Some(stream) = self.stream(id) {
            stream.fail(if reason == Reason::RefusedStream {
                StreamError::Unprocessed
            } else {
                StreamError::Reset(reason)
            });
        }
        self.settle(id, was_closed);
        Ok(())
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return violated("SETTINGS on a stream");
        }
        if head.has(ACK) {
            return match payload {
                [] => Ok(()),
                _ => Err(ConnectionError::new(Reason::FrameSizeError, "an acknowledgement of SETTINGS has a payload")),
            };
        }
        let before = self.peer;
        self.peer.apply(payload, self.role == Role::Client)?;
        if self.peer.header_table_size != before.header_table_size {
            self.encoder.set_peer_table_max(self.peer.header_table_size);
        }
        let grown = i64::from(self.peer.initial_window) - i64::from(before.initial_window);
        if grown != 0 {
            let mut sendable = Vec::new();
            for stream in self.each_stream() {
                stream.send_window += grown;
                if stream.send_window > i64::from(WINDOW_MAX) {
                    let what = "SETTINGS_INITIAL_WINDOW_SIZE overflows a window";
                    return Err(ConnectionError::new(Reason::FlowControlError, what));
                }
                if stream.send_window > 0 && stream.wants_to_send() {
                    sendable.push(stream.id);
                }
            }
            sendable.into_iter().for_each(|id| self.enqueue(id));
        }
        if self.peer.streams_max > before.streams_max {
            self.openers.drain(..).for_each(std::task::Waker::wake);
        }
        put_head(self.output.tail(), 0, 4, ACK, 0);
        Ok(())
    }

    fn ping_received(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return violated("PING on a stream");
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return Err(ConnectionError::new(Reason::FrameSizeError, "PING has not 8 bytes"));
        };
        if head.has(ACK) {
            self.ponged()
        } else {
            put_ping(self.output.tail(), payload, true)
        }
        Ok(())
    }

    fn go_away_received(&mut self, head: Head, mut payload: Bytes) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return violated("GOAWAY on a stream");
        }
        if payload.len() < 8 {
            return Err(ConnectionError::new(Reason::FrameSizeError, "GOAWAY has fewer than 8 bytes"));
        }
        let (last, reason) = (payload.get_u32() & 0x7fff_ffff, Reason::from(payload.get_u32()));
        if self.go_away.is_some_and(|(said, _)| last > said) {
            return violated("GOAWAY names a later stream than before");
        }
        self.go_away = Some((last, reason));
        if self.role == Role::Client {
            let unprocessed: Vec<u32> = self.each_stream().map(|stream| stream.id).filter(|id| *id > last).collect();
            for id in unprocessed {
                let Some(stream) = self.stream(id) else { continue };
                let was_closed = stream.is_closed();
                if !was_closed {
                    stream.fail(StreamError::Unprocessed);
                }
                self.settle(id, was_closed);
            }
            self.openers.drain(..).for_each(std::task::Waker::wake);
        }
        self.wake_driver();
        Ok(())
    }

    fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let increment = i64::from(four_bytes(payload)? & 0x7fff_ffff);
        let id = head.stream;
        if id == 0 {
            if increment == 0 {
                return violated("WINDOW_UPDATE by nothing");
            }
            self.send_window += increment;
            if self.send_window > i64::from(WINDOW_MAX) {
                return Err(ConnectionError::new(Reason::FlowControlError, "the connection's window overflows"));
            }
            self.queue.extend(self.blocked.drain(..));
            return Ok(());
        }
        if self.is_idle(id) {
            return violated("WINDOW_UPDATE on an idle stream");
        }
        let Some(stream) = self.stream(id).filter(|stream| stream.error.is_none()) else { return Ok(()) };
        if increment == 0 {
            return self.fault(id, Reason::ProtocolError, "WINDOW_UPDATE by nothing");
        }
        stream.send_window += increment;
        if stream.send_window > i64::from(WINDOW_MAX) {
            return self.fault(id, Reason::FlowControlError, "the stream's window overflows");
        }
        if stream.wants_to_send() {
            self.enqueue(id);
        }
        Ok(())
    }

    fn priority(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream == 0 {
            return violated("PRIORITY on the connection");
        }
        let Ok([a, b, c, d, _]) = <[u8; 5]>::try_from(payload) else {
            return Err(ConnectionError::new(Reason::FrameSizeError, "PRIORITY has not 5 bytes"));
        };
        // Priorities are ignored (RFC 9113 section 5.3.2), but for this one violation.
        if u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff == head.stream {
            return violated("a stream depends on itself");
        }
        Ok(())
    }

    /// Polls the next part of the message that the peer sends on a stream: its body, then its trailers. `None` is its end, which
    /// the peer has sent.
    ///
    /// # Errors
    /// The message ended early.
    pub fn poll_piece(&mut self, id: u32, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, StreamError>>> {
        let gone = self.error.unwrap_or(StreamError::Closed);
        let Some(stream) = self.stream(id) else { return Poll::Ready(Some(Err(gone))) };
        if let Some(data) = stream.data.pop_front() {
            self.give_back(id, data.len(), true);
            return Poll::Ready(Some(Ok(Piece::data(data))));
        }
        if let Some(trailers) = stream.trailers.take() {
            return Poll::Ready(Some(Ok(Piece::trailers(trailers))));
        }
        if stream.received == Received::All {
            return Poll::Ready(None);
        }
        if let Some(error) = stream.error {
            return Poll::Ready(Some(Err(error)));
        }
        register(&mut stream.reader, cx);
        Poll::Pending
    }

    /// Polls the next response on a stream: interim ones, then the final one.
    ///
    /// # Errors
    /// There is no response.
    pub fn poll_response(&mut self, id: u32, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, StreamError>> {
        let gone = self.error.unwrap_or(StreamError::Closed);
        let Some(stream) = self.stream(id) else { return Poll::Ready(Err(gone)) };
        if let Some(head) = stream.heads.pop_front() {
            return Poll::Ready(Ok(head));
        }
        if let Some(error) = stream.error {
            return Poll::Ready(Err(error));
        }
        register(&mut stream.reader, cx);
        Poll::Pending
    }

    /// Returns whether the whole message of the peer was received and read.
    pub fn is_read(&mut self, id: u32) -> bool {
        self.stream(id).is_none_or(|stream| {
            stream.received == Received::All && stream.data.is_empty() && stream.trailers.is_none()
        })
    }

    /// Notes that nobody reads the rest of the peer's message.
    pub fn drop_reader(&mut self, id: u32) {
        let role = self.role;
        let Some(stream) = self.stream(id) else { return };
        let was_closed = stream.is_closed();
        stream.has_reader = false;
        stream.reader = None;
        stream.trailers = None;
        let unread: usize = stream.data.drain(..).map(|data| data.len()).sum();
        let is_incomplete = stream.received != Received::All && !was_closed;
        // A response that is not wanted is stopped. A request's rest is stopped once it is answered.
        let is_answered = matches!(stream.finish, Finish::Sent);
        if unread > 0 {
            self.give_back(id, unread, false);
        }
        if is_incomplete && (role == Role::Client || is_answered) {
            let reason = if is_answered && role == Role::Server { Reason::NoError } else { Reason::Cancel };
            self.end_stream(id, reason, StreamError::GivenUp(reason));
        } else {
            self.settle(id, was_closed);
        }
    }
}

/// Registers a task, which replaces one that waited before.
pub(super) fn register(slot: &mut Option<std::task::Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}
