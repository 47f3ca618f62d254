//! `Server-Timing` header: the processing time that the server reports.

use std::time::Duration;

/// Maximum duration of an entry: one hour, in milliseconds.
const ENTRY_MS_MAX: f64 = 3_600_000.0;

/// Adds the duration in one header to that of the others: its entry `total`, which covers the other entries, or else the sum
/// of all its entries.
pub(crate) fn add(known: Option<Duration>, value: &[u8]) -> Option<Duration> {
    let Ok(value) = std::str::from_utf8(value) else { return known };
    let entries = || value.split(',').filter_map(duration);
    let total = entries().find(|(name, _)| name.eq_ignore_ascii_case("total")).map(|(_, took)| took);
    let took = total.or_else(|| entries().map(|(_, took)| took).reduce(|sum, took| sum + took));
    known.into_iter().chain(took).reduce(|sum, took| sum + took)
}

/// Returns the name and the duration of an entry, if it has a duration.
fn duration(entry: &str) -> Option<(&str, Duration)> {
    let (name, parameters) = entry.split_once(';')?;
    let ms = parameters.split(';').find_map(|parameter| {
        let (name, ms) = parameter.split_once('=')?;
        let ms: f64 = ms.trim().trim_matches('"').parse().ok()?;
        (name.trim().eq_ignore_ascii_case("dur") && (0.0..=ENTRY_MS_MAX).contains(&ms)).then_some(ms)
    })?;
    Some((name.trim(), Duration::from_secs_f64(ms / 1000.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_server_timing_are_added_and_invalid_ones_are_ignored() {
        let shown = add(None, b"db;dur=1.5, app;desc=\"a\";DUR=2, cache;dur=x, miss, far;dur=1e300");
        assert_eq!(shown, Some(Duration::from_micros(3500)));
        assert_eq!(add(shown, b"last;dur=0.5"), Some(Duration::from_millis(4)));
        assert_eq!(add(None, b"miss"), None);
    }

    #[test]
    fn a_total_covers_the_entries_beside_it() {
        let shown = add(None, b"parse;dur=0.1, open;dur=0.2, total;dur=0.5");
        assert_eq!(shown, Some(Duration::from_micros(500)));
        assert_eq!(add(shown, b"cdn;dur=1"), Some(Duration::from_micros(1500)));
    }
}
