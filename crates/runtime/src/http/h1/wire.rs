//! A connection's two directions: the input that is not yet consumed, and the output that is not yet written. Shared by the
//! driver and the body of the request in progress, which another task may read.

use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, ReadBuf};

use super::output::Output;
use super::{ChunkStep, Decoder, Framing, encode_response};
use crate::http::body::BodyRefusal;
use crate::http::stream::Transport;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Length of a read while the kind of input is unknown, in bytes.
const SCRATCH_LEN: usize = 16 * 1024;
/// Largest part of pipelined input that is read ahead, in bytes; the rest waits in the kernel.
const PIPELINED_MAX: usize = 16 * 1024;
/// Bounds of one read of a body, in bytes; its length doubles after a full read.
const BODY_READ_MIN: usize = 8 * 1024;
const BODY_READ_MAX: usize = 128 * 1024;

thread_local! {
    /// The buffer that heads are first read into: a waiting connection has no buffer of its own.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_LEN].into());
}

/// Reads the available input and appends it to `input`, which has no memory while it waits; returns 0 at the end.
pub(in crate::http) fn poll_read<IO: Transport>(
    io: &mut IO,
    cx: &mut Context<'_>,
    input: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut read = ReadBuf::new(scratch);
        ready!(Pin::new(io).poll_read(cx, &mut read))?;
        input.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
}

/// The state of the body of the request in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    /// A reader may still ask for it.
    Held,
    /// Its reader has dropped it.
    LetGo,
    /// It cannot be read any further.
    Broken,
}

/// A connection and its buffers.
#[derive(Debug)]
pub(super) struct Wire<IO> {
    /// The stream; `None` once the connection is over.
    io: Option<IO>,
    pub(super) input: BytesMut,
    pub(super) output: Output,
    /// Number of bytes written in all.
    pub(super) written: u64,
    /// Number of bytes written when the client's time to read was last set.
    pub(super) marked: u64,
    decoder: Decoder,
    /// The number of the request that the body belongs to: a body that outlives its request reads nothing.
    number: u64,
    body: BodyState,
    body_read_len: usize,
    /// The client waits for a 100 before it sends the body, and has not received one.
    wants_continue: bool,
    /// The task that waits for the body.
    reader: Option<Waker>,
    /// The driver, if it waits while another task reads the body.
    driver: Option<Waker>,
}

impl<IO: Transport> Wire<IO> {
    pub(super) fn new(io: IO, input: BytesMut) -> Self {
        Wire {
            io: Some(io),
            input,
            output: Output::default(),
            written: 0,
            marked: 0,
            decoder: Decoder::new(Framing::None),
            number: 0,
            body: BodyState::LetGo,
            body_read_len: BODY_READ_MIN,
            wants_continue: false,
            reader: None,
            driver: None,
        }
    }

    /// Begins a request with this body. Returns its number.
    pub(super) fn begin(&mut self, framing: Framing, wants_continue: bool) -> u64 {
        self.number += 1;
        self.decoder = Decoder::new(framing);
        self.body = if self.decoder.is_done() { BodyState::LetGo } else { BodyState::Held };
        self.wants_continue = wants_continue && !self.decoder.is_done();
        self.number
    }

    /// Ends the request, whose answer is written: the rest of its body has no reader.
    pub(super) fn finish(&mut self) {
        self.number += 1;
        if self.body == BodyState::Held {
            self.body = BodyState::LetGo;
        }
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Returns whether the whole of the request was read.
    pub(super) fn is_read(&self) -> bool {
        self.decoder.is_done()
    }

    /// Returns the length of the rest of the body, as far as it is known.
    pub(super) fn left(&self) -> u64 {
        self.decoder.left().unwrap_or(0)
    }

    /// Marks the begin of the answer, and returns whether another request can be read after this one. From here on no 100 is
    /// sent.
    pub(super) fn answer_begins(&mut self) -> bool {
        let was_never_sent = std::mem::take(&mut self.wants_continue);
        !was_never_sent && self.body != BodyState::Broken
    }

    /// Appends an interim answer to the output.
    pub(super) fn push_interim(&mut self, status: StatusCode, headers: &HeaderMap) {
        if status == StatusCode::CONTINUE && !std::mem::take(&mut self.wants_continue) {
            return;
        }
        encode_response(self.output.gathered(), status, headers, Framing::None);
    }

    /// Reads input that no reader has asked for yet; returns 0 at the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(io) = &mut self.io else { return Poll::Ready(Ok(0)) };
        poll_read(io, cx, &mut self.input)
    }

    /// Ready if the client has left while its answer is computed. Not while a task waits for the body: that task will notice.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.body == BodyState::Held && !self.decoder.is_done() && self.reader.is_some() {
            self.driver.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            return Poll::Pending;
        }
        while self.input.len() < PIPELINED_MAX {
            match ready!(self.poll_fill(cx)) {
                Ok(0) => return Poll::Ready(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(err) => return Poll::Ready(err),
            }
        }
        Poll::Pending
    }

    /// Writes and flushes the pending output.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(io) = &mut self.io else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
        ready!(self.output.poll_write(io, cx, &mut self.written))?;
        Pin::new(io).poll_flush(cx)
    }

    /// Returns whether [`Wire::close`] alone ends the connection in order, once the output is written.
    pub(super) fn ends_when_closed(&self) -> bool {
        self.io.as_ref().is_none_or(Transport::ends_when_dropped)
    }

    /// Shuts down the sending side.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        let Some(io) = &mut self.io else { return Poll::Ready(Ok(())) };
        Pin::new(io).poll_shutdown(cx)
    }

    /// Reads the body on and discards it; returns the number of bytes discarded now, 0 at its end.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, BodyRefusal>> {
        loop {
            match ready!(self.poll_frame(cx)) {
                None => return Poll::Ready(Ok(0)),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        return Poll::Ready(Ok(data.len()));
                    }
                }
                Some(Err(err)) => return Poll::Ready(Err(err)),
            }
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        loop {
            match self.decoder.decode(&mut self.input) {
                Ok(ChunkStep::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(ChunkStep::End(trailers)) => return Poll::Ready(trailers.map(|fields| Ok(Frame::trailers(fields)))),
                Ok(ChunkStep::More) => match ready!(self.poll_read_body(cx)) {
                    Ok(len) if len > 0 => continue,
                    _ => {}
                },
                Err(_) => {}
            }
            self.body = BodyState::Broken;
            return Poll::Ready(Some(Err(BodyRefusal::Broken)));
        }
    }

    /// Reads more of a body, directly into the buffer that it is taken from; returns 0 at the end.
    fn poll_read_body(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(io) = &mut self.io else { return Poll::Ready(Ok(0)) };
        let left = self.decoder.left().and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
        let want = self.body_read_len.min(left.max(BODY_READ_MIN));
        self.input.reserve(want);
        let len = ready!(pin!(io.read_buf(&mut self.input)).poll(cx))?;
        if len >= self.body_read_len {
            self.body_read_len = (self.body_read_len * 2).min(BODY_READ_MAX);
        }
        Poll::Ready(Ok(len))
    }

    /// Releases memory that an idle connection does not need.
    pub(super) fn rest(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        self.body_read_len = BODY_READ_MIN;
        self.output.rest();
    }

    /// Makes the connection reset when it is closed.
    pub(super) fn reset(&self) {
        if let Some(io) = &self.io {
            io.reset();
        }
    }

    /// Takes the connection itself, with its input that is not yet consumed.
    pub(super) fn take(&mut self) -> Option<(IO, Bytes)> {
        Some((self.io.take()?, self.input.split().freeze()))
    }

    /// Closes the connection, if it was not taken over. It wakes a task that still waits for a body.
    pub(super) fn close(&mut self) {
        self.io = None;
        self.finish();
    }
}

/// The source of a request's body.
pub(in crate::http) trait Source: Send + Sync {
    /// Polls the next frame of request `number`'s body.
    fn poll_body(&self, number: u64, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>>;
    /// Notes that request `number`'s body is not read any more.
    fn let_go(&self, number: u64);
    /// Returns whether the connection carries other requests at the same time, and so never reads a body just to discard it.
    fn is_shared(&self) -> bool {
        false
    }
    /// Returns whether the whole of request `number` was received and read, for a shared connection.
    fn is_read(&self, _number: u64) -> bool {
        false
    }
}

impl<IO: Transport> Source for Mutex<Wire<IO>> {
    fn poll_body(&self, number: u64, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        let wire = &mut *self.lock();
        if wire.number != number || wire.body == BodyState::Broken {
            return Poll::Ready(Some(Err(BodyRefusal::Broken)));
        }
        if std::mem::take(&mut wire.wants_continue) {
            wire.output.gathered().extend_from_slice(CONTINUE);
        }
        if !wire.output.is_empty() {
            // A failure shows on the next read.
            let _ = wire.poll_flush(cx);
        }
        let frame = wire.poll_frame(cx);
        wire.reader = frame.is_pending().then(|| cx.waker().clone());
        if frame.is_ready()
            && (wire.decoder.is_done() || wire.body == BodyState::Broken)
            && let Some(driver) = wire.driver.take()
        {
            driver.wake();
        }
        frame
    }

    fn let_go(&self, number: u64) {
        let wire = &mut *self.lock();
        if wire.number == number {
            if wire.body == BodyState::Held {
                wire.body = BodyState::LetGo;
            }
            wire.reader = None;
            if let Some(driver) = wire.driver.take() {
                driver.wake();
            }
        }
    }
}
