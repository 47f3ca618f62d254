//! Numbers for readers: three digits and a fitting unit.

use std::time::Duration;

use crate::thresholds::Unit;

/// Returns a number that JSON can hold: 0 for one that is not finite.
pub(crate) fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Formats a time in nanoseconds: `850 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`, `12 min 5 s`.
pub(crate) fn time(ns: f64) -> String {
    match finite(ns).max(0.0) {
        ns if ns < 999.5 => format!("{ns:.0} ns"),
        ns if ns < 999.5e3 => format!("{} µs", digits(ns / 1e3)),
        ns if ns < 999.5e6 => format!("{} ms", digits(ns / 1e6)),
        ns if ns < 119.5e9 => format!("{} s", digits(ns / 1e9)),
        ns => {
            let seconds = (ns / 1e9).round() as u64;
            if seconds < 7200 {
                format!("{} min {} s", seconds / 60, seconds % 60)
            } else {
                format!("{} h {} min", seconds / 3600, seconds / 60 % 60)
            }
        }
    }
}

/// Formats a duration as [`time`] does.
pub(crate) fn length(time_: Duration) -> String {
    time(time_.as_nanos() as f64)
}

/// Formats a time as [`time`] does, in at most seven columns: `12 min`, `2.50 h`.
pub(crate) fn short(ns: f64) -> String {
    let ns = finite(ns);
    match ns {
        ns if ns < 119.5e9 => time(ns),
        ns if ns < 119.5 * 60e9 => format!("{:.0} min", ns / 60e9),
        ns => format!("{} h", digits(ns / 3600e9)),
    }
}

/// Formats a number with three digits and no exponent.
pub(crate) fn digits(value: f64) -> String {
    let value = finite(value);
    match value.abs() {
        size if size >= 99.95 || size == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Formats a count with thousands separators: `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len() + plain.len() / 3);
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number of things: `1 worker`, `1,500 workers`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Formats a rate per second: `12,345/s`, `1.23/s`.
pub(crate) fn rate(per_s: f64) -> String {
    let per_s = finite(per_s);
    if per_s >= 1000.0 { format!("{}/s", count(per_s.round() as u64)) } else { format!("{}/s", digits(per_s)) }
}

/// Formats a share of 0.0 to 1.0 in per cent; a share above zero is never shown as zero.
pub(crate) fn share(share: f64) -> String {
    let percent = finite(share) * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.001 => "< 0.001 %".to_owned(),
        percent if percent < 0.0995 => format!("{percent:.3} %"),
        // 99.99 % must not be shown as 100 %.
        percent if percent > 99.9 && percent < 100.0 => format!("{:.3} %", percent.min(99.999)),
        percent => format!("{} %", digits(percent)),
    }
}

/// Formats a number of bytes: `512 B`, `1.50 KiB`, `3.20 MiB`, `4.00 GiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    let bytes = finite(bytes);
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} B"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{} KiB", digits(bytes / 1024.0)),
        bytes if bytes < 1024.0 * 1024.0 * 1024.0 => format!("{} MiB", digits(bytes / 1024.0 / 1024.0)),
        bytes => format!("{} GiB", digits(bytes / 1024.0 / 1024.0 / 1024.0)),
    }
}

/// Formats a threshold's value in its unit.
pub(crate) fn in_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => time(value),
        Unit::Share => share(value),
        Unit::PerSecond => rate(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit_that_fits() {
        let times = [0.0, 850.0, 12_345.0, 999_499.0, 999_501.0, 4_561_234.0, 1.2e9, 725e9, 9000e9, f64::NAN];
        let shown = times.map(time);
        let want =
            ["0 ns", "850 ns", "12.3 µs", "999 µs", "1.00 ms", "4.56 ms", "1.20 s", "12 min 5 s", "2 h 30 min", "0 ns"];
        assert_eq!(shown, want);
        assert_eq!([12_345.0, 725e9, 9000e9, 1e15].map(short), ["12.3 µs", "12 min", "2.50 h", "278 h"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!([0, 1, 1500].map(|number| counted(number, "run")), ["0 runs", "1 run", "1,500 runs"]);
        assert_eq!(
            [0.0, 1.234, 999.6, 12_345.6, f64::INFINITY].map(rate),
            ["0/s", "1.23/s", "1000/s", "12,346/s", "0/s"]
        );
        assert_eq!(
            [0.0, 1e-9, 0.000_123, 0.0123, 0.99999, 1.0].map(share),
            ["0 %", "< 0.001 %", "0.012 %", "1.23 %", "99.999 %", "100 %"]
        );
        assert_eq!([0.0, 2048.0, 5e6, 3e10].map(bytes), ["0 B", "2.00 KiB", "4.77 MiB", "27.9 GiB"]);
    }
}
