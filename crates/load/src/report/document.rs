//! The document of one run. Its fields are its schema, `spec/load-report.schema.json`: units are in the names, a number is
//! never NaN or infinite, and what was not measured is absent or null, not zero.

use serde::{Deserialize, Serialize};

use super::asked::Asked;
use super::machine::Machine;
use crate::record::{Class, Counts, Phase};

/// A run, as it is written and read again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// `run`.
    pub(crate) kind: Made,
    /// [`super::VERSION`].
    pub(crate) version: u32,
    /// What the run is called.
    pub(crate) label: String,
    /// When it started, as ISO 8601 in UTC.
    pub(crate) started_at: String,
    /// The same, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// From its start to its end, warm-up included, in seconds.
    pub(crate) elapsed_s: f64,
    /// What the totals are of: without the warm-up, in seconds.
    pub(crate) measured_s: f64,
    /// Why it ended.
    pub(crate) ended: Ended,
    /// What a reader must know before believing the figures, each in one sentence.
    pub(crate) warnings: Vec<String>,
    /// What held the rate back.
    pub(crate) limit: LimitTold,
    /// Whether every threshold was met; null where none was set.
    pub(crate) passed: Option<bool>,
    /// The thresholds.
    pub(crate) thresholds: Vec<Checked>,
    /// What was asked for.
    pub(crate) asked: Asked,
    /// Where it was measured from.
    pub(crate) machine: Machine,
    /// What it cost the generator.
    pub(crate) generator: GeneratorCost,
    /// Counts, the warm-up left out.
    pub(crate) counts: Counts,
    /// Rates over the measured time.
    pub(crate) rates: Rates,
    /// Answers by status code, in the order of the codes.
    pub(crate) statuses: Vec<StatusSeen>,
    /// Failures by class, the most frequent first.
    pub(crate) faults: Vec<FaultSeen>,
    /// Times by phase: `response` and `service` always, others where they were measured.
    pub(crate) phases: Vec<PhaseTimes>,
    /// Response beside service time.
    pub(crate) omission: Omission,
    /// Second by second, warm-up included.
    pub(crate) seconds: Vec<SecondRow>,
    /// The histograms of the phases that have times.
    pub(crate) histograms: Vec<HistogramText>,
}

/// Which document it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Made {
    /// One run.
    Run,
    /// A search for the knee.
    Autotune,
    /// Several cells, each tuned.
    Matrix,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub(crate) enum Ended {
    /// Its time was over, or all its requests were made.
    Done,
    /// Somebody stopped it.
    Stopped,
    /// It made no sense to go on.
    Failed {
        /// Why, in one line.
        why: String,
    },
}

/// What held the rate back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum LimitTold {
    /// The target.
    Target,
    /// Nothing: the offered rate was met.
    Offered,
    /// The generator: the figures say nothing of the target.
    Generator {
        /// Why, in words.
        why: String,
    },
    /// Unknown: no request succeeded.
    Unmeasured {
        /// Why, and what to do.
        why: String,
    },
}

/// A threshold and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// As it was written.
    pub(crate) threshold: String,
    /// What `measured` is in: `ns`, `share` or `per_s`.
    pub(crate) unit: String,
    /// The bound, in that unit.
    pub(crate) bound: f64,
    /// What was measured; null where there was nothing to measure.
    pub(crate) measured: Option<f64>,
    /// Whether it was met.
    pub(crate) passed: bool,
}

/// What a run cost the generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GeneratorCost {
    /// Threads that offered the load.
    pub(crate) threads: usize,
    /// Cores it could use.
    pub(crate) cores: usize,
    /// Processor time over measured time: 1.0 is one core.
    pub(crate) cpu_cores: f64,
    /// The busiest thread's share of its core.
    pub(crate) cpu_busiest_share: f64,
    /// 99 % of its timers were no later, in nanoseconds.
    pub(crate) lag_p99_ns: u64,
    /// Its latest timer, in nanoseconds.
    pub(crate) lag_max_ns: u64,
    /// Resident memory at the end, in bytes.
    pub(crate) memory_bytes: u64,
}

/// Rates over the measured time; 0 where none was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// Requests that were due, a second.
    pub(crate) due_per_s: f64,
    /// Requests that succeeded, a second.
    pub(crate) succeeded_per_s: f64,
    /// Requests that ended, a second, well or not.
    pub(crate) ended_per_s: f64,
    /// Share of failed requests, of those that ended; 0.0 to 1.0.
    pub(crate) failed_share: f64,
    /// Bytes written a second.
    pub(crate) sent_bytes_per_s: f64,
    /// Bytes read a second.
    pub(crate) received_bytes_per_s: f64,
}

/// Answers of one status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusSeen {
    /// The code; 0 for what is none.
    pub(crate) status: u16,
    /// How many.
    pub(crate) count: u64,
}

/// Failures of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FaultSeen {
    /// The class.
    pub(crate) class: Class,
    /// How many.
    pub(crate) count: u64,
    /// Of all that ended; 0.0 to 1.0.
    pub(crate) share: f64,
    /// The first one's words; may hold what a server said.
    pub(crate) example: String,
}

/// Figures of a histogram of times; all zero where `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// How many times there are.
    pub(crate) count: u64,
    /// The shortest, in nanoseconds.
    pub(crate) min_ns: u64,
    /// The mean, in nanoseconds.
    pub(crate) mean_ns: f64,
    /// The standard deviation, in nanoseconds.
    pub(crate) stdev_ns: f64,
    /// The 50th percentile, in nanoseconds.
    pub(crate) p50_ns: u64,
    /// The 75th percentile, in nanoseconds.
    pub(crate) p75_ns: u64,
    /// The 90th percentile, in nanoseconds.
    pub(crate) p90_ns: u64,
    /// The 95th percentile, in nanoseconds.
    pub(crate) p95_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub(crate) p99_ns: u64,
    /// The 99.9th percentile, in nanoseconds.
    pub(crate) p999_ns: u64,
    /// The longest, in nanoseconds.
    pub(crate) max_ns: u64,
}

/// Times of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhaseTimes {
    /// Which.
    pub(crate) phase: Phase,
    /// Its times.
    #[serde(flatten)]
    pub(crate) times: Times,
}

/// Response time (from when a request was due) beside service time (from when it was sent). Where they part, requests
/// waited in the generator because the target held up those before them, and the service time does not show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Omission {
    /// The 99th percentile of response times, corrected for coordinated omission, in nanoseconds.
    pub(crate) response_p99_ns: u64,
    /// The 99th percentile of service times, uncorrected, in nanoseconds.
    pub(crate) service_p99_ns: u64,
    /// What their difference means, in one sentence, where it is large.
    pub(crate) note: Option<String>,
}

/// One second of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecondRow {
    /// Its end, in seconds since the start.
    pub(crate) at_s: f64,
    /// How long it was, in seconds: the last one may be shorter.
    pub(crate) length_s: f64,
    /// Whether it is part of the warm-up, and so in no total.
    pub(crate) warm_up: bool,
    /// Counts of this second.
    pub(crate) counts: Counts,
    /// Response times of this second.
    pub(crate) response: Times,
    /// Service times of this second.
    pub(crate) service: Times,
    /// Response times in columns of a logarithmic scale: `[column, count]`, those that are not empty. Column `n` begins at
    /// 1 µs times 10 to the power of n/8.
    pub(crate) heat: Vec<(u8, u64)>,
    /// Answers by status code: `[status, count]`.
    pub(crate) statuses: Vec<(u16, u64)>,
    /// Failures by class: `[class, count]`.
    pub(crate) faults: Vec<(Class, u64)>,
    /// Requests under way at its end.
    pub(crate) in_flight: u64,
    /// Connections open at its end.
    pub(crate) connections: u64,
    /// How late the generator was at most, in nanoseconds.
    pub(crate) lag_max_ns: u64,
    /// Processor time of the generator, over the second's length: 1.0 is one core.
    pub(crate) cpu_cores: f64,
}

/// The histogram of one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistogramText {
    /// Which phase.
    pub(crate) phase: Phase,
    /// HdrHistogram's V2 format, compressed (deflate), in base64; values in nanoseconds.
    pub(crate) v2_deflate_base64: String,
}

impl Report {
    /// The times of this phase; `None` where it was not measured.
    pub(crate) fn phase(&self, phase: Phase) -> Option<&Times> {
        self.phases.iter().find(|one| one.phase == phase).map(|one| &one.times)
    }

    /// Whether the generator was the limit, so that the figures say nothing of the target.
    pub(crate) fn is_generator_limited(&self) -> bool {
        matches!(self.limit, LimitTold::Generator { .. })
    }

    /// The thresholds that were missed.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &Checked> {
        self.thresholds.iter().filter(|checked| !checked.passed)
    }
}
