//! Progress of a tuned run or a matrix: work done, in progress and left.

use std::time::Duration;

use super::state::Remainder;
use crate::engine::Outcome;
use crate::figures;
use crate::progress::{CellSummary, OfferedLoad};
use crate::record::Phase;

/// Maximum number of cells and load points kept.
const KEPT_MAX: usize = 256;

/// Progress of a matrix, or of the one cell of a tuned run.
#[derive(Debug, Default)]
pub(super) struct Tuning {
    pub(super) cells: Vec<Cell>,
    /// Total number of cells; 0 without a matrix.
    pub(super) cells_of: usize,
    /// Load points of the current cell.
    pub(super) points: Vec<Point>,
    left_max: u32,
}

/// Cell of a matrix.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) begun: Duration,
    /// Duration and summary of the cell, once it is done.
    pub(super) done: Option<(Duration, CellSummary)>,
}

/// Load point of the current cell.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) offered: OfferedLoad,
    /// Current or last repeat, from 1.
    pub(super) repeat: u32,
    pub(super) repeats: u32,
    /// Successful requests per second of each finished repeat.
    pub(super) rates: Vec<f64>,
    /// Largest 99th percentile among the repeats, in nanoseconds.
    pub(super) p99_ns: u64,
    /// Largest share of failures among the repeats, 0.0 to 1.0.
    pub(super) failed_share: f64,
}

impl Point {
    /// Returns the mean rate of the repeats in successful requests per second; `None` before the first has ended.
    pub(super) fn rate(&self) -> Option<f64> {
        (!self.rates.is_empty()).then(|| self.rates.iter().sum::<f64>() / self.rates.len() as f64)
    }
}

impl Tuning {
    /// Returns whether there are several runs.
    pub(super) fn is_on(&self) -> bool {
        self.cells_of > 0 || !self.points.is_empty()
    }

    pub(super) fn cell(&mut self, name: String, index: usize, of: usize, now: Duration) {
        self.points.clear();
        self.left_max = 0;
        self.cells_of = of.max(index.saturating_add(1));
        if self.cells.len() < KEPT_MAX {
            self.cells.push(Cell { name: figures::clean(&name), begun: now, done: None });
        }
    }

    pub(super) fn cell_done(&mut self, summary: CellSummary, now: Duration) {
        let open = self.cells.iter_mut().rev().find(|cell| cell.name == summary.name && cell.done.is_none());
        if let Some(cell) = open {
            cell.done = Some((now.saturating_sub(cell.begun), summary));
        }
    }

    pub(super) fn point(&mut self, offered: OfferedLoad, repeat: u32, repeats: u32, left_max: u32) {
        self.left_max = left_max;
        match self.points.last_mut() {
            Some(last) if last.offered == offered && repeat > last.repeat => {
                (last.repeat, last.repeats) = (repeat, repeats);
            }
            _ => {
                if self.points.len() == KEPT_MAX {
                    self.points.remove(0);
                }
                let (rates, p99_ns, failed_share) = (Vec::new(), 0, 0.0);
                self.points.push(Point { offered, repeat, repeats, rates, p99_ns, failed_share });
            }
        }
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) {
        let Some(point) = self.points.last_mut().filter(|point| point.rates.len() < KEPT_MAX) else { return };
        point.rates.push(outcome.rate());
        point.p99_ns = point.p99_ns.max(outcome.totals.sum.times(Phase::Response).quantile_ns(0.99));
        point.failed_share = point.failed_share.max(outcome.totals.sum.failed_share());
    }

    /// Returns the cell in progress.
    pub(super) fn current(&self) -> Option<&Cell> {
        self.cells.last().filter(|cell| cell.done.is_none())
    }

    /// Returns the work left, if a run takes `planned` and the current one `run_left` more.
    pub(super) fn left(
        &self,
        run_left: Option<Duration>,
        planned: Option<Duration>,
        now: Duration,
    ) -> Option<Remainder> {
        let point = self.points.last()?;
        let done = u64::from(point.repeat.saturating_sub(1));
        let runs = (u64::from(self.left_max.max(1)) * u64::from(point.repeats.max(1))).saturating_sub(done).max(1);
        let after = u32::try_from(runs - 1).unwrap_or(u32::MAX);
        let here = run_left?.saturating_add(planned?.saturating_mul(after));
        Some(Remainder { here, all: self.all_left(here, now), runs })
    }

    /// Estimates the time left for all cells: cells to come take the mean time of the finished ones, or as long as this one
    /// may.
    fn all_left(&self, here: Duration, now: Duration) -> Option<Duration> {
        let to_come = u32::try_from(self.cells_of.checked_sub(self.cells.len())?).ok()?;
        let current = self.current()?;
        let took: Vec<Duration> = self
            .cells
            .iter()
            .filter_map(|cell| cell.done.as_ref())
            .filter(|(_, summary)| summary.missing.is_none())
            .map(|(took, _)| *took)
            .collect();
        let each = match u32::try_from(took.len()) {
            Ok(count) if count > 0 => took.iter().fold(Duration::ZERO, |sum, took| sum.saturating_add(*took)) / count,
            _ => now.saturating_sub(current.begun).saturating_add(here),
        };
        Some(here.saturating_add(each.saturating_mul(to_come)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;
    use crate::tui::tests::generated;

    #[test]
    fn the_remaining_time_of_a_matrix_is_estimated_from_finished_cells() {
        let mut state = State::new(false);
        for (at, event) in generated::matrix(5).into_iter().enumerate() {
            state.apply(event, Duration::from_secs(at as u64));
        }
        let tuning = &state.tuning;
        let point = tuning.points.last().unwrap();
        assert_eq!((tuning.cells.len(), tuning.cells_of, tuning.points.len()), (3, 6, 3));
        assert_eq!((point.repeat, point.repeats, point.rates.len()), (2, 3, 1));
        let left = state.left(Duration::from_secs(200)).unwrap();
        // Ten points of three repeats; one repeat is over and one has just ended its 3 seconds.
        assert_eq!((left.runs, left.here), (29, Duration::from_secs(28 * 3)));
        let took = tuning.cells[0].done.as_ref().unwrap().0;
        assert_eq!(left.all.unwrap(), left.here + took * 3);
    }
}
