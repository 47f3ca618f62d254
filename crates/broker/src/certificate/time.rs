//! Times of certificates (RFC 5280 section 4.1.2.5) and their texts: seconds since 1970, UTC, without leap seconds.

use sealway_runtime::clock;

use super::der::{self, DerError, Element};

/// First second of the year 10000, which certificates cannot express.
pub(super) const END: i64 = 253_402_300_800;
/// First second of the year 1.
const BEGIN: i64 = -62_135_596_800;

/// Formats a time as `2026-11-21 16:53:27 +0000 UTC`.
pub(super) fn text(seconds: i64) -> String {
    match civil(seconds) {
        Some([year, month, day, hour, minute, second]) => {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} +0000 UTC")
        }
        None => format!("{seconds} seconds after 1970"),
    }
}

/// Encodes UTCTime for the years 1950 to 2049, else GeneralizedTime; `None` outside the years 1 to 9999.
pub(super) fn encode(seconds: i64) -> Option<Vec<u8>> {
    let is_short = (1950..2050).contains(&civil(seconds)?[0]);
    let tag = if is_short { der::UTC_TIME } else { der::GENERALIZED_TIME };
    Some(der::element(tag, &[encode_as(tag, seconds)?.as_bytes()]))
}

/// Parses either form, in the one spelling that RFC 5280 allows.
pub(super) fn parse(element: Element<'_>) -> Result<i64, DerError> {
    let wrong = DerError("malformed validity");
    let (year_digits, is_short) = match element.tag {
        der::UTC_TIME => (2, true),
        der::GENERALIZED_TIME => (4, false),
        _ => return Err(wrong),
    };
    let digits = element.value.strip_suffix(b"Z").ok_or(wrong)?;
    if digits.len() != year_digits + 10 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(wrong);
    }
    let number = |from: usize, len: usize| {
        digits[from..from + len].iter().fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0'))
    };
    let mut year = number(0, year_digits);
    if is_short {
        year += if year < 50 { 2000 } else { 1900 };
    }
    let two = |place: usize| number(year_digits + place * 2, 2);
    let seconds = from_civil(year, two(0), two(1)) * 86_400 + two(2) * 3600 + two(3) * 60 + two(4);
    // A month 13 or a 30th of February is another day: it is encoded differently.
    let is_real = encode_as(element.tag, seconds).is_some_and(|text| text.as_bytes() == element.value);
    if is_real { Ok(seconds) } else { Err(wrong) }
}

fn encode_as(tag: u8, seconds: i64) -> Option<String> {
    let [year, month, day, hour, minute, second] = civil(seconds)?;
    let year = if tag == der::UTC_TIME { format!("{:02}", year % 100) } else { format!("{year:04}") };
    Some(format!("{year}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z"))
}

/// Days from 1970 to a day of the Gregorian calendar. Years begin in March, so that a leap day is a year's last.
fn from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns year, month, day, hour, minute and second; `None` outside the years 1 to 9999.
fn civil(seconds: i64) -> Option<[u64; 6]> {
    // The clock's calendar begins in 1970, and repeats every 400 years: it is asked for a time 2000 years later.
    const SHIFT: i64 = 5 * 146_097 * 86_400;
    let seconds = (BEGIN..END).contains(&seconds).then(|| (seconds + SHIFT).unsigned_abs())?;
    let ((year, month, day), rest) = (clock::civil(seconds / 86_400), seconds % 86_400);
    Some([year - 2000, month, day, rest / 3600, rest / 60 % 60, rest % 60])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seconds: i64) -> Result<i64, DerError> {
        let bytes = encode(seconds).unwrap();
        parse(der::Reader::new(&bytes, "test").any().unwrap())
    }

    #[test]
    fn times_match_published_values() {
        for (seconds, said) in [
            (0, "1970-01-01 00:00:00 +0000 UTC"),
            (951_782_400, "2000-02-29 00:00:00 +0000 UTC"),
            (1_795_280_007, "2026-11-21 16:53:27 +0000 UTC"),
            (-1, "1969-12-31 23:59:59 +0000 UTC"),
            (END - 1, "9999-12-31 23:59:59 +0000 UTC"),
            (BEGIN, "0001-01-01 00:00:00 +0000 UTC"),
        ] {
            assert_eq!(text(seconds), said);
        }
        assert!(text(i64::MAX).ends_with("after 1970"));
        assert_eq!(encode(END), None);
    }

    #[test]
    fn years_of_two_digits_are_those_from_1950_to_2049() {
        assert_eq!(encode(-631_152_000).unwrap(), b"\x17\x0d500101000000Z");
        assert_eq!(encode(-631_152_001).unwrap(), b"\x18\x0f19491231235959Z");
        assert_eq!(encode(2_524_607_999).unwrap(), b"\x17\x0d491231235959Z");
        assert_eq!(encode(2_524_608_000).unwrap(), b"\x18\x0f20500101000000Z");
        let mut seconds = BEGIN;
        while seconds < END {
            assert_eq!(read(seconds), Ok(seconds));
            seconds += 86_400 * 97 + 12_345;
        }
    }

    #[test]
    fn nonexistent_days_and_other_spellings_are_rejected() {
        for value in
            ["260230000000Z", "261301000000Z", "260001000000Z", "260101240000Z", "2601010000Z", "260101000000+0000"]
        {
            let bytes = der::element(der::UTC_TIME, &[value.as_bytes()]);
            assert!(parse(der::Reader::new(&bytes, "test").any().unwrap()).is_err(), "{value}");
        }
    }
}
