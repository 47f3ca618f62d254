//! Parses values of flags. A problem names the flag, the value and the values that are allowed.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use sealway_runtime::config::{ConfigError, Problems};

use crate::named::VariantNames;
use crate::plan::Stage;
use crate::report::units::count;

/// Forms of a time, for problems.
const TIME_FORMS: &str = "a time such as 30, 500ms, 1m30s or 00:01:30";

/// Adds the problem that a flag's value is not as expected.
pub(crate) fn wrong(problems: &mut Problems, flag: &str, value: &str, expected: impl Display) {
    let cut: String = value.chars().take(80).collect();
    problems.add(format!("{flag} {cut}"), format!("expected {expected}"));
}

/// Puts the source of the settings, such as a file, before each line of an error.
pub(crate) fn within(source: impl Display, err: &ConfigError) -> ConfigError {
    let lines: Vec<_> = err.0.lines().map(|line| format!("{source}: {line}")).collect();
    ConfigError(lines.join("\n"))
}

/// Parses a value, and adds the problem with the expected form if `read` rejects it. The result is `None` for an absent flag too.
fn parse<'a, T, E: Display>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
    read: impl FnOnce(&str) -> Option<T>,
    expected: impl FnOnce() -> E,
) -> Option<T> {
    let value = value.into()?;
    let read = read(value);
    if read.is_none() {
        wrong(problems, flag, value, expected());
    }
    read
}

/// Parses a whole number within bounds; its digits may be grouped by `_`.
pub(crate) fn whole<'a>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
    range: RangeInclusive<u64>,
) -> Option<u64> {
    let read = |text: &str| text.replace('_', "").parse().ok().filter(|number| range.contains(number));
    parse(problems, flag, value, read, || {
        format!("a whole number, {} to {}", count(*range.start()), count(*range.end()))
    })
}

/// Parses a number within bounds; its digits may be grouped by `_`.
pub(crate) fn number<'a>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
    range: RangeInclusive<f64>,
) -> Option<f64> {
    let read = |text: &str| text.replace('_', "").parse().ok().filter(|number| range.contains(number));
    parse(problems, flag, value, read, || format!("a number, {} to {}", decimal(*range.start()), decimal(*range.end())))
}

/// Parses a time within bounds, in a form of [`parse_time`].
pub(crate) fn time<'a>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
    range: RangeInclusive<Duration>,
) -> Option<Duration> {
    let read = |text: &str| parse_time(text).filter(|time| range.contains(time));
    parse(problems, flag, value, read, || format!("{TIME_FORMS}, {}", spoken(&range)))
}

/// Parses a time or a range of times such as `1s..3s`, both ends within bounds.
pub(crate) fn times<'a>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
    range: RangeInclusive<Duration>,
) -> Option<(Duration, Duration)> {
    let read = |text: &str| {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let ends = parse_time(from).zip(parse_time(to));
        ends.filter(|(from, to)| from <= to && range.contains(from) && range.contains(to))
    };
    parse(problems, flag, value, read, || format!("{TIME_FORMS}, or two as in 1s..3s, {}", spoken(&range)))
}

/// Parses the name of a variant, without regard to case.
pub(crate) fn named<'a, T: VariantNames>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
) -> Option<T> {
    let words: Vec<_> = T::all().iter().map(|one| (one.named(), *one)).collect();
    word(problems, flag, value, &words)
}

/// Parses one of a few words, without regard to case.
pub(crate) fn word<'a, T: Copy>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
    words: &[(&str, T)],
) -> Option<T> {
    let read = |text: &str| words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, meaning)| *meaning);
    let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    parse(problems, flag, value, read, || format!("one of {}", all()))
}

/// Parses a value by its type's `FromStr`.
pub(crate) fn parsed<'a, T: FromStr>(
    problems: &mut Problems,
    flag: &str,
    value: impl Into<Option<&'a String>>,
    expected: &str,
) -> Option<T> {
    parse(problems, flag, value, |text| text.parse().ok(), || expected)
}

/// Parses stages such as `100@30s` and `ramp:500@1m`: values of 0 to `max`, times of 1 ms to 30 days, at most 1,000 stages.
pub(crate) fn stages(problems: &mut Problems, flag: &str, values: &[String], max: f64) -> Vec<Stage> {
    let stage = |value: &str| {
        let (ramp, rest) = value.strip_prefix("ramp:").map_or((false, value), |rest| (true, rest));
        let (to, length) = rest.split_once('@')?;
        let to: f64 = to.trim().parse().ok().filter(|to| (0.0..=max).contains(to))?;
        let length = parse_time(length).filter(|length| (MILLISECOND..=DAY * 30).contains(length))?;
        Some(Stage { value: to, length, ramp })
    };
    let mut read = Vec::new();
    for value in values {
        match stage(value.trim()) {
            Some(stage) => read.push(stage),
            None => {
                let range = format!("0 to {}, 1ms to 30d", decimal(max));
                wrong(problems, flag, value, format_args!("VALUE@TIME or ramp:VALUE@TIME, {range}"));
            }
        }
    }
    if read.len() > 1000 {
        problems.add(flag, "expected at most 1,000 stages");
    }
    read
}

/// One millisecond, for bounds of times.
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
/// One hour, for bounds of times.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// One day, for bounds of times.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// Parses a time: bare seconds, parts with units (`d h m s ms us`), or `hh:mm:ss`.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let text = text.trim();
    // This is far above every bound of a flag, and far below the largest `Duration`.
    let sensible =
        |seconds: f64| ((0.0..=1e9).contains(&seconds)).then(|| Duration::from_nanos((seconds * 1e9).round() as u64));
    if let Some((hours, rest)) = text.split_once(':') {
        let (minutes, seconds) = rest.split_once(':')?;
        let part = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let (minutes, seconds) = (part(minutes)?, part(seconds)?);
        let total = f64::from(part(hours)?) * 3600.0 + f64::from(minutes) * 60.0 + f64::from(seconds);
        return if minutes < 60 && seconds < 60 { sensible(total) } else { None };
    }
    let is_decimal = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if is_decimal(text) {
        return sensible(text.parse().ok()?);
    }
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (amount, unit) = rest.split_at(digits);
        let letters = unit.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = unit.split_at(letters);
        let seconds = match unit {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" | "min" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" => 1e-6,
            _ => return None,
        };
        if !is_decimal(amount) {
            return None;
        }
        sum += amount.parse::<f64>().ok()? * seconds;
        rest = after;
    }
    if text.is_empty() { None } else { sensible(sum) }
}

/// Formats a time in a form that [`parse_time`] reads: `1m30s`, `500ms`, `0s`.
pub(crate) fn time_text(time: Duration) -> String {
    let mut left = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let mut text = String::new();
    let units =
        [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("us", 1)];
    for (unit, micros) in units {
        if left >= micros {
            text.push_str(&format!("{}{unit}", left / micros));
            left %= micros;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

fn spoken(range: &RangeInclusive<Duration>) -> String {
    format!("{} to {}", time_text(*range.start()), time_text(*range.end()))
}

fn decimal(number: f64) -> String {
    if number.fract() == 0.0 && number >= 0.0 { count(number as u64) } else { number.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_each_of_their_forms() {
        for (text, millis) in [
            ("30", 30_000),
            ("1.5", 1_500),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("00:01:30", 90_000),
            ("1:00:00", 3_600_000),
            ("0", 0),
            (" 5s ", 5_000),
        ] {
            assert_eq!(parse_time(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1x", "-1", "1m30", "1:2", "0:99:00", "::", "1..2", "1e3", "99999999999999999999", "1 s"]
        {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_that_is_written_is_read_as_the_same() {
        for micros in [0, 1, 999, 1000, 1_500_000, 90_000_000, 86_399_999_999, 2_592_000_000_000] {
            let time = Duration::from_micros(micros);
            assert_eq!(parse_time(&time_text(time)), Some(time), "{}", time_text(time));
        }
    }

    #[test]
    fn a_wrong_value_names_the_flag_the_value_and_the_range() {
        let mut problems = Problems::default();
        whole(&mut problems, "--concurrency", Some(&"0".into()), 1..=1_000_000);
        number(&mut problems, "--rate", Some(&"-1".into()), 0.001..=1e7);
        time(&mut problems, "--warm-up", Some(&"2h".into()), Duration::ZERO..=HOUR);
        word(&mut problems, "--spacing", Some(&"odd".into()), &[("even", 0), ("poisson", 1)]);
        stages(&mut problems, "--stage", &["100".into()], 1000.0);
        let text = problems.into_result().unwrap_err().0;
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "--concurrency 0: expected a whole number, 1 to 1,000,000",
                "--rate -1: expected a number, 0.001 to 10,000,000",
                "--warm-up 2h: expected a time such as 30, 500ms, 1m30s or 00:01:30, 0s to 1h",
                "--spacing odd: expected one of even, poisson",
                "--stage 100: expected VALUE@TIME or ramp:VALUE@TIME, 0 to 1,000, 1ms to 30d",
            ]
        );
    }
}
