//! Status codes, and classes of failures with their first example.

use super::super::pane::{Look, Pane, cells};
use super::super::state::{State, Whole};
use super::empty;
use crate::figures;

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let Some(run) = &state.run else { return empty(pane, "no responses yet") };
    let Some(whole) = &run.whole else { return empty(pane, "no responses yet") };
    let mut y = statuses(pane, whole);
    if whole.faults.is_empty() {
        pane.text(0, y, "no errors", Look::Good);
        return;
    }
    let ended = whole.counts.succeeded + whole.counts.failed;
    let left = pane.height().saturating_sub(y);
    // The counts of all classes take precedence over examples of some.
    let with_examples = left >= whole.faults.len() * 2;
    for (index, failure) in whole.faults.iter().enumerate() {
        let is_last_row = y + 1 == pane.height();
        if is_last_row && index + 1 < whole.faults.len() {
            pane.fitted(0, y, &format!("and {} more classes", whole.faults.len() - index), Look::Bad);
            return;
        }
        let now = run.last.iter().flat_map(|second| &second.faults).find(|(class, _)| *class == failure.class);
        let now = now.map(|(_, count)| format!(", {} in the last second", figures::count(*count))).unwrap_or_default();
        let head = format!("{} {}", failure.class.name(), figures::count(failure.count));
        let end = pane.fitted(0, y, &head, Look::Bad);
        let example = figures::clean(&failure.example);
        let more = format!(" ({}{now})", figures::part(failure.count, ended));
        let end = if end + cells(&more) <= pane.width() { pane.text(end, y, &more, Look::Plain) } else { end };
        if with_examples {
            pane.fitted(2, y + 1, &example, Look::Plain);
            y += 2;
        } else {
            if end + 10 < pane.width() {
                pane.fitted(end + 2, y, &example, Look::Plain);
            }
            y += 1;
        }
    }
}

/// Writes the status codes that fit on two lines, and returns the row below them.
fn statuses(pane: &mut Pane<'_>, whole: &Whole) -> usize {
    let answers: u64 = whole.statuses.iter().map(|(_, count)| count).sum();
    let (mut x, mut y) = (0, 0);
    for (index, (code, count)) in whole.statuses.iter().enumerate() {
        let name = if *code == 0 { "no status".to_owned() } else { code.to_string() };
        let text = format!("{name}: {} ({})", figures::count(*count), figures::part(*count, answers));
        if x > 0 && x + cells(&text) > pane.width() {
            if y == 1 {
                let rest = whole.statuses.len() - index;
                pane.fitted(x, y, &format!("+{rest}"), Look::Faint);
                break;
            }
            (x, y) = (0, y + 1);
        }
        let look = if (200..400).contains(code) { Look::Good } else { Look::Bad };
        x = pane.fitted(x, y, &text, look) + 3;
    }
    if whole.statuses.is_empty() { 0 } else { y + 1 }
}
