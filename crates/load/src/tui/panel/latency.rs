//! Percentiles of each second, not of the run so far, which would hide a stall.

use super::super::pane::{Look, Pane, cells};
use super::super::plot::{self, Dots, Scale, round_time};
use super::super::state::State;
use super::{empty, time_axis};

const NAMES: [&str; 3] = ["p50", "p95", "p99"];

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let rows = pane.height().saturating_sub(1);
    let planned = state.planned_seconds();
    let whole = state.history.fitted(1, 0);
    let (Some(top), true) = (whole.columns.first().and_then(|column| column.worst()), rows > 0) else {
        return empty(pane, "no responses yet");
    };
    let all = state.history.fitted(pane.width() * 2, planned);
    let low = all.columns.iter().filter_map(|column| column.worst()).map(|worst| worst[0]).min().unwrap_or(1);
    let scale = Scale::new(low, top[2]);
    let row_of = |ns: u64| ((1.0 - scale.place(ns)) * rows.saturating_sub(1) as f64).round() as usize;
    let marks: Vec<_> = scale.marks(rows.div_ceil(2)).iter().map(|ns| (row_of(*ns), round_time(*ns))).collect();
    let left = plot::labels(pane, rows, &marks);
    // Room for the names at the ends of the lines.
    let names = if rows >= 3 && pane.width() > left + 24 { 4 } else { 0 };
    let width = pane.width() - left - names;
    let fitted = state.history.fitted(width * 2, planned);
    let mut dots = Dots::new(width, rows);
    for series in [2, 1, 0] {
        let heights: Vec<_> =
            fitted.columns.iter().map(|column| column.worst().map(|worst| scale.place(worst[series]))).collect();
        dots.line(&heights, fitted.wide, Look::Series(series));
    }
    dots.draw(&mut pane.part(left, 0, width, rows));
    let last = fitted.columns.iter().rev().find_map(|column| column.worst());
    if let (Some(last), true) = (last, names > 0) {
        let mut ends = last.map(row_of);
        // The names stand in the order of the lines, each on a row of its own.
        ends[2] = ends[2].min(rows - 3);
        ends[1] = ends[1].clamp(ends[2] + 1, rows - 2);
        ends[0] = ends[0].clamp(ends[1] + 1, rows - 1);
        let x = (left + (fitted.columns.len() * fitted.wide).div_ceil(2) + 1).min(pane.width() - cells(NAMES[0]));
        for series in 0..3 {
            pane.text(x, ends[series], NAMES[series], Look::Series(series));
        }
    }
    let seconds = state.history.seconds();
    let mut axis = pane.part(left, rows, width, 1);
    if fitted.step > 1 {
        let text = format!("{} s, slowest second of {}", seconds.max(planned), fitted.step);
        axis.fitted(0, 0, &text, Look::Faint);
    } else {
        time_axis(&mut axis, 0, 0, width, 1, seconds, planned);
    }
}
