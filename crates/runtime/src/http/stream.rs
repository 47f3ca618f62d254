//! The streams below HTTP connections: TCP and Unix sockets, and streams whose first bytes were already read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A stream that HTTP can use.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Makes the connection reset when it is dropped, if the transport can: a peer that reads until the end must not take an
    /// incomplete answer for a whole one.
    fn reset(&self);

    /// Returns whether the transport, dropped with nothing to be written, ends in order: TLS sends an alert first.
    fn ends_when_dropped(&self) -> bool {
        false
    }
}

/// An accepted connection, without TLS.
#[derive(Debug)]
pub enum Stream {
    /// A connection accepted over TCP.
    Tcp(TcpStream),
    /// A connection over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Writes the bytes that are accepted at once, if any.
    pub(crate) fn try_write(&self, bytes: &[u8]) {
        let _ = match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        };
    }
}

impl Transport for Stream {
    fn reset(&self) {
        if let Stream::Tcp(stream) = self {
            let _ = SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }

    fn ends_when_dropped(&self) -> bool {
        true
    }
}

impl Transport for TlsStream<Stream> {
    // Without its closing alert the end is not authenticated, whatever the transport says.
    fn reset(&self) {}
}

#[cfg(test)]
impl Transport for tokio::io::DuplexStream {
    fn reset(&self) {}
}

macro_rules! either {
    ($self:ident, $stream:ident => $do:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $do,
            Stream::Unix($stream) => $do,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// A stream whose first bytes have already been read: it returns them again, before the rest.
#[derive(Debug)]
pub(crate) struct PrefixStream<IO> {
    prefix: Bytes,
    io: IO,
}

impl<IO> PrefixStream<IO> {
    /// Puts `prefix` in front of a stream.
    pub(crate) fn new(prefix: Bytes, io: IO) -> Self {
        PrefixStream { prefix, io }
    }

    /// Returns the rest of the prefix, and the stream.
    pub(crate) fn into_parts(self) -> (Bytes, IO) {
        (self.prefix, self.io)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for PrefixStream<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let len = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..len]);
        self.prefix.advance(len);
        if self.prefix.is_empty() {
            // The buffer that it was cut from is not kept for the connection's lifetime.
            self.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for PrefixStream<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
