//! Comparison of two reports: the changes, their size, and whether chance explains them.
//!
//! Rates, shares and means are compared by Welch's t-test on seconds, percentiles by whether their confidence intervals
//! overlap. Both account for the correlation of neighbouring seconds. The result distinguishes these two runs, not the two
//! programs: runs of one program also differ by start, memory placement and other load on the machine. Repeat the runs to
//! tell programs apart.

mod statistics;
mod text;

use serde::{Deserialize, Serialize};

pub(crate) use self::statistics::student;
use self::statistics::{Mean, SECONDS_MIN};
use super::document::Report;
use super::histogram;
use super::units::finite;
use super::words;
use crate::engine::{EndReason, Limit};
use crate::record::{Phase, Second};
use crate::thresholds::Unit;

/// Maximum p-value of a significant difference.
const CHANCE_MAX: f64 = 0.01;

/// Description of the method, part of every comparison.
const METHOD: &str = "Rates, shares and means: Welch's t-test on seconds, p < 0.01. Percentiles: 95 % intervals of order \
                      statistics that do not overlap. Samples are counted as fewer where seconds hang together. This tells \
                      two runs apart, not two programs: repeat each run before believing a small difference.";

/// Comparison of two runs with all figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Kind of the document: `comparison`.
    pub(crate) kind: String,
    /// Version of the document, [`super::VERSION`].
    pub(crate) version: u32,
    /// Baseline run of the comparison.
    pub(crate) old: Side,
    /// Run that is compared with the baseline.
    pub(crate) new: Side,
    /// Reason why there is no verdict, in one sentence; null if there is one.
    pub(crate) refused: Option<String>,
    /// Other differences between both runs, one sentence each.
    pub(crate) differences: Vec<String>,
    /// Figures of both runs with their changes.
    pub(crate) figures: Vec<Change>,
    /// Description of the statistical method.
    pub(crate) method: String,
}

/// One of the two compared runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Side {
    /// Label of the run from its report.
    pub(crate) label: String,
    /// Start of the run, as ISO 8601 in UTC.
    pub(crate) started_at: String,
}

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Name of the figure, such as `response_p99`.
    pub(crate) figure: String,
    /// Unit that both values have.
    pub(crate) unit: Unit,
    /// Value in the old run; null if it was not measured.
    pub(crate) old: Option<f64>,
    /// Value in the new run; null if it was not measured.
    pub(crate) new: Option<f64>,
    /// 95 % confidence interval of the old value; its upper end is null if the samples do not reach that far.
    pub(crate) base_interval: Option<(f64, Option<f64>)>,
    /// 95 % confidence interval of the new value, likewise.
    pub(crate) new_interval: Option<(f64, Option<f64>)>,
    /// Relative change from old to new: 0.05 is 5 % more. Null if the old value is missing or not above zero.
    pub(crate) change: Option<f64>,
    /// True if chance is an unlikely cause; null if that is unknown.
    pub(crate) significant: Option<bool>,
    /// True if the new value is worse than the old, significantly or not.
    pub(crate) worse: bool,
}

/// Compares a new run with an old one.
pub(crate) fn compare(old: &Report, new: &Report) -> Comparison {
    let side = |report: &Report| Side { label: report.label.clone(), started_at: report.started_at.clone() };
    let mut figures = vec![
        by_seconds(
            "succeeded_per_s",
            Unit::PerSecond,
            true,
            [old, new],
            |report| Some(report.rates.succeeded_per_s),
            |row| {
                let length = row.length.as_secs_f64();
                (length > 0.5).then(|| row.counts.succeeded as f64 / length)
            },
        ),
        by_seconds("failed_share", Unit::Share, false, [old, new], failed_share, |row| {
            let ended = row.counts.succeeded.saturating_add(row.counts.failed);
            (ended > 0).then(|| row.counts.failed as f64 / ended as f64)
        }),
        by_seconds("response_mean", Unit::Nanoseconds, false, [old, new], mean_ns, |row| {
            (row.response.count > 0).then_some(row.response.mean_ns)
        }),
    ];
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)] {
        figures.push(by_rank(&format!("response_{name}"), Phase::Response, share, [old, new]));
    }
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        figures.push(by_rank(&format!("service_{name}"), Phase::Service, share, [old, new]));
    }
    Comparison {
        kind: "comparison".to_owned(),
        version: super::VERSION,
        old: side(old),
        new: side(new),
        refused: refused(old, new),
        differences: differences(old, new),
        figures,
        method: METHOD.to_owned(),
    }
}

impl Comparison {
    /// Returns the figures that are significantly worse by more than this share of the old value (0.05 is 5 %). Empty if
    /// there is no verdict.
    pub(crate) fn regressions(&self, more_than: f64) -> Vec<&Change> {
        if self.refused.is_some() {
            return Vec::new();
        }
        let large = |change: &&Change| change.change.is_none_or(|share| share.abs() > more_than);
        self.figures.iter().filter(|change| change.worse && change.significant == Some(true)).filter(large).collect()
    }
}

fn mean_ns(report: &Report) -> Option<f64> {
    report.phase(Phase::Response).filter(|times| times.count > 0).map(|times| times.mean_ns)
}

fn failed_share(report: &Report) -> Option<f64> {
    (report.counts.succeeded > 0 || report.counts.failed > 0).then_some(report.rates.failed_share)
}

/// Returns the seconds outside the warm-up.
fn measured(report: &Report) -> Vec<&Second> {
    report.seconds.iter().filter(|row| !row.warm_up).collect()
}

fn by_seconds(
    figure: &str,
    unit: Unit,
    more_is_better: bool,
    reports: [&Report; 2],
    whole: impl Fn(&Report) -> Option<f64>,
    second: impl Fn(&Second) -> Option<f64>,
) -> Change {
    let means = reports.map(|report| {
        let samples: Vec<_> = measured(report).into_iter().filter_map(&second).collect();
        statistics::mean(&samples)
    });
    // The value shown is that of the whole run; the interval of the seconds is centred on it.
    let interval = |value: Option<f64>, mean: Option<Mean>| {
        let half = mean?.half_width();
        Some((finite((value? - half).max(0.0)), Some(finite(value? + half))))
    };
    let values = reports.map(whole);
    let significant = match means {
        [Some(old), Some(new)] => Some(statistics::welch(&old, &new) < CHANCE_MAX),
        _ => None,
    };
    let intervals = [interval(values[0], means[0]), interval(values[1], means[1])];
    change(figure, unit, more_is_better, values, intervals, significant)
}

fn by_rank(figure: &str, phase: Phase, share: f64, reports: [&Report; 2]) -> Change {
    let histograms = reports.map(|report| {
        let text = report.histograms.iter().find(|one| one.phase == phase)?;
        histogram::decode(&text.v2_deflate_base64).ok().filter(|histogram| !histogram.is_empty())
    });
    let of = |index: usize| {
        let histogram = histograms[index].as_ref()?;
        statistics::percentile(histogram, &measured(reports[index]), share)
    };
    let intervals = [of(0), of(1)];
    let values =
        [0, 1].map(|index| histograms[index].as_ref().map(|histogram| histogram.value_at_quantile(share) as f64));
    let above = |(low, _): (f64, Option<f64>), (_, high): (f64, Option<f64>)| high.is_some_and(|high| low > high);
    let significant = match intervals {
        [Some(old), Some(new)] => Some(above(old, new) || above(new, old)),
        _ => None,
    };
    change(figure, Unit::Nanoseconds, false, values, intervals, significant)
}

fn change(
    figure: &str,
    unit: Unit,
    more_is_better: bool,
    [old, new]: [Option<f64>; 2],
    [base_interval, new_interval]: [Option<(f64, Option<f64>)>; 2],
    significant: Option<bool>,
) -> Change {
    let both = old.zip(new);
    Change {
        figure: figure.to_owned(),
        unit,
        old: old.map(finite),
        new: new.map(finite),
        base_interval,
        new_interval,
        change: both.filter(|(old, _)| *old > 0.0).map(|(old, new)| finite((new - old) / old)),
        significant,
        worse: both.is_some_and(|(old, new)| if more_is_better { new < old } else { new > old }),
    }
}

fn refused(old: &Report, new: &Report) -> Option<String> {
    for (name, report) in [("old", old), ("new", new)] {
        if let Limit::Generator(why) = &report.limit {
            return Some(format!(
                "In the {name} run the generator was the bottleneck, so its figures do not describe the target: {why}"
            ));
        }
        if let Limit::Unmeasured(why) = &report.limit {
            return Some(format!("In the {name} run nothing was measured: {why}"));
        }
        if let EndReason::Failed(why) = &report.ended {
            return Some(format!("The {name} run was aborted: {why}"));
        }
    }
    let seconds = [old, new].map(|report| measured(report).len());
    if seconds.iter().any(|seconds| *seconds < SECONDS_MIN) {
        return Some(format!(
            "The runs measured {} and {} seconds; a comparison needs at least {SECONDS_MIN} of each.",
            seconds[0], seconds[1]
        ));
    }
    None
}

/// Returns the differences to know before reading the figures: another plan, machine or bottleneck.
fn differences(old: &Report, new: &Report) -> Vec<String> {
    let mut out = Vec::new();
    fields(&mut out, "configuration", serde_json::to_value(&old.asked).ok(), serde_json::to_value(&new.asked).ok());
    fields(&mut out, "machine", serde_json::to_value(&old.machine).ok(), serde_json::to_value(&new.machine).ok());
    if old.limit != new.limit {
        out.push(format!(
            "Different bottleneck. Before: {}. Now: {}.",
            words::limit(&old.limit),
            words::limit(&new.limit)
        ));
    }
    let (before, after) = (old.measured_s, new.measured_s);
    if (before - after).abs() > 0.1 * before.max(after) {
        out.push(format!("Different length: {before:.0} s were measured, now {after:.0} s."));
    }
    let offered = |report: &Report| report.limit == Limit::Offered;
    if offered(old) && offered(new) {
        out.push(
            "Both runs reached the offered rate, so their rates do not show the capacity of the target.".to_owned(),
        );
    }
    for (name, report) in [("old", old), ("new", new)] {
        out.extend(report.warnings.iter().map(|warning| format!("In the {name} run: {warning}")));
    }
    out
}

fn fields(out: &mut Vec<String>, of: &str, old: Option<serde_json::Value>, new: Option<serde_json::Value>) {
    let (Some(serde_json::Value::Object(old)), Some(serde_json::Value::Object(new))) = (old, new) else { return };
    for (name, before) in &old {
        // The same load with another seed counts as the same load.
        if let Some(after) = new.get(name).filter(|after| *after != before && name != "seed") {
            out.push(format!("Different {of}: {name} was {before} and is {after}."));
        }
    }
}

#[cfg(test)]
mod tests;
