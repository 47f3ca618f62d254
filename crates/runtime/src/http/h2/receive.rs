//! Frames from the peer, checked against the state of the connection and of their streams.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;

use super::connection::{Arrival, Block, Connection, PREFACE, Role};
use super::error::{ConnectionError, Reason};
use super::frame::{
    ACK, END_HEADERS, END_STREAM, HEAD_LEN, Head, Kind, PAYLOAD_LEN_MAX, PRIORITY, put_reset, without_padding,
};
use super::message::{Collector, Fault};
use super::stream::{Progress, Stream, StreamError};

/// Most interim responses to a request that are kept unread.
const INTERIM_MAX: usize = 32;

pub(super) fn violated<T>(what: &'static str) -> Result<T, ConnectionError> {
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
        let Some(preface_len) = self.preface(input)? else { return Ok(()) };
        input.advance(preface_len);
        // Data that is kept shares the memory of the frames.
        let frames = input.split_to(frames_len(input)).freeze();
        self.frames(&frames, &|payload| frames.slice_ref(payload))?;
        self.begun_frame(input)
    }

    /// Takes all complete frames from the front of `input` like [`Connection::receive`], and returns their length. Only data that
    /// is kept is copied, so many connections may share the buffer.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn receive_from(&mut self, input: &[u8], now: Duration) -> Result<usize, ConnectionError> {
        self.now = now;
        let Some(preface_len) = self.preface(input)? else { return Ok(0) };
        let input = input.get(preface_len..).unwrap_or_default();
        let (frames, rest) = input.split_at_checked(frames_len(input)).unwrap_or((input, &[]));
        self.frames(frames, &Bytes::copy_from_slice)?;
        self.begun_frame(rest)?;
        Ok(preface_len + frames.len())
    }

    /// Returns the length of the preface at the front of `input`, if there is to be one; `None` until all of it has arrived.
    fn preface(&mut self, input: &[u8]) -> Result<Option<usize>, ConnectionError> {
        if !self.expects_preface {
            return Ok(Some(0));
        }
        let len = input.len().min(PREFACE.len());
        if input.get(..len) != PREFACE.get(..len) {
            return violated("no preface of HTTP/2");
        }
        self.expects_preface = len < PREFACE.len();
        Ok((!self.expects_preface).then_some(len))
    }

    /// Takes complete frames. `keep` makes a payload last.
    fn frames(&mut self, mut input: &[u8], keep: &impl Fn(&[u8]) -> Bytes) -> Result<(), ConnectionError> {
        while let Some(head) = Head::parse(input) {
            let Some((frame, rest)) = input.split_at_checked(HEAD_LEN + head.len) else { return Ok(()) };
            self.check_frame(head)?;
            self.expects_settings = false;
            self.guard.received(head, self.now)?;
            self.frame(head, frame.get(HEAD_LEN..).unwrap_or_default(), keep)?;
            input = rest;
            self.received_units += u64::from(self.block.is_none());
        }
        Ok(())
    }

    /// Checks a frame that has not arrived whole.
    fn begun_frame(&self, input: &[u8]) -> Result<(), ConnectionError> {
        Head::parse(input).map_or(Ok(()), |head| self.check_frame(head))
    }

    fn check_frame(&self, head: Head) -> Result<(), ConnectionError> {
        if head.len > PAYLOAD_LEN_MAX {
            return Err(ConnectionError::new(Reason::FrameSizeError, "a frame is over its bound"));
        }
        if self.expects_settings && (head.kind != Kind::Settings || head.has(ACK)) {
            return violated("the first frame is no SETTINGS");
        }
        Ok(())
    }

    fn frame(&mut self, head: Head, payload: &[u8], keep: &impl Fn(&[u8]) -> Bytes) -> Result<(), ConnectionError> {
        if let Some(block) = &self.block
            && (head.kind != Kind::Continuation || head.stream != block.stream)
        {
            return violated("another frame within a field block");
        }
        match head.kind {
            Kind::Data => self.data(head, payload, keep),
            Kind::Headers => self.headers(head, payload),
            Kind::Continuation => self.continuation(head, payload),
            Kind::RstStream => self.reset_by_peer(head, payload),
            Kind::Settings => self.settings(head, payload),
            Kind::Ping => self.ping_received(head, payload),
            Kind::GoAway => self.go_away_received(head, payload),
            Kind::WindowUpdate => self.window_update(head, payload),
            Kind::Priority => self.priority(head, payload),
            Kind::PushPromise => violated("PUSH_PROMISE, which is not enabled"),
            Kind::Unknown => Ok(()),
        }
    }

    fn data(&mut self, head: Head, payload: &[u8], keep: &impl Fn(&[u8]) -> Bytes) -> Result<(), ConnectionError> {
        let len = payload.len();
        if head.stream == 0 {
            return violated("DATA on the connection");
        }
        let size = u32::try_from(len).unwrap_or(u32::MAX);
        let Some(window) = self.window.checked_sub(size) else {
            return Err(ConnectionError::new(Reason::FlowControlError, "more data than the connection's window"));
        };
        self.window = window;
        let now = self.now;
        let payload = without_padding(head, payload)?;
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
            Progress::All => Some((Reason::StreamClosed, "DATA behind the end of the stream")),
            Progress::Nothing => Some((Reason::ProtocolError, "DATA before the head")),
            Progress::Head if size > stream.window => {
                Some((Reason::FlowControlError, "more data than the stream's window"))
            }
            Progress::Head => match stream.left {
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
            stream.received = Progress::All;
        }
        let (padding, is_read, is_tunnel) = (len - payload.len(), stream.has_reader, stream.is_tunnel);
        let is_kept = is_read && !stream.skips_data;
        let dropped = if is_kept { padding } else { len };
        if is_kept && !payload.is_empty() {
            if stream.data.is_empty() {
                stream.read_at = now;
            }
            stream.push_data(keep(payload));
        }
        if is_kept || head.ends_stream() {
            stream.wake_reader();
        }
        if dropped > 0 {
            self.give_back(id, dropped, is_read);
        }
        if is_kept && is_tunnel {
            self.lend(id, payload.len());
        }
        if head.ends_stream() {
            self.settle(id, was_closed);
        }
        Ok(())
    }

    fn headers(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream == 0 || head.stream.is_multiple_of(2) {
            return violated("HEADERS on a stream that no client can open");
        }
        let mut payload = without_padding(head, payload)?;
        let mut depends_on_itself = false;
        if head.has(PRIORITY) {
            let Some(([a, b, c, d, _], block)) = payload.split_first_chunk::<5>() else {
                return Err(ConnectionError::new(Reason::FrameSizeError, "HEADERS are shorter than their priority"));
            };
            depends_on_itself = u32::from_be_bytes([*a, *b, *c, *d]) & 0x7fff_ffff == head.stream;
            payload = block;
        }
        let is_last = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.field_block(head.stream, is_last, depends_on_itself, payload);
        }
        self.block = Some(Block { stream: head.stream, is_last, depends_on_itself, bytes: BytesMut::from(payload) });
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
        let mut fields = Collector::new(self.config.fields, self.keeps_field);
        // Decoded in any case: the table of the decoder must follow that of the peer.
        if self.decoder.visit(block, &mut |field, size| fields.push(field, size)).is_err() {
            return Err(ConnectionError::new(Reason::CompressionError, "a field block cannot be decoded"));
        }
        let Some(stream) = self.stream(id) else { return self.unknown_stream(id, is_last, on_itself, fields) };
        match (stream.error, stream.received) {
            (Some(StreamError::Reset(_)), _) => return closed("HEADERS on a closed stream"),
            (Some(_), _) => return Ok(()),
            (None, Progress::All) => {
                return self.fault(id, Reason::StreamClosed, "HEADERS behind the end of the stream");
            }
            (None, Progress::Nothing) => return self.response(id, is_last, fields),
            (None, Progress::Head) => {}
        }
        let what = match (is_last, stream.left, fields.into_trailers()) {
            // RFC 9113 section 8.5.
            _ if stream.is_tunnel => "HEADERS within a tunnel",
            (false, ..) => "HEADERS within a body",
            (true, Some(1..), _) => "the body is shorter than announced",
            (true, _, Err(Fault::TooLarge)) => "trailers are over their bound",
            (true, _, Err(Fault::Malformed(what))) => what,
            (true, _, Ok(trailers)) => {
                let was_closed = stream.is_closed();
                stream.trailers = stream.has_reader.then_some(trailers);
                stream.received = Progress::All;
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
        let length = fields.length();
        let head = match fields.into_request() {
            // No setting allows it (RFC 8441 section 3).
            Ok(head) if head.protocol.is_some() && !self.config.connect_protocol => {
                return self.reject_stream(id, Reason::ProtocolError);
            }
            Ok(head) => Ok(head),
            Err(Fault::TooLarge) => Err(Fault::TooLarge),
            Err(Fault::Malformed(_)) => return self.reject_stream(id, Reason::ProtocolError),
        };
        let mut stream = Stream::new(id, self.config.stream_window, self.peer.initial_window);
        stream.received = if is_last { Progress::All } else { Progress::Head };
        stream.has_reader = !is_last;
        stream.is_tunnel = head.as_ref().is_ok_and(|head| head.protocol.is_some());
        if head.is_ok() {
            stream.left = match length {
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
    pub(super) fn fault(&mut self, id: u32, reason: Reason, what: &'static str) -> Result<(), ConnectionError> {
        self.guard.faulted(self.now)?;
        self.end_stream(id, reason, StreamError::Malformed(what));
        Ok(())
    }

    /// Handles the head of a response.
    fn response(&mut self, id: u32, is_last: bool, fields: Collector) -> Result<(), ConnectionError> {
        let length = fields.length();
        let head = match fields.into_response() {
            Ok(head) => head,
            Err(Fault::TooLarge) => return self.fault(id, Reason::ProtocolError, "the head is over its bound"),
            Err(Fault::Malformed(what)) => return self.fault(id, Reason::ProtocolError, what),
        };
        let Some(stream) = self.stream(id) else { return Ok(()) };
        let is_interim = head.status.is_informational();
        // An announced length of a tunnel is ignored (RFC 9110 section 9.3.6).
        let is_tunnel = stream.is_tunnel && head.status.is_success();
        let length = if is_tunnel { Ok(None) } else { length };
        let has_no_body =
            (stream.is_head || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)) && !is_tunnel;
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
            stream.is_tunnel = is_tunnel;
            stream.left = if has_no_body { Some(0) } else { length.unwrap_or(None) };
            stream.received = if is_last { Progress::All } else { Progress::Head };
        }
        stream.heads.push_back(head);
        stream.wake_reader();
        self.settle(id, was_closed);
        Ok(())
    }
}

/// Returns the length of the complete frames at the front of `input`. None follows a frame that is over its bound.
fn frames_len(input: &[u8]) -> usize {
    let mut rest = input;
    while let Some(head) = Head::parse(rest).filter(|head| head.len <= PAYLOAD_LEN_MAX)
        && let Some(behind) = rest.get(HEAD_LEN + head.len..)
    {
        rest = behind;
    }
    input.len() - rest.len()
}
