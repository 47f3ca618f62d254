//! Bars that a run must clear: `p99<50ms,errors<1%,rate>1000`. A run that misses one has failed.
//!
//! A threshold without anything to measure (no request succeeded, say, so that there is no percentile) is missed: what was
//! not shown was not met.

mod parse;

use std::fmt;

use crate::record::{Phase, Times, Totals};

pub(crate) use self::parse::ThresholdError;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Threshold {
    /// What is measured.
    pub(crate) figure: Figure,
    /// How it is compared.
    pub(crate) relation: Relation,
    /// With what: nanoseconds, a share of 0.0 to 1.0, or requests a second, by [`Figure::unit`].
    pub(crate) bound: f64,
    /// As it was written.
    pub(crate) text: String,
}

/// What a threshold looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// A time of a phase.
    Time(Phase, Statistic),
    /// Failed requests, as a share of those that ended.
    Errors,
    /// Successful requests a second of measured time.
    Rate,
}

/// A figure of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Statistic {
    /// The time within which this share lies, 0.0 to 1.0.
    Quantile(f64),
    /// The mean.
    Mean,
    /// The shortest.
    Min,
    /// The longest.
    Max,
}

/// How a figure is compared with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// A share of 0.0 to 1.0.
    Share,
    /// Requests a second.
    PerSecond,
}

/// What came of a threshold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Check {
    /// Which.
    pub(crate) threshold: Threshold,
    /// What was measured, in the unit of its figure; `None` where there was nothing to measure.
    pub(crate) measured: Option<f64>,
    /// Whether it was met.
    pub(crate) passed: bool,
}

impl Threshold {
    /// Reads one or several, with commas between. `flag` is named in errors.
    ///
    /// # Errors
    /// What is wrong, at which character, and what is allowed there.
    pub(crate) fn parse_list(flag: &str, text: &str) -> Result<Vec<Threshold>, ThresholdError> {
        parse::list(flag, text)
    }

    /// Looks at a run.
    pub(crate) fn check(&self, totals: &Totals) -> Check {
        let measured = self.figure.measure(totals).filter(|value| value.is_finite());
        let passed = measured.is_some_and(|value| self.relation.holds(value, self.bound));
        Check { threshold: self.clone(), measured, passed }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Figure {
    /// What it is counted in.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Figure::Time(..) => Unit::Nanoseconds,
            Figure::Errors => Unit::Share,
            Figure::Rate => Unit::PerSecond,
        }
    }

    /// Its value in this run; `None` where nothing was measured.
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
    fn a_run_is_held_against_each_bar_and_the_measured_value_is_told() {
        let run = totals(&[10, 20, 30, 40], 1);
        assert!(passed("p50<=21ms, max<41ms, mean<26ms, errors<=20%, rate>=2", &run));
        for missed in ["p50<20ms", "max<40ms", "errors<20%", "rate>2", "min>10.1ms"] {
            assert!(!passed(missed, &run), "{missed}");
        }
        let check = Threshold::parse_list("--threshold", "rate>3").unwrap()[0].check(&run);
        assert_eq!((check.measured, check.passed), (Some(2.0), false));
    }

    #[test]
    fn what_was_not_measured_was_not_met() {
        assert!(!passed("p99<1h", &totals(&[], 5)));
        assert!(!passed("errors<1%", &totals(&[], 0)));
        assert!(!passed("service_p99<1h", &totals(&[1], 0)));
        let unmeasured = Totals { measured: Duration::ZERO, sum: Default::default() };
        assert!(!passed("rate>=0", &unmeasured));
        let check = Threshold::parse_list("--threshold", "p99<1h").unwrap()[0].check(&unmeasured);
        assert_eq!(check.measured, None);
    }
}
