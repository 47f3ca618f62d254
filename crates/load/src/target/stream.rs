//! Byte streams to and from the target, plain or over TLS.

use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::record::GaugeGuard;

/// Established stream to the target.
pub(crate) struct OpenStream {
    pub(crate) stream: Stream,
    /// Peer address; a socket that was reset does not know it any more.
    pub(crate) to: SocketAddr,
    /// Counts the stream as open until it is dropped.
    pub(crate) open: GaugeGuard,
}

/// One connection: plain at the left, over TLS at the right.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
