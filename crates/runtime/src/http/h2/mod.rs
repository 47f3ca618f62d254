//! HTTP/2 (RFC 9113) of our own: a connection as a value ([`Connection`]), and two drivers of it, for a listener's connections and
//! for those to a server.
//!
//! The value knows no socket, no clock and no meaning of a header beyond framing. Priorities are ignored, and nothing is pushed.

mod block;
#[cfg(feature = "http")]
mod client;
mod connection;
mod control;
mod error;
#[cfg(feature = "http")]
mod exchange;
mod flood;
mod frame;
pub mod hpack;
mod message;
mod output;
mod read;
mod receive;
#[cfg(feature = "http")]
mod request;
mod send;
#[cfg(feature = "http")]
mod server;
mod settings;
mod stream;
#[cfg(test)]
#[cfg(feature = "http")]
mod tests;
#[cfg(test)]
#[cfg(feature = "http")]
mod tests_client;
#[cfg(test)]
#[cfg(feature = "http")]
mod tests_hostile;
#[cfg(test)]
#[cfg(feature = "http")]
mod tests_tunnel;
#[cfg(test)]
#[cfg(feature = "http")]
mod tests_unread;
mod tunnel;
mod unread;

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};

#[cfg(feature = "http")]
pub use client::{DriveError, Exchange, ExchangeError, Sender, connect};
pub use connection::{Arrival, Config, Connection, PREFACE, Piece, Role};
pub use error::{ConnectionError, Reason};
pub use message::{Fault, FieldLimits, RequestHead, ResponseHead};
#[cfg(feature = "http")]
pub(super) use server::serve;
pub use stream::StreamError;
pub use tunnel::Tunnel;
pub use unread::UNREAD_LEN;

/// Length of a read, in bytes: several frames of the largest size.
const SCRATCH_LEN: usize = 64 * 1024;

thread_local! {
    /// The buffer that is read into first: a waiting connection has no buffer of its own.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_LEN].into());
}

/// Reads the available input and appends it to `input`, which has no memory while it waits; returns 0 at the end.
///
/// # Errors
/// Those of the stream.
pub fn poll_read<IO>(io: &mut IO, cx: &mut Context<'_>, input: &mut BytesMut) -> Poll<io::Result<usize>>
where
    IO: AsyncRead + Unpin,
{
    SCRATCH.with_borrow_mut(|scratch| {
        let mut read = ReadBuf::new(scratch);
        ready!(Pin::new(io).poll_read(cx, &mut read))?;
        input.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
}
