//! A connection and the task that drives it.

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::BytesMut;
use sealway_runtime::http::h2::{Config, Connection, FieldLimits, Role};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::target::Sample;
use crate::target::h1::ReadBuffer;
use crate::target::observed::{ObservedStream, StreamRecord};
use crate::target::pool::Live;
use crate::target::stream::Stream;

/// Maximum size of an answer's headers, in bytes.
const HEADERS_LEN_MAX: usize = 256 * 1024;
/// Bounds of a connection: flow control windows as large as those of other load generators, so that a server need not wait.
const CONFIG: Config = Config {
    streams_max: 0,
    stream_window: 1024 * 1024,
    connection_window: 16 * 1024 * 1024,
    // Each field counts 32 bytes more than it has.
    fields: FieldLimits { bytes_max: HEADERS_LEN_MAX, fields_max: HEADERS_LEN_MAX / 32 },
    pending_max: 64 * 1024,
    connect_protocol: false,
};

/// Connection shared by workers; it ends when the last of them drops it.
#[derive(Clone)]
pub(super) struct Line(Rc<Handle>);

struct Handle(Rc<LineState>);

/// State that the workers of a connection share with its task.
struct LineState {
    connection: RefCell<Connection>,
    seen: Arc<StreamRecord>,
    /// Time of the last read.
    heard_at: Cell<Instant>,
    /// True if this connection has received an answer.
    has_served: Cell<bool>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.connection.borrow_mut().retire();
    }
}

impl Live for Line {
    fn is_closed(&self) -> bool {
        !self.is_open()
    }
}

impl Line {
    /// Begins HTTP/2 on a stream to this address. The future drives the connection. Without `keeps_headers` only those headers
    /// of answers are kept that a sample needs.
    pub(super) fn new(
        stream: Stream,
        to: SocketAddr,
        buffer: ReadBuffer,
        keeps_headers: bool,
    ) -> (Line, impl Future<Output = ()>) {
        let seen = StreamRecord::new(to.to_string());
        let mut connection = Connection::new(Role::Client, CONFIG);
        if !keeps_headers {
            connection.keep_fields(|name| name == "server-timing");
        }
        let began = Instant::now();
        let shared = Rc::new(LineState {
            connection: RefCell::new(connection),
            seen: seen.clone(),
            heard_at: Cell::new(began),
            has_served: Cell::new(false),
        });
        let line = Line(Rc::new(Handle(shared.clone())));
        let stream = ObservedStream::new(stream, seen);
        let rest = BytesMut::new();
        let mut driver = Driver { shared, stream, buffer, rest, began, is_flushed: true, is_broken: false };
        (line, async move { poll_fn(|cx| driver.poll(cx)).await })
    }

    /// Borrows the connection, for one step.
    pub(super) fn connection(&self) -> RefMut<'_, Connection> {
        self.0.0.connection.borrow_mut()
    }

    /// Returns whether the connection takes further requests.
    pub(super) fn is_open(&self) -> bool {
        self.0.0.connection.borrow().is_open()
    }

    /// Observations of the connection's stream.
    pub(super) fn seen(&self) -> &StreamRecord {
        &self.0.0.seen
    }

    /// Adds the bytes that no sample has yet.
    pub(super) fn add_bytes(&self, sample: &mut Sample) {
        self.0.0.seen.add_bytes(sample);
    }

    /// Time of the last read.
    pub(super) fn heard_at(&self) -> Instant {
        self.0.0.heard_at.get()
    }

    /// Returns whether this connection has received an answer.
    pub(super) fn has_served(&self) -> bool {
        self.0.0.has_served.get()
    }

    /// Notes that this connection has received an answer.
    pub(super) fn set_served(&self) {
        self.0.0.has_served.set(true);
    }
}

/// Reads and writes for one connection.
struct Driver {
    shared: Rc<LineState>,
    stream: ObservedStream<Stream>,
    buffer: ReadBuffer,
    /// Beginning of a frame that has not arrived whole.
    rest: BytesMut,
    began: Instant,
    /// False while the stream holds output that the server has not taken.
    is_flushed: bool,
    /// True once a write has failed. The input then ends soon, and may hold the alert that gives the reason.
    is_broken: bool,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.connection.borrow_mut().close();
    }
}

impl Driver {
    /// Reads and writes until the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let connection = &mut *shared.connection.borrow_mut();
        connection.take_driver();
        loop {
            // However much output waits: the server may take none before its answers are read.
            let is_read = match self.poll_read(cx, connection) {
                // The connection is closed or broken: the stream has recorded why.
                Poll::Ready(Ok(false) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(true)) => true,
                Poll::Pending => false,
            };
            let written = self.poll_write(cx, connection);
            if connection.open_streams() == 0 {
                if connection.is_retired() {
                    connection.say_go_away(true);
                    let _ = self.poll_write(cx, connection);
                    let _ = Pin::new(&mut self.stream).poll_shutdown(cx);
                    return Poll::Ready(());
                }
                if connection.peer_go_away().is_some() {
                    return Poll::Ready(());
                }
                connection.rest();
            }
            if !is_read && (written.is_pending() || !connection.has_output()) {
                connection.set_driver(cx);
                return Poll::Pending;
            }
        }
    }

    /// Reads once, and passes the input to the connection. Returns false at the end of the connection.
    fn poll_read(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<io::Result<bool>> {
        let buffer = self.buffer.clone();
        let mut bytes = buffer.borrow_mut();
        let mut bytes = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut bytes))?;
        let bytes = bytes.filled();
        if bytes.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let now = Instant::now();
        self.shared.heard_at.set(now);
        let since = now - self.began;
        let received = if self.rest.is_empty() {
            let received = connection.receive_from(bytes, since);
            received.map(|len| self.rest.extend_from_slice(bytes.get(len..).unwrap_or_default()))
        } else {
            self.rest.extend_from_slice(bytes);
            let received = connection.receive(&mut self.rest, since);
            if self.rest.is_empty() {
                self.rest = BytesMut::new();
            }
            received
        };
        if let Err(error) = received {
            connection.fail(error);
            // The server may still be told why.
            let _ = self.poll_write(cx, connection);
            return Poll::Ready(Ok(false));
        }
        Poll::Ready(Ok(true))
    }

    /// Writes the output. Pending while the server does not read, and after an error.
    fn poll_write(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<()> {
        if self.is_broken {
            return Poll::Pending;
        }
        let mut written = Ok(());
        if connection.has_output() {
            self.is_flushed = false;
            written = ready!(connection.poll_write(&mut self.stream, cx));
        }
        if written.is_ok() && !self.is_flushed {
            written = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        }
        self.is_flushed = written.is_ok();
        self.is_broken = written.is_err();
        if self.is_broken { Poll::Pending } else { Poll::Ready(()) }
    }
}
