//! Finds the knee of a target: the load beyond which more load adds response time but no throughput.
//!
//! [`Search`] chooses the loads to try, as a function of the measured points. [`tune`] measures them.
//!
//! The closed loop is the default, because it finds the capacity of a server more reliably: beyond saturation it yields the
//! capacity itself at every load, and offers no more requests at once than it has workers. The open loop answers a different
//! question: the highest rate at which requests may *arrive*, with response times as users see them.

mod figures;
mod search;
mod tune;

use std::fmt;

pub(crate) use self::figures::LoadPoint;
pub(crate) use self::search::Search;
pub(crate) use self::tune::{Tuning, tune};
use crate::engine::Limit;
use crate::named::named;
use crate::progress::{CellSummary, OfferedLoad};

named! {
    /// Unit of the load that a search varies.
    pub(crate) enum Model {
        /// Workers of a closed loop.
        Closed = "concurrency",
        /// Requests a second of an open loop.
        Open = "rate",
    }
}

impl Model {
    /// Returns a load of this model.
    pub(crate) fn offered(self, load: f64) -> OfferedLoad {
        match self {
            Model::Closed => OfferedLoad::Concurrency(load as u64),
            Model::Open => OfferedLoad::Rate(load),
        }
    }
}

/// Settings of a search for the knee.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Unit of the load, and the model of arrivals.
    pub(crate) model: Model,
    /// Load of the first point.
    pub(crate) min: f64,
    /// Highest load that may be tried.
    pub(crate) max: f64,
    /// Factor between one load and the next while throughput grows; above 1.
    pub(crate) growth: f64,
    /// Share of requests that may fail at a good load point, 0.0 to 1.0.
    pub(crate) errors_max: f64,
    /// Share within which the knee must be known to stop.
    pub(crate) precision: f64,
    /// Number of runs of each load point, at least 1.
    pub(crate) repeats: u32,
    /// Upper bound of the load points.
    pub(crate) points_max: u32,
    /// Number of points that growing reserves for loads between two others. With 0 no load between two is tried.
    pub(crate) points_between: u32,
}

impl Settings {
    /// Returns the default settings of a model.
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

/// Next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Measure the target at this load.
    Measure(f64),
    /// The search is over, with this result.
    Done(Box<SearchResult>),
}

/// Result of a search for the knee.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchResult {
    /// Load point at the knee; `None` if no load was good.
    pub(crate) knee: Option<LoadPoint>,
    /// Reason why more load is no better.
    pub(crate) why: Why,
    /// All load points, in ascending order of load.
    pub(crate) points: Vec<LoadPoint>,
}

/// Reason why more load is no better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Throughput stops growing, because the target is saturated.
    Plateau,
    /// Too many requests fail; holds the most frequent failure.
    Errors(String),
    /// A rule is missed; holds the rule and the measured value.
    Rule(String),
    /// The generator was the bottleneck; holds the reason. The target can do at least this much.
    Generator(String),
    /// The highest allowed load was reached.
    Ceiling,
    /// The bound of load points was reached, or the search was stopped.
    Unfinished,
    /// No load was good; holds the reason.
    Failed(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Plateau => {
                write!(f, "the target is saturated: more load raises the response time, not the throughput")
            }
            Why::Errors(failure) => write!(f, "with more load, requests fail: {failure}"),
            Why::Rule(rule) => write!(f, "with more load, a threshold is missed: {rule}"),
            Why::Generator(reason) => {
                write!(
                    f,
                    "client-limited: the generator was the bottleneck, and the target can do at least this much: {reason}"
                )
            }
            Why::Ceiling => write!(f, "the highest load allowed was reached; raise --search-max"),
            Why::Unfinished => write!(f, "the search ended before it found the knee; raise --points"),
            Why::Failed(reason) => write!(f, "no load met the limits: {reason}"),
        }
    }
}

impl SearchResult {
    /// Summarizes the result as a cell of a matrix.
    pub(crate) fn summary(&self, name: &str, model: Model) -> CellSummary {
        let limit = match &self.why {
            Why::Generator(reason) => Limit::Generator(reason.clone()),
            Why::Ceiling | Why::Unfinished => Limit::Offered,
            _ => Limit::Target,
        };
        let mut summary = CellSummary { name: name.to_owned(), ..CellSummary::default() };
        summary.runs = self.points.iter().map(|point| point.runs.len() as u32).sum();
        if let Why::Failed(reason) = &self.why {
            summary.missing = Some(format!("failed: {reason}"));
        }
        if let Some(knee) = &self.knee {
            summary.knee = Some(model.offered(knee.load));
            summary.rate = knee.estimate();
            summary.failed_share = knee.failed_share();
            summary.mean_ns = knee.mean(|run| run.mean_ns);
            summary.p95_ns = knee.mean(|run| run.p95_ns as f64) as u64;
            summary.p99_ns = knee.mean(|run| run.p99_ns as f64) as u64;
            summary.limit = Some(limit);
        }
        summary
    }
}

#[cfg(test)]
mod tests;
