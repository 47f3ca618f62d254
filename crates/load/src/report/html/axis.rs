//! Scales of a chart and the positions of their marks.

use super::super::units::{digits, time};

/// Steps of a scale within a power of ten.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// Maps a value to a position: `from` lies at `start`, `to` at `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Scale {
    /// Creates a linear scale: equal distances for equal differences.
    pub(super) fn linear(from: f64, to: f64, start: f64, end: f64) -> Self {
        Scale { from, to: if to > from { to } else { from + 1.0 }, start, end, log: false }
    }

    /// Creates a logarithmic scale: equal distances for equal factors. Both values are above 0.
    pub(super) fn log(from: f64, to: f64, start: f64, end: f64) -> Self {
        let from = from.max(1e-9);
        Scale { from, to: if to > from { to } else { from * 10.0 }, start, end, log: true }
    }

    /// Returns the position of this value, clamped to the scale.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + (self.end - self.start) * share.clamp(0.0, 1.0)
    }
}

/// Returns about five marks from 0 to at least `max`; the last is the scale's end.
pub(super) fn linear_marks(max: f64) -> Vec<f64> {
    let max = if max > 0.0 { max } else { 1.0 };
    let rough = max / 4.0;
    let ten = 10f64.powf(rough.log10().floor());
    let step = STEPS.into_iter().map(|step| step * ten).find(|step| *step >= rough * 0.999).unwrap_or(ten * 10.0);
    let last = (max / step - 1e-6).ceil() as u32;
    (0..=last.max(1)).map(|index| f64::from(index) * step).collect()
}

/// Returns the ends of a logarithmic scale for values from `min` to `max`, in nanoseconds, with some margin.
pub(super) fn log_ends(min: f64, max: f64) -> (f64, f64) {
    let min = min.max(1.0);
    let max = max.max(min);
    // A scale below a factor of 4 would make noise look significant.
    let room = (4.0 / (max / min)).sqrt().max(1.2);
    (min / room, max * room)
}

/// Returns the marks of a logarithmic scale: 1, 2 and 5 of each power of ten, or only the powers if there are more than
/// eight.
pub(super) fn log_marks((from, to): (f64, f64)) -> Vec<f64> {
    let within = |mark: &f64| *mark >= from * 0.999 && *mark <= to * 1.001;
    let all: Vec<f64> = (0..=13).flat_map(|power| STEPS.map(|step| step * 10f64.powi(power))).filter(within).collect();
    if all.len() <= 8 { all } else { (0..=13).map(|power| 10f64.powi(power)).filter(within).collect() }
}

/// Returns the marks of a time axis since the start, in seconds: at most seven.
pub(super) fn time_marks(end_s: f64) -> Vec<f64> {
    const STEPS_S: [f64; 16] =
        [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];
    let end_s = if end_s > 0.0 { end_s } else { 1.0 };
    let rough = end_s / 6.0;
    let step = STEPS_S.into_iter().find(|step| *step >= rough).unwrap_or((rough / 7200.0).ceil() * 7200.0);
    let last = (end_s / step + 1e-6).floor() as u32;
    (0..=last).map(|index| f64::from(index) * step).collect()
}

/// Formats a mark of a time axis: `0`, `30 s`, `2:30`, `1:05:00`.
pub(super) fn clock(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0".to_owned();
    }
    if seconds < 120.0 {
        return format!("{} s", (seconds * 100.0).round() / 100.0);
    }
    let seconds = seconds.round() as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") }
}

/// Formats a duration as a mark: `500 µs`, `1 ms`, `2 min`.
pub(super) fn short_time(ns: f64) -> String {
    time(ns).replace(".00 ", " ").replace(".0 ", " ")
}

/// Formats a number as a mark: `0`, `500`, `2.5k`, `10M`.
pub(super) fn short_number(value: f64) -> String {
    let (value, suffix) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e4 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { digits(value) };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_reach_from_below_the_least_to_above_the_most_and_are_few() {
        for max in [0.0, 0.3, 1.0, 7.0, 999.0, 1001.0, 123_456.0, 1e18] {
            let marks = linear_marks(max);
            assert!(
                *marks.last().unwrap() >= max && marks[0] == 0.0 && (2..=7).contains(&marks.len()),
                "{max}: {marks:?}"
            );
        }
        for (min, max) in [(0.0, 0.0), (1e6, 1e6), (3e5, 2e6), (1e3, 1e11), (9e5, 9e8), (4e12, 4e12)] {
            let ends = log_ends(min, max);
            let marks = log_marks(ends);
            assert!(ends.0 <= f64::max(min, 1.0) && ends.1 >= max, "{min} {max}: {ends:?}");
            assert!((1..=14).contains(&marks.len()), "{min} {max}: {marks:?}");
        }
        for end in [0.0, 0.4, 1.0, 60.0, 61.0, 3600.0, 1e6] {
            assert!((1..=8).contains(&time_marks(end).len()), "{end}: {:?}", time_marks(end));
        }
        assert_eq!([0.0, 30.0, 150.0, 3900.0].map(clock), ["0", "30 s", "2:30", "1:05:00"]);
        assert_eq!([1e6, 5e5, 2e9].map(short_time), ["1 ms", "500 µs", "2 s"]);
        assert_eq!(
            [0.0, 0.25, 500.0, 2500.0, 12_500.0, 3e6].map(short_number),
            ["0", "0.25", "500", "2500", "12.5k", "3M"]
        );
    }
}
