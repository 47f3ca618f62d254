//! The seconds that one line tells: counts added up, and percentiles of exactly these seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::Tick;
use crate::record::{Class, Counts, Phase, Second, Times};

/// What has gathered since the last line.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) seconds: Vec<Second>,
    /// Response times of the whole run as they were at the last line; kept only where a line is of several seconds.
    before: Option<Times>,
    now: Option<Times>,
}

/// Response times of a window, in nanoseconds; none where nothing was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Percentiles {
    pub(super) p50: u64,
    pub(super) p95: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

impl Window {
    /// Adds a second; says how long all of them are together.
    pub(super) fn add(&mut self, tick: &Tick) -> Duration {
        self.seconds.push(tick.second.clone());
        self.now = Some(tick.totals.sum.times(Phase::Response).clone());
        self.length()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }

    pub(super) fn seconds(&self) -> u64 {
        self.seconds.len() as u64
    }

    /// Begins the next line.
    pub(super) fn restart(&mut self) {
        self.seconds.clear();
        self.before = self.now.take();
    }

    pub(super) fn length(&self) -> Duration {
        self.seconds.iter().map(|second| second.length).sum()
    }

    /// The last second of it.
    pub(super) fn last(&self) -> Option<&Second> {
        self.seconds.last()
    }

    /// The sums of what is counted.
    pub(super) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counts in self.seconds.iter().map(|second| &second.counts) {
            sum.due += counts.due;
            sum.started += counts.started;
            sum.succeeded += counts.succeeded;
            sum.failed += counts.failed;
            sum.unfinished += counts.unfinished;
            sum.unsent += counts.unsent;
            sum.bytes_sent += counts.bytes_sent;
            sum.bytes_received += counts.bytes_received;
            sum.connections_opened += counts.connections_opened;
            sum.connections_tried += counts.connections_tried;
            sum.handshakes_full += counts.handshakes_full;
            sum.handshakes_resumed += counts.handshakes_resumed;
            sum.sessions_agreed += counts.sessions_agreed;
            sum.sessions_by_suite.add(counts.sessions_by_suite);
        }
        sum
    }

    /// Percentiles of these seconds alone. Those of one second are its own; of several, what the run's histogram has
    /// more than at the last line. A warm-up is in no histogram of the run: then the worst second's are told.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        if self.seconds.len() > 1 && self.seconds.iter().all(|second| !second.warm_up) {
            let mut times = self.now.as_ref()?.histogram().clone();
            if let Some(before) = &self.before {
                // What is there now has everything that was there before, so that it cannot fail.
                let _ = times.subtract(before.histogram());
            }
            let at = |share| times.value_at_quantile(share);
            let max = self.seconds.iter().map(|second| second.response.max_ns).max()?;
            return (!times.is_empty()).then(|| Percentiles { p50: at(0.5), p95: at(0.95), p99: at(0.99), max });
        }
        let answered = self.seconds.iter().map(|second| second.response).filter(|response| response.count > 0);
        answered
            .map(|response| Percentiles {
                p50: response.p50_ns,
                p95: response.p95_ns,
                p99: response.p99_ns,
                max: response.max_ns,
            })
            .reduce(|one, other| Percentiles {
                p50: one.p50.max(other.p50),
                p95: one.p95.max(other.p95),
                p99: one.p99.max(other.p99),
                max: one.max.max(other.max),
            })
    }

    pub(super) fn statuses(&self) -> BTreeMap<u16, u64> {
        let mut sum = BTreeMap::new();
        for (code, count) in self.seconds.iter().flat_map(|second| &second.statuses) {
            *sum.entry(*code).or_default() += count;
        }
        sum
    }

    pub(super) fn faults(&self) -> BTreeMap<Class, u64> {
        let mut sum = BTreeMap::new();
        for (class, count) in self.seconds.iter().flat_map(|second| &second.faults) {
            *sum.entry(*class).or_default() += count;
        }
        sum
    }
}
