//! Ended requests per second over time; due requests that did not end show as a line above.

use super::super::history::Column;
use super::super::pane::{Look, Pane};
use super::super::plot;
use super::super::state::State;
use super::{empty, time_axis};

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let rows = pane.height().saturating_sub(1);
    if state.history.seconds() == 0 || rows == 0 {
        return empty(pane, "no responses yet");
    }
    let planned = state.planned_seconds();
    let measure = state.history.fitted(pane.width(), planned);
    let counts = |column: &Column| {
        let counts = &column.sum.counts;
        (counts.due, counts.succeeded.saturating_add(counts.failed), counts.failed)
    };
    let highest = measure.columns.iter().map(|column| {
        let (due, ended, _) = counts(column);
        column.sum.per_second(due.max(ended))
    });
    let top = plot::round_up(highest.fold(0.0, f64::max));
    let marks = [(0, plot::round_short(top)), (rows / 2, plot::round_short(top / 2.0))];
    let left = plot::labels(pane, rows, if rows >= 4 { &marks } else { &marks[..1] });
    let width = pane.width() - left;
    let fitted = state.history.fitted(width, planned);
    let mut area = pane.part(left, 0, width, rows);
    for (at, column) in fitted.columns.iter().enumerate() {
        let x = at * fitted.wide;
        let (due_count, ended_count, failed) = counts(column);
        let [due, ended, failed] = [due_count, ended_count, failed].map(|count| column.sum.per_second(count) / top);
        plot::bar(&mut area, x, fitted.wide, rows, ended, Look::Bar);
        // Failures stand at the foot with a sign of their own: even a share too small for a row is visible.
        let failed_rows = if failed > 0.0 { ((failed * rows as f64).round() as usize).max(1) } else { 0 };
        for row in 0..failed_rows.min(rows) {
            area.text(x, rows - 1 - row, &"x".repeat(fitted.wide), Look::Bad);
        }
        // Requests due but not yet answered at the end of a second are no shortfall.
        let is_short = due_count as f64 > ended_count as f64 * 1.02;
        let due_row = rows - 1 - ((due * rows as f64).floor() as usize).min(rows - 1);
        let ended_row = rows - 1 - ((ended * rows as f64).floor() as usize).min(rows - 1);
        if is_short && due_row < ended_row {
            area.text(x, due_row, &"╌".repeat(fitted.wide), Look::Strong);
        }
        if column.begins && at > 0 && state.tuning.is_on() {
            area.text(x, 0, "╷", Look::Faint);
        }
    }
    time_axis(pane, left, rows, width, fitted.step, state.history.seconds(), planned);
}
