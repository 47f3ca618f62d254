//! One server of an upstream: its connections, its availability, and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, counter, gauge};
use parking_lot::Mutex;
use sealway_runtime::http::share::Taker;
use sealway_runtime::tls::Client;
use tokio_rustls::rustls::ClientConfig;

use super::address::ServerAddress;
use super::connect::{ConnectError, TlsSetup, connect};
use super::h1::{CONTINUE_MS_FIRST, Connection};
use super::h2::{Links, Pick, Stream, is_same};
use super::io::Io;
use super::pool::{Acquisition, Lease, Pool, PoolLimits, Slot};
use super::{Protocol, UpstreamLimits};
use crate::used::ServerKey;

/// Time for which a server is skipped after a failed connection, at first and at most. It doubles in between.
const DOWN_FIRST: Duration = Duration::from_millis(250);
const DOWN_MAX: Duration = Duration::from_secs(10);

/// Status of a server for the admin page.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ServerStatus {
    /// Address as written in the configuration.
    pub address: String,
    /// True if requests are sent to it.
    pub up: bool,
    /// Requests that wait for it or are being answered.
    pub in_flight: usize,
    /// Idle connections; with HTTP/2, all connections.
    pub idle: usize,
    /// Number of connections made.
    pub connects: u64,
    /// Number of connections that failed.
    pub failures: u64,
    /// Error of the last failed connection or health check.
    pub last_error: Option<String>,
}

struct ServerMetrics {
    requests: Counter,
    connects: Counter,
    handshakes: Counter,
    failures: Counter,
    up: Gauge,
    in_flight: Gauge,
    idle: Gauge,
}

impl ServerMetrics {
    fn new(upstream: &str, server: &str) -> Self {
        let labels = [("upstream", upstream.to_owned()), ("server", server.to_owned())];
        ServerMetrics {
            requests: counter!("sealway_upstream_requests_total", &labels),
            connects: counter!("sealway_upstream_connects_total", &labels),
            handshakes: counter!("sealway_upstream_handshakes_total", &labels),
            failures: counter!("sealway_upstream_connect_failures_total", &labels),
            up: gauge!("sealway_upstream_up", &labels),
            in_flight: gauge!("sealway_upstream_in_flight", &labels),
            idle: gauge!("sealway_upstream_idle_connections", &labels),
        }
    }
}

/// Protocol that a server with TLS has negotiated so far.
const UNKNOWN: u8 = 0;
const H1: u8 = 1;
const H2: u8 = 2;

/// Kind of connection that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Any connection, of whatever version of HTTP.
    Any,
    /// A connection that speaks HTTP/1.1.
    Http1,
    /// One that takes extended CONNECT over HTTP/2, else one that speaks HTTP/1.1.
    Tunnel,
}

/// The connection that a request asks for.
#[derive(Clone, Copy)]
pub(super) struct LinkRequest {
    pub(super) need: Need,
    /// True for a connection without an earlier request.
    pub(super) is_fresh: bool,
    /// Network of the request's client, which has a share of the queue; none for requests of the gateway itself.
    pub(super) network: Option<Taker>,
}

/// A connection to a server, or a place on one.
pub(super) enum Link {
    H1(Connection, Slot),
    H2(Stream),
}

pub(super) struct Server {
    pub(super) address: ServerAddress,
    protocol: Protocol,
    tls: Option<Arc<Client>>,
    limits: UpstreamLimits,
    pool: Arc<Pool>,
    links: Links,
    /// HTTP/2 connections that carry tunnels alone.
    tunnels: Links,
    spoken: AtomicU8,
    /// Set once a server of HTTP/2 has not accepted extended CONNECT, until a connection to it fails.
    takes_no_connect: AtomicBool,
    in_flight: AtomicUsize,
    connects: AtomicU64,
    failures: AtomicU64,
    failures_in_row: AtomicU32,
    /// Time until which it is skipped, in milliseconds since `since`; 0 means not skipped.
    down_until_ms: AtomicU64,
    since: Instant,
    is_healthy: AtomicBool,
    /// Time that a body may wait for a 100 of this server, in milliseconds.
    pub(super) continue_ms: AtomicU64,
    last_error: Mutex<Option<String>>,
    metrics: ServerMetrics,
    upstream: Box<str>,
    key: ServerKey,
}

/// Counts as a request in flight until dropped.
pub(super) struct InFlight(Arc<Server>);

impl InFlight {
    pub(super) fn at(server: &Arc<Server>) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        server.metrics.requests.increment(1);
        InFlight(server.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InFlight")
    }
}

impl Server {
    pub(super) fn new(
        upstream: &str,
        address: ServerAddress,
        protocol: Protocol,
        tls: Option<Arc<Client>>,
        limits: UpstreamLimits,
    ) -> Self {
        let metrics = ServerMetrics::new(upstream, address.as_str());
        let pool = Pool::new(PoolLimits {
            connections_max: limits.connections_max,
            queue_max: limits.queue_max,
            idle_max: limits.idle_connections_max,
            idle: Duration::from_millis(limits.idle_ms),
        });
        metrics.up.set(1.0);
        Server {
            address,
            protocol,
            tls,
            limits,
            pool,
            links: Links::of_requests(),
            tunnels: Links::of_tunnels(),
            spoken: AtomicU8::new(UNKNOWN),
            takes_no_connect: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            connects: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            failures_in_row: AtomicU32::new(0),
            down_until_ms: AtomicU64::new(0),
            since: Instant::now(),
            is_healthy: AtomicBool::new(true),
            continue_ms: AtomicU64::new(CONTINUE_MS_FIRST),
            last_error: Mutex::new(None),
            metrics,
            upstream: upstream.into(),
            key: ServerKey::default(),
        }
    }

    /// Returns the number of requests that wait for it or are being answered.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// True if requests may be sent to it.
    pub(super) fn is_up(&self, now: Instant) -> bool {
        let down_until = self.down_until_ms.load(Ordering::Relaxed);
        let is_down = down_until > 0 && self.ms_since(now) < down_until;
        !is_down && self.is_healthy.load(Ordering::Relaxed)
    }

    fn ms_since(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.since).as_millis()).unwrap_or(u64::MAX)
    }

    /// Sets the result of health checks; returns true if it has changed.
    pub(super) fn set_healthy(&self, is_healthy: bool, why: Option<String>) -> bool {
        if why.is_some() {
            *self.last_error.lock() = why;
        }
        self.is_healthy.swap(is_healthy, Ordering::Relaxed) != is_healthy
    }

    /// Returns a connection for one request: an idle one, a place on a shared one, or a new one.
    pub(super) async fn link(&self, request: LinkRequest) -> Result<Link, ConnectError> {
        let may_be_h2 = match self.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Auto => self.address.is_tls() && self.spoken.load(Ordering::Relaxed) != H1,
        };
        match request.need {
            Need::Any if may_be_h2 => self.shared(&self.links, request).await,
            Need::Tunnel if may_be_h2 && !self.takes_no_connect.load(Ordering::Relaxed) => {
                self.shared(&self.tunnels, request).await
            }
            Need::Any | Need::Http1 | Need::Tunnel => self.own(request).await,
        }
    }

    /// Returns a connection for one request at a time.
    async fn own(&self, LinkRequest { is_fresh, network, .. }: LinkRequest) -> Result<Link, ConnectError> {
        let Lease { slot, mut connection } = match self.pool.take(is_fresh, network) {
            Acquisition::Now(granted) => granted,
            Acquisition::Later(granted, _share) => {
                let waited = tokio::time::timeout(self.connect_time(), granted).await;
                waited.ok().and_then(Result::ok).ok_or(ConnectError::Overloaded)?
            }
            Acquisition::Full => return Err(ConnectError::Overloaded),
        };
        let setup = self.tls_setup(false);
        let material = setup.as_ref().map(|setup| &setup.config);
        while let Some(mut idle) = connection {
            if !is_fresh && is_same(idle.material.as_ref(), material) && idle.is_quiet() {
                return Ok(Link::H1(idle, slot));
            }
            connection = self.pool.another();
        }
        let material = material.cloned();
        // Boxed: most requests find a connection.
        let (io, _) = Box::pin(self.connect(setup)).await?;
        Ok(Link::H1(Connection::new(io, material), slot))
    }

    /// Returns a place on a shared connection, if the server speaks HTTP/2, and for a tunnel accepts extended CONNECT.
    async fn shared(&self, links: &Links, request: LinkRequest) -> Result<Link, ConnectError> {
        let setup = self.tls_setup(true);
        let material = setup.as_ref().map(|setup| setup.config.clone());
        match links.pick(material.as_ref(), self.limits.connections_max) {
            Pick::Stream(stream) if !request.is_fresh => return Ok(Link::H2(stream)),
            Pick::Full => return Err(ConnectError::Overloaded),
            _ => {}
        }
        // Boxed: most requests find a place.
        Box::pin(self.make_shared(links, request, setup, material)).await
    }

    /// Makes a shared connection, or awaits one that is being made, and returns a place on it.
    async fn make_shared(
        &self,
        links: &Links,
        request: LinkRequest,
        setup: Option<TlsSetup>,
        material: Option<Arc<ClientConfig>>,
    ) -> Result<Link, ConnectError> {
        let is_tunnel = std::ptr::eq(links, &self.tunnels);
        let pick = || links.pick(material.as_ref(), self.limits.connections_max);
        let Ok(making) = tokio::time::timeout(self.connect_time(), links.making.lock()).await else {
            return Err(ConnectError::TimedOut);
        };
        if !request.is_fresh
            && let Pick::Stream(stream) = pick()
        {
            return Ok(Link::H2(stream));
        }
        let is_h1 = self.protocol == Protocol::Auto && self.spoken.load(Ordering::Relaxed) == H1;
        if is_h1 || (is_tunnel && self.takes_no_connect.load(Ordering::Relaxed)) {
            drop(making);
            return self.own(request).await;
        }
        let (io, is_h2) = self.connect(setup).await?;
        if is_h2 || !self.address.is_tls() {
            self.spoken.store(H2, Ordering::Relaxed);
            let stream = links.begin(io, material);
            if !is_tunnel || self.accepts_connect(&stream).await? {
                return Ok(Link::H2(stream));
            }
            self.takes_no_connect.store(true, Ordering::Relaxed);
            links.remove(&stream);
            drop(making);
            return self.own(request).await;
        }
        drop(making);
        if self.protocol == Protocol::Http2 {
            return Err(self.failed(ConnectError::Failed("the server does not speak HTTP/2".into())));
        }
        self.spoken.store(H1, Ordering::Relaxed);
        // The first connection is usable even though it was not made for HTTP/1.1 only.
        let material = self.tls_setup(false).map(|setup| setup.config);
        match self.pool.take(true, request.network) {
            Acquisition::Now(granted) => Ok(Link::H1(Connection::new(io, material), granted.slot)),
            _ => self.own(request).await,
        }
    }

    /// Returns whether a new connection takes extended CONNECT: its server's settings say so.
    async fn accepts_connect(&self, stream: &Stream) -> Result<bool, ConnectError> {
        let accepts = match tokio::time::timeout(self.connect_time(), stream.accepts_connect()).await {
            Ok(Ok(accepts)) => return Ok(accepts),
            Ok(Err(err)) => ConnectError::Failed(err.to_string()),
            Err(_) => ConnectError::TimedOut,
        };
        self.tunnels.remove(stream);
        Err(self.failed(accepts))
    }

    async fn connect(&self, setup: Option<TlsSetup>) -> Result<(Io, bool), ConnectError> {
        let is_tls = setup.is_some();
        tracing::trace!(server = self.address.as_str(), is_tls, "connecting");
        match connect(&self.address.place, setup, self.connect_time()).await {
            Ok(connected) => {
                self.connects.fetch_add(1, Ordering::Relaxed);
                self.metrics.connects.increment(1);
                if is_tls {
                    self.metrics.handshakes.increment(1);
                }
                if let Io::Tls(stream) = &connected.0 {
                    self.key.count_handshake(&self.upstream, self.address.as_str(), stream.get_ref().1);
                }
                if self.failures_in_row.swap(0, Ordering::Relaxed) > 0 {
                    self.down_until_ms.store(0, Ordering::Relaxed);
                    tracing::info!(server = self.address.as_str(), "upstream server reachable again");
                }
                Ok(connected)
            }
            Err(err) => Err(self.failed(err)),
        }
    }

    /// Records a failed connection: the server is skipped for a growing time.
    fn failed(&self, err: ConnectError) -> ConnectError {
        let why = err.to_string();
        let in_row = self.failures_in_row.fetch_add(1, Ordering::Relaxed);
        let down = DOWN_FIRST.saturating_mul(1 << in_row.min(16)).min(DOWN_MAX);
        self.down_until_ms.store(self.ms_since(Instant::now() + down), Ordering::Relaxed);
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.metrics.failures.increment(1);
        // The server may come back with another protocol.
        self.spoken.store(UNKNOWN, Ordering::Relaxed);
        self.takes_no_connect.store(false, Ordering::Relaxed);
        if in_row == 0 {
            tracing::warn!(server = self.address.as_str(), why, "upstream server unreachable");
        }
        *self.last_error.lock() = Some(why);
        err
    }

    fn tls_setup(&self, offers_h2: bool) -> Option<TlsSetup> {
        let name = self.address.tls_name.as_ref()?;
        let tls = self.tls.as_ref()?;
        let name = tls.server_name().unwrap_or_else(|| name.clone());
        Some(TlsSetup { config: tls.config(offers_h2), name })
    }

    fn connect_time(&self) -> Duration {
        Duration::from_millis(self.limits.connect_ms)
    }

    /// Closes connections that were idle for too long or made under old TLS settings, and updates the gauges.
    pub(super) fn tidy(&self) {
        let material = self.tls_setup(false).map(|setup| setup.config);
        self.pool.sweep(|connection| is_same(connection.material.as_ref(), material.as_ref()));
        for links in [&self.links, &self.tunnels] {
            links.sweep(Duration::from_millis(self.limits.idle_ms));
        }
        self.metrics.up.set(if self.is_up(Instant::now()) { 1.0 } else { 0.0 });
        self.metrics.in_flight.set(self.in_flight() as f64);
        self.metrics.idle.set(self.pool.idle() as f64);
    }

    /// Sets the state of a server that is no longer in use to NaN, so that no alert fires for it. If a reload has made it anew,
    /// [`Server::tidy`] sets its state again within a second.
    pub(super) fn retire_gauge(&self) {
        self.metrics.up.set(f64::NAN);
    }

    pub(super) fn status(&self) -> ServerStatus {
        ServerStatus {
            address: self.address.as_str().to_owned(),
            up: self.is_up(Instant::now()),
            in_flight: self.in_flight(),
            idle: self.pool.idle() + self.links.len() + self.tunnels.len(),
            connects: self.connects.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            last_error: self.last_error.lock().clone(),
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address.as_str()).finish_non_exhaustive()
    }
}
