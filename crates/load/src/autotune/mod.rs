//! Finds the knee of a target: the load where more of it buys no more throughput, only time.
//!
//! [`Search`] decides what to try; it is a function of what was measured. [`tune`] measures for it.
//!
//! Which model finds the capacity of a server more reliably? The closed one, which is the default: beyond saturation it
//! yields the capacity itself at every load, and asks no more of the target than it has workers. The open one answers
//! another question, how many requests a second may *come*, and measures response times as users would see them.

mod figures;
mod search;
mod tune;

use std::fmt;

pub(crate) use self::figures::Measured;
pub(crate) use self::search::Search;
pub(crate) use self::tune::{Tuning, tune};
use crate::engine::Limit;
use crate::progress::{CellSummary, Offered};

/// What a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// Workers.
    Closed,
    /// Requests a second.
    Open,
}

impl Model {
    /// This much of it.
    pub(crate) fn offered(self, load: f64) -> Offered {
        match self {
            Model::Closed => Offered::Concurrency(load as u64),
            Model::Open => Offered::Rate(load),
        }
    }
}

/// How a search goes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// What a load is.
    pub(crate) model: Model,
    /// The first load.
    pub(crate) min: f64,
    /// The highest load.
    pub(crate) max: f64,
    /// What a load is multiplied by while it still buys throughput; above 1.
    pub(crate) growth: f64,
    /// Share of requests that may fail, 0.0 to 1.0.
    pub(crate) errors_max: f64,
    /// How near the knee must be known, as a share.
    pub(crate) precision: f64,
    /// Runs of each load point, at least 1.
    pub(crate) repeats: u32,
    /// Load points at most.
    pub(crate) points_max: u32,
    /// Points that growing leaves for looking between two loads. With 0 no load between two is tried.
    pub(crate) points_between: u32,
}

impl Settings {
    /// What holds where nothing else is said.
    pub(crate) fn new(model: Model) -> Self {
        let (min, max) = match model {
            Model::Closed => (8.0, 65_536.0),
            Model::Open => (100.0, 1_000_000.0),
        };
        Settings {
            model,
            min,
            max,
            growth: 2.0,
            errors_max: 0.01,
            precision: 0.05,
            repeats: 3,
            points_max: 12,
            points_between: 3,
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Measure this load.
    Measure(f64),
    /// It is over.
    Done(Box<Found>),
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// The load at the knee, and what was measured there; none if no load was good.
    pub(crate) knee: Option<Measured>,
    /// Why more load is no better.
    pub(crate) why: Why,
    /// All load points, by load.
    pub(crate) points: Vec<Measured>,
}

/// Why more load is no better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Throughput stops growing: the target is saturated.
    Plateau,
    /// Too many requests fail; how.
    Errors(String),
    /// A rule is missed; which, and what was measured.
    Rule(String),
    /// The generator was the limit; why. The target can do at least this much.
    Generator(String),
    /// No higher load was allowed.
    Ceiling,
    /// The number of load points did not suffice, or the search was stopped.
    Unfinished,
    /// No load was good; why.
    Failed(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Plateau => write!(f, "the target is saturated: more load buys no more throughput, only time"),
            Why::Errors(fault) => write!(f, "with more load requests fail: {fault}"),
            Why::Rule(rule) => write!(f, "with more load a rule is missed: {rule}"),
            Why::Generator(reason) => {
                write!(f, "client-limited: the generator was the limit, the target can do at least this: {reason}")
            }
            Why::Ceiling => write!(f, "no higher load was tried; raise --search-max"),
            Why::Unfinished => write!(f, "the search ended before the knee was found; raise --points"),
            Why::Failed(reason) => write!(f, "no load was good: {reason}"),
        }
    }
}

impl Found {
    /// As a cell of a matrix.
    pub(crate) fn summary(&self, name: &str, model: Model) -> CellSummary {
        let limit = match &self.why {
            Why::Generator(reason) => Limit::Generator(reason.clone()),
            Why::Ceiling | Why::Unfinished => Limit::Offered,
            _ => Limit::Target,
        };
        let missing = match &self.why {
            Why::Failed(reason) => Some(format!("failed: {reason}")),
            _ => None,
        };
        let mut summary = CellSummary::missing(name, "");
        summary.missing = missing;
        summary.runs = self.points.iter().map(|point| point.runs.len() as u32).sum();
        summary.limit = Some(limit);
        if let Some(knee) = &self.knee {
            summary.knee = Some(model.offered(knee.load));
            (summary.rate, summary.rate_error) = (knee.rate(), knee.rate_error());
            summary.failed_share = knee.failed_share();
            summary.mean_ns = knee.mean(|run| run.mean_ns);
            summary.p95_ns = knee.mean(|run| run.p95_ns as f64) as u64;
            summary.p99_ns = knee.mean(|run| run.p99_ns as f64) as u64;
        } else {
            summary.limit = None;
        }
        summary
    }
}

#[cfg(test)]
mod tests;
