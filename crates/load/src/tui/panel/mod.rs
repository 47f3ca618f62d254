//! Panels of the view: their kinds, selection and layout.

mod answers;
mod connections;
mod generator;
mod heat;
mod histogram;
mod latency;
mod matrix;
mod phases;
mod throughput;

use super::pane::{Look, Pane, cells};
use super::state::State;

/// Panel of the view; its number is the key that shows it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    Throughput,
    Latency,
    Heat,
    Histogram,
    Answers,
    Connections,
    Phases,
    Generator,
    Matrix,
}

/// Minimum number of rows of a panel, its title included.
const ROWS_MIN: usize = 7;
/// Minimum width of a panel, in cells.
const CELLS_MIN: usize = 37;

impl Panel {
    /// Panels in the order of their numbers.
    const ALL: [Panel; 9] = [
        Panel::Throughput,
        Panel::Latency,
        Panel::Heat,
        Panel::Histogram,
        Panel::Answers,
        Panel::Connections,
        Panel::Phases,
        Panel::Generator,
        Panel::Matrix,
    ];

    /// Returns the panel with this number, from 1.
    pub(super) fn numbered(number: usize) -> Option<Panel> {
        Panel::ALL.get(number.checked_sub(1)?).copied()
    }

    fn number(self) -> usize {
        self as usize + 1
    }

    /// Returns rank, title and draw function. If room is short, the panels of the lowest rank stay.
    fn parts(self) -> (usize, &'static str, fn(&mut Pane<'_>, &State)) {
        match self {
            Panel::Throughput => (1, "Requests/s (x failed, ╌ due)", throughput::draw),
            Panel::Latency => (2, "Response time per second", latency::draw),
            Panel::Heat => (6, "Response time heat map", heat::draw),
            Panel::Histogram => (7, "Response time histogram", histogram::draw),
            Panel::Answers => (3, "Responses and errors", answers::draw),
            Panel::Connections => (5, "Connections", connections::draw),
            Panel::Phases => (4, "Time by phase", phases::draw),
            Panel::Generator => (8, "Generator", generator::draw),
            Panel::Matrix => (0, "Matrix", matrix::draw),
        }
    }

    fn title(self, state: &State) -> String {
        let of = match self {
            Panel::Histogram | Panel::Answers | Panel::Phases if state.tuning.is_on() => ", this run",
            Panel::Histogram | Panel::Answers | Panel::Phases => ", whole run",
            Panel::Matrix if state.tuning.cells_of == 0 => return format!("{} Load points", self.number()),
            _ => "",
        };
        format!("{} {}{of}", self.number(), self.parts().1)
    }
}

impl State {
    /// Returns the available panels in the order of their numbers.
    pub(super) fn panels(&self) -> Vec<Panel> {
        Panel::ALL.into_iter().filter(|panel| *panel != Panel::Matrix || self.tuning.is_on()).collect()
    }
}

/// Draws the selected panel, or as many as fit.
pub(super) fn body(pane: &mut Pane<'_>, state: &State) {
    if let Some(panel) = state.panel {
        return framed(pane, state, panel);
    }
    let mut panels = state.panels();
    let mut top = 0;
    if panels.contains(&Panel::Matrix) && pane.height() >= 2 * ROWS_MIN {
        panels.retain(|panel| *panel != Panel::Matrix);
        // The table has a row for each cell; the charts below keep half of the room.
        top = (matrix::rows(state, pane.width()) + 2).clamp(ROWS_MIN, pane.height() / 2);
        let width = pane.width();
        framed(&mut pane.part(0, 0, width, top), state, Panel::Matrix);
    }
    let (width, height) = (pane.width(), pane.height() - top);
    grid(&mut pane.part(0, top, width, height), state, panels);
}

/// Draws panels in rows and columns of equal size; those of the last row share its whole width.
fn grid(pane: &mut Pane<'_>, state: &State, mut panels: Vec<Panel>) {
    let columns = (pane.width() / CELLS_MIN).clamp(1, if pane.width() >= 160 { 3 } else { 2 });
    let rows = (pane.height() / ROWS_MIN).max(1);
    panels.sort_by_key(|panel| panel.parts().0);
    panels.truncate(columns * rows);
    panels.sort_by_key(|panel| panel.number());
    let rows = panels.len().div_ceil(columns);
    let mut y = 0;
    for (index, row) in panels.chunks(columns).enumerate() {
        // A remainder goes to the upper rows.
        let height = (pane.height() - y).div_ceil(rows - index);
        let mut x = 0;
        for (place, panel) in row.iter().enumerate() {
            let is_last = place + 1 == row.len();
            let width = (pane.width() - x).div_ceil(row.len() - place);
            let gap = if is_last { 0 } else { 1 };
            framed(&mut pane.part(x, y, width.saturating_sub(gap), height), state, *panel);
            x += width;
        }
        y += height;
    }
}

/// Draws a panel under its title.
fn framed(pane: &mut Pane<'_>, state: &State, panel: Panel) {
    let title = panel.title(state);
    let end = pane.fitted(0, 0, &title, Look::Title);
    let rule = pane.width().saturating_sub(end + 1);
    pane.text(end + 1, 0, &"─".repeat(rule), Look::Faint);
    let (width, height) = (pane.width(), pane.height());
    let (_, _, draw) = panel.parts();
    draw(&mut pane.part(0, 1, width, height.saturating_sub(1)), state);
}

/// Writes the reason for an empty pane in its middle.
fn empty(pane: &mut Pane<'_>, why: &str) {
    let x = pane.width().saturating_sub(cells(why)) / 2;
    let y = pane.height() / 2;
    pane.fitted(x, y, why, Look::Faint);
}

/// Labels the time axis of a chart with its ends and the width of a column.
fn time_axis(pane: &mut Pane<'_>, x: usize, y: usize, columns: usize, step: u32, seconds: u64, planned: u64) {
    let width = columns;
    let mut axis = pane.part(x, y, width, 1);
    let all = planned.max(seconds);
    let each = if step > 1 { format!("1 column is {step} s") } else { String::new() };
    axis.text(0, 0, "0 s", Look::Faint);
    let end = format!("{all} s");
    let room = width.saturating_sub(cells(&each)) / 2;
    if cells(&each) + cells(&end) + 8 < width {
        axis.text(room, 0, &each, Look::Faint);
    }
    if cells(&end) + 5 < width {
        axis.right(0, &end, Look::Faint);
    }
}
