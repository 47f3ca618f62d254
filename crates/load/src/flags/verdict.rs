//! Flags for assertions about a response, and for the verdict on a run.

use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::values;
use crate::plan::Assertion;
use crate::request::{Template, json_path};
use crate::thresholds::Threshold;

/// Flags for assertions about a response, and for the verdict on a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Verdict")]
#[serde(default)]
pub(crate) struct VerdictFlags {
    /// Expected statuses: 200, 2xx, 200-204, several separated by commas [default: 2xx]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(crate) assert_status: Vec<String>,
    /// Expected value at a path of the response as JSON: $.id=7; the value may be a template; repeatable
    #[arg(long, value_name = "PATH=VALUE", value_delimiter = '\n')]
    pub(crate) assert_json: Vec<String>,
    /// Text that the response's body contains; repeatable
    #[arg(long, value_name = "TEXT", value_delimiter = '\n')]
    pub(crate) assert_body_holds: Vec<String>,
    /// Text that is the response's body
    #[arg(long, value_name = "TEXT")]
    pub(crate) assert_body_is: Option<String>,
    /// Exit with code 1 if requests failed: true or false; failed assertions and missed thresholds always do [default:
    /// true, without a threshold on errors]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) fail_on_errors: Option<String>,
    /// Condition on the run, such as p99<50ms, errors<1%, rate>1000; with autotune on every load point; repeatable
    #[arg(long, alias = "slo", visible_alias = "slo", value_name = "RULE", value_delimiter = ',')]
    pub(crate) threshold: Vec<String>,
}

impl VerdictFlags {
    pub(super) fn assertions(&self, problems: &mut Problems) -> Vec<Assertion> {
        let mut assertions = Vec::new();
        let mut statuses = Vec::new();
        for value in &self.assert_status {
            match parse_statuses(value) {
                Some(read) => statuses.extend(read),
                None => values::wrong(problems, "--assert-status", value, "100 to 599, as 200, 2xx or 200-204"),
            }
        }
        if !statuses.is_empty() {
            statuses.sort_unstable();
            statuses.dedup();
            assertions.push(Assertion::Status(statuses));
        }
        for value in &self.assert_json {
            let Some((path, equals)) = split_path(value) else {
                values::wrong(problems, "--assert-json", value, "PATH=VALUE, with a JSONPath such as $.id");
                continue;
            };
            problems.take(format!("--assert-json {value}"), json_path(path));
            problems.take(format!("--assert-json {value}"), Template::parse(equals));
            assertions.push(Assertion::JsonPath { path: path.to_owned(), equals: equals.to_owned() });
        }
        for value in &self.assert_body_holds {
            if value.is_empty() {
                problems.add("--assert-body-holds", "the text is empty, and every body contains it; give a text");
            }
            assertions.push(Assertion::BodyHolds(value.clone()));
        }
        assertions.extend(self.assert_body_is.clone().map(Assertion::BodyIs));
        if assertions.len() > 100 {
            problems.add("--assert-…", "expected at most 100 assertions");
        }
        assertions
    }

    pub(super) fn thresholds(&self, problems: &mut Problems) -> Vec<Threshold> {
        let mut thresholds = Vec::new();
        for text in &self.threshold {
            match Threshold::parse_list("--threshold", text) {
                Ok(read) => thresholds.extend(read),
                // The error begins with the flag, as each line of a problem does.
                Err(err) => {
                    let line = err.to_string();
                    let (name, message) = line.split_once(": ").unwrap_or(("--threshold", &line));
                    problems.add(name, message);
                }
            }
        }
        thresholds
    }

    pub(super) fn fail_on_errors(&self, problems: &mut Problems) -> Option<bool> {
        let words = [("true", true), ("false", false), ("yes", true), ("no", false), ("1", true), ("0", false)];
        values::word(problems, "--fail-on-errors", &self.fail_on_errors, &words)
    }
}

fn parse_statuses(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let text = text.trim();
    if let Some(digit) = text.strip_suffix("xx") {
        let digit: u16 = digit.parse().ok().filter(|digit| (1..=5).contains(digit))?;
        return Some(digit * 100..=digit * 100 + 99);
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from <= to && from >= 100 && to <= 599).then_some(from..=to)
}

/// Splits at the first `=` that is outside brackets and quotes; the path must begin with `$`.
fn split_path(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if depth > 0 => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, '=') if depth == 0 => {
                let path = text[..at].trim();
                return path.starts_with('$').then_some((path, &text[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_paths_are_read_or_refused() {
        assert_eq!(parse_statuses("2xx"), Some(200..=299));
        assert_eq!(parse_statuses("200-204"), Some(200..=204));
        assert_eq!(parse_statuses("404"), Some(404..=404));
        for wrong in ["", "99", "600", "6xx", "204-200", "x", "xx"] {
            assert_eq!(parse_statuses(wrong), None, "{wrong}");
        }
        assert_eq!(split_path("$.a=b=c"), Some(("$.a", "b=c")));
        assert_eq!(split_path("$['a=b'][0] = x"), Some(("$['a=b'][0]", " x")));
        assert_eq!(split_path("$.a"), None);
        assert_eq!(split_path("a=1"), None);
    }
}
