//! The panels: which there are, which are shown, and where.

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

/// A panel. Its number is the key that shows it alone.
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

/// Rows that a panel needs to say something, its title included.
const ROWS_MIN: usize = 7;
/// Cells that a panel needs.
const CELLS_MIN: usize = 37;

impl Panel {
    /// All of them, in the order of their numbers.
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

    /// The one of this number.
    pub(super) fn numbered(number: usize) -> Option<Panel> {
        Panel::ALL.get(number.checked_sub(1)?).copied()
    }

    fn number(self) -> usize {
        self as usize + 1
    }

    /// The lowest stays longest when there is no room.
    fn rank(self) -> usize {
        match self {
            Panel::Matrix => 0,
            Panel::Throughput => 1,
            Panel::Latency => 2,
            Panel::Answers => 3,
            Panel::Phases => 4,
            Panel::Connections => 5,
            Panel::Heat => 6,
            Panel::Histogram => 7,
            Panel::Generator => 8,
        }
    }

    fn title(self, state: &State) -> String {
        let run = if state.tuning.is_on() { "this run" } else { "whole run" };
        let name = match self {
            Panel::Throughput => "Requests a second (x failed, ╌ due)",
            Panel::Latency => "Response time, second by second",
            Panel::Heat => "How response times lie, over time",
            Panel::Histogram => "How response times lie",
            Panel::Answers => "Answers and errors",
            Panel::Connections => "Connections",
            Panel::Phases => "Where the time goes",
            Panel::Generator => "The generator itself",
            Panel::Matrix if state.tuning.cells_of > 0 => "Matrix",
            Panel::Matrix => "Load points",
        };
        let of = match self {
            Panel::Histogram | Panel::Answers | Panel::Phases => format!(", {run}"),
            _ => String::new(),
        };
        format!("{} {name}{of}", self.number())
    }

    fn draw(self, pane: &mut Pane<'_>, state: &State) {
        match self {
            Panel::Throughput => throughput::draw(pane, state),
            Panel::Latency => latency::draw(pane, state),
            Panel::Heat => heat::draw(pane, state),
            Panel::Histogram => histogram::draw(pane, state),
            Panel::Answers => answers::draw(pane, state),
            Panel::Connections => connections::draw(pane, state),
            Panel::Phases => phases::draw(pane, state),
            Panel::Generator => generator::draw(pane, state),
            Panel::Matrix => matrix::draw(pane, state),
        }
    }
}

impl State {
    /// The panels there are to see, in the order of their numbers.
    pub(super) fn panels(&self) -> Vec<Panel> {
        Panel::ALL.into_iter().filter(|panel| *panel != Panel::Matrix || self.tuning.is_on()).collect()
    }
}

/// Draws one panel, or as many as there is room for.
pub(super) fn body(pane: &mut Pane<'_>, state: &State) {
    if let Some(panel) = state.panel {
        return framed(pane, state, panel);
    }
    let mut panels = state.panels();
    let mut top = 0;
    if panels.contains(&Panel::Matrix) && pane.height() >= 2 * ROWS_MIN {
        panels.retain(|panel| *panel != Panel::Matrix);
        // Its table has a row for each cell; the charts below keep half of the room.
        top = (matrix::rows(state, pane.width()) + 2).clamp(ROWS_MIN, pane.height() / 2);
        let width = pane.width();
        framed(&mut pane.part(0, 0, width, top), state, Panel::Matrix);
    }
    let (width, height) = (pane.width(), pane.height() - top);
    grid(&mut pane.part(0, top, width, height), state, panels);
}

/// Rows and columns of equal size; the last row's share its whole width.
fn grid(pane: &mut Pane<'_>, state: &State, mut panels: Vec<Panel>) {
    let columns = (pane.width() / CELLS_MIN).clamp(1, if pane.width() >= 160 { 3 } else { 2 });
    let rows = (pane.height() / ROWS_MIN).max(1);
    panels.sort_by_key(|panel| panel.rank());
    panels.truncate(columns * rows);
    panels.sort_by_key(|panel| panel.number());
    let rows = panels.len().div_ceil(columns);
    let mut y = 0;
    for (index, row) in panels.chunks(columns).enumerate() {
        // What does not divide evenly goes to the rows above.
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

/// A panel under its title.
fn framed(pane: &mut Pane<'_>, state: &State, panel: Panel) {
    let title = panel.title(state);
    let end = pane.fitted(0, 0, &title, Look::Title);
    let rule = pane.width().saturating_sub(end + 1);
    pane.text(end + 1, 0, &"─".repeat(rule), Look::Faint);
    let (width, height) = (pane.width(), pane.height());
    panel.draw(&mut pane.part(0, 1, width, height.saturating_sub(1)), state);
}

/// Says in the middle of a pane why it is empty.
fn empty(pane: &mut Pane<'_>, why: &str) {
    let x = pane.width().saturating_sub(cells(why)) / 2;
    let y = pane.height() / 2;
    pane.fitted(x, y, why, Look::Faint);
}

/// Writes what the horizontal axis of a chart over time spans, below it.
fn time_axis(pane: &mut Pane<'_>, x: usize, y: usize, columns: usize, step: u32, seconds: u64, planned: u64) {
    let width = columns;
    let mut axis = pane.part(x, y, width, 1);
    let all = planned.max(seconds);
    let each = if step > 1 { format!("a column is {step} s") } else { String::new() };
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
