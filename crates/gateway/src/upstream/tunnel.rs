//! A connection that has switched from HTTP after a 101: bytes both ways.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::h1::Connection;
use super::pool::Slot;
use super::server::InFlight;

/// Tunnel to a server. Bytes that the server has already sent are read first. It counts as a connection in use until
/// dropped.
#[derive(Debug)]
pub struct Tunnel {
    connection: Connection,
    _slot: Slot,
    _in_flight: InFlight,
}

impl Tunnel {
    pub(super) fn new(connection: Connection, slot: Slot, in_flight: InFlight) -> Self {
        Tunnel { connection, _slot: slot, _in_flight: in_flight }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let connection = &mut self.connection;
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
        Pin::new(&mut self.connection.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection.io).poll_shutdown(cx)
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
