//! Tunnels: streams whose DATA frames carry the bytes of another protocol, after an extended CONNECT (RFC 8441).
//!
//! A tunnel may stay unread for long, as its reader may wait for a slow third party. It must not keep the window of the connection
//! from other streams: up to a bound, unread bytes of tunnels are lent, so that the connection's window does not count them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use super::error::Reason;
use super::frame::PAYLOAD_LEN_MAX;
use super::stream::StreamError;

/// Longest piece that is taken in one write, in bytes.
const WRITE_MAX: usize = PAYLOAD_LEN_MAX;
/// Number of bytes below which the window of a connection counts as used up.
const WINDOW_LEFT_MIN: u32 = 16 * 1024;

impl Connection {
    /// Takes unread bytes of a tunnel out of the connection's window, as far as the bound allows: one window more.
    pub(super) fn lend(&mut self, id: u32, len: usize) {
        let lent_max = usize::try_from(self.config.connection_window).unwrap_or(usize::MAX);
        let part = len.min(lent_max.saturating_sub(self.lent));
        let Some(stream) = self.stream(id) else { return };
        stream.lent += part;
        self.lent += part;
        if self.give_to_connection(part) {
            self.wake_driver();
        }
    }

    /// Returns how many of `len` bytes, which were read or dropped, the connection's window did not count.
    pub(super) fn repay(&mut self, id: u32, len: usize) -> usize {
        let Some(stream) = self.stream(id) else { return 0 };
        let part = len.min(stream.lent);
        stream.lent -= part;
        self.lent -= part;
        part
    }

    /// Resets the tunnels whose data was not read for longer than `time`, if the connection's window is used up: other streams
    /// could receive nothing. Time is that of the last [`Connection::receive`] or [`Connection::set_now`].
    pub fn end_stalled_tunnels(&mut self, time: Duration) {
        if self.window >= WINDOW_LEFT_MIN {
            return;
        }
        let now = self.now;
        let is_stalled = |read_at: Duration| now.saturating_sub(read_at) > time;
        let streams = self.each_stream().filter(|stream| stream.is_tunnel && !stream.data.is_empty());
        let stalled: Vec<u32> = streams.filter(|stream| is_stalled(stream.read_at)).map(|stream| stream.id).collect();
        for id in stalled {
            self.end_stream(id, Reason::EnhanceYourCalm, StreamError::GivenUp(Reason::EnhanceYourCalm));
        }
    }
}

/// The bytes of a stream that has become a tunnel, both ways. An end of either side ends its direction alone. A tunnel that is
/// dropped before both have ended resets the stream with CANCEL (RFC 8441 section 5).
///
/// At most one window of unread bytes is held, and `pending_max` bytes that wait for the peer's windows.
#[derive(Debug)]
pub struct Tunnel {
    connection: Arc<Mutex<Connection>>,
    stream: u32,
    /// The rest of a piece that was read in part.
    unread: Bytes,
    is_shut: bool,
}

impl Tunnel {
    /// Takes over both sides of a stream.
    pub fn new(connection: Arc<Mutex<Connection>>, stream: u32) -> Self {
        Tunnel { connection, stream, unread: Bytes::new(), is_shut: false }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let connection = &mut *self.connection.lock();
        connection.drop_reader(self.stream);
        connection.drop_writer(self.stream, Reason::Cancel);
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.unread.is_empty() {
            match ready!(this.connection.lock().poll_piece(this.stream, cx)) {
                // A tunnel has no trailers: the engine rejects them.
                Some(Ok(piece)) => this.unread = piece.into_data().unwrap_or_default(),
                Some(Err(err)) => return Poll::Ready(Err(ended(err))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = this.unread.len().min(buf.remaining());
        buf.put_slice(&this.unread[..len]);
        this.unread.advance(len);
        if this.unread.is_empty() {
            // What was read is not kept until more comes.
            this.unread = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let connection = &mut *self.connection.lock();
        ready!(connection.poll_room(self.stream, cx)).map_err(ended)?;
        let part = &bytes[..bytes.len().min(WRITE_MAX)];
        if !part.is_empty() {
            connection.send(self.stream, Bytes::copy_from_slice(part), false);
        }
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.is_shut, true) {
            self.connection.lock().send(self.stream, Bytes::new(), true);
        }
        Poll::Ready(Ok(()))
    }
}

fn ended(err: StreamError) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, err)
}
