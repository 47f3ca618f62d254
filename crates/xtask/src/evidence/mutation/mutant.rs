//! Mutants as cargo-mutants lists them.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

use crate::shell;

/// The kinds of changes that cargo-mutants makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// A change of the source.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// Number in this run, from 1.
    pub(super) number: u32,
    /// File, change and function, without a line; `#2` follows the second of the same name. Survives edits elsewhere in the file.
    pub(super) key: String,
    /// Path of the file from the root.
    pub(super) file: String,
    /// Line and column where the changed code starts, from 1.
    pub(super) start: (usize, usize),
    pub(super) replacement: String,
    pub(super) genre: Genre,
}

/// Lists the mutants of one package, in the order of cargo-mutants.
///
/// # Errors
/// cargo-mutants is not installed, or its output is unknown.
pub(super) fn list(package: &str) -> anyhow::Result<Vec<Mutant>> {
    let arguments = ["mutants", "--list", "--json", "--no-config", "--package", package];
    parse(&shell::output(program().args(arguments).env_remove("CARGO_TARGET_DIR"))?)
}

/// Returns the version of cargo-mutants, for the record.
pub(super) fn version() -> anyhow::Result<String> {
    Ok(shell::output(program().args(["mutants", "--version"]))?.trim().to_owned())
}

fn program() -> std::process::Command {
    shell::venv("cargo-mutants").map_or_else(|| shell::command("cargo-mutants"), shell::command)
}

fn parse(list: &str) -> anyhow::Result<Vec<Mutant>> {
    let list: Vec<Value> = serde_json::from_str(list).context("the list of cargo-mutants does not parse")?;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut mutants = Vec::new();
    for (number, value) in (1..).zip(&list) {
        let unknown = || format!("cargo-mutants lists what is unknown: {value}");
        let text = |name: &str| value.get(name).and_then(Value::as_str).with_context(unknown);
        let place = |pointer| usize::try_from(value.pointer(pointer)?.as_u64()?).ok();
        let line = place("/span/start/line").with_context(unknown)?;
        let column = place("/span/start/column").with_context(unknown)?;
        let file = text("file")?.to_owned();
        let genre = match text("genre")? {
            "FnValue" => Genre::FnValue,
            "BinaryOperator" => Genre::BinaryOperator,
            "UnaryOperator" => Genre::UnaryOperator,
            "MatchArm" => Genre::MatchArm,
            "MatchArmGuard" => Genre::MatchArmGuard,
            "StructField" => Genre::StructField,
            _ => anyhow::bail!(unknown()),
        };
        let change = text("name")?.strip_prefix(&format!("{file}:{line}:{column}: ")).with_context(unknown)?;
        let mut key = format!("{file}: {change}");
        let count = seen.entry(key.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            key.push_str(&format!(" #{count}"));
        }
        let replacement = text("replacement")?.to_owned();
        mutants.push(Mutant { number, key, file, start: (line, column), replacement, genre });
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_no_line_and_tells_equal_changes_apart() {
        let listed = |line: u32| {
            format!(
                r#"{{"name": "src/a.rs:{line}:5: replace == with != in f", "file": "src/a.rs", "genre": "BinaryOperator",
                "replacement": "!=", "span": {{"start": {{"line": {line}, "column": 5}}}}}}"#
            )
        };
        let mutants = parse(&format!("[{}, {}]", listed(3), listed(9))).unwrap();
        assert_eq!(mutants[0].key, "src/a.rs: replace == with != in f");
        assert_eq!(mutants[1].key, "src/a.rs: replace == with != in f #2");
        assert_eq!((mutants[1].number, mutants[1].start), (2, (9, 5)));
    }

    #[test]
    fn an_unknown_kind_of_change_is_an_error() {
        let listed = r#"[{"name": "a:1:1: x", "file": "a", "genre": "New", "replacement": "",
            "span": {"start": {"line": 1, "column": 1}}}]"#;
        assert!(parse(listed).unwrap_err().to_string().contains("New"));
    }
}
