//! Documents of a search for the knee, and of a matrix of searches.

use sealway_runtime::clock::iso8601;
use serde::Serialize;

use super::VERSION;
use super::document::Kind;
use super::machine::Machine;
use super::plan::PlanSummary;
use super::units::finite;
use crate::engine::Limit;
use crate::plan::Plan;
use crate::progress::{CellSummary, Estimate, OfferedLoad};

/// Report of a search for the knee.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AutotuneReport {
    /// Kind of the document: `autotune`.
    pub(crate) kind: Kind,
    /// Version of the document, [`super::VERSION`].
    pub(crate) version: u32,
    /// Label of the search from its plan.
    pub(crate) label: String,
    /// Start of the search, as ISO 8601 in UTC.
    pub(crate) started_at: String,
    /// Start of the search, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// Duration of the search, in seconds.
    pub(crate) elapsed_s: f64,
    /// Cautions for the reader of the figures.
    pub(crate) warnings: Vec<String>,
    /// Plan of the search; its concurrency or rate is that of the first point.
    pub(crate) asked: PlanSummary,
    /// Machine that the load came from.
    pub(crate) machine: Machine,
    /// Load points, in the order they were measured.
    pub(crate) points: Vec<Point>,
    /// Knee of the search; null if no load was healthy.
    pub(crate) knee: Option<Knee>,
    /// Reason why there is no knee, in one line; null if there is one.
    pub(crate) missing: Option<String>,
    /// Bottleneck at the knee; null if there is no knee.
    pub(crate) limit: Option<Limit>,
}

/// Load point: several runs at the same load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    /// Load offered at this point.
    pub(crate) offered: OfferedLoad,
    /// Successful requests per second of each repeat.
    pub(crate) repeats_per_s: Vec<f64>,
    /// Mean of the repeats and its 95 % confidence interval.
    pub(crate) succeeded_per_s: Estimate,
    /// Share of failed requests, 0.0 to 1.0.
    pub(crate) failed_share: f64,
    /// Mean response time, in nanoseconds.
    pub(crate) mean_ns: f64,
    /// 50th percentile of response times, in nanoseconds.
    pub(crate) p50_ns: u64,
    /// 95th percentile of response times, in nanoseconds.
    pub(crate) p95_ns: u64,
    /// 99th percentile of response times, in nanoseconds.
    pub(crate) p99_ns: u64,
    /// True if the point was within the allowed errors and times.
    pub(crate) healthy: bool,
    /// Decision at this point, in one line.
    pub(crate) verdict: String,
    /// Bottleneck that held the rate back.
    pub(crate) limit: Limit,
}

/// Load beyond which throughput does not grow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Knee {
    /// Load that was offered at the knee.
    pub(crate) offered: OfferedLoad,
    /// Successful requests per second at the knee.
    pub(crate) succeeded_per_s: Estimate,
}

/// Report of a matrix of cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MatrixReport {
    /// Kind of the document: `matrix`.
    pub(crate) kind: Kind,
    /// Version of the document, [`super::VERSION`].
    pub(crate) version: u32,
    /// Label of the matrix from its plan.
    pub(crate) label: String,
    /// Start of the matrix, as ISO 8601 in UTC.
    pub(crate) started_at: String,
    /// Start of the matrix, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// Duration of the matrix, in seconds.
    pub(crate) elapsed_s: f64,
    /// Cautions for the reader of the figures.
    pub(crate) warnings: Vec<String>,
    /// Machine that the load came from.
    pub(crate) machine: Machine,
    /// Cells of the matrix, in order.
    pub(crate) cells: Vec<CellSummary>,
}

impl AutotuneReport {
    /// Creates the report of a search without points; `started_ms` is since 1970, `elapsed_s` in seconds.
    pub(crate) fn new(plan: &Plan, machine: Machine, started_ms: u64, elapsed_s: f64) -> Self {
        AutotuneReport {
            kind: Kind::Autotune,
            version: VERSION,
            label: plan.label.clone(),
            started_at: iso8601(started_ms),
            started_ms,
            elapsed_s: finite(elapsed_s),
            warnings: Vec::new(),
            asked: PlanSummary::from(plan),
            machine,
            points: Vec::new(),
            knee: None,
            missing: None,
            limit: None,
        }
    }
}

impl MatrixReport {
    /// Creates the report of a matrix; `started_ms` is since 1970, `elapsed_s` in seconds.
    pub(crate) fn new(label: &str, cells: Vec<CellSummary>, machine: Machine, started_ms: u64, elapsed_s: f64) -> Self {
        MatrixReport {
            kind: Kind::Matrix,
            version: VERSION,
            label: label.to_owned(),
            started_at: iso8601(started_ms),
            started_ms,
            elapsed_s: finite(elapsed_s),
            warnings: Vec::new(),
            machine,
            cells,
        }
    }
}
