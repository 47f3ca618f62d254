//! What came of a load: counts, faults by kind, times.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustls::HandshakeKind;

/// Microseconds; the longest that is told apart from longer.
const LATENCY_MAX_US: u64 = 300_000_000;

/// Why an exchange failed: its kind, and what was said the first time.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: &'static str,
    detail: String,
}

impl Fault {
    /// An error at the step of this name.
    pub(crate) fn of(kind: &'static str, error: &dyn fmt::Display) -> Self {
        Fault { kind, detail: error.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// Counts of one load.
pub(crate) struct Tally {
    pub(crate) connections: u64,
    /// Full handshakes.
    pub(crate) full: u64,
    /// Resumed handshakes.
    pub(crate) resumed: u64,
    /// Requests that were answered with 200.
    pub(crate) requests: u64,
    /// Count and first detail by kind.
    pub(crate) faults: BTreeMap<&'static str, (u64, String)>,
    latency: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        // Three digits up to five minutes: the bounds are constants that it accepts.
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("constant bounds");
        Tally { connections: 0, full: 0, resumed: 0, requests: 0, faults: BTreeMap::new(), latency }
    }

    /// A connection stands.
    pub(crate) fn connected(&mut self, kind: Option<HandshakeKind>) {
        self.connections += 1;
        match kind {
            None => {}
            Some(HandshakeKind::Resumed) => self.resumed += 1,
            Some(_) => self.full += 1,
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self, took: Duration) {
        self.requests += 1;
        self.latency.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LATENCY_MAX_US).max(1));
    }

    /// Something failed.
    pub(crate) fn failed(&mut self, fault: Fault) {
        self.faults.entry(fault.kind).or_insert_with(|| (0, fault.detail)).0 += 1;
    }

    /// How many faults there were.
    pub(crate) fn failures(&self) -> u64 {
        self.faults.values().map(|(count, _)| count).sum()
    }

    /// Faults by kind, in words; empty if there was none.
    pub(crate) fn faults_in_words(&self) -> String {
        let words = self.faults.iter().map(|(kind, (count, detail))| format!("{count} x {kind} ({detail})"));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Milliseconds within which this share of the requests was answered; 1.0 is the slowest.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1000.0
    }

    /// The mean, in milliseconds.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.latency.mean() / 1000.0
    }

    /// The fastest, in milliseconds.
    pub(crate) fn min_ms(&self) -> f64 {
        self.latency.min() as f64 / 1000.0
    }
}
