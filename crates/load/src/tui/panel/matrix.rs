//! Cells of a matrix, and load points of the current cell.

use super::super::pane::{Look, Pane, table};
use super::super::state::State;
use super::super::tuning::{Cell, Tuning};
use crate::engine::Limit;
use crate::figures;

/// Minimum width for load points beside the cells, in terminal cells.
const BESIDE_MIN: usize = 110;

/// Returns the number of rows that the tables need.
pub(super) fn rows(state: &State, width: usize) -> usize {
    let cells = if state.tuning.cells_of > 0 { state.tuning.cells_of + 1 } else { 0 };
    let points = state.tuning.points.len().max(3) + 1;
    if cells > 0 && width >= BESIDE_MIN { cells.max(points) } else { cells.max(1) + points.min(5) }
}

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let tuning = &state.tuning;
    let (width, height) = (pane.width(), pane.height());
    if tuning.cells_of == 0 {
        return points(pane, tuning);
    }
    if width >= BESIDE_MIN {
        let left = width * 3 / 5;
        cells(&mut pane.part(0, 0, left - 2, height), tuning);
        return points(&mut pane.part(left, 0, width - left, height), tuning);
    }
    let wanted = tuning.cells_of + 1;
    // The current load point gets the last three rows.
    let top = if height >= wanted + 3 { wanted } else { height.saturating_sub(3).max(height.min(4)) };
    cells(&mut pane.part(0, 0, width, top), tuning);
    points(&mut pane.part(0, top, width, height - top), tuning);
}

fn cells(pane: &mut Pane<'_>, tuning: &Tuning) {
    let room = pane.height().saturating_sub(1);
    let mut rows: Vec<_> = tuning.cells.iter().map(|cell| row(cell, tuning)).collect();
    for index in rows.len()..tuning.cells_of.min(rows.len() + room) {
        rows.push((cut(format!("cell {} of {}", index + 1, tuning.cells_of), "waiting", String::new()), Look::Faint));
    }
    // If not all fit, the newest finished cells, the current one and the next are shown.
    let first = (tuning.cells.len() + 1).min(rows.len()).saturating_sub(room);
    let shown: Vec<_> = rows.into_iter().skip(first).take(room).collect();
    let fields = [
        ("cell", false, 0),
        ("", false, 0),
        ("knee", true, 2),
        ("ok/s", true, 1),
        ("±", true, 6),
        ("p95", true, 5),
        ("p99", true, 2),
        ("failed", true, 4),
        ("bottleneck", false, 3),
    ];
    table(pane, 0, &fields, &shown);
}

fn row(cell: &Cell, tuning: &Tuning) -> (Vec<String>, Look) {
    let name = cell.name.clone();
    let Some((_, summary)) = &cell.done else {
        let points = tuning.points.len();
        let note = format!("load point {points}");
        return (cut(name, "running", note), Look::Strong);
    };
    if let Some(missing) = &summary.missing {
        let missing = figures::clean(missing);
        let (word, why) = missing.split_once(": ").unwrap_or((&missing, ""));
        return (cut(name, word, why.to_owned()), Look::Faint);
    }
    let limit = match &summary.limit {
        Some(Limit::Target) => "target",
        Some(Limit::Offered) => "none",
        Some(Limit::Generator(_)) => "! generator",
        Some(Limit::Unmeasured(_)) => "! unmeasured",
        None => "",
    };
    let row = vec![
        name,
        "done".to_owned(),
        summary.knee.map(figures::offered).unwrap_or_default(),
        figures::rate(summary.rate.mean),
        figures::rate(summary.rate.half),
        figures::time(summary.p95_ns),
        figures::time(summary.p99_ns),
        figures::share(summary.failed_share),
        limit.to_owned(),
    ];
    (row, Look::Plain)
}

/// Returns a row without figures.
fn cut(name: String, word: &str, note: String) -> Vec<String> {
    let mut row = vec![String::new(); 9];
    (row[0], row[1], row[8]) = (name, word.to_owned(), note);
    row
}

fn points(pane: &mut Pane<'_>, tuning: &Tuning) {
    let room = pane.height().saturating_sub(1);
    let skipped = tuning.points.len().saturating_sub(room);
    let best = tuning.points.iter().filter_map(|point| point.rate()).fold(0.0, f64::max);
    let mut rows = Vec::new();
    for (index, point) in tuning.points.iter().enumerate().skip(skipped) {
        let goes_on = index + 1 == tuning.points.len() && (point.rates.len() as u32) < point.repeats;
        let repeat = if goes_on {
            format!("repeat {} of {}", point.repeat, point.repeats)
        } else {
            figures::counted(point.rates.len() as u64, "repeat")
        };
        let has = !point.rates.is_empty();
        let rate = point.rate().unwrap_or_default();
        let shown = |text: String| if has { text } else { "-".to_owned() };
        let row = vec![
            if goes_on { "▶" } else { " " }.to_owned() + &figures::offered(point.offered),
            repeat,
            shown(figures::rate(rate)),
            shown(figures::time(point.p99_ns)),
            shown(figures::share(point.failed_share)),
            if has && rate >= best { "best".to_owned() } else { String::new() },
        ];
        rows.push((row, if goes_on { Look::Strong } else { Look::Plain }));
    }
    let fields = [
        (" load point", false, 0),
        ("", false, 1),
        ("ok/s", true, 2),
        ("p99", true, 3),
        ("failed", true, 4),
        ("", false, 5),
    ];
    table(pane, 0, &fields, &rows);
}
