//! HTTP/1.1 and HTTP/2 on listeners: connections, bounds, bodies, a graceful end.

mod body;
mod connection;
mod connections;
pub mod h1;
pub mod h2;
#[cfg(test)]
mod h2_tests;
mod metrics_help;
pub mod notices;
mod origin;
mod serve;
pub mod share;
mod stream;
#[cfg(test)]
mod tests;
pub mod websocket;

use std::time::Duration;

pub use body::{Body, BodyError, BodyRefusal, RequestBody, discard, full, read_body, refusal_of};
pub use connections::{ConnectionInfo, Connections};
pub use metrics_help::METRICS;
pub use origin::{ExtendedConnect, FromTrustedProxy, Interim, Origin, Peer, Raw, TakeOver};
pub use serve::{Listening, serve};
pub use stream::Stream;

/// Longest time in which a peer may take fewer than [`h2::UNREAD_LEN`] bytes of an answer that waits for nothing but the peer.
pub(crate) const UNREAD_TIME: Duration = if cfg!(test) { Duration::from_millis(600) } else { Duration::from_secs(60) };
/// Time that a connection without a request stays open after shutdown began.
const IDLE_GRACE: Duration = Duration::from_millis(250);

/// Bounds on connections of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Most connections at once on a listener; further ones get a 503 and are closed.
    pub connections_max: usize,
    /// Most connections at once of one address on a listener; 0 is no bound.
    pub connections_per_address_max: usize,
    /// Number of connections that an address may have and still get one of the last quarter; 0 disables this rule.
    pub scarce_connections_per_address: usize,
    /// Largest request line and headers together, in bytes.
    pub header_bytes_max: usize,
    /// Most fields in the head of a request.
    pub fields_max: usize,
    /// Longest time for the head of a request, from its first byte.
    pub header_timeout: Duration,
    /// Longest time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Longest time that a connection may stay without a request.
    pub idle_timeout: Duration,
    /// Most HTTP/2 streams at once on a connection.
    pub streams_max: u32,
}

impl HttpLimits {
    /// The bounds of a listener without configured ones.
    pub const DEFAULT: Self = HttpLimits {
        connections_max: 10_000,
        connections_per_address_max: 0,
        scarce_connections_per_address: 0,
        header_bytes_max: 32 * 1024,
        fields_max: 128,
        header_timeout: Duration::from_secs(30),
        handshake_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(60),
        streams_max: 256,
    };
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
