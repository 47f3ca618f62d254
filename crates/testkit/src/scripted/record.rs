//! The server's record of its requests: the reference.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// The record of a server. Every request is in exactly one of `answered`, `status_500`, `resets`, `truncated`, `abandoned` and
/// `in_flight`.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number of connections that were accepted.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Full TLS handshakes, without resumption.
    pub handshakes_full: u64,
    /// TLS handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// TLS handshakes that failed, full or resumed.
    pub handshakes_failed: u64,
    /// Requests whose head arrived whole.
    pub requests: u64,
    /// Answers 200 that were written whole.
    pub answered: u64,
    /// Answers with the status 500.
    pub status_500: u64,
    /// Connections reset in place of an answer.
    pub resets: u64,
    /// Answers that were cut short.
    pub truncated: u64,
    /// Requests whose client closed before the answer left.
    pub abandoned: u64,
    /// Requests to be answered late, whatever their end.
    pub late: u64,
    /// Requests in flight at present.
    pub in_flight: u64,
    /// The most requests in flight at a time.
    pub in_flight_max: u64,
    /// From a head's last byte to the last byte of a whole answer 200, in nanoseconds.
    pub times: Histogram<u64>,
    /// Delay of answers beyond the script's time, in nanoseconds: large on a machine that is too busy.
    pub lag: Histogram<u64>,
    /// Times of the first and the last answer.
    pub departures: Option<(Instant, Instant)>,
}

impl Default for Record {
    fn default() -> Self {
        let times = || Histogram::new_with_bounds(64, 3_600_000_000_000, 3).expect("constant bounds");
        Record {
            accepted: 0,
            open: 0,
            handshakes_full: 0,
            handshakes_resumed: 0,
            handshakes_failed: 0,
            requests: 0,
            answered: 0,
            status_500: 0,
            resets: 0,
            truncated: 0,
            abandoned: 0,
            late: 0,
            in_flight: 0,
            in_flight_max: 0,
            times: times(),
            lag: times(),
            departures: None,
        }
    }
}

impl Record {
    /// Returns the time within which this share of the answered requests lies, in milliseconds; `share` is 0.0 to 1.0.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.times.value_at_quantile(share) as f64 / 1e6
    }

    /// Returns the 99th percentile of the answers' lag, in milliseconds.
    pub fn lag_p99_ms(&self) -> f64 {
        self.lag.value_at_quantile(0.99) as f64 / 1e6
    }

    /// Returns the number of whole answers a second, from the first to the last.
    pub fn rate(&self) -> f64 {
        let time = self.departures.map_or(Duration::ZERO, |(first, last)| last - first);
        if time.is_zero() { 0.0 } else { (self.answered.saturating_sub(1)) as f64 / time.as_secs_f64() }
    }

    /// Records a whole answer 200.
    pub(super) fn answer(&mut self, arrived: Instant, left: Instant) {
        self.answered += 1;
        self.times.saturating_record((left - arrived).as_nanos() as u64);
        self.departures = Some((self.departures.map_or(left, |(first, _)| first), left));
    }

    /// Returns the record for a program of another process.
    pub fn json(&self) -> Value {
        let quantiles = |times: &Histogram<u64>| {
            let at = |share| times.value_at_quantile(share) as f64 / 1e6;
            json!({ "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "p999_ms": at(0.999), "max_ms": at(1.0) })
        };
        json!({
            "accepted": self.accepted, "open": self.open,
            "handshakes_full": self.handshakes_full, "handshakes_resumed": self.handshakes_resumed,
            "handshakes_failed": self.handshakes_failed,
            "requests": self.requests, "answered": self.answered, "status_500": self.status_500, "resets": self.resets,
            "truncated": self.truncated, "abandoned": self.abandoned, "late": self.late,
            "in_flight": self.in_flight, "in_flight_max": self.in_flight_max, "rate": self.rate(),
            "times": quantiles(&self.times), "lag": quantiles(&self.lag),
        })
    }
}
