//! Events that a running load reports to its displays: of a single run, an autotuned one, or a matrix.

use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::engine::{Control, Limit, Outcome, Tick};
use crate::plan::Plan;
use crate::record::serial;
use crate::report::units::finite;

/// Event of a run. A single run reports `Run`, `Tick`…, `Outcome`, in this order. An autotuned run reports a `Point` before each
/// of its runs; a matrix reports a `Cell` before and a `CellDone` after each cell.
#[derive(Clone, Debug)]
pub enum Event {
    /// Start of a cell of a matrix.
    Cell {
        /// Name of the cell, such as `https-reuse`.
        name: String,
        /// Position of the cell, counted from 0.
        index: usize,
        /// Number of cells in the matrix.
        of: usize,
    },
    /// Start of a run at a load point.
    Point {
        /// Load that is offered at this point.
        offered: OfferedLoad,
        /// Number of this repeat, counted from 1.
        repeat: u32,
        /// Number of repeats of this point.
        repeats: u32,
        /// Upper bound of the load points that remain, this one included.
        left_max: u32,
    },
    /// Start of a single run.
    Run {
        /// Plan that the run follows.
        plan: Arc<Plan>,
        /// Handle that pauses, stops or scales the run.
        control: Control,
    },
    /// Figures of the second that has just ended.
    Tick(Box<Tick>),
    /// Result of the run that has ended.
    Outcome(Box<Outcome>),
    /// End of a cell of a matrix.
    CellDone(CellSummary),
}

/// Load that a run offers to its target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferedLoad {
    /// Number of workers, in a closed loop.
    Concurrency(u64),
    /// Requests a second, in an open loop.
    Rate(#[serde(serialize_with = "serial::finite")] f64),
}

/// A mean with its 95 % confidence interval, whose lower end is at least 0. Serialized as mean, low and high.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Mean of the measured values.
    pub mean: f64,
    /// Half the width of the confidence interval; not negative.
    pub half: f64,
}

impl Estimate {
    /// Creates an estimate; each argument that is not finite becomes 0.
    pub fn new(mean: f64, half: f64) -> Self {
        Estimate { mean: finite(mean), half: finite(half).abs() }
    }

    /// Returns the lower end of the interval: at most the mean, and not below 0 unless the mean is.
    pub fn low(&self) -> f64 {
        (self.mean - self.half).max(0.0).min(self.mean)
    }

    /// Returns the upper end of the interval.
    pub fn high(&self) -> f64 {
        self.mean + self.half
    }
}

impl Serialize for Estimate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_struct("Estimate", 3)?;
        all.serialize_field("mean", &self.mean)?;
        all.serialize_field("low", &self.low())?;
        all.serialize_field("high", &self.high())?;
        all.end()
    }
}

/// Result of one cell of a matrix, with the figures at its knee.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CellSummary {
    /// Name of the cell, such as `https-reuse`.
    pub name: String,
    /// Reason for absent figures: `skipped: …` or `failed: …`; `None` if there are figures.
    pub missing: Option<String>,
    /// Load at the knee; `None` without figures.
    #[serde(rename = "offered")]
    pub knee: Option<OfferedLoad>,
    /// Successful requests a second at the knee.
    #[serde(rename = "succeeded_per_s")]
    pub rate: Estimate,
    /// Share of failed requests at the knee, 0.0 to 1.0.
    #[serde(serialize_with = "serial::finite")]
    pub failed_share: f64,
    /// Mean response time at the knee, in nanoseconds.
    #[serde(serialize_with = "serial::finite")]
    pub mean_ns: f64,
    /// 95th percentile of response times at the knee, in nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile of response times at the knee, in nanoseconds.
    pub p99_ns: u64,
    /// Number of runs that the cell took.
    pub runs: u32,
    /// Bottleneck of the cell, if it is known.
    pub limit: Option<Limit>,
}

impl CellSummary {
    /// Creates the summary of a cell without figures, with the reason.
    pub fn missing(name: &str, why: &str) -> Self {
        CellSummary { name: name.to_owned(), missing: Some(why.to_owned()), ..CellSummary::default() }
    }
}
