//! `Server-Timing`: what the server says it took.

use std::time::Duration;

/// An entry may say no more than an hour, in milliseconds.
const ENTRY_MS_MAX: f64 = 3_600_000.0;

/// Adds the durations of all entries of one header to what others said.
pub(crate) fn add(known: Option<Duration>, value: &[u8]) -> Option<Duration> {
    let Ok(value) = std::str::from_utf8(value) else { return known };
    let parameters = value.split(',').flat_map(|entry| entry.split(';').skip(1));
    let took = parameters.filter_map(|parameter| {
        let (name, ms) = parameter.split_once('=')?;
        let ms: f64 = ms.trim().trim_matches('"').parse().ok()?;
        let is_duration = name.trim().eq_ignore_ascii_case("dur") && (0.0..=ENTRY_MS_MAX).contains(&ms);
        is_duration.then(|| Duration::from_secs_f64(ms / 1000.0))
    });
    took.fold(known, |sum, took| Some(sum.unwrap_or_default() + took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_durations_of_a_server_timing_are_added_and_what_is_none_is_left_out() {
        let told = add(None, b"db;dur=1.5, app;desc=\"a\";DUR=2, cache;dur=x, miss, far;dur=1e300");
        assert_eq!(told, Some(Duration::from_micros(3500)));
        assert_eq!(add(told, b"last;dur=0.5"), Some(Duration::from_millis(4)));
        assert_eq!(add(None, b"miss"), None);
    }
}
