//! Document of one run. Its fields follow the schema `spec/load-report.schema.json`: names contain the units, a number is
//! never NaN or infinite, and values that were not measured are absent or null, not zero.

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::plan::PlanSummary;
use crate::engine::{EndReason, Generator, Limit};
use crate::record::{Class, Counts, Phase, Quantiles, Second};
use crate::thresholds::Check;

/// Report of a run, as it is written and read again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Kind of the document: `run`.
    pub(crate) kind: Kind,
    /// Version of the document, [`super::VERSION`].
    pub(crate) version: u32,
    /// Label of the run from its plan.
    pub(crate) label: String,
    /// Start of the run, as ISO 8601 in UTC.
    pub(crate) started_at: String,
    /// Start of the run, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// Time from start to end, warm-up included, in seconds.
    pub(crate) elapsed_s: f64,
    /// Time that the totals cover, without the warm-up, in seconds.
    pub(crate) measured_s: f64,
    /// Reason why the run ended.
    pub(crate) ended: EndReason,
    /// Cautions for the reader of the figures, one sentence each.
    pub(crate) warnings: Vec<String>,
    /// Bottleneck that held the rate back.
    pub(crate) limit: Limit,
    /// True if every threshold was met; null if none was set.
    pub(crate) passed: Option<bool>,
    /// Thresholds of the run and their results.
    pub(crate) thresholds: Vec<Check>,
    /// Plan of the run, without secrets.
    pub(crate) asked: PlanSummary,
    /// Machine that the load came from.
    pub(crate) machine: Machine,
    /// Resources that the generator used.
    pub(crate) generator: Generator,
    /// Counts of the measured time, without the warm-up.
    pub(crate) counts: Counts,
    /// Rates over the measured time.
    pub(crate) rates: Rates,
    /// Answers by status code, in ascending order.
    pub(crate) statuses: Vec<StatusCount>,
    /// Failures by class, the most frequent first.
    pub(crate) faults: Vec<FailureShare>,
    /// Times by phase: `response` and `service` always, others if they were measured.
    pub(crate) phases: Vec<PhaseTimes>,
    /// Comparison of response and service time.
    pub(crate) omission: Omission,
    /// Measurements second by second, warm-up included.
    pub(crate) seconds: Vec<Second>,
    /// Histograms of the phases that have times.
    pub(crate) histograms: Vec<HistogramText>,
}

/// Kind of a report document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Report of a single run.
    Run,
    /// Report of a search for the knee.
    Autotune,
    /// Report of several cells, each tuned.
    Matrix,
}

/// Rates over the measured time; 0 if no time was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// Requests that were due per second.
    pub(crate) due_per_s: f64,
    /// Requests that succeeded per second.
    pub(crate) succeeded_per_s: f64,
    /// Requests that ended per second, successful or failed.
    pub(crate) ended_per_s: f64,
    /// Share of failed requests among those that ended, 0.0 to 1.0.
    pub(crate) failed_share: f64,
    /// Bytes written to connections per second.
    pub(crate) sent_bytes_per_s: f64,
    /// Bytes read from connections per second.
    pub(crate) received_bytes_per_s: f64,
}

/// Answers with one status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusCount {
    /// Status code of HTTP, or code of a broker's error (below 17).
    pub(crate) status: u16,
    /// Number of answers with this code.
    pub(crate) count: u64,
}

/// Failures of one class and an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailureShare {
    /// Class that all these failures have.
    pub(crate) class: Class,
    /// Number of failures in this class.
    pub(crate) count: u64,
    /// Share of all requests that ended, 0.0 to 1.0.
    pub(crate) share: f64,
    /// Description of the first failure; may contain text of a server.
    pub(crate) example: String,
}

/// Quantiles of one phase's times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhaseTimes {
    /// Phase that the times belong to.
    pub(crate) phase: Phase,
    /// Quantiles of the phase's times.
    #[serde(flatten)]
    pub(crate) times: Quantiles,
}

/// Response time (from the due time) beside service time (from sending). They differ if requests waited in the generator
/// because the target delayed those before them; the service time does not show that wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Omission {
    /// 99th percentile of response times, corrected for coordinated omission, in nanoseconds.
    pub(crate) response_p99_ns: u64,
    /// 99th percentile of service times, uncorrected, in nanoseconds.
    pub(crate) service_p99_ns: u64,
    /// Explanation of a large difference, in one sentence.
    pub(crate) note: Option<String>,
}

/// Histogram of one phase's times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistogramText {
    /// Phase that the histogram belongs to.
    pub(crate) phase: Phase,
    /// Histogram in HdrHistogram's V2 format, deflated, in base64; values in nanoseconds.
    pub(crate) v2_deflate_base64: String,
}

impl Report {
    /// Returns the times of this phase; `None` if it was not measured.
    pub(crate) fn phase(&self, phase: Phase) -> Option<&Quantiles> {
        self.phases.iter().find(|one| one.phase == phase).map(|one| &one.times)
    }

    /// Returns whether the generator was the bottleneck, so that the figures say nothing about the target.
    pub(crate) fn is_generator_limited(&self) -> bool {
        matches!(self.limit, Limit::Generator(_))
    }

    /// Returns the thresholds that were missed.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &Check> {
        self.thresholds.iter().filter(|checked| !checked.passed)
    }
}
