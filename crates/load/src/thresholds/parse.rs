//! Parses thresholds: `FIGURE RELATION BOUND`, several with commas between, blanks anywhere around the parts.

use super::{Figure, Relation, Statistic, Threshold, Unit};
use crate::record::Phase;

/// Upper bound of the thresholds in one flag.
const THRESHOLDS_MAX: usize = 64;

/// Units of time in nanoseconds, by their exact names.
const TIME_UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 6e10), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

/// Reason why a text is rejected as a threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag} `{text}`, character {position}: {message}")]
pub(crate) struct ThresholdError {
    /// Name of the flag that held the text.
    pub(crate) flag: String,
    /// Whole text of the flag.
    pub(crate) text: String,
    /// Position of the mistake, in characters from 1.
    pub(crate) position: usize,
    /// Problem, and what is allowed there.
    pub(crate) message: String,
}

/// Position of a mistake in bytes from 0, and its description.
type Mistake = (usize, String);

impl Threshold {
    /// Parses one or several thresholds with commas between. `flag` is named in errors.
    ///
    /// # Errors
    /// States the problem, its position in characters, and what is allowed there.
    pub(crate) fn parse_list(flag: &str, text: &str) -> Result<Vec<Threshold>, ThresholdError> {
        let error = |(byte, message): Mistake| ThresholdError {
            flag: flag.to_owned(),
            text: text.to_owned(),
            position: text[..byte].chars().count() + 1,
            message,
        };
        let mut thresholds = Vec::new();
        let mut start = 0;
        for part in text.split(',') {
            if thresholds.len() == THRESHOLDS_MAX {
                return Err(error((start, format!("at most {THRESHOLDS_MAX} thresholds are allowed"))));
            }
            thresholds.push(one(part).map_err(|(byte, message)| error((start + byte, message)))?);
            start += part.len() + 1;
        }
        Ok(thresholds)
    }
}

fn one(part: &str) -> Result<Threshold, Mistake> {
    let blanks = part.len() - part.trim_start().len();
    let Some(sign) = part.find(['<', '>']) else {
        let end = part.trim_end().len().max(blanks);
        let message = "a comparison is missing: <, <=, > or >=, as in p99<50ms";
        return Err((if part.trim().is_empty() { blanks.min(part.len()) } else { end }, message.to_owned()));
    };
    let figure = figure(part[..sign].trim()).map_err(|message| (blanks, message))?;
    let (relation, after) = match (&part[sign..=sign], part[sign + 1..].starts_with('=')) {
        ("<", false) => (Relation::Below, sign + 1),
        ("<", true) => (Relation::AtMost, sign + 2),
        (_, false) => (Relation::Above, sign + 1),
        (_, true) => (Relation::AtLeast, sign + 2),
    };
    let rest = &part[after..];
    let at = after + (rest.len() - rest.trim_start().len());
    let bound = bound(figure.unit(), rest.trim()).map_err(|(byte, message)| (at + byte, message))?;
    Ok(Threshold { figure, relation, bound, text: part.trim().to_owned() })
}

fn figure(name: &str) -> Result<Figure, String> {
    match name {
        "errors" => return Ok(Figure::Errors),
        "rate" => return Ok(Figure::Rate),
        _ => {}
    }
    if let Some(statistic) = statistic(name) {
        return Ok(Figure::Time(Phase::Response, statistic));
    }
    for phase in Phase::ALL {
        let rest = name.strip_prefix(phase.name()).and_then(|rest| rest.strip_prefix('_'));
        if let Some(statistic) = rest.and_then(statistic) {
            return Ok(Figure::Time(phase, statistic));
        }
    }
    let phases = Phase::ALL.map(Phase::name).join(", ");
    Err(format!(
        "`{name}` is not a figure: give p50, p99, p99.9 (any percentile above 0 and below 100), mean, min, max, errors \
         or rate; times also of one phase, as in service_p99 ({phases})"
    ))
}

fn statistic(name: &str) -> Option<Statistic> {
    match name {
        "mean" => return Some(Statistic::Mean),
        "min" => return Some(Statistic::Min),
        "max" => return Some(Statistic::Max),
        _ => {}
    }
    let digits = name.strip_prefix('p')?;
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || !digits.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    // By convention `p999` is 99.9 %: digits after `99` are decimals. Any other number of more than two digits, such as `p100`,
    // is rejected.
    let percent: f64 = match digits.len() {
        _ if digits.contains('.') => digits.parse().ok()?,
        0..=2 => digits.parse().ok()?,
        _ if digits.starts_with("99") => format!("{}.{}", &digits[..2], &digits[2..]).parse().ok()?,
        _ => return None,
    };
    (percent > 0.0 && percent < 100.0).then_some(Statistic::Quantile(percent / 100.0))
}

fn bound(unit: Unit, text: &str) -> Result<f64, Mistake> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = (&text[..end], text[end..].trim_start());
    let at = text.len() - suffix.len();
    let value: f64 = number.parse().map_err(|_| (0, format!("a number is missing, such as {}", example(unit))))?;
    let factor = match unit {
        Unit::Nanoseconds => {
            TIME_UNITS.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor).ok_or_else(|| {
                let message = if suffix.is_empty() {
                    "a unit is missing".to_owned()
                } else {
                    format!("`{suffix}` is not a unit of time")
                };
                (at, format!("{message}: ns, us, ms, s, m or h"))
            })?
        }
        Unit::Share if suffix == "%" => 0.01,
        Unit::Share => return Err((at, "errors are a share in percent, as in errors<1%".to_owned())),
        Unit::PerSecond if suffix.is_empty() || suffix == "/s" => 1.0,
        Unit::PerSecond => {
            return Err((
                at,
                format!("`{suffix}` is not a unit of a rate: give requests per second without a unit, as in rate>1000"),
            ));
        }
    };
    let bound = value * factor;
    if unit == Unit::Share && bound > 1.0 {
        return Err((0, "a share is 0% to 100%".to_owned()));
    }
    if !bound.is_finite() {
        return Err((0, "this number is too large".to_owned()));
    }
    Ok(bound)
}

fn example(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "50ms",
        Unit::Share => "1%",
        Unit::PerSecond => "1000",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Threshold>, ThresholdError> {
        Threshold::parse_list("--threshold", text)
    }

    fn first(text: &str) -> (Figure, Relation, f64) {
        let first = parse(text).unwrap().remove(0);
        (first.figure, first.relation, first.bound)
    }

    #[test]
    fn every_form_of_the_guide_is_read() {
        let time = |share| Figure::Time(Phase::Response, Statistic::Quantile(share));
        assert_eq!(first("p99<50ms"), (time(0.99), Relation::Below, 50e6));
        assert_eq!(first(" p95 <= 1 s "), (time(0.95), Relation::AtMost, 1e9));
        assert_eq!(first("p999<2s").0, time(0.9990000000000001));
        assert_eq!(first("p99.9<2s").0, time(0.9990000000000001));
        assert_eq!(first("errors<1%"), (Figure::Errors, Relation::Below, 0.01));
        assert_eq!(first("rate>1000"), (Figure::Rate, Relation::Above, 1000.0));
        assert_eq!(first("rate>=0.5/s"), (Figure::Rate, Relation::AtLeast, 0.5));
        assert_eq!(first("max<2m"), (Figure::Time(Phase::Response, Statistic::Max), Relation::Below, 120e9));
        assert_eq!(first("tls_full_mean<300us").0, Figure::Time(Phase::TlsFull, Statistic::Mean));
        assert_eq!(first("service_p5<3µs").0, Figure::Time(Phase::Service, Statistic::Quantile(0.05)));
        assert_eq!(parse("p99<50ms, errors<1%,rate>1").unwrap().len(), 3);
        assert_eq!(parse("p99<50ms, errors<1%").unwrap()[1].text, "errors<1%");
    }

    #[test]
    fn a_wrong_threshold_is_reported_by_flag_and_character_with_the_allowed_values() {
        for (text, position, part) in [
            ("", 1, "comparison is missing"),
            ("p99", 4, "comparison is missing"),
            ("p99<", 5, "a number is missing, such as 50ms"),
            ("p99<fast", 5, "a number is missing"),
            ("p99<50", 7, "a unit is missing: ns, us, ms, s, m or h"),
            ("p99<50parsecs", 7, "`parsecs` is not a unit of time"),
            ("p99<-5ms", 5, "a number is missing"),
            ("p100<5ms", 1, "`p100` is not a figure"),
            ("p0<5ms", 1, "above 0 and below 100"),
            ("p<5ms", 1, "is not a figure"),
            ("errors<1", 9, "a share in percent"),
            ("errors<101%", 8, "0% to 100%"),
            ("rate>10k", 8, "`k` is not a unit of a rate"),
            ("p99<50ms,lag<3ms", 10, "`lag` is not a figure"),
            ("p99<50ms,", 10, "comparison is missing"),
            ("ä<5ms", 1, "`ä` is not a figure"),
            ("p99<5ä", 6, "`ä` is not a unit of time"),
            ("p99=50ms", 9, "comparison is missing"),
            ("p99<1.2.3s", 5, "a number is missing"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.position, position, "{text}: {error}");
            assert!(error.message.contains(part), "{text}: {error}");
            assert!(error.to_string().starts_with("--threshold `"), "{error}");
        }
        let many = vec!["p99<1s"; 65].join(",");
        assert!(parse(&many).unwrap_err().message.contains("at most 64"));
        assert!(parse(&format!("p99<{}s", "9".repeat(400))).unwrap_err().message.contains("too large"));
    }
}
