//! Measurements of a run: counts, failures by class, and times by phase, for each second and in total.
//!
//! A shard writes to its own [`Interval`] without a lock or an allocation. Once a second the intervals of all shards are
//! merged into one [`Second`] and into the [`Totals`]. Memory does not grow with the number of requests.

mod failure;
mod gauge;
mod phase;
mod recorder;
mod seconds;
pub(crate) mod serial;
mod since;
mod times;

use std::time::Duration;

use sealway_client::Suite;
use serde::{Deserialize, Serialize};

pub use self::failure::{Class, Failure};
pub(crate) use self::gauge::{Gauge, GaugeGuard};
pub use self::phase::Phase;
pub(crate) use self::recorder::{Cut, Recorder, Timeline, Usage};
pub(crate) use self::seconds::Seconds;
pub use self::times::{HEAT_BUCKETS, Heat, Quantiles, TIME_MAX_NS, Times};

/// Counters of an interval or of a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were scheduled to start.
    pub due: u64,
    /// Requests that started, on time or late.
    pub started: u64,
    /// Requests whose answer was complete, in time, and met all assertions.
    pub succeeded: u64,
    /// Requests that failed, for any reason.
    pub failed: u64,
    /// Requests that were under way when the run ended, and were cut then. Only at the end of a run.
    pub unfinished: u64,
    /// Requests that were due and never started, because no worker was free in time, or the run paused or ended first.
    pub unsent: u64,
    /// Bytes written, without TLS overhead (HTTP/3: bytes of datagrams).
    pub bytes_sent: u64,
    /// Bytes read, without TLS overhead (HTTP/3: bytes of datagrams).
    pub bytes_received: u64,
    /// Connections established, including their handshake.
    pub connections_opened: u64,
    /// Connection attempts, successful or not.
    pub connections_tried: u64,
    /// Requests that found their connection closed by the server between requests, and opened another before sending
    /// anything. These are no failures.
    pub reconnections: u64,
    /// Full TLS handshakes, with certificates.
    pub handshakes_full: u64,
    /// TLS handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Sessions agreed, on any wire.
    pub sessions_agreed: u64,
    /// Times that keys of the service were fetched or taken from a rejection, for requests without a session.
    #[serde(default)]
    pub keys_fetched: u64,
    /// Requests that were sent again, sealed anew, after their key was retired or the clock was corrected.
    #[serde(default)]
    pub repeats: u64,
    /// Sessions agreed on wire 3, by suite.
    #[serde(default)]
    pub sessions_by_suite: BySuite,
}

/// Sessions of wire 3, counted by suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BySuite {
    /// Suite of ML-KEM-768 and X25519.
    #[serde(rename = "X25519MLKEM768")]
    pub x25519_ml_kem: u64,
    /// Suite of P-256 and ML-KEM-768.
    #[serde(rename = "SecP256r1MLKEM768")]
    pub secp256r1_ml_kem: u64,
    /// Suite of P-256 without ML-KEM.
    #[serde(rename = "P256")]
    pub p256: u64,
    /// Suite of P-384 and ML-KEM-1024.
    #[serde(rename = "SecP384r1MLKEM1024")]
    pub secp384r1_ml_kem: u64,
    /// Suite of ML-KEM-1024 on its own.
    #[serde(rename = "MLKEM1024")]
    pub ml_kem: u64,
}

impl BySuite {
    /// Returns the count of one suite.
    pub fn of(&mut self, suite: Suite) -> &mut u64 {
        match suite {
            Suite::X25519MlKem768 => &mut self.x25519_ml_kem,
            Suite::SecP256r1MlKem768 => &mut self.secp256r1_ml_kem,
            Suite::P256 => &mut self.p256,
            Suite::SecP384r1MlKem1024 => &mut self.secp384r1_ml_kem,
            Suite::MlKem1024 => &mut self.ml_kem,
        }
    }

    /// Formats the counts above zero, such as `3 X25519MLKEM768, 1 P256`; empty if there are none.
    pub fn words(mut self) -> String {
        let shown = |suite: Suite| Some((*self.of(suite), suite.name())).filter(|(count, _)| *count > 0);
        let shown = Suite::ALL.map(shown).into_iter().flatten().map(|(count, name)| format!("{count} {name}"));
        shown.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn add(&mut self, mut other: BySuite) {
        Suite::ALL.into_iter().for_each(|suite| *self.of(suite) += *other.of(suite));
    }

    fn take(&mut self, mut other: BySuite) {
        Suite::ALL.into_iter().for_each(|suite| *self.of(suite) = self.of(suite).saturating_sub(*other.of(suite)));
    }
}

/// Measurements of one shard in one second, or several such merged. Its size is constant.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Counters of requests, bytes and connections.
    pub counts: Counts,
    /// Answers by status code, which is the index; index 0 is unused.
    pub statuses: Box<[u64; 600]>,
    /// Failures by class; the index is [`Class::index`].
    pub faults: [u64; Class::ALL.len()],
    /// First failure of each class.
    pub examples: [Option<String>; Class::ALL.len()],
    /// Times by phase; the index is [`Phase::index`].
    pub times: Vec<Times>,
    /// Delay of the generator itself: from a timer's due time to its task running.
    pub lag: Times,
    /// Requests under way at the interval's end.
    pub in_flight: u64,
    /// Connections open at the interval's end.
    pub connections: u64,
}

/// One second of a run, small enough to keep all seconds. Reports hold it unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Index of the second, from 0, warm-up included.
    #[serde(skip)]
    pub index: u32,
    /// End of the second, since the run's start.
    #[serde(rename = "at_s", with = "serial::seconds")]
    pub at: Duration,
    /// Length of the second: the last one, and the last of the warm-up, may be shorter, merged ones are longer.
    #[serde(rename = "length_s", with = "serial::seconds")]
    pub length: Duration,
    /// True if the second is part of the warm-up, which no total includes.
    pub warm_up: bool,
    /// Counters of this second alone.
    pub counts: Counts,
    /// Quantiles of [`Phase::Response`] in this second.
    pub response: Quantiles,
    /// Quantiles of [`Phase::Service`] in this second.
    pub service: Quantiles,
    /// Distribution of the response times.
    pub heat: Heat,
    /// Answers by status code, only codes that occurred.
    pub statuses: Vec<(u16, u64)>,
    /// Failures by class, only classes that occurred.
    pub faults: Vec<(Class, u64)>,
    /// Requests under way at the second's end.
    pub in_flight: u64,
    /// Connections open at the second's end.
    pub connections: u64,
    /// Longest delay of the generator itself.
    #[serde(rename = "lag_max_ns", with = "serial::nanoseconds")]
    pub lag_max: Duration,
    /// Processor time of the generator in this second, divided by its length: 1.0 is one core.
    #[serde(rename = "cpu_cores", serialize_with = "serial::finite")]
    pub cpu: f64,
}

/// Failures of one class in a whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    /// Class that all these failures have.
    pub class: Class,
    /// Number of failures in this class.
    pub count: u64,
    /// Description of the first failure.
    pub example: String,
}

/// Totals of a run so far, without its warm-up.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Measured time, without the warm-up.
    pub measured: Duration,
    /// Sum of the intervals of all shards.
    pub sum: Interval,
}

impl Default for Interval {
    fn default() -> Self {
        Interval {
            counts: Counts::default(),
            statuses: Box::new([0; 600]),
            faults: [0; Class::ALL.len()],
            examples: std::array::from_fn(|_| None),
            times: vec![Times::default(); Phase::ALL.len()],
            lag: Times::default(),
            in_flight: 0,
            connections: 0,
        }
    }
}

impl Second {
    /// Converts a count of this second into a rate per second.
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        let length = self.length.as_secs_f64();
        if length > 0.0 { count as f64 / length } else { 0.0 }
    }
}

impl Counts {
    /// Returns all counters except those by suite.
    fn each(&mut self) -> [&mut u64; 16] {
        [
            &mut self.due,
            &mut self.started,
            &mut self.succeeded,
            &mut self.failed,
            &mut self.unfinished,
            &mut self.unsent,
            &mut self.bytes_sent,
            &mut self.bytes_received,
            &mut self.connections_opened,
            &mut self.connections_tried,
            &mut self.reconnections,
            &mut self.handshakes_full,
            &mut self.handshakes_resumed,
            &mut self.sessions_agreed,
            &mut self.keys_fetched,
            &mut self.repeats,
        ]
    }

    /// Adds all counters of another instance.
    pub fn add(&mut self, other: &Counts) {
        let mut other = *other;
        self.each().into_iter().zip(other.each()).for_each(|(mine, more)| *mine += *more);
        self.sessions_by_suite.add(other.sessions_by_suite);
    }

    /// Subtracts an earlier reading of the same counters.
    fn take_away(&mut self, mut before: Counts) {
        self.each().into_iter().zip(before.each()).for_each(|(mine, less)| *mine = mine.saturating_sub(*less));
        self.sessions_by_suite.take(before.sessions_by_suite);
    }
}

impl Interval {
    /// Adds another shard's interval, or a later one of this shard. Gauges are added too, as if of several shards.
    pub fn add(&mut self, other: &Interval) {
        self.counts.add(&other.counts);
        for (mine, more) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *mine += more;
        }
        for (mine, more) in self.faults.iter_mut().zip(other.faults) {
            *mine += more;
        }
        for (mine, more) in self.examples.iter_mut().zip(&other.examples) {
            if mine.is_none() {
                mine.clone_from(more);
            }
        }
        for (mine, more) in self.times.iter_mut().zip(&other.times) {
            mine.add(more);
        }
        self.lag.add(&other.lag);
        self.in_flight += other.in_flight;
        self.connections += other.connections;
    }

    /// Resets all values and keeps the memory.
    pub fn clear(&mut self) {
        self.counts = Counts::default();
        self.statuses.fill(0);
        self.faults = [0; Class::ALL.len()];
        self.examples.fill(None);
        self.times.iter_mut().for_each(Times::clear);
        self.lag.clear();
        self.in_flight = 0;
        self.connections = 0;
    }

    /// Converts this interval into a measured second of a run that ends at `at`.
    pub(crate) fn second(&self, index: u32, at: Duration, length: Duration) -> Second {
        Second {
            index,
            at,
            length,
            warm_up: false,
            counts: self.counts,
            response: self.times(Phase::Response).quantiles(),
            service: self.times(Phase::Service).quantiles(),
            heat: self.times(Phase::Response).heat(),
            statuses: self.statuses(),
            faults: self.faults().into_iter().map(|failure| (failure.class, failure.count)).collect(),
            in_flight: self.in_flight,
            connections: self.connections,
            lag_max: Duration::from_nanos(self.lag.quantile_ns(1.0)),
            cpu: 0.0,
        }
    }

    /// Returns the times of this phase.
    pub fn times(&self, phase: Phase) -> &Times {
        &self.times[phase.index()]
    }

    /// Returns the answers by status code, only codes that occurred, in ascending order.
    pub fn statuses(&self) -> Vec<(u16, u64)> {
        let came = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        came.map(|(code, count)| (code as u16, *count)).collect()
    }

    /// Returns the failures by class, the most frequent first.
    pub fn faults(&self) -> Vec<FailureCount> {
        let mut faults: Vec<_> = Class::ALL
            .into_iter()
            .filter(|class| self.faults[class.index()] > 0)
            .map(|class| FailureCount {
                class,
                count: self.faults[class.index()],
                example: self.examples[class.index()].clone().unwrap_or_default(),
            })
            .collect();
        faults.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        faults
    }

    /// Returns the share of failed requests among those that ended, 0.0 to 1.0.
    pub fn failed_share(&self) -> f64 {
        let ended = self.counts.succeeded + self.counts.failed;
        if ended == 0 { 0.0 } else { self.counts.failed as f64 / ended as f64 }
    }
}
