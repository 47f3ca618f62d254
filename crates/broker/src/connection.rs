//! Drives the HTTP/2 connection of one caller: one task reads, begins calls, and writes their answers together.
//!
//! A short call whose request has arrived is answered by this task. Any other call has a task of its own, which shares the
//! connection: a signature of one call must not delay the calls behind it.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use hyper::body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use sealway_runtime::http::h2::{
    Arrival, Config, Connection, ConnectionError, FieldLimits, Reason, RequestHead, Role, StreamError, poll_read,
};
use sealway_runtime::shutdown::Shutdown;
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep};
use tonic::Status;

use crate::callers::Peer;
use crate::server::Limits;
use crate::wire::{Answer, Method, Wires};

/// Flow-control windows: unread bytes of one request, and of all requests of a connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Longest list of headers, in bytes, and the most headers: with 32 bytes counted for each, more do not fit.
const HEADERS_MAX: usize = 16 * 1024;
const FIELDS_MAX: usize = HEADERS_MAX / 32;
/// Most bytes of an answer that wait for the caller's window, in bytes; the body of an answer waits beyond it.
const PENDING_MAX: usize = 64 * 1024;
/// Longest request that the connection's task answers itself, in bytes: the slowest digest of it takes some 30 µs.
const SHORT_LEN_MAX: usize = 8 * 1024;
/// Silence of a connection before the server sends a ping, and the time for the reply.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const PING_MAX: Duration = Duration::from_secs(20);
/// Time for a connection without a request to close after GOAWAY.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Time for the last bytes of a connection to be written.
const LAST_WRITE_MAX: Duration = Duration::from_secs(1);

type SharedConnection = Arc<Mutex<Connection>>;

/// Reason why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndedEarly {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] ConnectionError),
    #[error("no answer to a ping")]
    Silent,
}

/// Serves a connection until it ends. `input` was read from it already.
///
/// # Errors
/// [`EndedEarly`].
pub(crate) async fn serve(
    mut stream: UnixStream,
    input: BytesMut,
    peer: Peer,
    wires: Arc<Wires>,
    limits: Limits,
    shutdown: Shutdown,
) -> Result<(), EndedEarly> {
    let connection = Arc::new(Mutex::new(Connection::new(Role::Server, config(&limits))));
    // The calls in progress end with the connection.
    let guard = Guard(connection.clone());
    let mut driver = Driver {
        connection,
        wires,
        peer,
        has_prefix: !input.is_empty(),
        input,
        has_ended: false,
        has_asked: false,
        began: Instant::now(),
        last_input: Instant::now(),
        pinged_at: None,
        stopped_at: None,
    };
    let mut timer = pin!(tokio::time::sleep(limits.request_max.min(SILENCE_MAX)));
    let (mut begun, mut aborted) = (pin!(shutdown.begun()), pin!(shutdown.aborted()));
    let served = poll_fn(|cx| {
        loop {
            // Output that this task makes itself does not wake it.
            driver.connection.lock().take_driver();
            if driver.stopped_at.is_none() {
                if begun.as_mut().poll(cx).is_ready() {
                    driver.stop("the server stops");
                    if !driver.has_asked {
                        timer.as_mut().reset(Instant::now() + CLOSE_MAX);
                    }
                }
            } else if aborted.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let has_read = driver.poll_receive(&mut stream, cx)?;
            driver.begin_calls(cx);
            let written = driver.connection.lock().poll_write(&mut stream, cx)?;
            if driver.is_over() && written.is_ready() {
                return Poll::Ready(Ok(()));
            }
            if has_read {
                continue;
            }
            if timer.as_mut().poll(cx).is_ready() {
                if driver.look(&limits, timer.as_mut())? {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let connection = &mut *driver.connection.lock();
            connection.set_driver(cx);
            if written.is_ready() && connection.has_output() {
                continue;
            }
            return Poll::Pending;
        }
    });
    let served = served.await;
    close(&mut stream, &guard.0).await;
    served
}

fn config(limits: &Limits) -> Config {
    Config {
        streams_max: limits.streams_max,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        fields: FieldLimits { bytes_max: HEADERS_MAX, fields_max: FIELDS_MAX },
        pending_max: PENDING_MAX,
        connect_protocol: false,
    }
}

/// Closes the connection when its driver ends or is dropped.
struct Guard(SharedConnection);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.lock().close();
    }
}

struct Driver {
    connection: SharedConnection,
    wires: Arc<Wires>,
    peer: Peer,
    input: BytesMut,
    /// True while the input is one that was read before the connection began.
    has_prefix: bool,
    /// True once the caller has closed its side.
    has_ended: bool,
    /// True once the caller has made a request.
    has_asked: bool,
    began: Instant,
    last_input: Instant,
    pinged_at: Option<Instant>,
    /// Time of this side's GOAWAY.
    stopped_at: Option<Instant>,
}

impl Driver {
    /// Reads what has arrived. Returns whether there was anything.
    fn poll_receive(&mut self, stream: &mut UnixStream, cx: &mut Context<'_>) -> Result<bool, EndedEarly> {
        let connection = &mut *self.connection.lock();
        let mut has_read = std::mem::take(&mut self.has_prefix);
        if !self.has_ended && connection.takes_input() {
            match poll_read(stream, cx, &mut self.input)? {
                Poll::Ready(0) => self.has_ended = true,
                Poll::Ready(_) => has_read = true,
                Poll::Pending => {}
            }
        }
        if has_read {
            self.last_input = Instant::now();
            self.pinged_at = None;
            if let Err(error) = connection.receive(&mut self.input, self.last_input - self.began) {
                connection.fail(error);
                return Err(error.into());
            }
            if self.input.is_empty() {
                // A waiting connection has no buffer.
                self.input = BytesMut::new();
            }
            if self.stopped_at.is_some() && !connection.awaits_pong() {
                connection.say_go_away(true);
            }
        }
        Ok(has_read)
    }

    /// Begins the calls that have arrived.
    fn begin_calls(&mut self, cx: &mut Context<'_>) {
        loop {
            let mut connection = self.connection.lock();
            let Some(Arrival { stream, head, is_whole }) = connection.next_request() else { return };
            self.has_asked = true;
            let Ok(head) = head else {
                connection.respond(stream, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &HeaderMap::new(), true);
                connection.drop_reader(stream);
                connection.drop_writer(stream, Reason::InternalError);
                continue;
            };
            let is_short = Method::find(head.uri.path()).is_some_and(Method::is_short)
                && connection.whole_len(stream).is_some_and(|len| len <= SHORT_LEN_MAX);
            drop(connection);
            let body = Incoming { connection: self.connection.clone(), stream, is_over: is_whole };
            let mut call = Box::pin(call(body, head, self.wires.clone(), self.peer.clone()));
            if !is_short || call.as_mut().poll(cx).is_pending() {
                tokio::spawn(call);
            }
        }
    }

    /// Announces the end. Requests that are on their way are still served: the PING comes back behind them.
    fn stop(&mut self, why: &'static str) {
        tracing::debug!(peer.uid = self.peer.uid, peer.pid = self.peer.pid, why, "closing a connection");
        self.stopped_at = Some(Instant::now());
        let connection = &mut *self.connection.lock();
        connection.say_go_away(false);
        connection.ping();
    }

    /// Returns whether nothing is left to be done.
    fn is_over(&self) -> bool {
        let connection = &*self.connection.lock();
        self.has_ended || (connection.has_said_last() && connection.open_streams() == 0)
    }

    /// Checks the times of the connection, and sets the timer to the next check. Returns whether the connection is to be closed.
    fn look(&mut self, limits: &Limits, timer: Pin<&mut Sleep>) -> Result<bool, EndedEarly> {
        let now = Instant::now();
        if !self.has_asked && self.stopped_at.is_none() && now >= self.began + limits.request_max {
            self.stop("a connection made no request in time");
        }
        if !self.has_asked && self.stopped_at.is_some_and(|at| now >= at + CLOSE_MAX) {
            return Ok(true);
        }
        if self.pinged_at.is_some_and(|at| now >= at + PING_MAX) {
            return Err(EndedEarly::Silent);
        }
        if self.pinged_at.is_none() && now >= self.last_input + SILENCE_MAX {
            self.pinged_at = Some(now);
            let connection = &mut *self.connection.lock();
            connection.ping();
            connection.shrink();
        }
        let of_silence = self.pinged_at.map_or(self.last_input + SILENCE_MAX, |at| at + PING_MAX);
        let of_request = self.stopped_at.map_or(self.began + limits.request_max, |at| at + CLOSE_MAX);
        timer.reset(if self.has_asked { of_silence } else { of_silence.min(of_request) });
        Ok(false)
    }
}

/// Writes the rest, the GOAWAY that says why the connection ends included, and closes this side.
async fn close(stream: &mut UnixStream, connection: &Mutex<Connection>) {
    let closing = poll_fn(|cx| {
        ready!(connection.lock().poll_write(stream, cx))?;
        Pin::new(&mut *stream).poll_shutdown(cx)
    });
    let _ = tokio::time::timeout(LAST_WRITE_MAX, closing).await;
}

/// Body of a request as it arrives.
struct Incoming {
    connection: SharedConnection,
    stream: u32,
    /// True once its end was read.
    is_over: bool,
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let piece = ready!(self.connection.lock().poll_piece(self.stream, cx));
        self.is_over = !matches!(piece, Some(Ok(_)));
        Poll::Ready(piece.map(|piece| piece.map_err(|err| Status::cancelled(err.to_string()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.connection.lock().is_read(self.stream)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.connection.lock().drop_reader(self.stream);
    }
}

/// Ends a stream whose answer was not completed when it is dropped.
struct Answering {
    connection: SharedConnection,
    stream: u32,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.connection.lock().drop_writer(self.stream, Reason::InternalError);
    }
}

/// Answers the request of one stream. A caller that resets the stream ends the call.
async fn call(body: Incoming, head: RequestHead, wires: Arc<Wires>, peer: Peer) {
    let answering = Answering { connection: body.connection.clone(), stream: body.stream };
    let (connection, stream) = (&*answering.connection, answering.stream);
    let mut request = http::Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = head.headers;
    let mut answered = pin!(wires.answer(request, peer));
    let answer = poll_fn(|cx| match answered.as_mut().poll(cx) {
        Poll::Ready(Ok(answer)) => Poll::Ready(Some(answer)),
        Poll::Pending => connection.lock().poll_ended(stream, cx).map(|_| None),
    });
    if let Some(answer) = answer.await
        && let Err(err) = write(connection, stream, answer).await
    {
        tracing::debug!(%err, "an answer ended early");
    }
}

/// Writes an answer: its head with the first part of its body, then the body as it comes, no faster than the caller reads.
async fn write(connection: &Mutex<Connection>, stream: u32, answer: http::Response<Answer>) -> Result<(), StreamError> {
    let (parts, mut body) = answer.into_parts();
    if body.is_end_stream() {
        connection.lock().respond(stream, parts.status, &parts.headers, true);
        return Ok(());
    }
    connection.lock().respond(stream, parts.status, &parts.headers, false);
    loop {
        let frame = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => connection.lock().poll_ended(stream, cx).map(Err),
        });
        match frame.await?.transpose().map(|frame| frame.map(Frame::into_data)) {
            Ok(Some(Ok(data))) => {
                connection.lock().send(stream, data, false);
                poll_fn(|cx| connection.lock().poll_room(stream, cx)).await?;
            }
            Ok(Some(Err(frame))) => {
                connection.lock().send_trailers(stream, frame.into_trailers().unwrap_or_default());
                return Ok(());
            }
            Ok(None) => {
                connection.lock().send(stream, Bytes::new(), true);
                return Ok(());
            }
            // tonic sends an error as trailers.
            Err(_) => return Ok(()),
        }
    }
}
