//! The only access to the wall clock. All other code takes `now_ms` as an argument, or a [`Clock`], so that tests can stand at
//! the edge of a window.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of the time of day.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the sanctioned door")]
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that tests set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Creates a clock that stands at `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        ManualClock(AtomicU64::new(now_ms))
    }

    /// Sets the clock, in milliseconds since the Unix epoch.
    pub fn set(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns year, month and day of a day since 1970.
pub fn civil(days: u64) -> (u64, u64, u64) {
    // In eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Formats `now_ms` as ISO 8601 in UTC with milliseconds: `2026-11-21T04:03:00.000Z`. Years up to 9999.
pub fn iso8601(now_ms: u64) -> String {
    let (days, ms) = (now_ms / 86_400_000, now_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Parses a time in UTC, RFC 3339 with `Z`, or a day alone, which is its beginning: `2026-11-21T04:03:00Z`,
/// `2026-11-21T04:03:00.000Z`, `2026-11-21`. Years from 1970 to 9999; milliseconds since the Unix epoch.
pub fn parse_iso8601(text: &str) -> Option<u64> {
    let (day, time) = text.split_once('T').map_or((text, None), |(day, time)| (day, Some(time)));
    let digits = |text: &str, len: usize| {
        let is_number = text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    let days = match day.split('-').collect::<Vec<_>>().as_slice() {
        [year, month, day] => days_of(digits(year, 4)?, digits(month, 2)?, digits(day, 2)?)?,
        _ => return None,
    };
    let Some(time) = time else { return Some(days * 86_400_000) };
    let time = time.strip_suffix('Z')?;
    let (time, ms) = match time.split_once('.') {
        Some((time, fraction)) => (time, digits(fraction, 3)?),
        None => (time, 0),
    };
    match time.split(':').collect::<Vec<_>>().as_slice() {
        [hour, minute, second] => {
            let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
            let is_time = hour < 24 && minute < 60 && second < 60;
            is_time.then_some(days * 86_400_000 + hour * 3_600_000 + minute * 60_000 + second * 1000 + ms)
        }
        _ => None,
    }
}

/// Returns the days from 1970 to a day, if the day exists.
fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let days_before = |year: u64| year * 365 + year / 4 - year / 100 + year / 400;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Too late by ten days at most, as if every month had 31; civil() finds the right one.
    let guess = days_before(year - 1) - days_before(1969) + (month - 1) * 31 + day;
    (guess.saturating_sub(10)..=guess).find(|days| civil(*days) == (year, month, day))
}

/// Parses the preferred form of a `Date` header (RFC 9110 section 5.6.7), the one that [`http_date`] writes, into Unix milliseconds.
/// `None` for the obsolete forms, and for a weekday that is not the day's.
pub fn parse_http_date(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u64>().ok()
    };
    let month = MONTHS.iter().zip(1..).find(|(name, _)| text.get(8..11) == Some(name)).map(|(_, month)| month)?;
    let days = days_of(number(12, 16)?, month, number(5, 7)?)?;
    let ms = (days * 86_400 + number(17, 19)? * 3600 + number(20, 22)? * 60 + number(23, 25)?) * 1000;
    // What is written of it again is the same text, or the text was none.
    (http_date(ms) == text).then_some(ms)
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats `now_ms` for the `Date` header (RFC 9110 section 5.6.7): `Sat, 21 Nov 2026 04:03:00 GMT`. Years up to 9999.
pub fn http_date(now_ms: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (days, seconds) = (now_ms / 86_400_000, now_ms / 1000 % 86_400);
    let (year, month, day) = civil(days);
    let name = |names: &[&'static str], index: u64| usize::try_from(index).ok().and_then(|at| names.get(at).copied());
    let (weekday, month) = (name(&DAYS, days % 7).unwrap_or_default(), name(&MONTHS, month - 1).unwrap_or_default());
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

#[cfg(test)]
mod tests {
    use super::{http_date, iso8601, parse_http_date, parse_iso8601};

    #[test]
    fn a_time_that_is_written_is_read_back_on_every_day_and_what_is_none_is_refused() {
        for day in 0..100_000 {
            let ms = day * 86_400_000 + day * 863 % 86_400_000;
            let text = iso8601(ms);
            assert_eq!(parse_iso8601(&text), Some(ms), "{text}");
            assert_eq!(parse_iso8601(&text[..10]), Some(day * 86_400_000));
        }
        assert_eq!(parse_iso8601("2026-11-21T04:03:00Z"), Some(1_795_233_780_000));
        assert_eq!(parse_iso8601("9999-12-31T23:59:59.999Z"), Some(253_402_300_799_999));
        for bad in [
            "",
            "2026",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-04-31",
            "1969-12-31",
            "10000-01-01",
            "2026-1-01",
            "2026-01-01T",
            "2026-01-01T00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00ZZ",
            "2026-01-01T00:00:00.1Z",
            "2026-01-01T00:00:00+01:00",
            "+026-01-01",
            "2026-01-01 00:00:00Z",
        ] {
            assert_eq!(parse_iso8601(bad), None, "{bad}");
        }
    }

    #[test]
    fn http_dates_agree_with_known_ones() {
        for (ms, want) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400_123, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_795_233_780_000, "Sat, 21 Nov 2026 04:03:00 GMT"),
        ] {
            assert_eq!(http_date(ms), want);
            assert_eq!(parse_http_date(want), Some(ms / 1000 * 1000));
        }
        for day in 0..100_000 {
            let ms = (day * 86_400 + day * 863 % 86_400) * 1000;
            assert_eq!(parse_http_date(&http_date(ms)), Some(ms));
        }
        for bad in [
            "",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Wed, 30 Feb 2000 00:00:00 GMT",
            "Thu, 01 Jan 197\u{e9} 00:00:00 GMT",
        ] {
            assert_eq!(parse_http_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn iso8601_agrees_with_known_dates() {
        for (ms, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(ms), want);
        }
    }
}
