//! `limits:` of the configuration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sealway_runtime::config::Problems;
use sealway_runtime::http::HttpLimits;
use serde::{Deserialize, Serialize};

use super::routes::SEALED_BODY_MAX;
use crate::body::{RateMin, StreamLimits};
use crate::route::ForwardPolicy;

const BUFFERED_BYTES_DEFAULT: usize = 256 * 1024 * 1024;
const BODY_AHEAD_BYTES: u64 = 64 * 1024;
/// In bytes a second.
const BODY_RATE_MIN: u64 = 100;
/// Largest rate that may be asked of a client, in bytes a second.
pub(super) const BODY_RATE_MIN_MAX: u64 = 1024 * 1024;

/// `limits:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawLimits {
    connections_max: Option<usize>,
    connections_per_address_max: Option<usize>,
    header_bytes_max: Option<usize>,
    header_fields_max: Option<usize>,
    header_timeout_ms: Option<u64>,
    handshake_timeout_ms: Option<u64>,
    idle_timeout_ms: Option<u64>,
    body_idle_ms: Option<u64>,
    request_ms: Option<u64>,
    streams_max: Option<u32>,
    buffered_bytes_max: Option<usize>,
    body_ahead_bytes: Option<u64>,
    body_rate_min_bytes_per_sec: Option<u64>,
    drain_ms: Option<u64>,
    stop_delay_ms: Option<u64>,
}

/// Bounds on requests, over all routes.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// How long the next chunk of a body may take.
    pub body_idle: Duration,
    /// How long a whole body may take.
    pub body_time: Duration,
    /// Bytes of bodies that may be held whole at once, over all connections: sealed ones, inits, echoes.
    pub buffered_max: usize,
    /// Bytes of a body that are read before a connection to its service is taken.
    pub body_ahead_max: u64,
    /// The lowest rate of a body, in bytes a second; 0 is none.
    pub body_rate_min: u64,
}

impl RequestLimits {
    /// Those of a request's body on a route. Its rate counts until the service `is_answered`.
    pub(crate) fn of_body(&self, policy: &ForwardPolicy, is_answered: &Arc<AtomicBool>) -> StreamLimits {
        let bytes_per_sec = policy.body_rate_min.unwrap_or(self.body_rate_min);
        let rate = (bytes_per_sec > 0).then(|| RateMin { bytes_per_sec, is_lifted: is_answered.clone() });
        StreamLimits { len_max: policy.body_max, idle: self.body_idle, time: Some(self.body_time), rate }
    }
}

/// Checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) http: HttpLimits,
    pub(super) request: RequestLimits,
    pub(super) drain: Duration,
    pub(super) stop_delay: Duration,
}

pub(super) fn resolve(raw: &RawLimits, problems: &mut Problems) -> Limits {
    let defaults = HttpLimits::default();
    let mut ms = |name, value, default: u64, range| {
        Duration::from_millis(problems.bounded(&format!("limits.{name}"), value, default, range))
    };
    let hour = 1..=3_600_000;
    let header_timeout = ms("header_timeout_ms", raw.header_timeout_ms, 30_000, hour.clone());
    let handshake_timeout = ms("handshake_timeout_ms", raw.handshake_timeout_ms, 10_000, hour.clone());
    // Who waits between two requests is as patient as who waits for the first, unless told otherwise.
    let idle_timeout = ms("idle_timeout_ms", raw.idle_timeout_ms.or(raw.header_timeout_ms), 60_000, hour.clone());
    let body_idle = ms("body_idle_ms", raw.body_idle_ms, 30_000, hour.clone());
    let drain = ms("drain_ms", raw.drain_ms, 30_000, hour);
    let body_time = ms("request_ms", raw.request_ms, 3_600_000, 1..=7 * 24 * 3_600_000);
    let stop_delay = ms("stop_delay_ms", raw.stop_delay_ms, 0, 0..=3_600_000);
    let mut count = |name, value, default, range| problems.bounded(&format!("limits.{name}"), value, default, range);
    let http = HttpLimits {
        connections_max: count("connections_max", raw.connections_max, defaults.connections_max, 1..=1_000_000),
        connections_per_address_max: count(
            "connections_per_address_max",
            raw.connections_per_address_max,
            defaults.connections_per_address_max,
            0..=1_000_000,
        ),
        // Nobody takes all of them by default. One proxy in front that may is said to by a bound of its own.
        scarce_connections_per_address: match raw.connections_per_address_max {
            None => raw.connections_max.unwrap_or(defaults.connections_max) / 16,
            Some(_) => 0,
        },
        header_bytes_max: count(
            "header_bytes_max",
            raw.header_bytes_max,
            defaults.header_bytes_max,
            8192..=1024 * 1024,
        ),
        fields_max: count("header_fields_max", raw.header_fields_max, defaults.fields_max, 16..=10_000),
        header_timeout,
        handshake_timeout,
        idle_timeout,
        streams_max: problems.bounded("limits.streams_max", raw.streams_max, defaults.streams_max, 1..=10_000),
    };
    let buffered_max = problems.bounded(
        "limits.buffered_bytes_max",
        raw.buffered_bytes_max,
        BUFFERED_BYTES_DEFAULT,
        2 * SEALED_BODY_MAX..=64 * 1024 * 1024 * 1024,
    );
    let mut bytes =
        |name: &str, value, default, max| problems.bounded(&format!("limits.{name}"), value, default, 0..=max);
    let body_ahead_max = bytes("body_ahead_bytes", raw.body_ahead_bytes, BODY_AHEAD_BYTES, 1024 * 1024);
    let rate_min = raw.body_rate_min_bytes_per_sec;
    let body_rate_min = bytes("body_rate_min_bytes_per_sec", rate_min, BODY_RATE_MIN, BODY_RATE_MIN_MAX);
    let request = RequestLimits { body_idle, body_time, buffered_max, body_ahead_max, body_rate_min };
    Limits { http, request, drain, stop_delay }
}
