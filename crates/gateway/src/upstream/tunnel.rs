//! A connection that has switched from HTTP after a 101, or a stream of HTTP/2 after an extended CONNECT: bytes both ways.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use parking_lot::Mutex;
use sealway_runtime::http::h2;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::h1::Connection;
use super::h2::Place;
use super::pool::Slot;
use super::server::InFlight;

/// Tunnel to a server. Bytes that the server has already sent are read first. It counts as a connection in use until
/// dropped.
#[derive(Debug)]
pub struct Tunnel {
    io: TunnelIo,
    _share: Share,
    _in_flight: InFlight,
}

#[derive(Debug)]
enum TunnelIo {
    Connection(Box<Connection>),
    Stream(h2::Tunnel),
}

/// The share of the server's bounds that a tunnel holds until it is dropped.
#[derive(Debug)]
enum Share {
    Connection { _slot: Slot },
    Stream { _place: Place },
}

impl Tunnel {
    /// Makes a tunnel of a connection, its only use.
    pub(super) fn of_connection(connection: Connection, slot: Slot, in_flight: InFlight) -> Self {
        let io = TunnelIo::Connection(Box::new(connection));
        Tunnel { io, _share: Share::Connection { _slot: slot }, _in_flight: in_flight }
    }

    /// Makes a tunnel of one stream of a connection.
    pub(super) fn of_stream(stream: h2::Tunnel, place: Place, in_flight: InFlight) -> Self {
        let io = TunnelIo::Stream(stream);
        Tunnel { io, _share: Share::Stream { _place: place }, _in_flight: in_flight }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let connection = match &mut self.io {
            TunnelIo::Connection(connection) => connection,
            TunnelIo::Stream(stream) => return Pin::new(stream).poll_read(cx, buf),
        };
        if connection.read.is_empty() {
            return Pin::new(&mut connection.io).poll_read(cx, buf);
        }
        let len = connection.read.len().min(buf.remaining());
        buf.put_slice(&connection.read[..len]);
        connection.read.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.io {
            TunnelIo::Connection(connection) => Pin::new(&mut connection.io).poll_write(cx, bytes),
            TunnelIo::Stream(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            TunnelIo::Connection(connection) => Pin::new(&mut connection.io).poll_flush(cx),
            TunnelIo::Stream(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            TunnelIo::Connection(connection) => Pin::new(&mut connection.io).poll_shutdown(cx),
            TunnelIo::Stream(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The connection to the server after a 101, as an extension of that answer.
#[derive(Clone, Debug)]
pub struct UpstreamIo(Arc<Mutex<Option<Tunnel>>>);

impl UpstreamIo {
    pub(super) fn new(tunnel: Tunnel) -> Self {
        UpstreamIo(Arc::new(Mutex::new(Some(tunnel))))
    }

    /// Takes the tunnel; `None` the second time.
    pub fn take(&self) -> Option<Tunnel> {
        self.0.lock().take()
    }
}
