//! Histogram of times with constant size: 1 ns to an hour, three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest time that is distinguished: an hour, in nanoseconds.
pub const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// Times below this value are not distinguished: 64 ns.
const TIME_MIN_NS: u64 = 64;

/// Number of columns in a [`Heat`] row.
pub const HEAT_BUCKETS: usize = 64;

/// Histogram of times in nanoseconds.
#[derive(Debug)]
pub struct Times(Histogram<u64>);

impl Clone for Times {
    /// Leaves an empty histogram's memory untouched, so that it costs nothing: most phases of most runs are empty.
    fn clone(&self) -> Self {
        if self.is_empty() { Times::default() } else { Times(self.0.clone()) }
    }
}

impl Default for Times {
    fn default() -> Self {
        // The bounds are constants that the histogram accepts.
        #[allow(clippy::expect_used, reason = "the bounds are constants that the histogram accepts")]
        Times(Histogram::new_with_bounds(TIME_MIN_NS, TIME_MAX_NS, 3).expect("constant bounds"))
    }
}

impl Times {
    /// Adds one time; a time above an hour counts as an hour.
    pub fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(TIME_MAX_NS);
        self.0.saturating_record(ns.clamp(1, TIME_MAX_NS));
    }

    /// Adds all times of another histogram.
    pub fn add(&mut self, other: &Times) {
        if !other.is_empty() {
            // Both histograms have the same bounds, so this cannot fail.
            let _ = self.0.add(&other.0);
        }
    }

    /// Removes all times and keeps the memory.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.0.reset();
        }
    }

    /// Subtracts an earlier reading of the same histogram.
    pub(crate) fn take_away(&mut self, before: &Times) {
        if !before.is_empty() {
            // The other reading is earlier, so no count goes below zero.
            let _ = self.0.subtract(&before.0);
        }
    }

    /// Returns the number of times recorded.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether no time was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the quantile in nanoseconds; `share` is 0.0 to 1.0. Returns 0 if the histogram is empty.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        if self.is_empty() { 0 } else { self.0.value_at_quantile(share) }
    }

    /// Returns the usual quantiles, the mean and the deviation.
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

    /// Returns the distribution between 1 µs and 100 s, in columns of equal width on a logarithmic scale.
    pub fn heat(&self) -> Heat {
        let mut row = Heat::default();
        for step in self.0.iter_recorded() {
            row.0[Heat::column(step.value_iterated_to())] += step.count_at_value();
        }
        row
    }

    /// Returns the histogram itself, for logs and exports.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

/// Figures of one histogram; times in nanoseconds. All are zero if `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of the recorded times.
    pub count: u64,
    /// Shortest recorded time, in nanoseconds.
    pub min_ns: u64,
    /// Mean of the times, in nanoseconds.
    #[serde(serialize_with = "super::serial::finite")]
    pub mean_ns: f64,
    /// Standard deviation of the times, in nanoseconds.
    #[serde(serialize_with = "super::serial::finite")]
    pub stdev_ns: f64,
    /// Median: half of the times are at most this long.
    pub p50_ns: u64,
    /// 75th percentile of the times, in nanoseconds.
    pub p75_ns: u64,
    /// 90th percentile of the times, in nanoseconds.
    pub p90_ns: u64,
    /// 95th percentile of the times, in nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile of the times, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile of the times, in nanoseconds.
    pub p999_ns: u64,
    /// Longest recorded time, in nanoseconds.
    pub max_ns: u64,
}

/// One row of a heat map: the number of times in each column. 8 columns are a factor of 10; the first also holds times below
/// 1 µs, the last those above 100 s. In a document: `[column, count]` of the columns that are not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<(u8, u64)>", from = "Vec<(u8, u64)>")]
pub struct Heat(pub [u64; HEAT_BUCKETS]);

impl From<Heat> for Vec<(u8, u64)> {
    fn from(heat: Heat) -> Self {
        (0..).zip(heat.0).filter(|(_, count)| *count > 0).collect()
    }
}

impl From<Vec<(u8, u64)>> for Heat {
    fn from(columns: Vec<(u8, u64)>) -> Self {
        let mut heat = Heat::default();
        for (column, count) in columns {
            heat.0[usize::from(column).min(HEAT_BUCKETS - 1)] += count;
        }
        heat
    }
}

impl Default for Heat {
    fn default() -> Self {
        Heat([0; HEAT_BUCKETS])
    }
}

impl Heat {
    /// Returns the column of this time.
    pub fn column(ns: u64) -> usize {
        let decades = (ns.max(1) as f64 / 1000.0).log10().max(0.0);
        ((decades * 8.0) as usize).min(HEAT_BUCKETS - 1)
    }

    /// Returns the lower bound of this column, in nanoseconds.
    pub fn from_ns(column: usize) -> u64 {
        (1000.0 * 10f64.powf(column as f64 / 8.0)) as u64
    }

    /// Adds all counts of another row.
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
            let reported = times.quantiles().p99_ns;
            assert!(reported.abs_diff(ns) as f64 <= (ns as f64 / 1000.0).max(64.0), "{ns} is reported as {reported}");
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
