//! Times of certificates (RFC 5280 section 4.1.2.5) and their texts: seconds since 1970, UTC, without leap seconds.

use super::der::{self, DerError, Element};

/// First second of the year 10000, which certificates cannot express.
pub(super) const END: i64 = 253_402_300_800;
/// First second of the year 1.
const BEGIN: i64 = -62_135_596_800;

struct Civil {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

/// Formats a time as `2026-11-21 16:53:27 +0000 UTC`.
pub(super) fn text(seconds: i64) -> String {
    if !(BEGIN..END).contains(&seconds) {
        return format!("{seconds} seconds after 1970");
    }
    let Civil { year, month, day, hour, minute, second } = civil(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} +0000 UTC")
}

/// Encodes UTCTime for the years 1950 to 2049, else GeneralizedTime; `None` outside the years 1 to 9999.
pub(super) fn encode(seconds: i64) -> Option<Vec<u8>> {
    if !(BEGIN..END).contains(&seconds) {
        return None;
    }
    let Civil { year, month, day, hour, minute, second } = civil(seconds);
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    Some(if (1950..2050).contains(&year) {
        der::element(der::UTC_TIME, &[format!("{:02}{rest}", year % 100).as_bytes()])
    } else {
        der::element(der::GENERALIZED_TIME, &[format!("{year:04}{rest}").as_bytes()])
    })
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
    let is_real = encode_as(element.tag, seconds).is_some_and(|text| text == element.value);
    if is_real { Ok(seconds) } else { Err(wrong) }
}

fn encode_as(tag: u8, seconds: i64) -> Option<Vec<u8>> {
    let Civil { year, month, day, hour, minute, second } = (BEGIN..END).contains(&seconds).then(|| civil(seconds))?;
    let year = if tag == der::UTC_TIME { format!("{:02}", year % 100) } else { format!("{year:04}") };
    Some(format!("{year}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z").into_bytes())
}

/// Days from 1970 to a day of the Gregorian calendar. Years begin in March, so that a leap day is a year's last.
fn from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil(seconds: i64) -> Civil {
    let (days, rest) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400) as u32);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_of_year = (5 * day_of_year + 2) / 153;
    let month = if month_of_year < 10 { month_of_year + 3 } else { month_of_year - 9 };
    Civil {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month: month as u32,
        day: (day_of_year - (153 * month_of_year + 2) / 5 + 1) as u32,
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seconds: i64) -> Result<i64, DerError> {
        let bytes = encode(seconds).unwrap();
        parse(der::Reader::new(&bytes, "test").any().unwrap())
    }

    #[test]
    fn times_known_from_elsewhere_are_told_so() {
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
    fn days_that_are_none_and_other_spellings_are_refused() {
        for value in
            ["260230000000Z", "261301000000Z", "260001000000Z", "260101240000Z", "2601010000Z", "260101000000+0000"]
        {
            let bytes = der::element(der::UTC_TIME, &[value.as_bytes()]);
            assert!(parse(der::Reader::new(&bytes, "test").any().unwrap()).is_err(), "{value}");
        }
    }
}
