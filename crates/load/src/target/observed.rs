//! Stream below a protocol library: counts its bytes and remembers the error that broke it. Libraries pass on only the
//! error's text, and a TLS alert would be reported as a closed connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Sample, classify};
use crate::record::{Class, Failure};

/// Observations of a stream, shared with the task that drives the stream.
#[derive(Debug)]
pub(crate) struct StreamRecord {
    to: String,
    sent: AtomicU64,
    received: AtomicU64,
    ended: AtomicBool,
    broken: Mutex<Option<(Class, String)>>,
}

impl StreamRecord {
    /// Creates the empty observations of a stream to this address.
    pub(crate) fn new(to: String) -> Arc<Self> {
        Arc::new(StreamRecord {
            to,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            broken: Mutex::new(None),
        })
    }

    /// Address of the stream's peer.
    pub(crate) fn to(&self) -> &str {
        &self.to
    }

    /// Adds the bytes not yet reported to a sample. On a connection with several streams each byte is reported once, in the
    /// sample of the request that ends first.
    pub(crate) fn add_bytes(&self, sample: &mut Sample) {
        sample.bytes_sent += self.sent.swap(0, Ordering::Relaxed);
        sample.bytes_received += self.received.swap(0, Ordering::Relaxed);
    }

    /// Returns the error that broke the stream, if any, or else a failure if the peer closed it.
    pub(crate) fn failure(&self) -> Option<Failure> {
        if let Some((class, detail)) = &*self.broken.lock() {
            return Some(Failure::new(*class, detail));
        }
        let words = || {
            Failure::new(Class::Closed, format!("{} closed the connection before its response was complete", self.to))
        };
        self.ended.load(Ordering::Relaxed).then(words)
    }

    fn breaks(&self, err: &io::Error) {
        let failure = classify::of(err, classify::At::Exchange, &self.to);
        let mut broken = self.broken.lock();
        // A write fails first when the peer has closed the stream; the alert that the peer sent before is read afterwards.
        let is_better = |known: &(Class, String)| known.0 == Class::Reset && failure.class == Class::TlsAlert;
        if broken.as_ref().is_none_or(is_better) {
            *broken = Some((failure.class, failure.detail));
        }
    }
}

/// Stream whose bytes and errors are observed.
pub(crate) struct ObservedStream<S> {
    stream: S,
    seen: Arc<StreamRecord>,
}

impl<S> ObservedStream<S> {
    pub(crate) fn new(stream: S, seen: Arc<StreamRecord>) -> Self {
        ObservedStream { stream, seen }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let has_room = buf.remaining() > 0;
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        match &read {
            Poll::Ready(Ok(())) => {
                let read = (buf.filled().len() - before) as u64;
                this.seen.received.fetch_add(read, Ordering::Relaxed);
                if read == 0 && has_room {
                    this.seen.ended.store(true, Ordering::Relaxed);
                }
            }
            Poll::Ready(Err(err)) => this.seen.breaks(err),
            Poll::Pending => {}
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ObservedStream<S> {
    fn wrote(&mut self, cx: &mut Context<'_>, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(len)) => {
                self.seen.sent.fetch_add(*len as u64, Ordering::Relaxed);
            }
            Poll::Ready(Err(err)) => {
                self.seen.breaks(err);
                self.last_words(cx);
            }
            Poll::Pending => {}
        }
    }

    /// Reads the buffered input after a failed write: it may hold the alert that gives the reason.
    fn last_words(&mut self, cx: &mut Context<'_>) {
        let mut bytes = [0; 1024];
        for _ in 0..64 {
            let mut bytes = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(cx, &mut bytes) {
                Poll::Ready(Err(err)) => return self.seen.breaks(&err),
                Poll::Ready(Ok(())) if !bytes.filled().is_empty() => {}
                _ => return,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.wrote(cx, &written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.wrote(cx, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        if let Poll::Ready(Err(err)) = &flushed {
            this.seen.breaks(err);
            this.last_words(cx);
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
