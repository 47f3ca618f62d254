//! The origin of a request, and two features of its connection for the service: interim answers, and taking the connection
//! over.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::stream::{PrefixStream, Stream};
use crate::tls::PeerCertificate;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A peer over TCP, with its address.
    Ip(SocketAddr),
    /// A peer over a Unix socket of this machine.
    Unix,
}

impl Peer {
    /// Returns the address, mapped ones as IPv4; `None` over a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Peer::Ip(address) => Some(address.ip().to_canonical()),
            Peer::Unix => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Ip(address) => address.fmt(f),
            Peer::Unix => f.write_str("unix"),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Peer::Ip(address)
    }
}

/// The origin of a request, as a request extension.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The listener's name in the configuration.
    pub listener: Arc<str>,
    /// The other end of the connection.
    pub peer: Peer,
    /// The address of the client: the peer, or the client that a trusted proxy states. Set by the gateway; `None` over a Unix
    /// socket.
    pub client: Option<IpAddr>,
    /// Set if the connection uses TLS.
    pub is_tls: bool,
    /// The certificate that the client presented, verified.
    pub certificate: Option<Arc<PeerCertificate>>,
}

/// Marks a request from a trusted proxy; a request extension, set by the gateway. Such a proxy's own certificate is not its
/// client's.
#[derive(Clone, Copy, Debug)]
pub struct FromTrustedProxy;

/// Most interim answers (1xx, RFC 9110 section 15.2) that may wait to be written.
const INTERIM_MAX: usize = 8;

/// Sends interim answers before the final one; a request extension if the protocol can carry them.
#[derive(Clone, Debug, Default)]
pub struct Interim(Arc<Mutex<VecDeque<(StatusCode, HeaderMap)>>>);

impl Interim {
    /// Queues an interim answer. It drops other statuses than 1xx, a 101, and answers beyond 8 that wait.
    pub fn send(&self, status: StatusCode, headers: HeaderMap) {
        let mut waiting = self.0.lock();
        let may_be_sent = status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS;
        if may_be_sent && waiting.len() < INTERIM_MAX {
            waiting.push_back((status, headers));
        }
    }

    /// Changes the headers of each one that waits to be written.
    pub fn for_each(&self, mut change: impl FnMut(&mut HeaderMap)) {
        self.0.lock().iter_mut().for_each(|(_, headers)| change(headers));
    }

    /// Returns the next one to write. The connection asks whenever it has polled the service.
    pub fn next(&self) -> Option<(StatusCode, HeaderMap)> {
        self.0.lock().pop_front()
    }
}

/// A connection after HTTP has ended on it.
pub trait Raw: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Returns the TCP connection itself and its input already read, if nothing lies between: its halves can then be used
    /// without a lock.
    ///
    /// # Errors
    /// The same connection, if it uses TLS or is not TCP.
    fn into_tcp(self: Box<Self>) -> Result<(TcpStream, Bytes), Box<dyn Raw>>;
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Raw for T {
    fn into_tcp(self: Box<Self>) -> Result<(TcpStream, Bytes), Box<dyn Raw>> {
        if !(&*self as &dyn Any).is::<PrefixStream<Stream>>() {
            return Err(self);
        }
        match (self as Box<dyn Any>).downcast::<PrefixStream<Stream>>().map(|prefixed| prefixed.into_parts()) {
            Ok((prefix, Stream::Tcp(stream))) => Ok((stream, prefix)),
            Ok((prefix, other)) => Err(Box::new(PrefixStream::new(prefix, other))),
            // Checked above, so the type is known.
            Err(_) => Err(Box::new(tokio::io::empty())),
        }
    }
}

/// The protocol that the client wants to speak on the stream of its request (RFC 8441 section 4); an extension of a CONNECT that
/// has a path, and no body.
///
/// A success without a [`TakeOver`] is no answer to it: the client gets 501.
#[derive(Clone, Debug)]
pub struct ExtendedConnect {
    /// The value of `:protocol`: a name of the registry of `Upgrade` tokens.
    pub protocol: HeaderValue,
}

/// The function that takes a connection over.
type Taker = Box<dyn FnOnce(Box<dyn Raw>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Takes the connection after a 101 (RFC 9110 section 7.8) was written on it, or the stream of an [`ExtendedConnect`] after a
/// success; an extension of that answer. The taker first reads what the client has already sent.
#[derive(Clone)]
pub struct TakeOver(Arc<Mutex<Option<Taker>>>);

impl TakeOver {
    /// Runs `take` with the connection. It ends with the future, at the latest at the end of draining.
    pub fn new<F>(take: impl FnOnce(Box<dyn Raw>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        TakeOver(Arc::new(Mutex::new(Some(Box::new(|io| Box::pin(take(io)))))))
    }

    /// Hands the connection over; a second call does nothing.
    pub async fn run(&self, io: Box<dyn Raw>) {
        let take = self.0.lock().take();
        if let Some(take) = take {
            take(io).await;
        }
    }
}

impl fmt::Debug for TakeOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakeOver")
    }
}
