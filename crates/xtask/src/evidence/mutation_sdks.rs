//! Mutation tests of the SDKs: `evidence/mutation-sdks/run.py` runs a tool for each language, and writes the record.

use anyhow::Context;

use super::record::Record;
use crate::shell;

/// Runs the script for all languages.
///
/// # Errors
/// A tool is missing or fails, or a mutant survives that no list explains.
pub(super) fn run() -> anyhow::Result<Record> {
    let path = shell::root().join("target/mutation-sdks/record.json");
    // A record of an earlier run is none of this one.
    if path.exists() {
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    shell::run(shell::command("python3").arg("evidence/mutation-sdks/run.py").arg("--output").arg(&path))?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Record::parse(&text)
}
