//! Conversion of YAML text to checked types, and of the parser's errors to words for the author of the file.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::ConfigError;

/// Longest value that an error shows, in characters.
const VALUE_SHOWN_MAX: usize = 24;
/// Largest edit distance at which a known key is suggested in place of an unknown one.
const SUGGESTION_DISTANCE_MAX: usize = 3;

/// Parses one YAML document: strict, with budgets against expansion attacks. Errors name key, line and column, and never quote
/// the text around them, which may contain a secret.
///
/// # Errors
/// [`ConfigError`].
pub fn load_yaml<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    let mut options = serde_saphyr::Options::default();
    options.with_snippet = false;
    serde_saphyr::from_str_with_options(text, options).map_err(|err| {
        let key = err.location().and_then(|at| key_before(text, at.line(), at.column()));
        let told = err.render_with_formatter(&ForOperators { text, key: key.as_deref() });
        ConfigError(key.map_or_else(|| told.clone(), |key| format!("{key}: {told}")))
    })
}

/// Returns the key of the value at a position, both counted from 1, if they are on one line.
fn key_before(text: &str, line: u64, column: u64) -> Option<String> {
    let before = before(text, line, column)?;
    let before = before.trim_end().strip_suffix(':')?;
    let key = before.rsplit([' ', '{', ',']).next()?;
    // Only a plain key, so that no part of a value is shown.
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    is_plain.then(|| key.to_owned())
}

/// Returns the part of a line before a column, both counted from 1.
fn before(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    Some(line.chars().take(usize::try_from(column.checked_sub(1)?).ok()?).collect())
}

/// Messages for the operator who wrote the file, in place of the parser's messages for developers.
struct ForOperators<'a> {
    text: &'a str,
    key: Option<&'a str>,
}

impl MessageFormatter for ForOperators<'_> {
    fn format_message<'a>(&self, err: &'a Error) -> Cow<'a, str> {
        match err {
            Error::DuplicateMappingKey { key: Some(key), .. } => {
                format!("`{key}` is set twice in one section; keep one of the two").into()
            }
            Error::DuplicateMappingKey { .. } => "a key is set twice in one section; keep one of the two".into(),
            Error::InvalidScalar { ty, location } => {
                let shown = self.plain_value(location.line(), location.column());
                format!(
                    "{}expected {}",
                    shown.map(|value| format!("\"{value}\": ")).unwrap_or_default(),
                    self.wanted(ty)
                )
                .into()
            }
            Error::SerdeUnknownField { field, expected, .. } => unknown("key", field, expected).into(),
            Error::SerdeUnknownVariant { variant, expected, .. } => unknown("value", variant, expected).into(),
            Error::SerdeMissingField { field, .. } => format!("`{field}` is missing").into(),
            Error::Unexpected { expected, .. } => shape(expected).into(),
            Error::NullIntoString { .. } => shape("string scalar").into(),
            other => UserMessageFormatter.format_message(other),
        }
    }
}

impl ForOperators<'_> {
    /// Returns the value at a position, if it is one short plain word beside a plain key: a mistyped number. A value that could
    /// be a secret is not shown.
    fn plain_value(&self, line: u64, column: u64) -> Option<String> {
        self.key?;
        let line_text = self.text.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
        let rest: String = line_text.chars().skip(usize::try_from(column.checked_sub(1)?).ok()?).collect();
        let value = rest.split([',', '}', ']', '#', ' ']).next()?;
        let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c));
        (is_plain && (1..=VALUE_SHOWN_MAX).contains(&value.len())).then(|| value.to_owned())
    }

    /// Describes the values of a type, in the unit that its key ends in, with an example.
    fn wanted(&self, ty: &str) -> String {
        match ty {
            "bool" | "boolean" => "true or false".into(),
            "f32" | "f64" => "a number, such as 0.5".into(),
            _ if ty.starts_with(['u', 'i']) => {
                let unit = [("_ms", "milliseconds", "5000"), ("_sec", "seconds", "60"), ("_bytes", "bytes", "65536")];
                let unit = unit.iter().find(|(suffix, ..)| self.key.is_some_and(|key| key.ends_with(suffix)));
                match unit {
                    Some((_, unit, example)) => format!("a whole number of {unit}, such as {example}"),
                    None => "a whole number, such as 100".into(),
                }
            }
            _ => format!("a {ty}"),
        }
    }
}

/// Translates the parser's name of a YAML node into the words of an author of YAML.
fn shape(expected: &str) -> String {
    match expected {
        "sequence start" => "expected a list, such as [a, b] or lines that begin with `- `".into(),
        "mapping start" | "mapping end" => "expected keys and their values, such as { key: value }".into(),
        "scalar" | "string scalar" => "expected a single value, such as a word or a number".into(),
        other => format!("expected another value here (the parser's word for it: {other})"),
    }
}

/// Describes an unknown word, the most similar known one, and all known words.
pub(super) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|known| (strsim::damerau_levenshtein(word, known), known)).min();
    let suggestion = nearest
        .filter(|(distance, known)| *distance <= SUGGESTION_DISTANCE_MAX && *distance < known.chars().count())
        .map(|(_, known)| format!("; did you mean `{known}`?"))
        .unwrap_or_default();
    let list = known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
    let list = if list.is_empty() { "nothing is known here".to_owned() } else { format!("known here: {list}") };
    let word: String = word.chars().take(64).collect();
    format!("unknown {what} `{word}`{suggestion} ({list})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "read by the parser and by Debug alone")]
    struct Settings {
        idle_timeout_ms: Option<u64>,
        connections_max: Option<u32>,
        forwarded: Option<bool>,
        routes: Option<Vec<u64>>,
        labels: Option<std::collections::BTreeMap<String, String>>,
        name: Option<String>,
    }

    #[test]
    fn errors_of_the_parser_say_what_to_write() {
        for (text, wants) in [
            (
                "idle_timeout_ms: soon",
                vec!["idle_timeout_ms: \"soon\": expected a whole number of milliseconds, such as 5000"],
            ),
            ("connections_max: -1", vec!["connections_max: \"-1\": expected a whole number, such as 100"]),
            ("forwarded: perhaps", vec!["forwarded: \"perhaps\": expected true or false"]),
            ("conections_max: 1", vec!["unknown key `conections_max`; did you mean `connections_max`?", "line 1"]),
            (
                "colour: 1",
                vec!["unknown key `colour` (known here: `idle_timeout_ms`, `connections_max`, `forwarded`, "],
            ),
            ("routes: 1", vec!["routes: ", "expected a list, such as [a, b]", "line 1"]),
            ("labels: 1", vec!["labels: ", "expected keys and their values"]),
            ("name: [a]", vec!["name: ", "expected a single value"]),
            ("labels: { a: ~ }", vec!["expected a single value"]),
            ("forwarded: true\nforwarded: true", vec!["`forwarded` is set twice", "line 2"]),
        ] {
            let err = load_yaml::<Settings>(text).unwrap_err().0;
            for want in wants {
                assert!(err.contains(want), "{text}: {err}");
            }
            for jargon in ["Policy", "Options", "u64", "u32", "bool ", "invalid", "sequence", "mapping", "scalar"] {
                assert!(!err.contains(jargon), "{text}: {err}");
            }
        }
    }

    #[test]
    fn no_value_that_could_be_a_secret_is_shown() {
        for text in
            ["connections_max: 'hunter2 and more'", "connections_max: aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=", "hunter2"]
        {
            let err = load_yaml::<Settings>(text).unwrap_err().0;
            assert!(!err.contains("hunter2") && !err.contains("aGVs"), "{err}");
        }
    }
}
