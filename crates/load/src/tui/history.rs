//! The seconds of a run as columns of a chart: their number is bounded, and old ones are merged, not forgotten.
//!
//! Percentiles cannot be merged: of a column of several seconds the worst second's are kept, and the chart says so.

use crate::record::{Heat, Second};

/// Columns that are kept at most; even.
const COLUMNS_MAX: usize = 512;

/// One second, or several.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Seconds in it.
    pub(super) seconds: u32,
    /// How long they were together, in seconds.
    pub(super) length: f64,
    /// Requests that were due.
    pub(super) due: u64,
    /// Requests that succeeded.
    pub(super) succeeded: u64,
    /// Requests that failed.
    pub(super) failed: u64,
    /// The 50th, 95th and 99th percentile of the response time in its worst second; none where nothing was answered.
    pub(super) worst: Option<[u64; 3]>,
    /// How the response times lie.
    pub(super) heat: Heat,
    /// Whether a run begins in it.
    pub(super) begins: bool,
}

impl Column {
    fn new(second: &Second, begins: bool) -> Self {
        let response = second.response;
        Column {
            seconds: 1,
            length: second.length.as_secs_f64(),
            due: second.counts.due,
            succeeded: second.counts.succeeded,
            failed: second.counts.failed,
            worst: (response.count > 0).then_some([response.p50_ns, response.p95_ns, response.p99_ns]),
            heat: second.heat,
            begins,
        }
    }

    fn add(&mut self, other: &Column) {
        self.seconds = self.seconds.saturating_add(other.seconds);
        self.length += other.length;
        self.due = self.due.saturating_add(other.due);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.failed = self.failed.saturating_add(other.failed);
        self.worst = match (self.worst, other.worst) {
            (Some(mine), Some(more)) => Some(std::array::from_fn(|at| mine[at].max(more[at]))),
            (mine, more) => mine.or(more),
        };
        self.heat.add(&other.heat);
        self.begins |= other.begins;
    }

    /// Of a count, how many a second.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        if self.length > 0.0 { count as f64 / self.length } else { 0.0 }
    }
}

/// All seconds since the beginning, at most [`COLUMNS_MAX`] columns of them.
#[derive(Clone, Debug)]
pub(super) struct History {
    columns: Vec<Column>,
    /// Seconds in a column that is full.
    step: u32,
}

impl Default for History {
    fn default() -> Self {
        History { columns: Vec::new(), step: 1 }
    }
}

/// Columns as wide as a chart has room for.
#[derive(Debug)]
pub(super) struct Fitted {
    /// From the oldest to the newest.
    pub(super) columns: Vec<Column>,
    /// Seconds in each of them, but perhaps the last.
    pub(super) step: u32,
    /// Cells that each of them is wide.
    pub(super) wide: usize,
}

impl History {
    /// Adds a second; `begins` when it is the first of a run.
    pub(super) fn push(&mut self, second: &Second, begins: bool) {
        let column = Column::new(second, begins);
        match self.columns.last_mut() {
            Some(last) if last.seconds < self.step => last.add(&column),
            _ => self.columns.push(column),
        }
        if self.columns.len() > COLUMNS_MAX {
            self.columns = merged(&self.columns, 2);
            self.step = self.step.saturating_mul(2);
        }
    }

    /// Seconds that it holds.
    pub(super) fn seconds(&self) -> u64 {
        self.columns.iter().map(|column| u64::from(column.seconds)).sum()
    }

    /// As many columns as fit into `width` cells, where room is kept for a run of `planned` seconds in all.
    pub(super) fn fitted(&self, width: usize, planned: u64) -> Fitted {
        let planned = usize::try_from(planned.div_ceil(u64::from(self.step))).unwrap_or(usize::MAX);
        let all = self.columns.len().max(planned).max(1);
        let group = all.div_ceil(width.max(1));
        let step = self.step.saturating_mul(u32::try_from(group).unwrap_or(u32::MAX));
        let wide = if group == 1 { (width / all).clamp(1, 4) } else { 1 };
        Fitted { columns: merged(&self.columns, group), step, wide }
    }
}

/// Groups of so many columns, each made one.
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
    use super::super::generated;
    use super::*;

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
        let total: u64 = history.columns.iter().map(|column| column.succeeded).sum();
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
        let worst: Vec<_> = fitted.columns.iter().map(|column| column.worst.unwrap()[2]).collect();
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
