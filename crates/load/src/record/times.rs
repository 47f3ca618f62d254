//! Times in a histogram of constant size: 1 ns to an hour, three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest time that is told apart from longer ones: an hour, in nanoseconds.
pub const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// Below this, times are not told apart: 64 ns.
const TIME_MIN_NS: u64 = 64;

/// Columns of a [`Heat`] row.
pub const HEAT_BUCKETS: usize = 64;

/// A histogram of times in nanoseconds.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Clone for Times {
    /// An empty one's memory is never touched, so that it costs none: most phases of most runs are empty.
    fn clone(&self) -> Self {
        if self.is_empty() { Times::default() } else { Times(self.0.clone()) }
    }
}

impl Default for Times {
    fn default() -> Self {
        // The bounds are constants that it accepts.
        #[allow(clippy::expect_used, reason = "the bounds are constants that the histogram accepts")]
        Times(Histogram::new_with_bounds(TIME_MIN_NS, TIME_MAX_NS, 3).expect("constant bounds"))
    }
}

impl Times {
    /// Adds one time; longer than an hour counts as an hour.
    pub fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(TIME_MAX_NS);
        self.0.saturating_record(ns.clamp(1, TIME_MAX_NS));
    }

    /// Adds all of another's.
    pub fn add(&mut self, other: &Times) {
        if !other.is_empty() {
            // Both have the same bounds, so that it cannot fail.
            let _ = self.0.add(&other.0);
        }
    }

    /// Forgets everything and keeps its memory.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.0.reset();
        }
    }

    /// Takes away all of an earlier reading of the same times.
    pub(crate) fn take_away(&mut self, before: &Times) {
        if !before.is_empty() {
            // It was read earlier, so that nothing goes below zero.
            let _ = self.0.subtract(&before.0);
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time within which this share of them lies, in nanoseconds; `share` is 0.0 to 1.0. 0 where there is none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        if self.is_empty() { 0 } else { self.0.value_at_quantile(share) }
    }

    /// The usual figures.
    pub fn quantiles(&self) -> Quantiles {
        if self.is_empty() {
            return Quantiles::default();
        }
        let at = |share| self.0.value_at_quantile(share);
        Quantiles {
            count: self.len(),
            min_ns: self.0.min(),
            mean_ns: self.0.mean(),
            stdev_ns: self.0.stdev(),
            p50_ns: at(0.5),
            p75_ns: at(0.75),
            p90_ns: at(0.9),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.0.max(),
        }
    }

    /// How they lie between 1 µs and 100 s, in columns of equal width on a logarithmic scale.
    pub fn heat(&self) -> Heat {
        let mut row = Heat::default();
        for step in self.0.iter_recorded() {
            row.0[Heat::column(step.value_iterated_to())] += step.count_at_value();
        }
        row
    }

    /// The histogram itself, for logs and exports.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

/// Figures of one histogram; times in nanoseconds. All zero where `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many times there are.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub stdev_ns: f64,
    /// Half of them are no longer.
    pub p50_ns: u64,
    /// 75 % are no longer.
    pub p75_ns: u64,
    /// 90 % are no longer.
    pub p90_ns: u64,
    /// 95 % are no longer.
    pub p95_ns: u64,
    /// 99 % are no longer.
    pub p99_ns: u64,
    /// 99.9 % are no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One row of a heat map: how many times fell in each column. 8 columns are a factor of 10; the first also has what is
/// shorter than 1 µs, the last what is longer than 100 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heat(pub [u64; HEAT_BUCKETS]);

impl Default for Heat {
    fn default() -> Self {
        Heat([0; HEAT_BUCKETS])
    }
}

impl Heat {
    /// The column of this time.
    pub fn column(ns: u64) -> usize {
        let decades = (ns.max(1) as f64 / 1000.0).log10().max(0.0);
        ((decades * 8.0) as usize).min(HEAT_BUCKETS - 1)
    }

    /// The shortest time of this column, in nanoseconds.
    pub fn from_ns(column: usize) -> u64 {
        (1000.0 * 10f64.powf(column as f64 / 8.0)) as u64
    }

    /// Adds all of another row.
    pub fn add(&mut self, other: &Heat) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_three_digits_over_nine_decades() {
        for ns in [1_000_u64, 123_456, 99_900_000, 1_500_000_000, 3_000_000_000_000] {
            let mut times = Times::default();
            times.record(Duration::from_nanos(ns));
            let told = times.quantiles().p99_ns;
            assert!(told.abs_diff(ns) as f64 <= (ns as f64 / 1000.0).max(64.0), "{ns} is told as {told}");
        }
    }

    #[test]
    fn a_time_lies_in_the_column_that_begins_below_it() {
        for ns in [1_u64, 999, 1_001, 5_000, 1_000_001, 99_000_000_000, u64::MAX] {
            let column = Heat::column(ns);
            assert!(ns < 1000 || Heat::from_ns(column) <= ns, "{ns}");
            assert!(column == HEAT_BUCKETS - 1 || ns <= Heat::from_ns(column + 1), "{ns}");
        }
    }
}
