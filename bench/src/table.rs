//! Medians, and rows of a Markdown table.

/// The middle of an odd number of values, the upper middle of an even one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Formats nanoseconds as microseconds with two decimals.
pub(crate) fn us(nanos: f64) -> String {
    format!("{:.2}", nanos / 1000.0)
}

/// Returns `met` if the value is at most the goal, else `missed`.
pub(crate) fn verdict(value: f64, goal: f64) -> &'static str {
    if value <= goal { "met" } else { "missed" }
}
