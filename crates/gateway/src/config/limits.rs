//! Section `limits:` of the configuration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sealway_runtime::config::{Number, Problems, Within};
use sealway_runtime::http::HttpLimits;
use serde::{Deserialize, Serialize};

use super::routes::SEALED_BODY_MAX;
use crate::body::{RateMin, StreamLimits};
use crate::route::ForwardPolicy;

/// Maximum value of most time limits, in milliseconds.
const HOUR_MS: u64 = 3_600_000;
const MIB: u64 = 1024 * 1024;
/// Maximum value of the minimum body rate, in bytes a second.
pub(super) const BODY_RATE_MIN_MAX: u64 = MIB;

/// Section `limits:` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawLimits {
    /// Connections at once for each address listened on; more get 503 and are closed. The admin listener has 64.
    connections_max: Number<usize, { HttpLimits::DEFAULT.connections_max as u64 }, 1, 1_000_000>,
    /// Connections at once of one client address on a listener; 0: no bound. If omitted, an address may hold any number
    /// until three quarters of `connections_max` are taken; the rest is for addresses that hold less than a sixteenth. Set
    /// it to `connections_max` behind a single proxy that carries all clients.
    connections_per_address_max: Within<usize, 0, 1_000_000>,
    /// Request line and headers together. Over it: 431, or 414 for the request line.
    header_bytes_max: Number<usize, { HttpLimits::DEFAULT.header_bytes_max as u64 }, 8192, { 1024 * 1024 }>,
    /// Headers of a request. Over it: 431.
    header_fields_max: Number<usize, { HttpLimits::DEFAULT.fields_max as u64 }, 16, 10_000>,
    /// Time for the head of a request, from its first byte.
    header_timeout_ms: Number<u64, 30_000, 1, HOUR_MS>,
    /// Time for a TLS handshake.
    handshake_timeout_ms: Number<u64, 10_000, 1, HOUR_MS>,
    /// Time that a connection may stay without a request.
    /// - default: `header_timeout_ms` if set, else {default}
    idle_timeout_ms: Number<u64, 60_000, 1, HOUR_MS>,
    /// Time between two chunks of a request body. Over it: 408, on sealed requests 400.
    body_idle_ms: Number<u64, 30_000, 1, HOUR_MS>,
    /// Time for a whole request body, from when the gateway first waits for it. Over it: 408, on sealed requests 400.
    request_ms: Number<u64, HOUR_MS, 1, { 7 * 24 * HOUR_MS }>,
    /// HTTP/2 streams at once on a connection.
    streams_max: Number<u32, { HttpLimits::DEFAULT.streams_max as u64 }, 1, 10_000>,
    /// Request bodies held at once over all connections: sealed ones, inits, and what is read ahead, each as its bytes
    /// arrive. One connection has a sixteenth of it, one client (an IPv4 address, an IPv6 /64) a quarter, or the largest
    /// body of a route where that is more; over that 503.
    buffered_bytes_max: Number<usize, { 256 * MIB }, { 2 * SEALED_BODY_MAX }, { 64 * 1024 * MIB }>,
    /// Part of a request body that is read before a connection to the service is taken, where its length is announced. It
    /// counts towards `buffered_bytes_max`.
    body_ahead_bytes: Number<u64, { 64 * 1024 }, 0, MIB>,
    /// Lowest rate of a request's body, as long as its service has not answered; 0: none. The first `body_idle_ms` of
    /// waiting are free. Below it: 408.
    /// - type: bytes a second
    body_rate_min_bytes_per_sec: Number<u64, 100, 0, BODY_RATE_MIN_MAX>,
    /// Time that requests in flight may take after SIGTERM or SIGINT.
    drain_ms: Number<u64, 30_000, 1, HOUR_MS>,
    /// Time before draining in which everything is still served while `/ready` says 503 `stopping`: a balancer's health
    /// check needs it to look elsewhere, so that no connection is on its way when the listener closes. A second signal
    /// cuts it short.
    stop_delay_ms: Number<u64, 0, 0, HOUR_MS>,
}

/// Bounds on requests, shared by all routes.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Maximum time until the next chunk of a body.
    pub body_idle: Duration,
    /// Maximum time of a whole body.
    pub body_time: Duration,
    /// Bytes of bodies that may be held in memory at once, over all connections: sealed ones, inits, echoes.
    pub buffered_max: usize,
    /// Bytes of a body that are read before a connection to its service is taken.
    pub body_ahead_max: u64,
    /// Minimum rate of a body, in bytes a second; 0 means none.
    pub body_rate_min: u64,
}

impl RequestLimits {
    /// Returns the bounds of a request's body on a route. Its rate counts until the service `is_answered`.
    pub(crate) fn of_body(&self, policy: &ForwardPolicy, is_answered: &Arc<AtomicBool>) -> StreamLimits {
        let bytes_per_sec = policy.body_rate_min.unwrap_or(self.body_rate_min);
        let rate = (bytes_per_sec > 0).then(|| RateMin { bytes_per_sec, is_lifted: is_answered.clone() });
        StreamLimits { len_max: policy.body_max, idle: self.body_idle, time: Some(self.body_time), rate }
    }
}

/// Section `limits:`, after its checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) http: HttpLimits,
    pub(super) request: RequestLimits,
    pub(super) drain: Duration,
    pub(super) stop_delay: Duration,
}

pub(super) fn resolve(raw: &RawLimits, problems: &mut Problems) -> Limits {
    let connections_max = raw.connections_max.check("limits.connections_max", problems);
    let per_address = "limits.connections_per_address_max";
    Limits {
        http: HttpLimits {
            connections_max,
            connections_per_address_max: raw.connections_per_address_max.check_or(per_address, 0, problems),
            // By default no single address can take all connections. An explicit bound removes this reserve, for a
            // single proxy in front.
            scarce_connections_per_address: match raw.connections_per_address_max.given() {
                None => connections_max / 16,
                Some(_) => 0,
            },
            header_bytes_max: raw.header_bytes_max.check("limits.header_bytes_max", problems),
            fields_max: raw.header_fields_max.check("limits.header_fields_max", problems),
            header_timeout: raw.header_timeout_ms.millis("limits.header_timeout_ms", problems),
            handshake_timeout: raw.handshake_timeout_ms.millis("limits.handshake_timeout_ms", problems),
            // The wait between two requests is by default as long as the wait for the first.
            idle_timeout: raw
                .idle_timeout_ms
                .or(raw.header_timeout_ms.given())
                .millis("limits.idle_timeout_ms", problems),
            streams_max: raw.streams_max.check("limits.streams_max", problems),
        },
        request: RequestLimits {
            body_idle: raw.body_idle_ms.millis("limits.body_idle_ms", problems),
            body_time: raw.request_ms.millis("limits.request_ms", problems),
            buffered_max: raw.buffered_bytes_max.check("limits.buffered_bytes_max", problems),
            body_ahead_max: raw.body_ahead_bytes.check("limits.body_ahead_bytes", problems),
            body_rate_min: raw.body_rate_min_bytes_per_sec.check("limits.body_rate_min_bytes_per_sec", problems),
        },
        drain: raw.drain_ms.millis("limits.drain_ms", problems),
        stop_delay: raw.stop_delay_ms.millis("limits.stop_delay_ms", problems),
    }
}
