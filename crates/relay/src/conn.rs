//! One WebSocket connection as other tasks see it: writing to it, and ending it. Its own task ([`crate::endpoint`]) reads; the
//! task of the other end writes, under the lock of this connection alone.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use sealway_proto::relay::CloseCause;
use sealway_runtime::http::Raw;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::budget::Budget;
use crate::ws;

/// Most bytes in the queue before a control frame of the relay; an answer to a ping behind more is left out.
const CONTROL_BEHIND_MAX: usize = 4096;

/// The reading half of a connection.
pub(crate) enum Reader {
    Tcp(OwnedReadHalf),
    Raw(ReadHalf<Box<dyn Raw>>),
    /// The half was handed over.
    Over,
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Reader::Tcp(half) => Pin::new(half).poll_read(cx, buf),
            Reader::Raw(half) => Pin::new(half).poll_read(cx, buf),
            Reader::Over => Poll::Ready(Ok(())),
        }
    }
}

/// The writing half of a connection.
pub(crate) enum Writer {
    Tcp(OwnedWriteHalf),
    Raw(WriteHalf<Box<dyn Raw>>),
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Writer::Tcp(half) => Pin::new(half).poll_write_vectored(cx, slices),
            Writer::Raw(half) => Pin::new(half).poll_write_vectored(cx, slices),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Writer::Tcp(_) => Poll::Ready(Ok(())),
            Writer::Raw(half) => Pin::new(half).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Writer::Tcp(half) => Pin::new(half).poll_shutdown(cx),
            Writer::Raw(half) => Pin::new(half).poll_shutdown(cx),
        }
    }
}

/// Splits a connection into halves, and returns its input that was already read.
pub(crate) fn split(io: Box<dyn Raw>) -> (Reader, Writer, bytes::Bytes) {
    match io.into_tcp() {
        Ok((stream, read)) => {
            let (reader, writer) = stream.into_split();
            (Reader::Tcp(reader), Writer::Tcp(writer), read)
        }
        Err(io) => {
            let (reader, writer) = tokio::io::split(io);
            (Reader::Raw(reader), Writer::Raw(writer), bytes::Bytes::new())
        }
    }
}

/// The writing half with its queue.
struct Out {
    /// `None` once the connection is over: a writer holds its waker, which is the connection itself.
    writer: Option<Writer>,
    /// Bytes that the connection has not accepted yet.
    waiting: Vec<u8>,
    sent: usize,
    /// The TLS layer below still buffers data.
    unflushed: bool,
    /// Time since which bytes wait; 0 if none do.
    since_ms: u64,
    is_broken: bool,
    said_close: bool,
}

/// A WebSocket connection of an endpoint.
pub(crate) struct Conn {
    pub(crate) id: u64,
    pub(crate) address: Option<IpAddr>,
    out: Mutex<Out>,
    /// The task that reads from it.
    own: AtomicWaker,
    /// The task that writes to it, that of the other end.
    feeder: AtomicWaker,
    end: Mutex<Option<CloseCause>>,
    /// Set once `end` is: read for every message.
    is_ending: AtomicBool,
    /// The connection must be dropped without a close frame.
    is_killed: AtomicBool,
    pub(crate) is_attached: AtomicBool,
    /// Time of the last read from it.
    pub(crate) seen_ms: AtomicU64,
    /// Time of the last ping to it.
    pub(crate) pinged_ms: AtomicU64,
    /// Time by which it must have attached, or have ended.
    pub(crate) deadline_ms: AtomicU64,
    budget: Arc<Budget>,
}

/// The connection accepts no more data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disconnect;

impl Wake for Conn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Both tasks may wait for room to write, so both are woken.
    fn wake_by_ref(self: &Arc<Self>) {
        self.feeder.wake();
        self.own.wake();
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Conn {
    pub(crate) fn new(id: u64, address: Option<IpAddr>, writer: Writer, budget: Arc<Budget>) -> Self {
        let out = Out {
            writer: Some(writer),
            waiting: Vec::new(),
            sent: 0,
            unflushed: false,
            since_ms: 0,
            is_broken: false,
            said_close: false,
        };
        Conn {
            id,
            address,
            out: Mutex::new(out),
            own: AtomicWaker::new(),
            feeder: AtomicWaker::new(),
            end: Mutex::new(None),
            is_ending: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            is_attached: AtomicBool::new(false),
            seen_ms: AtomicU64::new(0),
            pinged_ms: AtomicU64::new(0),
            deadline_ms: AtomicU64::new(u64::MAX),
            budget,
        }
    }

    /// Requests the close of the connection for this cause; the first one counts. Returns false if a close was requested
    /// already.
    pub(crate) fn close(&self, cause: CloseCause) -> bool {
        {
            let mut end = self.end.lock();
            if end.is_some() {
                return false;
            }
            *end = Some(cause);
        }
        self.is_ending.store(true, Ordering::Release);
        self.own.wake();
        true
    }

    /// Requests that the connection is dropped: there is no close frame to send, or no peer that reads it.
    pub(crate) fn kill(&self, cause: CloseCause) {
        self.is_killed.store(true, Ordering::Release);
        self.close(cause);
        self.own.wake();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    /// Returns the cause of its end, if it ends.
    pub(crate) fn cause(&self) -> Option<CloseCause> {
        *self.end.lock()
    }

    /// Registers the task that reads from it.
    pub(crate) fn register_own(&self, waker: &Waker) {
        self.own.register(waker);
    }

    /// Writes frames, and queues the bytes that the connection does not accept. Returns `true` if nothing waits.
    pub(crate) fn send(self: &Arc<Self>, mut slices: &mut [IoSlice<'_>], now_ms: u64) -> Result<bool, Disconnect> {
        let out = &mut *self.out.lock();
        if out.is_broken || out.said_close {
            return Err(Disconnect);
        }
        let waker = Waker::from(Arc::clone(self));
        let cx = &mut Context::from_waker(&waker);
        while !slices.is_empty() && !out.has_waiting() {
            match out.poll_write(cx, slices) {
                Poll::Ready(Ok(len)) if len > 0 => IoSlice::advance_slices(&mut slices, len),
                Poll::Ready(_) => return self.broke(out),
                Poll::Pending => break,
            }
        }
        let len = slices.iter().map(|slice| slice.len()).sum();
        if len > 0 {
            if !self.budget.take(len) {
                self.kill(CloseCause::RelayFull);
                return Err(Disconnect);
            }
            out.waiting.reserve(len);
            slices.iter().for_each(|slice| out.waiting.extend_from_slice(slice));
        }
        self.settle(out, cx, now_ms)
    }

    /// Queues a control frame; one that would wait for long is left out. Returns whether it was queued.
    pub(crate) fn send_control(self: &Arc<Self>, frame: &[u8], now_ms: u64) -> bool {
        let is_backed_up = {
            let out = self.out.lock();
            out.waiting.len() - out.sent > CONTROL_BEHIND_MAX
        };
        !is_backed_up && self.send(&mut [IoSlice::new(frame)], now_ms).is_ok()
    }

    /// Queues the close frame, after which nothing follows.
    pub(crate) fn send_close(self: &Arc<Self>, frame: &[u8], now_ms: u64) {
        let _ = self.send(&mut [IoSlice::new(frame)], now_ms);
        self.out.lock().said_close = true;
    }

    /// Queues frames before all later ones, without writing yet: the data that had waited for this end.
    pub(crate) fn queue(self: &Arc<Self>, frames: &[u8], now_ms: u64) -> Result<bool, Disconnect> {
        self.send(&mut [IoSlice::new(frames)], now_ms)
    }

    /// Ready once nothing waits any more. The task of the other end polls it before it reads on.
    pub(crate) fn poll_drained(self: &Arc<Self>, cx: &Context<'_>, now_ms: u64) -> Poll<Result<(), Disconnect>> {
        self.feeder.register(cx.waker());
        self.poll_flush(now_ms)
    }

    /// Writes and flushes the queued bytes.
    pub(crate) fn poll_flush(self: &Arc<Self>, now_ms: u64) -> Poll<Result<(), Disconnect>> {
        let out = &mut *self.out.lock();
        if out.is_broken {
            return Poll::Ready(Err(Disconnect));
        }
        if !out.has_waiting() && !out.unflushed {
            return Poll::Ready(Ok(()));
        }
        let waker = Waker::from(Arc::clone(self));
        match self.settle(out, &mut Context::from_waker(&waker), now_ms) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(Disconnect) => Poll::Ready(Err(Disconnect)),
        }
    }

    /// Writes the queued bytes, as far as the connection accepts them.
    fn settle(&self, out: &mut Out, cx: &mut Context<'_>, now_ms: u64) -> Result<bool, Disconnect> {
        while out.has_waiting() {
            let Some(writer) = &mut out.writer else { return Err(Disconnect) };
            match Pin::new(writer).poll_write(cx, &out.waiting[out.sent..]) {
                Poll::Ready(Ok(len)) if len > 0 => out.sent += len,
                Poll::Ready(_) => return self.broke(out),
                Poll::Pending => {
                    out.note_waiting(now_ms);
                    return Ok(false);
                }
            }
        }
        if out.sent > 0 {
            self.budget.give_back(out.sent);
            // Returned to the allocator: an idle connection has no buffer.
            (out.waiting, out.sent) = (Vec::new(), 0);
        }
        match out.poll_flush(cx) {
            Poll::Ready(Ok(())) => {
                (out.since_ms, out.unflushed) = (0, false);
                Ok(true)
            }
            Poll::Ready(Err(_)) => self.broke(out),
            Poll::Pending => {
                out.unflushed = true;
                out.note_waiting(now_ms);
                Ok(false)
            }
        }
    }

    /// Marks the connection as broken for writing. Earlier input may still be unread, so its task reads on: up to the end,
    /// which is near when nothing can be written.
    fn broke(&self, out: &mut Out) -> Result<bool, Disconnect> {
        self.budget.give_back(out.waiting.len());
        (out.waiting, out.sent) = (Vec::new(), 0);
        (out.is_broken, out.unflushed, out.since_ms) = (true, false, 0);
        self.own.wake();
        Err(Disconnect)
    }

    /// Shuts down the sending side.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.out.lock().writer.as_mut().map_or(Poll::Ready(Ok(())), |writer| Pin::new(writer).poll_shutdown(cx))
    }

    /// Returns the time for which queued bytes have waited, in milliseconds.
    pub(crate) fn stalled_ms(&self, now_ms: u64) -> u64 {
        match self.out.try_lock() {
            Some(out) if out.since_ms != 0 => now_ms.saturating_sub(out.since_ms),
            _ => 0,
        }
    }

    /// Makes the connection reset when it is dropped: otherwise the kernel would keep its unsent data for a minute.
    pub(crate) fn reset(&self) {
        if let Some(Writer::Tcp(half)) = &self.out.lock().writer {
            let _ = SockRef::from(half.as_ref()).set_linger(Some(std::time::Duration::ZERO));
        }
    }

    /// Hands the connection over: its writer, and the queued bytes.
    pub(crate) fn hand_over(&self) -> Option<(Writer, Vec<u8>)> {
        let out = &mut *self.out.lock();
        (out.is_broken, out.since_ms) = (true, 0);
        let waiting = std::mem::take(&mut out.waiting);
        self.budget.give_back(waiting.len());
        Some((out.writer.take()?, waiting.get(std::mem::take(&mut out.sent)..).unwrap_or_default().to_vec()))
    }

    /// Releases the connection: its task is over.
    pub(crate) fn finish(&self) {
        let out = &mut *self.out.lock();
        (out.writer, out.is_broken) = (None, true);
    }

    /// Sends a ping to the endpoint.
    pub(crate) fn ping(self: &Arc<Self>, now_ms: u64) {
        self.pinged_ms.store(now_ms, Ordering::Relaxed);
        self.send_control(&ws::control(ws::PING, b""), now_ms);
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.budget.give_back(self.out.get_mut().waiting.len());
    }
}

impl Out {
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.writer.as_mut().map_or(Poll::Ready(Ok(0)), |writer| Pin::new(writer).poll_write_vectored(cx, slices))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer.as_mut().map_or(Poll::Ready(Ok(())), |writer| Pin::new(writer).poll_flush(cx))
    }

    fn has_waiting(&self) -> bool {
        self.sent < self.waiting.len()
    }

    fn note_waiting(&mut self, now_ms: u64) {
        if self.since_ms == 0 {
            self.since_ms = now_ms.max(1);
        }
    }
}
