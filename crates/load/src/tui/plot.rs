//! Axes, bars and lines of charts, made of characters.

use super::pane::{Look, Pane, cells};
use crate::figures;

/// Eighths of a cell, starting at none.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Returns the smallest round value that is at least this one.
pub(super) fn round_up(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= value * 0.9999).unwrap_or(value)
}

/// Logarithmic scale of times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Creates a scale that holds both times, with ends at 1, 2 or 5 times a power of ten.
    pub(super) fn new(low_ns: u64, high_ns: u64) -> Self {
        let (low, high) = (low_ns.max(1) as f64, high_ns.max(low_ns).max(1) as f64);
        let low = [5.0, 2.0, 1.0].map(|step| step * 10f64.powf(low.log10().floor())).into_iter().find(|at| *at <= low);
        let low = low.unwrap_or(1.0);
        let high = [1.0, 2.0, 5.0, 10.0].map(|step| step * 10f64.powf(high.log10().floor()));
        let top = high_ns.max(low_ns).max(1) as f64;
        let high = high.into_iter().find(|at| *at >= top).unwrap_or(top);
        Scale { low, high: if high > low { high } else { low * 2.0 } }
    }

    /// Returns the position of a time, 0.0 to 1.0.
    pub(super) fn place(self, ns: u64) -> f64 {
        let (low, high) = (self.low.log10(), self.high.log10());
        (((ns.max(1) as f64).log10() - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Returns at most `most` round times on the scale, ascending.
    pub(super) fn marks(self, most: usize) -> Vec<u64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
            let all = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            let inside: Vec<u64> = all
                .filter(|at| *at >= self.low * 0.999 && *at <= self.high * 1.001)
                .map(|at| at.round() as u64)
                .collect();
            if !inside.is_empty() && inside.len() <= most {
                return inside;
            }
        }
        // Powers of ten, spaced as far apart as needed.
        let tens = (first..=last).map(|power| 10f64.powi(power)).filter(|at| *at >= self.low && *at <= self.high);
        let tens: Vec<u64> = tens.map(|at| at.round() as u64).collect();
        let apart = tens.len().div_ceil(most.max(1)).max(1);
        tens.into_iter().step_by(apart).take(most).collect()
    }
}

/// Formats a round time without trailing zeros: `100 µs`, `2 s`.
pub(super) fn round_time(ns: u64) -> String {
    let shown = figures::time(ns);
    let Some((value, unit)) = shown.split_once(' ') else { return shown };
    format!("{} {unit}", without_zeros(value))
}

/// Formats a round number briefly: `10k`, `2.5M`.
pub(super) fn round_short(value: f64) -> String {
    let shown = figures::short(value);
    let digits = shown.trim_end_matches(char::is_alphabetic);
    format!("{}{}", without_zeros(digits), &shown[digits.len()..])
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Writes the labels of a vertical axis at their rows, and returns their width including the line at the right; 0 if the
/// pane is too narrow.
pub(super) fn labels(pane: &mut Pane<'_>, rows: usize, labels: &[(usize, String)]) -> usize {
    let wide = labels.iter().map(|(_, label)| cells(label)).max().unwrap_or(0);
    if wide + 12 > pane.width() {
        return 0;
    }
    for y in 0..rows {
        let label = labels.iter().find(|(row, _)| *row == y).map(|(_, label)| label.as_str());
        if let Some(label) = label {
            pane.text(wide - cells(label), y, label, Look::Faint);
        }
        pane.text(wide, y, if label.is_some() { "┤" } else { "│" }, Look::Faint);
    }
    wide + 1
}

/// Draws a bar that stands on the lowest of `rows` rows; `height` is a share of them, 0.0 to 1.0.
pub(super) fn bar(pane: &mut Pane<'_>, x: usize, wide: usize, rows: usize, height: f64, look: Look) {
    let eighths = eighths(rows, height);
    for row in 0..rows {
        let fill = eighths.saturating_sub(row * 8).min(8);
        if fill > 0 {
            pane.text(x, rows - 1 - row, &EIGHTHS[fill].repeat(wide), look);
        }
    }
}

/// Returns the height in eighths of a cell: a height above zero is at least one.
fn eighths(rows: usize, height: f64) -> usize {
    let eighths = (height.clamp(0.0, 1.0) * rows as f64 * 8.0).round() as usize;
    if height > 0.0 { eighths.max(1) } else { 0 }
}

/// Returns a horizontal bar of `width` cells, of which `share` (0.0 to 1.0) is full.
pub(super) fn lying(width: usize, share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(width - full)
}

/// Lines of Braille dots, two columns and four rows to a cell.
#[derive(Debug)]
pub(super) struct Dots {
    width: usize,
    height: usize,
    cells: Vec<(u8, Look)>,
}

impl Dots {
    /// Creates an empty drawing of this many cells.
    pub(super) fn new(width: usize, height: usize) -> Self {
        Dots { width, height, cells: vec![(0, Look::Plain); width * height] }
    }

    /// Sets a dot; `y` counts from the top.
    fn set(&mut self, x: usize, y: usize, look: Look) {
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        if x / 2 < self.width && y / 4 < self.height {
            let cell = &mut self.cells[y / 4 * self.width + x / 2];
            *cell = (cell.0 | BITS[y % 4][x % 2], look);
        }
    }

    /// Draws a line through heights of 0.0 to 1.0, each `wide` dots wide; `None` leaves a gap.
    pub(super) fn line(&mut self, heights: &[Option<f64>], wide: usize, look: Look) {
        let rows = self.height * 4;
        let at = |height: f64| ((1.0 - height.clamp(0.0, 1.0)) * rows.saturating_sub(1) as f64).round() as usize;
        let mut before: Option<usize> = None;
        for (index, height) in heights.iter().enumerate() {
            let y = height.map(at);
            if let Some(y) = y {
                let from = before.unwrap_or(y);
                for between in from.min(y)..=from.max(y) {
                    self.set(index * wide, between, look);
                }
                (0..wide).for_each(|dot| self.set(index * wide + dot, y, look));
            }
            before = y;
        }
    }

    /// Writes the cells that contain dots.
    pub(super) fn draw(&self, pane: &mut Pane<'_>) {
        for (index, (bits, look)) in self.cells.iter().enumerate().filter(|(_, (bits, _))| *bits != 0) {
            let symbol = char::from_u32(0x2800 + u32::from(*bits)).unwrap_or('.');
            pane.text(index % self.width, index / self.width, symbol.encode_utf8(&mut [0; 4]), *look);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_values() {
        let shown = [0.0, 0.7, 1.0, 21.0, 5_001.0, f64::NAN].map(round_up);
        assert_eq!(shown, [1.0, 0.8, 1.0, 25.0, 6_000.0, 1.0]);
        let scale = Scale::new(230_000, 41_000_000);
        assert_eq!((scale.low, scale.high), (200_000.0, 50_000_000.0));
        assert_eq!(scale.marks(3), [1_000_000, 10_000_000]);
        assert_eq!((scale.marks(8).len(), scale.marks(1), scale.marks(0)), (8, vec![1_000_000], vec![]));
        assert_eq!((scale.place(1), scale.place(50_000_000), scale.place(u64::MAX)), (0.0, 1.0, 1.0));
        assert_eq!([1_000_000, 3_200_000, 100_000].map(round_time), ["1 ms", "3.2 ms", "100 µs"]);
        assert_eq!([10_000.0, 2_500.0, 500.0].map(round_short), ["10k", "2.5k", "500"]);
        let odd = [Scale::new(0, 0), Scale::new(9, 3), Scale::new(u64::MAX, u64::MAX)];
        assert!(odd.iter().all(|scale| scale.high > scale.low && scale.place(5).is_finite()));
    }

    #[test]
    fn something_is_never_drawn_as_nothing() {
        assert_eq!((eighths(4, 0.0), eighths(4, 1e-9), eighths(4, 1.0), eighths(4, 7.0)), (0, 1, 32, 32));
        assert_eq!((lying(4, 0.5), lying(4, 9.0)), ("██░░".into(), "████".into()));
    }
}
