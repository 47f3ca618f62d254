//! The documents of a search for the knee, and of a matrix of them.

use sealway_runtime::clock::iso8601;
use serde::{Deserialize, Serialize};

use super::VERSION;
use super::asked::Asked;
use super::document::{LimitTold, Made};
use super::machine::Machine;
use super::units::finite;
use crate::plan::Plan;
use crate::progress::{CellSummary, Offered};

/// A search for the knee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AutotuneReport {
    /// `autotune`.
    pub(crate) kind: Made,
    /// [`super::VERSION`].
    pub(crate) version: u32,
    /// What it is called.
    pub(crate) label: String,
    /// When it started, as ISO 8601 in UTC.
    pub(crate) started_at: String,
    /// The same, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// How long it took, in seconds.
    pub(crate) elapsed_s: f64,
    /// What a reader must know before believing the figures.
    pub(crate) warnings: Vec<String>,
    /// What was asked for; its concurrency or rate is the first point's.
    pub(crate) asked: Asked,
    /// Where it was measured from.
    pub(crate) machine: Machine,
    /// The points, in the order they were measured.
    pub(crate) points: Vec<Point>,
    /// The knee; null where no load was healthy.
    pub(crate) knee: Option<Knee>,
    /// Why there is no knee, in one line; null where there is one.
    pub(crate) missing: Option<String>,
    /// What held the rate back at the knee; null where there is none.
    pub(crate) limit: Option<LimitTold>,
}

/// A load point: several runs at the same load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// What was offered.
    pub(crate) offered: Offered,
    /// Successful requests a second, of each repeat.
    pub(crate) repeats_per_s: Vec<f64>,
    /// Their mean and its 95 % confidence interval.
    pub(crate) succeeded_per_s: Interval,
    /// Share of failed requests, 0.0 to 1.0.
    pub(crate) failed_share: f64,
    /// The mean response time, in nanoseconds.
    pub(crate) mean_ns: f64,
    /// The 50th percentile of response times, in nanoseconds.
    pub(crate) p50_ns: u64,
    /// The 95th percentile, in nanoseconds.
    pub(crate) p95_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub(crate) p99_ns: u64,
    /// Whether it was within the errors and times that are allowed.
    pub(crate) healthy: bool,
    /// What was decided there, in one line.
    pub(crate) verdict: String,
    /// What held the rate back.
    pub(crate) limit: LimitTold,
}

/// A mean and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// The mean.
    pub(crate) mean: f64,
    /// The interval's lower end.
    pub(crate) low: f64,
    /// The interval's upper end.
    pub(crate) high: f64,
}

/// Where more load brings no more throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Knee {
    /// The load.
    pub(crate) offered: Offered,
    /// Successful requests a second there.
    pub(crate) succeeded_per_s: Interval,
}

/// A matrix of cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MatrixReport {
    /// `matrix`.
    pub(crate) kind: Made,
    /// [`super::VERSION`].
    pub(crate) version: u32,
    /// What it is called.
    pub(crate) label: String,
    /// When it started, as ISO 8601 in UTC.
    pub(crate) started_at: String,
    /// The same, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// How long it took, in seconds.
    pub(crate) elapsed_s: f64,
    /// What a reader must know before believing the figures.
    pub(crate) warnings: Vec<String>,
    /// Where it was measured from.
    pub(crate) machine: Machine,
    /// The cells, in order.
    pub(crate) cells: Vec<Cell>,
}

/// A cell of a matrix, at its knee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Its name.
    pub(crate) name: String,
    /// Why there are no figures; null where there are.
    pub(crate) missing: Option<String>,
    /// The load at the knee.
    pub(crate) offered: Option<Offered>,
    /// Successful requests a second there.
    pub(crate) succeeded_per_s: Interval,
    /// Share of failed requests there, 0.0 to 1.0.
    pub(crate) failed_share: f64,
    /// The mean response time there, in nanoseconds.
    pub(crate) mean_ns: f64,
    /// The 95th percentile there, in nanoseconds.
    pub(crate) p95_ns: u64,
    /// The 99th percentile there, in nanoseconds.
    pub(crate) p99_ns: u64,
    /// Runs it took.
    pub(crate) runs: u32,
    /// What held the rate back.
    pub(crate) limit: Option<LimitTold>,
}

impl Interval {
    /// A mean and the half-width of its interval, which does not go below 0.
    pub(crate) fn around(mean: f64, half: f64) -> Self {
        let (mean, half) = (finite(mean), finite(half).abs());
        Interval { mean, low: (mean - half).max(0.0).min(mean), high: mean + half }
    }
}

impl AutotuneReport {
    /// A search of this plan that started then and took so long, in seconds; without points yet.
    pub(crate) fn new(plan: &Plan, machine: Machine, started_ms: u64, elapsed_s: f64) -> Self {
        AutotuneReport {
            kind: Made::Autotune,
            version: VERSION,
            label: plan.label.clone(),
            started_at: iso8601(started_ms),
            started_ms,
            elapsed_s: finite(elapsed_s),
            warnings: Vec::new(),
            asked: Asked::from(plan),
            machine,
            points: Vec::new(),
            knee: None,
            missing: None,
            limit: None,
        }
    }
}

impl MatrixReport {
    /// A matrix that started then and took so long, in seconds.
    pub(crate) fn new(label: &str, cells: &[CellSummary], machine: Machine, started_ms: u64, elapsed_s: f64) -> Self {
        MatrixReport {
            kind: Made::Matrix,
            version: VERSION,
            label: label.to_owned(),
            started_at: iso8601(started_ms),
            started_ms,
            elapsed_s: finite(elapsed_s),
            warnings: Vec::new(),
            machine,
            cells: cells.iter().map(Cell::from).collect(),
        }
    }
}

impl From<&CellSummary> for Cell {
    fn from(cell: &CellSummary) -> Self {
        Cell {
            name: cell.name.clone(),
            missing: cell.missing.clone(),
            offered: cell.knee.map(|offered| match offered {
                Offered::Rate(rate) => Offered::Rate(finite(rate)),
                workers @ Offered::Concurrency(_) => workers,
            }),
            succeeded_per_s: Interval::around(cell.rate, cell.rate_error),
            failed_share: finite(cell.failed_share),
            mean_ns: finite(cell.mean_ns),
            p95_ns: cell.p95_ns,
            p99_ns: cell.p99_ns,
            runs: cell.runs,
            limit: cell.limit.as_ref().map(LimitTold::from),
        }
    }
}
