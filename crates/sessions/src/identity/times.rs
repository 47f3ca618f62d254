//! Times as an operator writes them: RFC 3339 in UTC, or a span from now.

use sealway_proto::session::native::key_set::TIME_MS_MAX;
use sealway_runtime::clock::parse_iso8601;

/// Parses a length of time, a number and `d`, `h`, `m` or `s`, such as `90d` or `12h`. Returns milliseconds, at least
/// one second.
///
/// # Errors
/// Text that says which format was expected.
pub fn parse_span(text: &str) -> Result<u64, String> {
    let expected = || format!("\"{text}\": expected a length of time such as 90d, 12h, 30m or 45s");
    let unit_ms = match text.chars().last() {
        Some('d') => 86_400_000,
        Some('h') => 3_600_000,
        Some('m') => 60_000,
        Some('s') => 1000,
        _ => return Err(expected()),
    };
    let number = text.get(..text.len() - 1).filter(|number| number.bytes().all(|b| b.is_ascii_digit()));
    let span = number.and_then(|number| number.parse::<u64>().ok()).and_then(|number| number.checked_mul(unit_ms));
    span.filter(|span| (1..TIME_MS_MAX).contains(span)).ok_or_else(expected)
}

/// Parses a time: `2026-11-21T04:03:00Z`, `2026-11-21`, `now`, or a length of time from now, `30d`. Returns Unix
/// milliseconds.
///
/// # Errors
/// Text that says which format was expected.
pub fn parse_time(text: &str, now_ms: u64) -> Result<u64, String> {
    if text == "now" {
        return Ok(now_ms);
    }
    if let Some(time) = parse_iso8601(text) {
        return Ok(time);
    }
    let from_now = parse_span(text).ok().and_then(|span| now_ms.checked_add(span)).filter(|time| *time <= TIME_MS_MAX);
    from_now.ok_or_else(|| {
        format!("\"{text}\": expected a time in UTC such as 2026-11-21T04:03:00Z or 2026-11-21, \"now\", or 30d, 12h from now")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_so_long_from_now_and_nothing_else() {
        for (text, expected) in [
            ("now", Some(1000)),
            ("1970-01-02", Some(86_400_000)),
            ("1970-01-01T00:00:01Z", Some(1000)),
            ("2d", Some(1000 + 2 * 86_400_000)),
            ("3h", Some(1000 + 3 * 3_600_000)),
            ("4m", Some(1000 + 4 * 60_000)),
            ("5s", Some(6000)),
            ("", None),
            ("d", None),
            ("0d", None),
            ("-1d", None),
            ("1.5d", None),
            ("+1d", None),
            ("1w", None),
            ("1é", None),
            ("99999999999999999999d", None),
            ("11574074000d", None),
            ("1970-02-30", None),
        ] {
            assert_eq!(parse_time(text, 1000).ok(), expected, "{text}");
        }
    }
}
