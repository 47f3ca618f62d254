//! HTTP/3 over quinn and h3: each connection is shared by at most `streams` workers.
//!
//! QUIC opens a connection and performs the TLS handshake in one step; the sample records it as the handshake. Byte counts
//! are those of UDP datagrams.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::error::{Code, StreamError};
use h3_quinn::OpenStreams;
use http::Version;
use http::uri::Scheme;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, Endpoint};
use rustls::AlertDescription;

use super::connect::Opener;
use super::multiplexed::{self, ExchangeError};
use super::pool::{Live, Pool, Seat};
use super::tls::{Material, Tickets};
use super::{Handshake, Sample, classify, keep};
use crate::record::{Class, Failure};
use crate::request::CurrentRequest;

/// Maximum size of an answer's headers, in bytes.
const HEADERS_LEN_MAX: u64 = 256 * 1024;
/// QUIC error codes that carry a TLS alert (RFC 9001, section 4.8).
const CRYPTO_ERRORS: std::ops::Range<u64> = 0x100..0x200;

/// HTTP/3 connections of one shard.
pub(crate) struct Http3Lines {
    opener: Rc<Opener>,
    material: Material,
    tickets: Option<Arc<Tickets>>,
    /// Endpoints by source address: all connections from one address share a socket.
    endpoints: RefCell<Vec<(IpAddr, Endpoint)>>,
    pool: Pool<Line>,
}

#[derive(Clone)]
struct Line {
    sender: SendRequest<OpenStreams, Bytes>,
    connection: quinn::Connection,
    to: SocketAddr,
    /// Bytes sent and received that samples already count.
    counted: Rc<Cell<(u64, u64)>>,
    /// True if this connection has received an answer.
    has_served: Rc<Cell<bool>>,
}

impl Live for Line {
    fn is_closed(&self) -> bool {
        self.connection.close_reason().is_some()
    }
}

/// Seat of one worker on an HTTP/3 connection.
pub(crate) struct Http3 {
    lines: Rc<Http3Lines>,
    line: Line,
    _seat: Seat<Line>,
}

impl Http3Lines {
    /// Creates an empty pool of connections with this TLS material, each shared by at most `streams` workers.
    pub(crate) fn new(opener: Rc<Opener>, material: Material, streams: usize) -> Rc<Self> {
        let (tickets, pool) = (material.tickets(), Pool::new(streams));
        Rc::new(Http3Lines { opener, tickets, material, endpoints: RefCell::default(), pool })
    }

    /// Takes a seat on a connection with a free one, or opens a new connection.
    ///
    /// # Errors
    /// A failure that says why there is no connection.
    pub(crate) async fn open(self: &Rc<Self>, sample: &mut Sample) -> Result<Http3, Failure> {
        let (seat, line) = self.pool.seat(self.connect(sample)).await?;
        Ok(Http3 { lines: self.clone(), line, _seat: seat })
    }

    async fn connect(&self, sample: &mut Sample) -> Result<Line, Failure> {
        sample.connections_tried += 1;
        let dial = &self.opener.dial;
        let (to, source) = dial.next()?;
        let endpoint = self.endpoint(to, source)?;
        let (config, offered) = self.material.config_with(self.tickets.as_ref());
        let config = QuicClientConfig::try_from(config).map_err(|err| Failure::new(Class::Tls, err))?;
        let before = Instant::now();
        let connecting = endpoint.connect_with(ClientConfig::new(Arc::new(config)), to, &self.material.name());
        let connecting =
            connecting.map_err(|err| Failure::new(Class::Connect, format!("no connection to {to}: {err}")))?;
        let connection = tokio::time::timeout(dial.timeout(), connecting).await.map_err(|_| dial.late())?;
        let connection = connection.map_err(|err| {
            let failure = of_quic(&err, to, true);
            match self.material.last_refusal() {
                Some(refusal) if failure.class == Class::Tls => classify::of_tls(&refusal, &to),
                _ => failure,
            }
        })?;
        dial.settle();
        let is_resumed = offered.is_some_and(|offered| offered.is_taken());
        sample.tls = Some((before.elapsed(), if is_resumed { Handshake::Resumed } else { Handshake::Full }));
        let built = h3::client::builder()
            .max_field_section_size(HEADERS_LEN_MAX)
            .send_grease(false)
            .build(h3_quinn::Connection::new(connection.clone()))
            .await;
        let (mut driver, sender) =
            built.map_err(|err| Failure::new(Class::Malformed, format!("no HTTP/3 with {to}: {err}")))?;
        sample.connections_opened += 1;
        let open = self.opener.open.enter();
        tokio::task::spawn_local(async move {
            // The connection keeps its close reason.
            let _ = std::future::poll_fn(|cx| driver.poll_close(cx)).await;
            drop(open);
        });
        Ok(Line { sender, connection, to, counted: Rc::default(), has_served: Rc::default() })
    }

    /// Returns the endpoint bound to this source address, or to any address.
    fn endpoint(&self, to: SocketAddr, source: Option<IpAddr>) -> Result<Endpoint, Failure> {
        let any = if to.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
        let from = source.unwrap_or(any);
        let mut endpoints = self.endpoints.borrow_mut();
        if let Some((_, endpoint)) = endpoints.iter().find(|(known, _)| *known == from) {
            return Ok(endpoint.clone());
        }
        let endpoint = Endpoint::client((from, 0).into()).map_err(|err| classify::source(&err, from))?;
        endpoints.push((from, endpoint.clone()));
        Ok(endpoint)
    }
}

impl Http3 {
    /// Returns whether another request can be sent over this connection.
    pub(crate) fn is_open(&self) -> bool {
        !self.line.is_closed()
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// # Errors
    /// A failure of the transport, or of the answer.
    pub(crate) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        let answer = match self.ask(prepared, sample).await {
            // Retries only on a connection that has served before: otherwise the failure to connect must be reported.
            Err(ExchangeError::Unseen(_)) if self.line.has_served.get() => {
                self.add_bytes(sample);
                *self = self.lines.clone().open(sample).await?;
                sample.reconnected = true;
                self.ask(prepared, sample).await
            }
            answer => answer,
        };
        self.add_bytes(sample);
        answer.map_err(ExchangeError::into_failure)?;
        prepared.check(sample.status)
    }

    async fn ask(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), ExchangeError> {
        let target = (Version::HTTP_3, Scheme::HTTPS);
        let request = multiplexed::request(prepared, target, &self.lines.opener, ())?;
        let (sending, line) = (Instant::now(), &mut self.line);
        let (to, connection) = (line.to, line.connection.clone());
        let failed = |err: StreamError| failure_of(&err, &connection, to);
        let mut stream = match line.sender.send_request(request).await {
            Ok(stream) => stream,
            Err(err) => return Err(ExchangeError::Unseen(failed(err))),
        };
        let body = prepared.sent();
        if !body.is_empty() {
            stream.send_data(body).await.map_err(failed)?;
        }
        stream.finish().await.map_err(failed)?;
        let head = match stream.recv_response().await {
            Ok(head) => head,
            Err(err) if is_unseen(&err) => return Err(ExchangeError::Unseen(failed(err))),
            Err(err) => return Err(failed(err).into()),
        };
        sample.first_byte = Some(sending.elapsed());
        line.has_served.set(true);
        let (head, ()) = head.into_parts();
        multiplexed::take_head(head.status, head.headers, prepared, sample);
        while let Some(mut data) = stream.recv_data().await.map_err(failed)? {
            while data.has_remaining() {
                let len = data.chunk().len();
                if let Some(kept) = prepared.body() {
                    keep(kept, data.chunk())?;
                }
                data.advance(len);
            }
        }
        sample.ended = Some(Instant::now());
        Ok(())
    }

    /// Adds the bytes transferred since the last call: those of all streams, in the sample of the request that ends first.
    fn add_bytes(&self, sample: &mut Sample) {
        let stats = self.line.connection.stats();
        let (sent, received) = self.line.counted.replace((stats.udp_tx.bytes, stats.udp_rx.bytes));
        sample.bytes_sent += stats.udp_tx.bytes.saturating_sub(sent);
        sample.bytes_received += stats.udp_rx.bytes.saturating_sub(received);
    }
}

/// Returns whether the server says that it did not process the request.
fn is_unseen(err: &StreamError) -> bool {
    matches!(err, StreamError::RemoteTerminate { code, .. } if *code == Code::H3_REQUEST_REJECTED)
}

fn failure_of(err: &StreamError, connection: &quinn::Connection, to: SocketAddr) -> Failure {
    if let Some(reason) = connection.close_reason() {
        return of_quic(&reason, to, false);
    }
    match err {
        StreamError::RemoteTerminate { code, .. } => {
            Failure::new(Class::Reset, format!("{to} reset the stream: {code}"))
        }
        err if err.is_h3_no_error() => Failure::new(Class::Closed, format!("{to} closed the connection (GOAWAY)")),
        err => Failure::new(Class::Malformed, format!("{to} violated HTTP/3: {}", classify::chain(err))),
    }
}

fn of_quic(err: &ConnectionError, to: SocketAddr, is_handshake: bool) -> Failure {
    let code = match err {
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        ConnectionError::TransportError(err) => u64::from(err.code),
        _ => 0,
    };
    let when = if is_handshake { " during the handshake" } else { " before its response was complete" };
    match err {
        ConnectionError::ConnectionClosed(_) if CRYPTO_ERRORS.contains(&code) => {
            let alert = AlertDescription::from(u8::try_from(code & 0xff).unwrap_or_default());
            classify::of_tls(&rustls::Error::AlertReceived(alert), &to)
        }
        ConnectionError::TransportError(err) if CRYPTO_ERRORS.contains(&code) => {
            Failure::new(Class::Tls, format!("no TLS with {to}: {}", err.reason))
        }
        ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
            Failure::new(Class::Closed, format!("{to} closed the connection{when}: {err}"))
        }
        ConnectionError::Reset => Failure::new(Class::Reset, format!("{to} reset the connection{when}")),
        ConnectionError::TimedOut if is_handshake => {
            Failure::new(Class::ConnectTimeout, format!("no response from {to}"))
        }
        ConnectionError::TimedOut => Failure::new(Class::Reset, format!("{to} stopped responding")),
        ConnectionError::VersionMismatch => {
            Failure::new(Class::Connect, format!("{to} supports no QUIC version of this client"))
        }
        ConnectionError::LocallyClosed => {
            Failure::new(Class::Closed, format!("the connection to {to} was closed{when}"))
        }
        err => Failure::new(Class::Malformed, format!("the connection to {to} failed{when}: {err}")),
    }
}
