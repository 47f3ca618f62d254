//! What a program that shows a run is told while it goes on: a single run, an autotuned one, or a matrix of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::{Control, Limit, Outcome, Tick};
use crate::plan::Plan;

/// News of a run, in the order they happen: a single run is `Run`, `Tick`…, `Outcome`; an autotuned one has a `Point`
/// before each run; a matrix has a `Cell` before and a `CellDone` after each of its cells.
#[derive(Clone, Debug)]
pub enum Event {
    /// A cell of a matrix begins.
    Cell {
        /// Its name, such as `https-reuse`.
        name: String,
        /// Which it is, from 0.
        index: usize,
        /// Of how many.
        of: usize,
    },
    /// A load point begins.
    Point {
        /// What is offered.
        offered: Offered,
        /// Which repeat, from 1.
        repeat: u32,
        /// Of how many.
        repeats: u32,
        /// How many points there may still be, this one included.
        left_max: u32,
    },
    /// A run begins.
    Run {
        /// What is asked for.
        plan: Arc<Plan>,
        /// To pause, stop or scale it.
        control: Control,
    },
    /// A second of a run has ended.
    Tick(Box<Tick>),
    /// A run has ended.
    Outcome(Box<Outcome>),
    /// A cell of a matrix has ended.
    CellDone(CellSummary),
    /// Something a reader should know, in one line.
    Note(String),
}

/// An offered load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// Workers of the closed model.
    Concurrency(u64),
    /// Requests a second of the open model.
    Rate(f64),
}

/// What came of a cell of a matrix.
#[derive(Clone, Debug)]
pub struct CellSummary {
    /// Its name.
    pub name: String,
    /// Why there are no figures, where there are none: `skipped: …` or `failed: …`.
    pub missing: Option<String>,
    /// The load at the knee.
    pub knee: Option<Offered>,
    /// Successful requests a second there.
    pub rate: f64,
    /// Half-width of the 95 % confidence interval of `rate`.
    pub rate_error: f64,
    /// Share of failed requests there, 0.0 to 1.0.
    pub failed_share: f64,
    /// The mean response time there, in nanoseconds.
    pub mean_ns: f64,
    /// The 95th percentile there, in nanoseconds.
    pub p95_ns: u64,
    /// The 99th percentile there, in nanoseconds.
    pub p99_ns: u64,
    /// Runs it took.
    pub runs: u32,
    /// What held the rate back.
    pub limit: Option<Limit>,
}

impl CellSummary {
    /// Of a cell without figures, and why it has none.
    pub fn missing(name: &str, why: &str) -> Self {
        CellSummary {
            name: name.to_owned(),
            missing: Some(why.to_owned()),
            knee: None,
            rate: 0.0,
            rate_error: 0.0,
            failed_share: 0.0,
            mean_ns: 0.0,
            p95_ns: 0,
            p99_ns: 0,
            runs: 0,
            limit: None,
        }
    }
}
