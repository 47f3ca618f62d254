//! What connections run over: TCP and Unix sockets, and streams whose first bytes were read already.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// What HTTP can be spoken over.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Has the connection reset when it is dropped, where the transport can: a peer that reads until the end must not
    /// take a broken answer for a whole one.
    fn reset(&self);
}

/// An accepted connection.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Writes what is taken at once, if anything.
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
}

impl Transport for TlsStream<Stream> {
    // Without its closing alert the end is no end, whatever the transport says.
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

/// A stream whose first bytes have been read already: they come again, before the rest.
#[derive(Debug)]
pub(crate) struct Prefixed<IO> {
    prefix: Bytes,
    io: IO,
}

impl<IO> Prefixed<IO> {
    /// Puts `prefix` back.
    pub(crate) fn new(prefix: Bytes, io: IO) -> Self {
        Prefixed { prefix, io }
    }

    /// What has not been read again yet, and the rest.
    pub(crate) fn into_parts(self) -> (Bytes, IO) {
        (self.prefix, self.io)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Prefixed<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let len = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..len]);
        self.prefix.advance(len);
        if self.prefix.is_empty() {
            // The buffer it was cut from is not kept for the connection's life.
            self.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Prefixed<IO> {
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
