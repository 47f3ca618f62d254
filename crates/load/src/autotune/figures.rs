//! Figures of a load point, and statistics over its runs.

use crate::engine::Limit;
use crate::progress::Estimate;
use crate::report::student;

/// Figures of one run at a load point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunFigures {
    /// Successful requests a second, without the warm-up.
    pub(crate) rate: f64,
    /// Share of requests that failed, 0.0 to 1.0.
    pub(crate) failed_share: f64,
    /// Number of requests that succeeded.
    pub(crate) succeeded: u64,
    /// Mean response time, in nanoseconds.
    pub(crate) mean_ns: f64,
    /// Median of response times, in nanoseconds.
    pub(crate) p50_ns: u64,
    /// 95th percentile of response times, in nanoseconds.
    pub(crate) p95_ns: u64,
    /// 99th percentile of response times, in nanoseconds.
    pub(crate) p99_ns: u64,
    /// First rule that the run missed, with the measured value.
    pub(crate) missed: Option<String>,
    /// Reason why the generator was the bottleneck, if it was.
    pub(crate) generator: Option<String>,
    /// Most frequent failure, in words.
    pub(crate) failure: Option<String>,
}

/// Load point with the figures of all its runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadPoint {
    /// Load: workers, or requests a second.
    pub(crate) load: f64,
    /// Figures of the runs, at least one.
    pub(crate) runs: Vec<RunFigures>,
}

impl LoadPoint {
    /// Returns the mean of a figure over all runs.
    pub(crate) fn mean(&self, figure: impl Fn(&RunFigures) -> f64) -> f64 {
        self.runs.iter().map(figure).sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// Returns the mean of successful requests a second over all runs.
    pub(crate) fn rate(&self) -> f64 {
        self.mean(|run| run.rate)
    }

    /// Returns the median of the runs' rates, which decisions are based on. A single run that other work on the machine slowed
    /// down does not move it.
    pub(super) fn level(&self) -> f64 {
        let mut rates: Vec<f64> = self.runs.iter().map(|run| run.rate).collect();
        rates.sort_by(f64::total_cmp);
        let middle = rates.len() / 2;
        match rates.len() {
            0 => 0.0,
            odd if odd % 2 == 1 => rates[middle],
            _ => (rates[middle - 1] + rates[middle]) / 2.0,
        }
    }

    /// Returns the mean share of requests that failed, 0.0 to 1.0.
    pub(crate) fn failed_share(&self) -> f64 {
        self.mean(|run| run.failed_share)
    }

    /// Returns half the width of the 95 % confidence interval of the rate, by Student's t; 0 for a single run, which has no
    /// interval.
    pub(crate) fn rate_error(&self) -> f64 {
        let runs = self.runs.len();
        if runs < 2 { 0.0 } else { student(0.05, runs as f64 - 1.0) * self.variance_of_mean().sqrt() }
    }

    /// Returns the mean rate with its confidence interval.
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate::new(self.rate(), self.rate_error())
    }

    /// Returns the missed rule, if more than half of the runs missed one.
    pub(crate) fn missed(&self) -> Option<&str> {
        self.in_most(|run| run.missed.as_deref())
    }

    /// Returns the reason why the generator was the bottleneck, if it was in more than half of the runs.
    pub(crate) fn generator(&self) -> Option<&str> {
        self.in_most(|run| run.generator.as_deref())
    }

    /// Returns the bottleneck of this load point.
    pub(crate) fn limit(&self) -> Limit {
        if let Some(reason) = self.generator() {
            return Limit::Generator(reason.to_owned());
        }
        if self.runs.iter().all(|run| run.succeeded == 0) {
            return Limit::Unmeasured(self.failure().unwrap_or("no request succeeded").to_owned());
        }
        Limit::Target
    }

    /// Returns the most frequent failure of the first run that had one.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.failure.as_deref())
    }

    fn in_most<'a>(&'a self, what: impl Fn(&'a RunFigures) -> Option<&'a str>) -> Option<&'a str> {
        let count = self.runs.iter().filter(|run| what(run).is_some()).count();
        if count * 2 > self.runs.len() { self.runs.iter().find_map(what) } else { None }
    }

    fn variance_of_mean(&self) -> f64 {
        let (mean, count) = (self.rate(), self.runs.len() as f64);
        let squares: f64 = self.runs.iter().map(|run| (run.rate - mean).powi(2)).sum();
        if count < 2.0 { 0.0 } else { squares / (count - 1.0) / count }
    }

    /// Returns whether this point's rate is above another's by so large a share that throughput still grows: shown with 95 %
    /// confidence (Welch, one-sided), or too large to be noise.
    pub(super) fn outgrows(&self, other: &LoadPoint) -> bool {
        /// Smallest share that counts as growth: less is not worth a doubled load.
        const GAIN_MIN: f64 = 0.05;
        /// Share above which growth needs no proof.
        const GAIN_PLAIN: f64 = 0.25;
        let gain = self.level() - other.level();
        let share = gain / other.level().max(f64::MIN_POSITIVE);
        if share <= GAIN_MIN || share > GAIN_PLAIN {
            return share > GAIN_PLAIN;
        }
        self.is_shown_above(other)
    }

    /// Returns the variance of the runs as a share of the squared rate, and its degrees of freedom.
    pub(super) fn spread(&self) -> (f64, f64) {
        let runs = self.runs.len() as f64;
        let share = self.variance_of_mean() * runs / self.rate().powi(2).max(f64::MIN_POSITIVE);
        (share, (runs - 1.0).max(0.0))
    }

    /// Returns whether the difference is more than noise, with 95 % confidence (Welch, one-sided).
    fn is_shown_above(&self, other: &LoadPoint) -> bool {
        let (mine, others) = (self.variance_of_mean(), other.variance_of_mean());
        let error = mine + others;
        let freedom = |variance: f64, runs: usize| variance.powi(2) / (runs as f64 - 1.0).max(1.0);
        let below = freedom(mine, self.runs.len()) + freedom(others, other.runs.len());
        let degrees = if below > 0.0 { error.powi(2) / below } else { 1e9 };
        self.level() - other.level() > student(0.1, degrees) * error.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rates: &[f64]) -> LoadPoint {
        let run = |rate: &f64| RunFigures { rate: *rate, succeeded: 1, ..RunFigures::default() };
        LoadPoint { load: 1.0, runs: rates.iter().map(run).collect() }
    }

    #[test]
    fn the_interval_is_students_for_so_few_runs() {
        // Mean 100, standard deviation 10, three runs: 4.303 * 10 / sqrt(3).
        assert!((point(&[90.0, 100.0, 110.0]).rate_error() - 24.84).abs() < 0.01);
        assert_eq!(point(&[90.0]).rate_error(), 0.0);
    }

    #[test]
    fn growth_within_the_noise_is_no_growth() {
        let before = point(&[90.0, 100.0, 110.0]);
        assert!(!point(&[98.0, 108.0, 118.0]).outgrows(&before));
        assert!(!point(&[100.0, 104.0, 103.0]).outgrows(&point(&[100.0, 100.0, 100.0])));
        assert!(point(&[108.0, 108.1, 108.2]).outgrows(&point(&[100.0, 100.1, 100.2])));
        assert!(point(&[150.0, 190.0, 230.0]).outgrows(&before));
        assert!(point(&[108.0]).outgrows(&point(&[100.0])));
    }
}
