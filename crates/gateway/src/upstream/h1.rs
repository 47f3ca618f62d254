//! HTTP/1.1 towards a server: one exchange at a time on a connection, driven by the task that awaits the answer,
//! without a task or a channel of its own.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use sealway_runtime::http::h1::{Alarm, ChunkStep, Decoder, Fault, Framing, HeadLimits, ResponseHead, parse_response};
use sealway_runtime::http::{Body, BodyRefusal, Interim, full};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::rustls::ClientConfig;

use super::answer::AnswerBody;
use super::io::Io;
use super::pool::Slot;
use super::sending::{SendFault, Sending};
use super::server::InFlight;
use super::tunnel::Tunnel;
use sealway_exchange::headers;

/// Bounds on the head of an answer.
const HEAD: HeadLimits = HeadLimits { bytes_max: 64 * 1024, fields_max: 256 };
/// Maximum number of interim answers before the final one.
const INTERIM_MAX: usize = 32;
/// Time that a body waits for a 100, in milliseconds (RFC 9110 section 10.1.1 forbids waiting indefinitely): for an
/// unknown server, for a server that has sent a 100, and for a server that lets bodies wait in vain.
pub(super) const CONTINUE_MS_FIRST: u64 = 300;
const CONTINUE_MS: u64 = 1000;
const CONTINUE_MS_NONE: u64 = 0;
/// Bytes of a first chunk that are checked with the head: its size, and the longest extension.
const FIRST_CHUNK_LEN: usize = 512;
/// Bytes read at once: fewer for short answers, more for long ones.
const READ_MIN: usize = 8 * 1024;
const READ_MAX: usize = 64 * 1024;

/// A connection that speaks HTTP/1.1.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) io: Io,
    /// Bytes that were read and not consumed yet.
    pub(super) read: BytesMut,
    read_len: usize,
    /// True if an exchange has already ended on it: the server may have closed it meanwhile.
    pub(super) is_reused: bool,
    /// Deadline of the head that is awaited. Its timer stays from one exchange to the next: most answers come long before it.
    alarm: Alarm,
    /// TLS settings under which it was made, if it uses TLS.
    pub(super) material: Option<Arc<ClientConfig>>,
}

impl Connection {
    pub(super) fn new(io: Io, material: Option<Arc<ClientConfig>>) -> Self {
        Connection {
            io,
            read: BytesMut::new(),
            read_len: READ_MIN,
            is_reused: false,
            alarm: Alarm::default(),
            material,
        }
    }

    /// True if the connection is open and silent, as required between two exchanges. Unsolicited data answers no
    /// request.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut cx = Context::from_waker(Waker::noop());
        self.read.is_empty() && Pin::new(&mut self.io).poll_read(&mut cx, &mut buffer).is_pending()
    }

    /// Reads more bytes; 0 is the end of the stream.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < self.read_len / 2 {
            self.read.reserve(self.read_len);
        }
        let len = ready!(pin!(self.io.read_buf(&mut self.read)).poll(cx))?;
        if len >= self.read_len {
            self.read_len = (self.read_len * 2).min(READ_MAX);
        }
        Poll::Ready(Ok(len))
    }

    /// Shrinks the buffer before the connection becomes idle.
    pub(super) fn rest(&mut self) {
        self.is_reused = true;
        if self.read_len > READ_MIN {
            self.read_len = READ_MIN;
            self.read = BytesMut::new();
        }
    }
}

/// Reason for a missing answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The connection ended before a byte of an answer.
    Ended(String),
    /// The connection ended within an answer's head.
    CutOff(String),
    /// The received bytes are no valid answer.
    Faulty(Fault),
    /// The answer did not come in time.
    TooSlow,
    /// The request's own body failed.
    RequestBody(BodyRefusal),
}

/// A request on a connection, and the answer to it.
pub(super) struct Exchange {
    pub(super) connection: Connection,
    slot: Slot,
    in_flight: InFlight,
    pub(super) sending: Sending,
    /// State of sending the request.
    sent: SendState,
    method: Method,
    /// True if a 101 may come.
    wants_upgrade: bool,
    has_heard: bool,
    interims: usize,
    /// True if the server wants the body, false if not; `None` until that is known.
    continues: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SendState {
    NotYet,
    Whole,
    Broken,
}

impl Exchange {
    pub(super) fn new(
        connection: Connection,
        slot: Slot,
        in_flight: InFlight,
        sending: Sending,
        method: Method,
        wants_upgrade: bool,
    ) -> Self {
        let sent = SendState::NotYet;
        Exchange {
            connection,
            slot,
            in_flight,
            sending,
            sent,
            method,
            wants_upgrade,
            has_heard: false,
            interims: 0,
            continues: None,
        }
    }

    /// Awaits the head of the final answer, at most `time` from the last bytes sent to the server. A held body is sent
    /// after `continue_ms`, which adapts to the server's behaviour.
    pub(super) async fn head(
        &mut self,
        time: Duration,
        continue_ms: &AtomicU64,
        interim: Option<&Interim>,
    ) -> Result<ResponseHead, ExchangeError> {
        let head = self.wait_for_head(time, Duration::from_millis(continue_ms.load(Ordering::Relaxed)), interim).await;
        if let Some(continues) = self.continues {
            continue_ms.store(if continues { CONTINUE_MS } else { CONTINUE_MS_NONE }, Ordering::Relaxed);
        }
        head
    }

    async fn wait_for_head(
        &mut self,
        time: Duration,
        held: Duration,
        interim: Option<&Interim>,
    ) -> Result<ResponseHead, ExchangeError> {
        let first = if self.sending.is_held() { time.min(held) } else { time };
        self.connection.alarm.set(self.sending.moved() + first);
        std::future::poll_fn(|cx| {
            loop {
                if let Poll::Ready(head) = self.poll_head(cx, interim) {
                    return Poll::Ready(head);
                }
                ready!(self.connection.alarm.poll(cx));
                let until = self.sending.moved() + time;
                if self.sending.is_held() {
                    self.continues = Some(false);
                    self.sending.release();
                } else if until <= Instant::now() {
                    return Poll::Ready(Err(ExchangeError::TooSlow));
                }
                self.connection.alarm.set(until);
            }
        })
        .await
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        interim: Option<&Interim>,
    ) -> Poll<Result<ResponseHead, ExchangeError>> {
        self.send(cx).map_err(ExchangeError::RequestBody)?;
        loop {
            if !self.connection.read.is_empty() {
                let parsed = parse_response(&mut self.connection.read, &self.method, HEAD);
                match parsed.map_err(ExchangeError::Faulty)? {
                    Some(head) if head.status.is_informational() && !self.is_switch(head.status) => {
                        self.pass_interim(head, interim)?;
                        self.send(cx).map_err(ExchangeError::RequestBody)?;
                        continue;
                    }
                    Some(head) => return Poll::Ready(Ok(head)),
                    None => {}
                }
            }
            let why = match ready!(self.connection.poll_fill(cx)) {
                Ok(0) => "the server closed the connection".to_owned(),
                Ok(_) => {
                    self.has_heard = true;
                    continue;
                }
                Err(err) => err.to_string(),
            };
            return Poll::Ready(Err(if self.has_heard {
                ExchangeError::CutOff(why)
            } else {
                ExchangeError::Ended(why)
            }));
        }
    }

    /// True if the server switches the protocol, as requested.
    fn is_switch(&self, status: StatusCode) -> bool {
        status == StatusCode::SWITCHING_PROTOCOLS && self.wants_upgrade && self.sent == SendState::Whole
    }

    fn pass_interim(&mut self, mut head: ResponseHead, interim: Option<&Interim>) -> Result<(), ExchangeError> {
        self.interims += 1;
        if self.interims > INTERIM_MAX {
            return Err(ExchangeError::Faulty(Fault::Malformed("interim answers without end")));
        }
        match head.status {
            StatusCode::SWITCHING_PROTOCOLS => {
                return Err(ExchangeError::Faulty(Fault::Malformed("a switch of protocols that was not asked for")));
            }
            // The client's own 100 is sent when its body is first read.
            StatusCode::CONTINUE => {
                self.continues = Some(true);
                self.sending.release();
            }
            status => {
                headers::remove_hop_by_hop(&mut head.headers);
                if let Some(interim) = interim {
                    interim.send(status, head.headers);
                }
            }
        }
        Ok(())
    }

    /// Continues to send. A connection that takes no more may still deliver an answer, such as a 413.
    pub(super) fn send(&mut self, cx: &mut Context<'_>) -> Result<(), BodyRefusal> {
        if self.sent == SendState::NotYet {
            match self.sending.poll(&mut self.connection.io, cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.sent = SendState::Whole,
                Poll::Ready(Err(SendFault::Connection)) => self.sent = SendState::Broken,
                Poll::Ready(Err(SendFault::Body(refusal))) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// Returns the request's body if it may be sent again.
    pub(super) fn into_body(self) -> Option<Option<Body>> {
        self.sending.into_body()
    }

    /// Ends the exchange: another one may follow on the connection if nothing of this one is left on it.
    pub(super) fn end(mut self, keep_alive: bool) {
        if keep_alive && self.sent == SendState::Whole && self.connection.read.is_empty() {
            self.connection.rest();
            self.slot.give_back(self.connection);
        }
    }

    /// Returns whether the connection uses TLS, which proves its end.
    pub(super) fn is_over_tls(&self) -> bool {
        matches!(self.connection.io, Io::Tls(_))
    }

    /// Rejects an answer whose first chunk came with the head and is malformed, while the client can still get an
    /// error.
    pub(super) fn check_first_chunk(&self, head: &ResponseHead) -> Result<(), ExchangeError> {
        if head.framing != Framing::Chunked {
            return Ok(());
        }
        let here = &self.connection.read[..self.connection.read.len().min(FIRST_CHUNK_LEN)];
        let first = Decoder::new(Framing::Chunked).decode(&mut BytesMut::from(here));
        first.map(drop).map_err(ExchangeError::Faulty)
    }

    /// Returns the body of the answer whose head came. `idle` is its maximum time without progress.
    pub(super) fn into_body_of(mut self, head: &ResponseHead, idle: Duration) -> Body {
        let mut decoder = Decoder::new(head.framing);
        if decoder.is_done() {
            self.end(head.keep_alive);
            return full(bytes::Bytes::new());
        }
        let here = self.connection.read.len() as u64;
        if self.sent == SendState::Whole && decoder.left().is_some_and(|left| left <= here) {
            // The whole body of a short answer came with its head.
            if let Ok(ChunkStep::Data(data)) = decoder.decode(&mut self.connection.read) {
                self.end(head.keep_alive);
                return full(data);
            }
        }
        AnswerBody::new(self, decoder, head.keep_alive, idle).boxed_unsync()
    }

    /// Returns the connection without HTTP, after a 101.
    pub(super) fn into_tunnel(self) -> Tunnel {
        Tunnel::of_connection(self.connection, self.slot, self.in_flight)
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Builds an answer with the server's headers.
pub(super) fn response_of(status: StatusCode, headers: HeaderMap, body: Body) -> http::Response<Body> {
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
