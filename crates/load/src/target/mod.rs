//! How one request is made: a [`Connector`] opens connections, a [`Connection`] exchanges one request at a time.

mod broker;
mod channel;
mod classify;
mod connect;
mod dial;
mod h1;
mod h2;
#[cfg(feature = "http3")]
mod h3;
mod pool;
mod sealed;
mod server_timing;
mod stream;
mod tls;
mod warm;
mod watched;
mod ws;

use std::time::{Duration, Instant};

pub(crate) use self::broker::Broker;
pub(crate) use self::channel::Channel;
pub(crate) use self::connect::{Connector, Ground};
pub(crate) use self::h1::Http1;
pub(crate) use self::h2::Http2;
#[cfg(feature = "http3")]
pub(crate) use self::h3::Http3;
pub(crate) use self::sealed::Agreed;
pub(crate) use self::sealed::Sealed;
pub(crate) use self::ws::WebSocket;
use sealway_client::sealed::Suite;

use crate::record::Fault;
use crate::request::Prepared;

/// A connection that stands.
#[derive(Debug)]
pub(crate) enum Connection {
    /// HTTP/1.1.
    Http1(Http1),
    /// HTTP/2, or a share of a connection of it.
    Http2(Box<Http2>),
    /// HTTP/3, or a share of a connection of it.
    #[cfg(feature = "http3")]
    Http3(Box<Http3>),
    /// WebSocket.
    WebSocket(Box<WebSocket>),
    /// Sealed sessions, over one of the others.
    Sealed(Box<Sealed>),
    /// A broker's.
    Broker(Box<Broker>),
    /// A place that channels are made from.
    Channel(Box<Channel>),
}

impl Connection {
    /// Whether its last answer allows another request.
    pub(crate) fn keeps(&self) -> bool {
        match self {
            Connection::Http1(connection) => connection.keeps(),
            Connection::Http2(connection) => connection.is_open(),
            #[cfg(feature = "http3")]
            Connection::Http3(connection) => connection.is_open(),
            Connection::WebSocket(connection) => connection.keeps(),
            Connection::Sealed(connection) => connection.keeps(),
            Connection::Broker(connection) => connection.is_open(),
            Connection::Channel(_) => true,
        }
    }

    /// Whether another request can be sent over it: its protocol allows it, and the server has not closed it since.
    ///
    /// # Errors
    ///
    /// A fault if the server did between requests what it must not.
    pub(crate) async fn is_open(&mut self) -> Result<bool, Fault> {
        match self {
            Connection::Http1(connection) => connection.is_open().await,
            Connection::Http2(connection) => Ok(connection.is_open()),
            #[cfg(feature = "http3")]
            Connection::Http3(connection) => Ok(connection.is_open()),
            Connection::WebSocket(connection) => Ok(connection.is_open().await),
            Connection::Sealed(connection) => Box::pin(connection.is_open()).await,
            Connection::Broker(connection) => Ok(connection.is_open()),
            Connection::Channel(_) => Ok(true),
        }
    }

    /// Sends a request, and reads its answer to the end. It may be dropped at any await: then it is as if it had failed.
    ///
    /// # Errors
    ///
    /// What went wrong on the way, or with the answer. After a fault of another class than `Status` and `Assertion` the
    /// connection is of no use, and is dropped.
    pub(crate) async fn exchange(&mut self, prepared: &mut Prepared, sample: &mut Sample) -> Result<(), Fault> {
        match self {
            Connection::Http1(connection) => connection.exchange(prepared, sample).await,
            // Their futures are large, and every worker would carry the largest along.
            Connection::Http2(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            #[cfg(feature = "http3")]
            Connection::Http3(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::WebSocket(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::Sealed(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::Broker(connection) => Box::pin(connection.exchange(sample)).await,
            Connection::Channel(connection) => Box::pin(connection.exchange(sample)).await,
        }
    }

    /// Ends it after its last request. With `wait`, the server was asked to close it, and has so long to do so.
    pub(crate) async fn finish(self, wait: Option<Duration>) {
        match self {
            Connection::Http1(connection) => connection.finish(wait).await,
            // It says goodbye by itself when its last share is gone.
            Connection::Http2(_) | Connection::Broker(_) | Connection::Channel(_) => {}
            #[cfg(feature = "http3")]
            Connection::Http3(_) => {}
            Connection::WebSocket(connection) => connection.finish().await,
            Connection::Sealed(connection) => Box::pin(connection.finish(wait)).await,
        }
    }
}

/// What one request told; filled as it goes on. A new one is made for each request, on the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When it was meant to start.
    pub(crate) due: Instant,
    /// When it did.
    pub(crate) started: Instant,
    /// When its answer was whole, where the connection looked at the clock then; otherwise the engine does.
    pub(crate) ended: Option<Instant>,
    /// Connections that were tried for it.
    pub(crate) connections_tried: u32,
    /// Connections that stood, their handshake included.
    pub(crate) connections_opened: u32,
    /// Whether its connection was found closed by the server before anything was sent.
    pub(crate) reconnected: bool,
    /// Sessions that were agreed for it.
    pub(crate) sessions_agreed: u32,
    /// The suite of the last of them, on wire 3.
    pub(crate) suite: Option<Suite>,
    /// Opening a TCP connection, where that was part of it.
    pub(crate) connect: Option<Duration>,
    /// The TLS handshake, where that was part of it.
    pub(crate) tls: Option<(Duration, Handshake)>,
    /// From the request's first byte to its answer's.
    pub(crate) first_byte: Option<Duration>,
    /// What was done at its start and is no part of it: agreeing the session that its worker uses from then on. Response
    /// and service times are without it.
    pub(crate) aside: Duration,
    /// Agreeing a session, where that was part of it.
    pub(crate) key_agreement: Option<Duration>,
    /// Sealing the request.
    pub(crate) seal: Option<Duration>,
    /// Opening the answer.
    pub(crate) open: Option<Duration>,
    /// What the server says it took.
    pub(crate) server: Option<Duration>,
    /// The answer's status; 0 for none.
    pub(crate) status: u16,
    /// Bytes written.
    pub(crate) bytes_sent: u64,
    /// Bytes read.
    pub(crate) bytes_received: u64,
}

/// Which kind of TLS handshake it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// With certificates.
    Full,
    /// By a ticket.
    Resumed,
}

impl Sample {
    /// Of a request that starts now.
    pub(crate) fn new(due: Instant, started: Instant) -> Self {
        Sample {
            due,
            started,
            ended: None,
            connections_tried: 0,
            connections_opened: 0,
            reconnected: false,
            sessions_agreed: 0,
            suite: None,
            connect: None,
            tls: None,
            first_byte: None,
            aside: Duration::ZERO,
            key_agreement: None,
            seal: None,
            open: None,
            server: None,
            status: 0,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }
}
