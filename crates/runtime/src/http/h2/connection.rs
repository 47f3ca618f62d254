//! A connection as a value: bytes of the peer in, messages out, and the reverse. It knows no socket and no clock; time is the
//! duration since the connection began.
//!
//! A driver passes received bytes to [`Connection::receive`], and writes [`Connection::poll_write`]'s output. Readers and
//! writers of messages wait by their wakers, which the connection calls.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderName;
use tokio::io::AsyncWrite;

use super::error::{ConnectionError, Reason};
use super::flood::FloodGuard;
use super::frame::{self, put_ping, put_window_update};
use super::hpack::{Decoder, Encoder};
use super::message::{Fault, FieldLimits, KeepField, RequestHead, keep_all};
use super::output::Output;
use super::settings::{PeerSettings, WINDOW_DEFAULT, put_settings};
use super::stream::{Progress, Stream, StreamError};
use super::unread::Uptake;

/// The preface of a client (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Size of the table of a peer's encoder, in bytes: the default, so that it needs no setting.
const TABLE_LEN_MAX: usize = 4096;
/// Smallest bound on the number of remembered streams that this side has reset: their last frames may still arrive.
const RESET_KEPT_MIN: usize = 256;
/// Largest identifier of a stream.
pub(super) const STREAM_MAX: u32 = 0x7fff_ffff;

/// Side of a connection that this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Accepts streams, and answers requests.
    Server,
    /// Opens streams, and sends requests.
    Client,
}

/// Bounds and settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Most requests of a client at once; a server's setting.
    pub streams_max: u32,
    /// Largest amount of unread data of one stream, in bytes.
    pub stream_window: u32,
    /// Largest amount of unread data of all streams, in bytes; at least 65,535.
    pub connection_window: u32,
    /// Bounds on each head, and on trailers.
    pub fields: FieldLimits,
    /// Largest amount of data of one stream that waits to be sent, in bytes; a longer piece is accepted if nothing else waits.
    pub pending_max: usize,
    /// True if a server accepts extended CONNECT (RFC 8441).
    pub connect_protocol: bool,
}

/// A request that has arrived.
#[derive(Debug)]
pub struct Arrival {
    /// Identifier of the request's stream.
    pub stream: u32,
    /// The head, or why there is none: the driver answers with 431 then.
    pub head: Result<RequestHead, Fault>,
    /// False if a body or trailers follow.
    pub is_whole: bool,
}

/// A field block whose CONTINUATION frames have not all arrived.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) is_last: bool,
    pub(super) depends_on_itself: bool,
    pub(super) bytes: BytesMut,
}

/// One connection of HTTP/2, from either side.
pub struct Connection {
    pub(super) role: Role,
    pub(super) config: Config,
    pub(super) peer: PeerSettings,
    pub(super) decoder: Decoder,
    pub(super) keeps_field: KeepField,
    pub(super) encoder: Encoder,
    pub(super) guard: FloodGuard,
    pub(super) output: Output,
    /// Open streams, in the order of their identifiers.
    streams: VecDeque<Box<Stream>>,
    /// Number of streams that are not closed.
    pub(super) open: usize,
    /// Streams that this side has reset, the oldest first.
    reset: VecDeque<u32>,
    /// Largest identifier of a stream that the client has opened.
    pub(super) last_id: u32,
    pub(super) arrivals: VecDeque<Arrival>,
    pub(super) block: Option<Block>,
    pub(super) expects_preface: bool,
    pub(super) expects_settings: bool,
    /// Number of bytes that the peer may still send.
    pub(super) window: u32,
    credit: u32,
    /// Number of unread bytes of tunnels that the connection's window does not count.
    pub(super) lent: usize,
    pub(super) send_window: i64,
    /// Progress of the data that waits for this window.
    pub(super) uptake: Uptake,
    /// Streams that have something to send and a window for it.
    pub(super) queue: VecDeque<u32>,
    /// Streams that wait for the window of the connection.
    pub(super) blocked: Vec<u32>,
    /// Identifier of the last stream that this side promises to process, once it has said so.
    pub(super) said_last: Option<u32>,
    /// The peer's GOAWAY: the last stream that it processes, and its reason.
    pub(super) go_away: Option<(u32, Reason)>,
    /// True while a PING is not answered.
    awaits_pong: bool,
    /// Set once something has ended all streams.
    pub(super) error: Option<StreamError>,
    pub(super) now: Duration,
    /// Number of frames that have arrived; a field block counts as one.
    pub(super) received_units: u64,
    /// Number of bytes written in all.
    pub written: u64,
    /// The task that drives the connection.
    driver: Option<std::task::Waker>,
    /// Tasks that wait for a place to open a stream.
    pub(super) openers: VecDeque<std::task::Waker>,
    /// True once nobody will open a stream any more.
    is_retired: bool,
}

impl Connection {
    /// Begins a connection: its first output is this side's part of the preface.
    pub fn new(role: Role, config: Config) -> Self {
        let mut output = Output::default();
        let streams_max = match role {
            Role::Server => Some(config.streams_max),
            Role::Client => {
                output.tail().extend_from_slice(PREFACE);
                None
            }
        };
        let head_bytes_max = u32::try_from(config.fields.bytes_max).unwrap_or(u32::MAX);
        let connect_protocol = role == Role::Server && config.connect_protocol;
        put_settings(output.tail(), streams_max, config.stream_window, head_bytes_max, connect_protocol);
        let window = config.connection_window.max(WINDOW_DEFAULT);
        if window > WINDOW_DEFAULT {
            put_window_update(output.tail(), 0, window - WINDOW_DEFAULT);
        }
        Connection {
            role,
            config,
            peer: PeerSettings::DEFAULT,
            decoder: Decoder::new(TABLE_LEN_MAX),
            keeps_field: keep_all,
            encoder: Encoder::new(),
            guard: FloodGuard::new(),
            output,
            streams: VecDeque::new(),
            open: 0,
            reset: VecDeque::new(),
            last_id: 0,
            arrivals: VecDeque::new(),
            block: None,
            expects_preface: role == Role::Server,
            expects_settings: true,
            window,
            credit: 0,
            lent: 0,
            send_window: i64::from(WINDOW_DEFAULT),
            uptake: Uptake::default(),
            queue: VecDeque::new(),
            blocked: Vec::new(),
            said_last: None,
            go_away: None,
            awaits_pong: false,
            error: None,
            now: Duration::ZERO,
            received_units: 0,
            written: 0,
            driver: None,
            openers: VecDeque::new(),
            is_retired: false,
        }
    }

    /// Keeps only those fields of the peer's heads and trailers whose names `keeps` accepts. All are checked. By default, all are
    /// kept.
    pub fn keep_fields(&mut self, keeps: fn(&HeaderName) -> bool) {
        self.keeps_field = keeps;
    }

    /// Returns the next request that has arrived and was not reset since.
    pub fn next_request(&mut self) -> Option<Arrival> {
        loop {
            let arrival = self.arrivals.pop_front()?;
            let id = arrival.stream;
            if self.stream(id).is_some_and(|stream| stream.error.is_none()) {
                return Some(arrival);
            }
            self.drop_reader(id);
            self.drop_writer(id, Reason::Cancel);
        }
    }

    /// Returns the number of streams on which a message is in progress.
    pub fn open_streams(&self) -> usize {
        self.open
    }

    /// Returns the number of bytes that are held: data that is not read, data that is not sent, output, and a field block that has
    /// not arrived whole.
    pub fn held(&self) -> usize {
        let of_stream = |stream: &Stream| stream.pending_len + stream.data.iter().map(Bytes::len).sum::<usize>();
        let of_streams: usize = self.streams.iter().map(|stream| of_stream(stream)).sum();
        of_streams + self.output.len() + self.block.as_ref().map_or(0, |block| block.bytes.len())
    }

    /// Returns whether something that must arrive in time has begun to: a preface, a field block, or a frame other than DATA.
    /// `input` are the bytes that [`Connection::receive`] has left.
    pub fn is_amid_head(&self, input: &[u8]) -> bool {
        let is_amid_frame =
            !input.is_empty() && frame::Head::parse(input).is_none_or(|head| head.kind != frame::Kind::Data);
        self.block.is_some() || self.expects_preface || self.expects_settings || is_amid_frame
    }

    /// Returns the number of frames that have arrived; a field block counts as one.
    pub fn received_units(&self) -> u64 {
        self.received_units
    }

    /// Returns the peer's GOAWAY, if it has sent one: the last stream that it processes, and its reason.
    pub fn peer_go_away(&self) -> Option<(u32, Reason)> {
        self.go_away
    }

    /// Sets the time since the connection began.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Asks the peer whether it is there.
    pub fn ping(&mut self) {
        self.awaits_pong = true;
        put_ping(self.output.tail(), *b"sealway\0", false);
    }

    /// Returns whether the peer has not answered a [`Connection::ping`].
    pub fn awaits_pong(&self) -> bool {
        self.awaits_pong
    }

    pub(super) fn ponged(&mut self) {
        self.awaits_pong = false;
    }

    /// Announces the end: with `is_final` no further stream is processed, else those that are on their way still are.
    pub fn say_go_away(&mut self, is_final: bool) {
        let last = if is_final { self.last_id } else { STREAM_MAX };
        if self.said_last.is_none_or(|said| said > last) {
            self.said_last = Some(last);
            frame::put_go_away(self.output.tail(), last, Reason::NoError);
        }
    }

    /// Returns whether the end was announced finally: further streams are not processed.
    pub fn has_said_last(&self) -> bool {
        self.said_last.is_some_and(|said| said <= self.last_id)
    }

    /// Ends the connection by an error: all streams fail, and the GOAWAY is in the output.
    pub fn fail(&mut self, error: ConnectionError) {
        if self.error.is_none() {
            let last = self.said_last.map_or(self.last_id, |said| said.min(self.last_id));
            frame::put_go_away(self.output.tail(), last, error.reason);
            self.end(StreamError::Connection(error));
        }
    }

    /// Ends all streams, as the connection is gone.
    pub fn close(&mut self) {
        self.end(StreamError::Closed);
    }

    fn end(&mut self, error: StreamError) {
        if self.error.is_none() {
            self.error = Some(error);
        }
        for stream in &mut self.streams {
            // A message that has arrived whole can still be read.
            if !stream.is_closed() {
                stream.fail(error);
            }
        }
        self.open = 0;
        self.arrivals.clear();
        self.openers.drain(..).for_each(std::task::Waker::wake);
        self.wake_driver();
    }

    /// Writes the output. Pending while the peer does not read.
    pub fn poll_write<IO>(&mut self, io: &mut IO, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        IO: AsyncWrite + Unpin,
    {
        loop {
            self.pump();
            if self.output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let written = self.output.poll_write(io, cx, &mut self.written);
            self.wake_openers();
            std::task::ready!(written)?;
        }
    }

    /// Wakes those that wait for a place, as far as there are places.
    pub(super) fn wake_openers(&mut self) {
        let places = self.places();
        for opener in self.openers.drain(..places.min(self.openers.len())) {
            opener.wake();
        }
    }

    /// Returns whether the peer should be read on: not while it leaves so much output unread that more would only be held.
    pub fn takes_input(&self) -> bool {
        self.output.takes_more()
    }

    /// Returns whether there is output to be written.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty() || !self.queue.is_empty()
    }

    /// Notes that nobody will open a stream any more.
    pub fn retire(&mut self) {
        self.is_retired = true;
        self.wake_driver();
    }

    /// Returns whether nobody will open a stream any more.
    pub fn is_retired(&self) -> bool {
        self.is_retired
    }

    /// Releases large buffers of output between two messages.
    pub fn rest(&mut self) {
        self.output.rest();
    }

    /// Releases all memory that an idle connection does not need. The next message allocates it anew: call it from time to time.
    pub fn shrink(&mut self) {
        self.rest();
        self.decoder.shrink();
        self.encoder.shrink();
        self.streams.shrink_to_fit();
        self.arrivals.shrink_to_fit();
        self.queue.shrink_to_fit();
    }

    /// Registers the task that drives the connection.
    pub fn set_driver(&mut self, cx: &Context<'_>) {
        match &mut self.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            None => self.driver = Some(cx.waker().clone()),
        }
    }

    /// Forgets the task that drives the connection: it is awake.
    pub fn take_driver(&mut self) {
        self.driver = None;
    }

    /// Wakes the driver: there is output, or the connection has ended.
    pub(super) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Returns whether a stream has never been opened (RFC 9113 section 5.1.1).
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id > self.last_id
    }

    pub(super) fn at(&self, id: u32) -> Option<usize> {
        // Most often it is the newest or the oldest.
        match (self.streams.front(), self.streams.back()) {
            (_, Some(back)) if back.id == id => Some(self.streams.len() - 1),
            (Some(front), _) if front.id == id => Some(0),
            _ => self.streams.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }

    pub(super) fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.at(id)?;
        self.streams.get_mut(at).map(|stream| &mut **stream)
    }

    /// Adds a stream, whose identifier is larger than those of all others.
    pub(super) fn insert(&mut self, stream: Stream) {
        self.open += 1;
        self.streams.push_back(Box::new(stream));
    }

    pub(super) fn each_stream(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.streams.iter_mut().map(|stream| &mut **stream)
    }

    /// Notes that this side has reset a stream, whose last frames may still arrive.
    pub(super) fn remember_reset(&mut self, id: u32) {
        // A peer whose streams are reset has at most this number on which it may still send.
        let kept_max = usize::try_from(self.config.streams_max).unwrap_or(usize::MAX).max(RESET_KEPT_MIN);
        if self.reset.len() >= kept_max {
            self.reset.pop_front();
        }
        self.reset.push_back(id);
    }

    /// Returns whether frames may still arrive on a stream that is not kept: this side has reset it, or does not process it. A
    /// client may give up any number of requests, and drops all that arrives for them.
    pub(super) fn was_reset(&self, id: u32) -> bool {
        self.role == Role::Client || self.said_last.is_some_and(|said| id > said) || self.reset.contains(&id)
    }

    /// Counts a stream out once it is closed, and forgets it once nobody holds it. `was_closed` is its state before a change.
    pub(super) fn settle(&mut self, id: u32, was_closed: bool) {
        let Some(at) = self.at(id) else { return };
        let Some(stream) = self.streams.get_mut(at) else { return };
        let is_closed = stream.is_closed();
        // Data without a reader is dropped when it arrives, and when the reader goes.
        let is_held = stream.has_reader || stream.has_writer;
        if is_closed && !was_closed {
            self.open = self.open.saturating_sub(1);
            if let Some(opener) = self.openers.pop_front() {
                opener.wake();
            }
            if self.open == 0 {
                self.wake_driver();
            }
        }
        if is_closed && !is_held {
            self.streams.remove(at);
        }
    }

    /// Gives bytes that were read, or dropped, back to the peer: for a stream, if it is still read, and for the connection.
    pub(super) fn give_back(&mut self, id: u32, len: usize, for_stream: bool) {
        let lent = self.repay(id, len);
        let mut has_output = self.give_to_connection(len - lent);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let half = self.config.stream_window / 2;
        if for_stream
            && let Some(stream) = self.stream(id)
            && stream.received != Progress::All
            && stream.error.is_none()
        {
            stream.credit = stream.credit.saturating_add(len);
            if stream.credit >= half {
                let credit = std::mem::take(&mut stream.credit);
                stream.window = stream.window.saturating_add(credit);
                put_window_update(self.output.tail(), id, credit);
                has_output = true;
            }
        }
        if has_output {
            self.wake_driver();
        }
    }

    /// Gives bytes back to the window of the connection. Returns whether there is output.
    pub(super) fn give_to_connection(&mut self, len: usize) -> bool {
        self.credit = self.credit.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        let has_output = self.credit >= self.config.connection_window / 2;
        if has_output {
            let credit = std::mem::take(&mut self.credit);
            self.window = self.window.saturating_add(credit);
            put_window_update(self.output.tail(), 0, credit);
        }
        has_output
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers and data of messages may be secret.
        f.debug_struct("Connection").field("role", &self.role).field("open", &self.open).finish_non_exhaustive()
    }
}

/// A piece of a message's body, or its trailers.
pub type Piece = http_body::Frame<Bytes>;
