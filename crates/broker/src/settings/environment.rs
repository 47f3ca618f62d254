//! Environment variables, and the defects found in them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

const PREFIX: &str = "CRYPTO_BROKER_";
/// Variable with key-encryption keys, if no file has them.
pub(crate) const KEK: &str = "CRYPTO_BROKER_KEK";

/// Accepted spellings besides the prefixed ones.
const OTHER_SPELLINGS: &[(&str, &str)] = &[
    ("GRPC_MAX_CONCURRENT_STREAMS", "GRPC_MAX_CONCURRENT_STREAMS"),
    ("PPROF_ADDR", "PPROF_ADDR"),
    ("APP_ENV", "APP_ENV"),
    ("LOG_LEVEL", "OTEL_LOGS_LEVEL"),
    ("LOG_FORMAT", "OTEL_LOGS_FORMAT"),
    ("LOG_OUTPUT", "OTEL_LOGS_OUTPUT"),
];

/// The variables of a process, with the problems and warnings of reading them. Some are secrets: no value is shown.
#[derive(Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("names", &self.variables.keys()).finish_non_exhaustive()
    }
}

impl Environment {
    /// Creates an environment from variables. An empty variable counts as absent.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Environment {
        let variables = variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        Environment { variables, ..Environment::default() }
    }

    /// Reads this process's environment. Variables that are not UTF-8 are ignored.
    pub fn of_process() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            // The key-encryption keys are not copied: their reader reads them directly.
            let name = name.into_string().ok().filter(|name| name != KEK)?;
            Some((name, value.into_string().ok()?))
        };
        Environment::new(std::env::vars_os().filter_map(text))
    }

    /// Returns a variable by its whole name.
    pub(super) fn exact(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    /// Returns the whole name and the value of a variable; the prefixed spelling wins.
    fn find(&self, name: &str) -> Option<(String, String)> {
        if name.starts_with("OTEL_") {
            return Some((name.to_owned(), self.exact(name)?));
        }
        let prefixed = format!("{PREFIX}{name}");
        if let Some(value) = self.exact(&prefixed) {
            return Some((prefixed, value));
        }
        let (_, other) = OTHER_SPELLINGS.iter().find(|(known, _)| *known == name)?;
        Some(((*other).to_owned(), self.exact(other)?))
    }

    /// Returns a variable by its name without the prefix.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        Some(self.find(name)?.1)
    }

    /// Parses one of a few words, ignoring case.
    pub(super) fn choice<T: Copy>(&mut self, name: &str, words: &[(&str, T)], default: T) -> T {
        let Some((whole, value)) = self.find(name) else { return default };
        if let Some((_, choice)) = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&value)) {
            return *choice;
        }
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        self.problems.push(format!("{whole}: expected one of {}", words.join(", ")));
        default
    }

    /// Parses a variable as a type.
    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, expected: &str) -> Option<T> {
        let (whole, value) = self.find(name)?;
        let parsed = value.parse().ok();
        if parsed.is_none() {
            self.problems.push(format!("{whole}: expected {expected}"));
        }
        parsed
    }

    /// Parses a number within bounds.
    pub(super) fn within<T>(&mut self, name: &str, bounds: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let expected = format!("a number from {} to {}", bounds.start(), bounds.end());
        let number = self.parsed(name, &expected)?;
        if bounds.contains(&number) {
            return Some(number);
        }
        self.problem(name, &format!("expected {expected}"));
        None
    }

    /// Records an error for a variable.
    pub(super) fn problem(&mut self, name: &str, text: &str) {
        let whole = self.whole(name);
        self.problems.push(format!("{whole}: {text}"));
    }

    /// Records a warning for a variable without effect.
    pub(super) fn warn(&mut self, name: &str, text: &str) {
        let whole = self.whole(name);
        self.warnings.push(format!("{whole}: {text}"));
    }

    fn whole(&self, name: &str) -> String {
        let prefixed = || if name.starts_with("OTEL_") { name.to_owned() } else { format!("{PREFIX}{name}") };
        self.find(name).map_or_else(prefixed, |(whole, _)| whole)
    }

    /// Returns the problems and the warnings that were found, a sentence each.
    pub(super) fn end(self) -> (Vec<String>, Vec<String>) {
        (self.problems, self.warnings)
    }
}
