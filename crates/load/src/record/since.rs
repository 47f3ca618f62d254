//! Difference of two readings of a run's totals.

use super::{Interval, Totals};

impl Totals {
    /// Returns the counts and times since an earlier reading of the same run. Gauges and examples are those of the later
    /// reading; minimum and maximum are exact to the width of a histogram step.
    pub fn since(&self, before: &Totals) -> Totals {
        Totals { measured: self.measured.saturating_sub(before.measured), sum: self.sum.since(&before.sum) }
    }
}

impl Interval {
    fn since(&self, before: &Interval) -> Interval {
        let mut rest = self.clone();
        rest.counts.take_away(before.counts);
        for (count, less) in rest.statuses.iter_mut().zip(before.statuses.iter()) {
            *count = count.saturating_sub(*less);
        }
        for (count, less) in rest.faults.iter_mut().zip(before.faults) {
            *count = count.saturating_sub(less);
        }
        for (times, less) in rest.times.iter_mut().zip(&before.times) {
            times.take_away(less);
        }
        rest.lag.take_away(&before.lag);
        rest
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Phase;

    #[test]
    fn a_difference_excludes_everything_before_it() {
        let mut before = Totals { measured: Duration::from_secs(1), sum: Interval::default() };
        before.sum.counts.succeeded = 10;
        before.sum.statuses[200] = 10;
        before.sum.times[Phase::Response.index()].record(Duration::from_secs(5));
        let mut after = before.clone();
        after.measured = Duration::from_secs(4);
        after.sum.counts.succeeded = 25;
        after.sum.statuses[200] = 25;
        after.sum.times[Phase::Response.index()].record(Duration::from_millis(3));
        let rest = after.since(&before);
        assert_eq!((rest.measured, rest.sum.counts.succeeded), (Duration::from_secs(3), 15));
        assert_eq!(rest.sum.statuses(), [(200, 15)]);
        let times = rest.sum.times(Phase::Response).quantiles();
        assert_eq!(times.count, 1);
        assert!(times.p99_ns.abs_diff(3_000_000) < 5_000 && times.max_ns.abs_diff(3_000_000) < 5_000, "{times:?}");
    }
}
