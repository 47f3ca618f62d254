//! Making of one request: a [`Connector`] opens connections, a [`Connection`] exchanges one request at a time.

mod broker;
mod carrier;
mod channel;
mod classify;
mod connect;
mod dial;
mod h1;
mod h2;
#[cfg(feature = "http3")]
mod h3;
mod mle;
mod multiplexed;
mod observed;
mod one_shot;
mod pool;
mod sealed;
mod server_timing;
mod stream;
mod tls;
mod warm;
mod ws;

use std::time::{Duration, Instant};

pub(crate) use self::broker::Broker;
pub(crate) use self::channel::Channel;
pub(crate) use self::connect::{Connector, TargetSetup};
pub(crate) use self::h1::Http1;
pub(crate) use self::h2::Http2;
#[cfg(feature = "http3")]
pub(crate) use self::h3::Http3;
pub(crate) use self::mle::MleConnection;
pub(crate) use self::one_shot::{OneShotConnection, read_psk};
pub(crate) use self::sealed::AnySession;
pub(crate) use self::sealed::SealedConnection;
pub(crate) use self::ws::WebSocket;
use sealway_client::Suite;

use crate::record::{Class, Failure};
use crate::request::CurrentRequest;

/// Maximum size of a body kept for assertions, in bytes.
const BODY_LEN_MAX: usize = 64 * 1024 * 1024;

/// Appends a piece of a body kept for assertions.
fn keep(kept: &mut Vec<u8>, data: &[u8]) -> Result<(), Failure> {
    if kept.len() + data.len() > BODY_LEN_MAX {
        return Err(Failure::new(Class::Assertion, "the body is longer than 64 MiB"));
    }
    kept.extend_from_slice(data);
    Ok(())
}

/// Established connection of any protocol.
pub(crate) enum Connection {
    /// HTTP/1.1 connection, used by one worker.
    Http1(Http1),
    /// HTTP/2 connection, or a share of one.
    Http2(Box<Http2>),
    /// HTTP/3 connection, or a share of one.
    #[cfg(feature = "http3")]
    Http3(Box<Http3>),
    /// WebSocket connection, used by one worker.
    WebSocket(Box<WebSocket>),
    /// Sealed sessions over one of the other kinds.
    Sealed(Box<SealedConnection>),
    /// Messages of card schemes over one of the other kinds.
    Mle(Box<MleConnection>),
    /// Requests without a session over one of the other kinds.
    OneShot(Box<OneShotConnection>),
    /// Broker connection, or a share of one.
    Broker(Box<Broker>),
    /// Handle that makes channels over a relay.
    Channel(Box<Channel>),
}

impl Connection {
    /// Returns whether the last answer allows another request.
    pub(crate) fn keeps(&self) -> bool {
        match self {
            Connection::Http1(connection) => connection.keeps(),
            Connection::Http2(connection) => connection.is_open(),
            #[cfg(feature = "http3")]
            Connection::Http3(connection) => connection.is_open(),
            Connection::WebSocket(connection) => connection.keeps(),
            Connection::Sealed(connection) => connection.keeps(),
            Connection::Mle(connection) => connection.keeps(),
            Connection::OneShot(connection) => connection.keeps(),
            Connection::Broker(connection) => connection.is_open(),
            Connection::Channel(_) => true,
        }
    }

    /// Returns whether another request can be sent: the protocol allows it, and the server has not closed the connection
    /// since.
    ///
    /// # Errors
    ///
    /// A failure if the server violated the protocol between requests.
    pub(crate) async fn is_open(&mut self) -> Result<bool, Failure> {
        match self {
            Connection::Http1(connection) => connection.is_open().await,
            Connection::Http2(connection) => Ok(connection.is_open()),
            #[cfg(feature = "http3")]
            Connection::Http3(connection) => Ok(connection.is_open()),
            Connection::WebSocket(connection) => Ok(connection.is_open().await),
            Connection::Sealed(connection) => Box::pin(connection.is_open()).await,
            Connection::Mle(connection) => Box::pin(connection.is_open()).await,
            Connection::OneShot(connection) => Box::pin(connection.is_open()).await,
            Connection::Broker(connection) => Ok(connection.is_open()),
            Connection::Channel(_) => Ok(true),
        }
    }

    /// Sends a request and reads its answer to the end. Dropping the future at any await counts as a failure.
    ///
    /// # Errors
    ///
    /// A failure of the transport, or of the answer. After a failure of a class other than `Status` and `Assertion` the
    /// connection is unusable and must be dropped.
    pub(crate) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        match self {
            Connection::Http1(connection) => connection.exchange(prepared, sample).await,
            Connection::Http2(connection) => connection.exchange(prepared, sample).await,
            // These futures are large, and every worker would carry the size of the largest.
            #[cfg(feature = "http3")]
            Connection::Http3(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::WebSocket(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::Sealed(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::Mle(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::OneShot(connection) => Box::pin(connection.exchange(prepared, sample)).await,
            Connection::Broker(connection) => Box::pin(connection.exchange(sample)).await,
            Connection::Channel(connection) => Box::pin(connection.exchange(sample)).await,
        }
    }

    /// Closes the connection after its last request. With `wait`, the server was asked to close it and has that long to do
    /// so.
    pub(crate) async fn finish(self, wait: Option<Duration>) {
        match self {
            Connection::Http1(connection) => connection.finish(wait).await,
            // The connection closes itself when its last share is dropped.
            Connection::Http2(_) | Connection::Broker(_) | Connection::Channel(_) => {}
            #[cfg(feature = "http3")]
            Connection::Http3(_) => {}
            Connection::WebSocket(connection) => connection.finish().await,
            Connection::Sealed(connection) => Box::pin(connection.finish(wait)).await,
            Connection::Mle(connection) => Box::pin(connection.finish(wait)).await,
            Connection::OneShot(connection) => Box::pin(connection.finish(wait)).await,
        }
    }
}

/// Measurements of one request, filled as it proceeds. Created on the stack for each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Time at which the request was scheduled to start.
    pub(crate) due: Instant,
    /// Time at which the request started.
    pub(crate) started: Instant,
    /// Time at which the answer was complete, if the connection read the clock then; otherwise the engine reads it.
    pub(crate) ended: Option<Instant>,
    /// Number of connection attempts for this request.
    pub(crate) connections_tried: u32,
    /// Number of connections established, including their handshake.
    pub(crate) connections_opened: u32,
    /// True if the server had closed the connection before anything was sent.
    pub(crate) reconnected: bool,
    /// Number of sessions agreed for this request.
    pub(crate) sessions_agreed: u32,
    /// Number of times that keys of the service were fetched for this request, or taken from a rejection.
    pub(crate) keys_fetched: u32,
    /// Number of times that this request was sent again, sealed anew.
    pub(crate) repeats: u32,
    /// Suite of the last session agreed, on wire 3.
    pub(crate) suite: Option<Suite>,
    /// Time to open a TCP connection, if one was opened.
    pub(crate) connect: Option<Duration>,
    /// Time and kind of the TLS handshake, if one was performed.
    pub(crate) tls: Option<(Duration, Handshake)>,
    /// Time from the request's first byte to the answer's first byte.
    pub(crate) first_byte: Option<Duration>,
    /// Setup time at the request's start that is not part of it: agreeing the session that its worker uses from then on.
    /// Response and service times exclude it.
    pub(crate) aside: Duration,
    /// Time to agree a session, if one was agreed.
    pub(crate) key_agreement: Option<Duration>,
    /// Time to seal the request.
    pub(crate) seal: Option<Duration>,
    /// Time to open the sealed answer.
    pub(crate) open: Option<Duration>,
    /// Processing time that the server reports.
    pub(crate) server: Option<Duration>,
    /// Status of the answer; 0 if there is none.
    pub(crate) status: u16,
    /// Number of bytes written for this request.
    pub(crate) bytes_sent: u64,
    /// Number of bytes read for this request.
    pub(crate) bytes_received: u64,
}

/// Kind of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// Full handshake that uses certificates.
    Full,
    /// Resumption of a session by a ticket.
    Resumed,
}

impl Sample {
    /// Creates the empty sample of a request.
    pub(crate) fn new(due: Instant, started: Instant) -> Self {
        Sample {
            due,
            started,
            ended: None,
            connections_tried: 0,
            connections_opened: 0,
            reconnected: false,
            sessions_agreed: 0,
            keys_fetched: 0,
            repeats: 0,
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
