//! HTTP/1.1 and HTTP/2 on listeners: connections, bounds, bodies, a graceful end.

mod body;
pub mod h1;
mod origin;
mod serve;

use std::time::Duration;

pub use body::{Body, BodyError, BodyRefusal, RequestBody, discard, full, read_body};
pub use origin::{Interim, Origin, Peer, Raw, TakeOver};
pub use serve::serve;

/// Bounds on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections at once on a listener; over that a 503 is sent and the connection closed.
    pub connections_max: usize,
    /// The request line and headers together, in bytes.
    pub header_bytes_max: usize,
    /// How long a connection may take for the head of a request, and how long it may stay idle between two.
    pub header_timeout: Duration,
    /// HTTP/2 streams at once on a connection.
    pub streams_max: u32,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections_max: 10_000,
            header_bytes_max: 32 * 1024,
            header_timeout: Duration::from_secs(30),
            streams_max: 256,
        }
    }
}
