//! What the server saw: the truth.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// What a server saw. Every request is in exactly one of `answered`, `status_500`, `resets`, `truncated`, `abandoned` and
/// `in_flight`.
#[derive(Clone, Debug)]
pub struct Record {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Full TLS handshakes.
    pub handshakes_full: u64,
    /// Resumed TLS handshakes.
    pub handshakes_resumed: u64,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
    /// Requests whose head came whole.
    pub requests: u64,
    /// Whole answers 200 that were written.
    pub answered: u64,
    /// Answers 500.
    pub status_500: u64,
    /// Connections reset in place of an answer.
    pub resets: u64,
    /// Answers cut short.
    pub truncated: u64,
    /// Requests whose client hung up before the answer left.
    pub abandoned: u64,
    /// Requests that were to be answered late, whatever became of them.
    pub late: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// The most requests that were under way at a time.
    pub in_flight_max: u64,
    /// From a head's last byte to the last byte of a whole answer 200, in nanoseconds.
    pub times: Histogram<u64>,
    /// How much later than the script said an answer left, in nanoseconds: large on a machine that is too busy.
    pub lag: Histogram<u64>,
    /// When the first and the last answer left.
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
    /// The time within which this share of the answered requests lies, in milliseconds; `share` is 0.0 to 1.0.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.times.value_at_quantile(share) as f64 / 1e6
    }

    /// How late 99 of 100 answers left at most, in milliseconds.
    pub fn lag_p99_ms(&self) -> f64 {
        self.lag.value_at_quantile(0.99) as f64 / 1e6
    }

    /// Whole answers a second, from the first to the last.
    pub fn rate(&self) -> f64 {
        let time = self.departures.map_or(Duration::ZERO, |(first, last)| last - first);
        if time.is_zero() { 0.0 } else { (self.answered.saturating_sub(1)) as f64 / time.as_secs_f64() }
    }

    /// Adds a whole answer.
    pub(super) fn answer(&mut self, arrived: Instant, left: Instant) {
        self.answered += 1;
        self.times.saturating_record((left - arrived).as_nanos() as u64);
        self.departures = Some((self.departures.map_or(left, |(first, _)| first), left));
    }

    /// For a program that is not of this process.
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
