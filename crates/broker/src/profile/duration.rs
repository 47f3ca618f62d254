//! Durations in the files, in Go's syntax (`-1h`, `8760h`, `1h30m`, `1.5h`, `250ms`), to the nanosecond.

use super::policy::Offset;

/// Units in nanoseconds. Both spellings of micro are accepted, as in Go.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration: a sign, then numbers with a fraction and a unit each; `0` alone needs no unit.
///
/// # Errors
/// A text with the defect; more than 63 bits of nanoseconds are an error, and never wrap.
pub(crate) fn parse(text: &str) -> Result<Offset, String> {
    let invalid = || format!("invalid duration {}", quoted(text));
    let (is_negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Offset { ns: 0 });
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("missing unit in duration {}", quoted(text)));
        }
        let Some((_, unit_ns)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("unknown unit {} in duration {}", quoted(unit), quoted(text)));
        };
        total = part(whole, fraction, *unit_ns).and_then(|ns| total.checked_add(ns)).ok_or_else(invalid)?;
        if total > 1 << 63 {
            return Err(invalid());
        }
        rest = after;
    }
    // The least value is one below the negated largest.
    let ns = match (is_negative, i64::try_from(total)) {
        (false, Ok(ns)) => ns,
        (true, Ok(ns)) => -ns,
        (true, Err(_)) => i64::MIN,
        (false, Err(_)) => return Err(invalid()),
    };
    Ok(Offset { ns })
}

/// Nanoseconds of a number with its fraction, rounded down. Digits of a fraction beyond 63 bits are ignored, and the
/// rest is floating point arithmetic as in Go: a file must mean the same to both.
fn part(whole: &str, fraction: &str, unit_ns: u64) -> Option<u64> {
    let whole = match whole {
        "" => 0,
        digits => digits.parse::<u64>().ok()?,
    };
    let ns = whole.checked_mul(unit_ns)?;
    let (mut read, mut scale): (u64, f64) = (0, 1.0);
    for digit in fraction.bytes() {
        let next = u128::from(read) * 10 + u128::from(digit - b'0');
        match u64::try_from(next) {
            Ok(next) if next <= 1 << 63 => read = next,
            _ => break,
        }
        scale *= 10.0;
    }
    // Less than one unit, far below the range of either type.
    ns.checked_add((read as f64 * (unit_ns as f64 / scale)) as u64)
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Quotes a text, truncated to 40 characters.
fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn durations_are_those_of_go() {
        const H: i64 = 3_600_000_000_000;
        for (text, ns) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("-1h", -H),
            ("+5s", 5_000_000_000),
            ("8760h", 8760 * H),
            ("1h30m", H + H / 2),
            ("1.5h", H + H / 2),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1m1.000000001s", 61_000_000_001),
            ("39h9m14.425s", 140_954_425_000_000),
            ("10\u{b5}s3us4\u{3bc}s", 17_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.830103483285477580700h", 2_988_372_539_827),
            ("0.9223372036854775807h", 3_320_413_933_267),
            ("0.9223372036854775808h", 3_320_413_933_267),
            // The last digit is beyond 63 bits: with it the second would be rounded up.
            ("0.9999999999999999999m", 59_999_999_999),
            ("0.9645647649847222123h", 3_472_433_153_944),
            ("0.100000000000000000000h", 360_000_000_000),
            ("2562047h47m16.854775807s", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("9223372036854775807ns", i64::MAX),
        ] {
            assert_eq!(parse(text).map(|offset| offset.ns), Ok(ns), "{text}");
        }
    }

    #[test]
    fn texts_that_go_rejects_as_durations_are_rejected() {
        let too_long = format!("{}h", "9".repeat(10_000));
        for text in [
            "",
            "-",
            "+",
            "3",
            "1.5",
            "1h3",
            "h",
            ".s",
            "-.s",
            "+-1h",
            "1 h",
            " 1h",
            "1h ",
            "1d",
            "1H",
            "1h-1m",
            "1..5h",
            "1e3s",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "2562048h",
            "1.2.3s",
            "\u{661}h",
            &too_long,
        ] {
            let err = parse(text).unwrap_err();
            assert!(err.len() < 200, "{err}");
        }
        assert_eq!(parse("10").unwrap_err(), "missing unit in duration \"10\"");
        assert_eq!(parse("1d").unwrap_err(), "unknown unit \"d\" in duration \"1d\"");
    }
}
