//! Thresholds of a run: `p99<50ms,errors<1%,rate>1000`. A run that misses one has failed.
//!
//! A threshold without a measured value is missed, for example a percentile of a run in which no request succeeded.

mod parse;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::record::{Phase, Times, Totals};

/// Threshold: a figure, a relation and a bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Threshold {
    /// Figure that is compared with the bound.
    pub(crate) figure: Figure,
    /// Relation that must hold between figure and bound.
    pub(crate) relation: Relation,
    /// Bound, in the unit of [`Figure::unit`]: nanoseconds, a share of 0.0 to 1.0, or requests a second.
    pub(crate) bound: f64,
    /// Text of the threshold, as the user wrote it.
    pub(crate) text: String,
}

/// Figure that a threshold bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// Statistic of the times of a phase.
    Time(Phase, Statistic),
    /// Failed requests, as a share of those that ended.
    Errors,
    /// Successful requests a second of measured time.
    Rate,
}

/// Statistic of a histogram of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Statistic {
    /// Time within which this share of requests lies, 0.0 to 1.0.
    Quantile(f64),
    /// Mean of all recorded times.
    Mean,
    /// Shortest of all recorded times.
    Min,
    /// Longest of all recorded times.
    Max,
}

/// Relation between a figure and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Less than the bound: `<`.
    Below,
    /// At most the bound: `<=`.
    AtMost,
    /// More than the bound: `>`.
    Above,
    /// At least the bound: `>=`.
    AtLeast,
}

named! {
    /// Unit of a figure and its bound.
    pub(crate) enum Unit {
        /// Nanoseconds, for times of a phase.
        Nanoseconds = "ns",
        /// Share of 0.0 to 1.0.
        Share = "share",
        /// Requests a second of measured time.
        PerSecond = "per_s",
    }
}

/// Threshold with its result, as reports hold it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Text of the threshold, as the user wrote it.
    pub(crate) threshold: String,
    /// Unit of `measured` and `bound`.
    pub(crate) unit: Unit,
    /// Bound, in the unit of `unit`.
    pub(crate) bound: f64,
    /// Measured value; `None` if nothing was measured.
    pub(crate) measured: Option<f64>,
    /// True if the threshold was met.
    pub(crate) passed: bool,
}

impl Threshold {
    /// Compares the totals of a run with the threshold.
    pub(crate) fn check(&self, totals: &Totals) -> Check {
        let measured = self.figure.measure(totals).filter(|value| value.is_finite());
        let passed = measured.is_some_and(|value| self.relation.holds(value, self.bound));
        let (threshold, unit) = (self.text.clone(), self.figure.unit());
        Check { threshold, unit, bound: self.bound, measured, passed }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Figure {
    /// Returns the unit of the figure.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Figure::Time(..) => Unit::Nanoseconds,
            Figure::Errors => Unit::Share,
            Figure::Rate => Unit::PerSecond,
        }
    }

    /// Returns the value of the figure in this run; `None` if nothing was measured.
    pub(crate) fn measure(self, totals: &Totals) -> Option<f64> {
        let counts = &totals.sum.counts;
        match self {
            Figure::Time(phase, statistic) => statistic.of(totals.sum.times(phase)),
            Figure::Errors => (counts.succeeded + counts.failed > 0).then(|| totals.sum.failed_share()),
            Figure::Rate => {
                let seconds = totals.measured.as_secs_f64();
                (seconds > 0.0).then(|| counts.succeeded as f64 / seconds)
            }
        }
    }
}

impl Statistic {
    fn of(self, times: &Times) -> Option<f64> {
        if times.is_empty() {
            return None;
        }
        Some(match self {
            Statistic::Quantile(share) => times.quantile_ns(share) as f64,
            Statistic::Mean => times.histogram().mean(),
            Statistic::Min => times.histogram().min() as f64,
            Statistic::Max => times.histogram().max() as f64,
        })
    }
}

impl Relation {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Relation::Below => value < bound,
            Relation::AtMost => value <= bound,
            Relation::Above => value > bound,
            Relation::AtLeast => value >= bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn totals(times_ms: &[u64], failed: u64) -> Totals {
        let mut totals = Totals { measured: Duration::from_secs(2), sum: Default::default() };
        for ms in times_ms {
            totals.sum.times[Phase::Response.index()].record(Duration::from_millis(*ms));
        }
        totals.sum.counts.succeeded = times_ms.len() as u64;
        totals.sum.counts.failed = failed;
        totals
    }

    fn passed(text: &str, totals: &Totals) -> bool {
        let list = Threshold::parse_list("--threshold", text).unwrap();
        list.iter().all(|threshold| threshold.check(totals).passed)
    }

    #[test]
    fn a_run_is_held_against_each_bar_and_the_measured_value_is_reported() {
        let run = totals(&[10, 20, 30, 40], 1);
        assert!(passed("p50<=21ms, max<41ms, mean<26ms, errors<=20%, rate>=2", &run));
        for missed in ["p50<20ms", "max<40ms", "errors<20%", "rate>2", "min>10.1ms"] {
            assert!(!passed(missed, &run), "{missed}");
        }
        let check = Threshold::parse_list("--threshold", "rate>3").unwrap()[0].check(&run);
        assert_eq!((check.measured, check.passed), (Some(2.0), false));
    }

    #[test]
    fn a_threshold_without_data_is_missed() {
        assert!(!passed("p99<1h", &totals(&[], 5)));
        assert!(!passed("errors<1%", &totals(&[], 0)));
        assert!(!passed("service_p99<1h", &totals(&[1], 0)));
        let unmeasured = Totals { measured: Duration::ZERO, sum: Default::default() };
        assert!(!passed("rate>=0", &unmeasured));
        let check = Threshold::parse_list("--threshold", "p99<1h").unwrap()[0].check(&unmeasured);
        assert_eq!(check.measured, None);
    }
}
