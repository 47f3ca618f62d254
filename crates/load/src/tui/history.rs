//! Seconds of a run as columns of a chart. Their number is bounded; old columns are merged instead of dropped.
//!
//! Percentiles cannot be merged: a column of several seconds keeps those of its worst second, and the chart says so.

use crate::record::Second;

/// Maximum number of columns kept; an even number.
const COLUMNS_MAX: usize = 512;

/// Column of one second, or of several merged.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Number of seconds in the column.
    pub(super) seconds: u32,
    /// Merged seconds; percentiles are those of the worst second.
    pub(super) sum: Second,
    /// True if a run begins in this column.
    pub(super) begins: bool,
}

impl Column {
    fn add(&mut self, other: &Column) {
        self.seconds = self.seconds.saturating_add(other.seconds);
        self.sum.merge(&other.sum);
        self.begins |= other.begins;
    }

    /// Returns the 50th, 95th and 99th percentile of response times in the worst second; `None` if nothing was answered.
    pub(super) fn worst(&self) -> Option<[u64; 3]> {
        let response = &self.sum.response;
        (response.count > 0).then_some([response.p50_ns, response.p95_ns, response.p99_ns])
    }
}

/// Seconds since the beginning, in at most [`COLUMNS_MAX`] columns.
#[derive(Clone, Debug)]
pub(super) struct History {
    columns: Vec<Column>,
    /// Number of seconds in a full column.
    step: u32,
}

impl Default for History {
    fn default() -> Self {
        History { columns: Vec::new(), step: 1 }
    }
}

/// Columns fitted to the width of a chart.
#[derive(Debug)]
pub(super) struct ChartColumns {
    /// Columns from the oldest to the newest.
    pub(super) columns: Vec<Column>,
    /// Number of seconds in each column; the last may have fewer.
    pub(super) step: u32,
    /// Width of each column, in cells.
    pub(super) wide: usize,
}

impl History {
    /// Adds a second; `begins` marks the first of a run.
    pub(super) fn push(&mut self, second: &Second, begins: bool) {
        let column = Column { seconds: 1, sum: second.clone(), begins };
        match self.columns.last_mut() {
            Some(last) if last.seconds < self.step => last.add(&column),
            _ => self.columns.push(column),
        }
        if self.columns.len() > COLUMNS_MAX {
            self.columns = merged(&self.columns, 2);
            self.step = self.step.saturating_mul(2);
        }
    }

    /// Returns the number of seconds in the history.
    pub(super) fn seconds(&self) -> u64 {
        self.columns.iter().map(|column| u64::from(column.seconds)).sum()
    }

    /// Merges columns to fit into `width` cells, with room for a run of `planned` seconds.
    pub(super) fn fitted(&self, width: usize, planned: u64) -> ChartColumns {
        let planned = usize::try_from(planned.div_ceil(u64::from(self.step))).unwrap_or(usize::MAX);
        let all = self.columns.len().max(planned).max(1);
        let group = all.div_ceil(width.max(1));
        let step = self.step.saturating_mul(u32::try_from(group).unwrap_or(u32::MAX));
        let wide = if group == 1 { (width / all).clamp(1, 4) } else { 1 };
        ChartColumns { columns: merged(&self.columns, group), step, wide }
    }
}

/// Merges each `group` columns into one.
fn merged(columns: &[Column], group: usize) -> Vec<Column> {
    let groups = columns.chunks(group.max(1));
    let merge = |group: &[Column]| {
        let mut first = group.first().cloned()?;
        group.iter().skip(1).for_each(|other| first.add(other));
        Some(first)
    };
    groups.filter_map(merge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::generated;

    #[test]
    fn no_second_is_lost_however_long_the_run_and_memory_is_bounded() {
        let mut history = History::default();
        let mut second = generated::second(7, 0, 500.0);
        for index in 0..5_000 {
            second.index = index;
            history.push(&second, index == 0);
            assert!(history.columns.len() <= COLUMNS_MAX);
        }
        assert_eq!(history.seconds(), 5_000);
        let total: u64 = history.columns.iter().map(|column| column.sum.counts.succeeded).sum();
        assert_eq!(total, 5_000 * second.counts.succeeded);
        for width in [1, 7, 60, 512, 1_000] {
            let fitted = history.fitted(width, 0);
            assert!(fitted.columns.len() * fitted.wide <= width, "{width}");
            assert_eq!(fitted.columns.iter().map(|column| u64::from(column.seconds)).sum::<u64>(), 5_000);
        }
    }

    #[test]
    fn a_column_of_several_seconds_shows_the_worst_of_them() {
        let mut history = History::default();
        for p99 in [10, 90, 20, 30] {
            let mut second = generated::second(7, 0, 500.0);
            second.response.p99_ns = p99;
            history.push(&second, false);
        }
        let fitted = history.fitted(2, 0);
        let worst: Vec<_> = fitted.columns.iter().map(|column| column.worst().unwrap()[2]).collect();
        assert_eq!((worst, fitted.step), (vec![90, 30], 2));
    }

    #[test]
    fn room_is_kept_for_the_seconds_to_come() {
        let mut history = History::default();
        history.push(&generated::second(7, 0, 500.0), true);
        let fitted = history.fitted(60, 120);
        assert_eq!((fitted.columns.len(), fitted.wide), (1, 1));
        assert_eq!(history.fitted(60, 20).wide, 3);
    }
}
