//! What was seen of a run: counts, classes of failures, times by phase, second by second and in all.
//!
//! A shard writes to an [`Interval`] of its own without a lock or an allocation; once a second the intervals of all
//! shards are merged into one [`Second`] and into the [`Totals`]. Memory does not grow with the number of requests.

mod fault;
mod gauge;
mod phase;
mod recorder;
mod seconds;
mod since;
mod times;

use std::time::Duration;

use sealway_client::sealed::Suite;
use serde::{Deserialize, Serialize};

pub use self::fault::{Class, Fault};
pub(crate) use self::gauge::{Entered, Gauge};
pub use self::phase::Phase;
pub(crate) use self::recorder::{Cut, Recorder, Timeline, Usage};
pub(crate) use self::seconds::Seconds;
pub use self::times::{HEAT_BUCKETS, Heat, Quantiles, TIME_MAX_NS, Times};

/// Counts; of an interval or of a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were meant to start.
    pub due: u64,
    /// Requests that did start.
    pub started: u64,
    /// Requests whose answer was whole, in time, and as asserted.
    pub succeeded: u64,
    /// Requests that failed, for any reason.
    pub failed: u64,
    /// Requests that were under way when the run ended, and cut then. Only at the end of a run.
    pub unfinished: u64,
    /// Requests that were due and never started: the open model found no free connection for them. Only at the end.
    pub unsent: u64,
    /// Bytes written, TLS not counted.
    pub bytes_sent: u64,
    /// Bytes read, TLS not counted.
    pub bytes_received: u64,
    /// Connections that stood, their handshake included.
    pub connections_opened: u64,
    /// Connections that were tried.
    pub connections_tried: u64,
    /// Requests that found their connection closed by the server between requests, and opened another before they sent
    /// anything. No failure.
    pub reconnections: u64,
    /// Full TLS handshakes.
    pub handshakes_full: u64,
    /// Resumed TLS handshakes.
    pub handshakes_resumed: u64,
    /// Sessions agreed.
    pub sessions_agreed: u64,
    /// Those of wire 3 among them, by suite.
    #[serde(default)]
    pub sessions_by_suite: BySuite,
}

/// Sessions of wire 3 by their suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BySuite {
    /// ML-KEM-768 and X25519.
    #[serde(rename = "X25519MLKEM768")]
    pub x25519_ml_kem: u64,
    /// P-256 and ML-KEM-768.
    #[serde(rename = "SecP256r1MLKEM768")]
    pub secp256r1_ml_kem: u64,
    /// P-256 alone.
    #[serde(rename = "P256")]
    pub p256: u64,
}

impl BySuite {
    /// The count of one suite.
    pub fn of(&mut self, suite: Suite) -> &mut u64 {
        match suite {
            Suite::X25519MlKem768 => &mut self.x25519_ml_kem,
            Suite::SecP256r1MlKem768 => &mut self.secp256r1_ml_kem,
            Suite::P256 => &mut self.p256,
        }
    }

    /// In words, such as `3 X25519MLKEM768, 1 P256`; empty for none.
    pub fn words(mut self) -> String {
        let told = |suite: Suite| Some((*self.of(suite), suite.name())).filter(|(count, _)| *count > 0);
        let told = Suite::ALL.map(told).into_iter().flatten().map(|(count, name)| format!("{count} {name}"));
        told.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn add(&mut self, mut other: BySuite) {
        Suite::ALL.into_iter().for_each(|suite| *self.of(suite) += *other.of(suite));
    }

    fn take(&mut self, mut other: BySuite) {
        Suite::ALL.into_iter().for_each(|suite| *self.of(suite) = self.of(suite).saturating_sub(*other.of(suite)));
    }
}

/// What one shard saw in one second, or several merged. Its size is constant.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Counts.
    pub counts: Counts,
    /// Answers by status code; the index is the code, 0 for what is none.
    pub statuses: Box<[u64; 600]>,
    /// Failures by class; the index is [`Class::index`].
    pub faults: [u64; Class::ALL.len()],
    /// The first failure of each class.
    pub examples: [Option<String>; Class::ALL.len()],
    /// Times by phase; the index is [`Phase::index`].
    pub times: Vec<Times>,
    /// How late the generator itself was: from when a timer was due to when its task ran.
    pub lag: Times,
    /// Requests under way at the end.
    pub in_flight: u64,
    /// Connections open at the end.
    pub connections: u64,
}

/// One second of a run, small enough to keep all of them.
#[derive(Clone, Debug)]
pub struct Second {
    /// Which it is, from 0; warm-up counts.
    pub index: u32,
    /// Since the run's start, at its end.
    pub at: Duration,
    /// How long it was: the last one may be shorter.
    pub length: Duration,
    /// Whether it is part of the warm-up, and so in no total.
    pub warm_up: bool,
    /// Counts of this second.
    pub counts: Counts,
    /// [`Phase::Response`] of this second.
    pub response: Quantiles,
    /// [`Phase::Service`] of this second.
    pub service: Quantiles,
    /// How the response times lie.
    pub heat: Heat,
    /// Answers by status code, those that came.
    pub statuses: Vec<(u16, u64)>,
    /// Failures by class, those that happened.
    pub faults: Vec<(Class, u64)>,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// Connections open at its end.
    pub connections: u64,
    /// How late the generator was at most.
    pub lag_max: Duration,
    /// Processor time of the generator in this second, over its length: 1.0 is one core.
    pub cpu: f64,
}

/// One class of failures in a whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCount {
    /// The class.
    pub class: Class,
    /// How many.
    pub count: u64,
    /// The first one's words.
    pub example: String,
}

/// A whole run until now, without its warm-up.
#[derive(Clone, Debug)]
pub struct Totals {
    /// How long it has been measured.
    pub measured: Duration,
    /// Everything of all shards together.
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

impl Counts {
    /// Adds all of another's.
    pub fn add(&mut self, other: &Counts) {
        self.due += other.due;
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.connections_opened += other.connections_opened;
        self.connections_tried += other.connections_tried;
        self.reconnections += other.reconnections;
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.sessions_agreed += other.sessions_agreed;
        self.sessions_by_suite.add(other.sessions_by_suite);
    }
}

impl Interval {
    /// Adds what another shard saw, or this one a second later. Gauges are added too, as of several shards.
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

    /// Forgets everything and keeps its memory.
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

    /// The times of this phase.
    pub fn times(&self, phase: Phase) -> &Times {
        &self.times[phase.index()]
    }

    /// Answers by status code, those that came, in the order of the codes.
    pub fn statuses(&self) -> Vec<(u16, u64)> {
        let came = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        came.map(|(code, count)| (code as u16, *count)).collect()
    }

    /// Failures by class, the most frequent first.
    pub fn faults(&self) -> Vec<FaultCount> {
        let mut faults: Vec<_> = Class::ALL
            .into_iter()
            .filter(|class| self.faults[class.index()] > 0)
            .map(|class| FaultCount {
                class,
                count: self.faults[class.index()],
                example: self.examples[class.index()].clone().unwrap_or_default(),
            })
            .collect();
        faults.sort_by_key(|fault| std::cmp::Reverse(fault.count));
        faults
    }

    /// Share of requests that failed, of those that ended; 0.0 to 1.0.
    pub fn failed_share(&self) -> f64 {
        let ended = self.counts.succeeded + self.counts.failed;
        if ended == 0 { 0.0 } else { self.counts.failed as f64 / ended as f64 }
    }
}
