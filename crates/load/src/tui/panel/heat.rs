//! Heat map of response times: time goes right, response time goes up on a logarithmic scale.

use super::super::pane::{Look, Pane};
use super::super::plot::{self, round_time};
use super::super::state::State;
use super::{empty, time_axis};
use crate::record::{HEAT_BUCKETS, Heat};

/// Shades from rare to frequent.
const SHADES: [&str; 5] = ["·", "░", "▒", "▓", "█"];

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let rows = pane.height().saturating_sub(1);
    let all = state.history.fitted(1, 0);
    let Some((low, high)) = all.columns.first().and_then(|column| used(&column.sum.heat)).filter(|_| rows > 0) else {
        return empty(pane, "no responses yet");
    };
    let group = (high - low + 1).div_ceil(rows);
    let used_rows = (high - low + 1).div_ceil(group);
    // Rows are repeated to fill the height if there are fewer steps than rows.
    let tall = (rows / used_rows).max(1);
    let rows_drawn = used_rows * tall;
    let label = |step: usize| round_time(round(Heat::from_ns(low + step * group)));
    let every = if rows_drawn >= 9 { 3 } else { 2 };
    let marks: Vec<_> = (0..used_rows)
        .filter(|step| (step * tall).is_multiple_of(every))
        .map(|step| (rows_drawn - 1 - step * tall, label(step)))
        .collect();
    let left = plot::labels(pane, rows_drawn, &marks);
    let (width, planned) = (pane.width() - left, state.planned_seconds());
    let fitted = state.history.fitted(width, planned);
    let mut area = pane.part(left, 0, width, rows_drawn);
    for (at, column) in fitted.columns.iter().enumerate() {
        // Shares of the column: a second with few answers is as readable as one with many.
        let total = column.sum.heat.0.iter().sum::<u64>().max(1) as f64;
        for step in 0..used_rows {
            let from = low + step * group;
            let count: u64 = column.sum.heat.0[from..(from + group).min(HEAT_BUCKETS)].iter().sum();
            let Some((shade, look)) = shade(count as f64 / total) else { continue };
            for row in 0..tall {
                area.text(at * fitted.wide, rows_drawn - 1 - step * tall - row, &shade.repeat(fitted.wide), look);
            }
        }
    }
    time_axis(pane, left, rows_drawn, width, fitted.step, state.history.seconds(), planned);
}

/// Returns the first and last column of a row that are not empty.
pub(super) fn used(heat: &Heat) -> Option<(usize, usize)> {
    let low = heat.0.iter().position(|count| *count > 0)?;
    let high = heat.0.iter().rposition(|count| *count > 0)?;
    Some((low, high))
}

/// Rounds a time to two significant digits.
pub(super) fn round(ns: u64) -> u64 {
    let unit = 10_u64.pow(ns.max(1).ilog10().saturating_sub(1));
    ns.saturating_add(unit / 2) / unit * unit
}

/// Returns the shade of a share of a second's answers: from a tenth it is dense, one in a thousand is a dot.
fn shade(share: f64) -> Option<(&'static str, Look)> {
    let at = match share {
        share if share <= 0.0 => return None,
        share if share < 0.005 => 0,
        share if share < 0.03 => 1,
        share if share < 0.1 => 2,
        share if share < 0.25 => 3,
        _ => 4,
    };
    Some((SHADES[at], if at == 0 { Look::Faint } else { Look::Series(2 - at.min(4) / 2) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_times_are_visible_and_absent_ones_are_not() {
        assert_eq!(shade(0.0), None);
        assert_eq!(shade(1e-6).unwrap().0, "·");
        assert_eq!(shade(1.0).unwrap().0, "█");
        assert_eq!([1, 13, 1_333, 23_713_737].map(round), [1, 13, 1_300, 24_000_000]);
    }
}
