//! By when a call has to be answered: `grpc-timeout`, as gRPC over HTTP/2 writes it.

use std::time::{Duration, Instant};

use http::HeaderMap;

/// The moment that a call's headers name; nothing where they name none, or nothing that is one.
pub(super) fn of(headers: &HeaderMap, now: Instant) -> Option<Instant> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    // One that is beyond what a clock can tell is none.
    now.checked_add(parse(text)?)
}

/// At most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_has_up_to_eight_digits_and_a_unit() {
        for (text, length) in [
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
            ("2M", Duration::from_secs(120)),
            ("0S", Duration::ZERO),
            ("250m", Duration::from_millis(250)),
            ("7u", Duration::from_micros(7)),
            ("1n", Duration::from_nanos(1)),
        ] {
            assert_eq!(parse(text), Some(length), "{text}");
        }
        for text in ["", "S", "1", "123456789S", "1s", "-1S", "+1S", "1.5S", " 1S", "1S ", "1\u{e9}", "\u{e9}"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
