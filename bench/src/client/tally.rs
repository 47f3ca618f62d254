//! The result of a load: counts, faults by kind, and times.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustls::HandshakeKind;

/// The longest time that the histogram distinguishes, in microseconds.
const LATENCY_MAX_US: u64 = 300_000_000;

/// The reason for a failed exchange: its kind, and the text of the error.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: &'static str,
    detail: String,
}

impl Fault {
    /// Returns a fault at the step of this name.
    pub(crate) fn of(kind: &'static str, error: &dyn fmt::Display) -> Self {
        Fault { kind, detail: error.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// The counts and times of one load.
pub(crate) struct Tally {
    pub(crate) connections: u64,
    /// Number of full TLS handshakes.
    pub(crate) full: u64,
    /// Number of resumed TLS handshakes.
    pub(crate) resumed: u64,
    /// Requests that were answered with 200.
    pub(crate) requests: u64,
    /// Count and first detail by kind.
    pub(crate) faults: BTreeMap<&'static str, (u64, String)>,
    latency: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        // Three digits up to five minutes: constant bounds, which are valid.
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("constant bounds");
        Tally { connections: 0, full: 0, resumed: 0, requests: 0, faults: BTreeMap::new(), latency }
    }

    /// Counts a connection, and its handshake if it had one.
    pub(crate) fn connected(&mut self, kind: Option<HandshakeKind>) {
        self.connections += 1;
        match kind {
            None => {}
            Some(HandshakeKind::Resumed) => self.resumed += 1,
            Some(_) => self.full += 1,
        }
    }

    /// Counts an answered request and the time that it took.
    pub(crate) fn answered(&mut self, took: Duration) {
        self.requests += 1;
        self.latency.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LATENCY_MAX_US).max(1));
    }

    /// Counts a fault under its kind.
    pub(crate) fn failed(&mut self, fault: Fault) {
        self.faults.entry(fault.kind).or_insert_with(|| (0, fault.detail)).0 += 1;
    }

    /// Returns the number of faults of all kinds.
    pub(crate) fn failures(&self) -> u64 {
        self.faults.values().map(|(count, _)| count).sum()
    }

    /// Returns the faults by kind as text. Empty if there was none.
    pub(crate) fn faults_in_words(&self) -> String {
        let words = self.faults.iter().map(|(kind, (count, detail))| format!("{count} x {kind} ({detail})"));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Returns the time in milliseconds within which this share of the requests was answered; 1.0 is the slowest.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1000.0
    }

    /// Returns the mean time in milliseconds.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.latency.mean() / 1000.0
    }

    /// Returns the shortest time in milliseconds.
    pub(crate) fn min_ms(&self) -> f64 {
        self.latency.min() as f64 / 1000.0
    }
}
