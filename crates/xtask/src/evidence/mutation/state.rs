//! Results of earlier runs, so that areas can run one at a time, and the reasons of survivors.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::build;
use super::run::Outcome;
use crate::shell;

/// The file with a reason for each survivor.
pub(super) const SURVIVORS: &str = "crates/xtask/src/evidence/mutation/survivors.toml";

/// The last run of one area.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AreaRun {
    /// The commit that was checked out, 12 digits.
    pub(super) commit: String,
    /// Number of tests that ran.
    pub(super) tests: u64,
    /// Tests that failed with all mutants off, and so caught nothing.
    pub(super) failing: Vec<String>,
    /// Each mutant's key and outcome.
    pub(super) mutants: BTreeMap<String, Outcome>,
}

impl AreaRun {
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.mutants.values().filter(|&&found| found == outcome).count()
    }

    /// Mutants that compile and that ran.
    pub(super) fn viable(&self) -> usize {
        self.count(Outcome::Caught) + self.count(Outcome::Timeout) + self.count(Outcome::Missed)
    }

    /// Tenths of a per cent of the viable mutants that a test caught.
    pub(super) fn caught_permille(&self) -> usize {
        (self.count(Outcome::Caught) + self.count(Outcome::Timeout)) * 1000 / self.viable().max(1)
    }

    fn write(&self) -> Value {
        let mutants: BTreeMap<&str, &str> =
            self.mutants.iter().map(|(key, outcome)| (key.as_str(), outcome.name())).collect();
        json!({ "commit": self.commit, "tests": self.tests, "failing": self.failing, "mutants": mutants })
    }

    fn parse(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mutants = value.get("mutants")?.as_object()?;
        let mutant = |(key, outcome): (&String, &Value)| Some((key.clone(), Outcome::parse(outcome.as_str()?)?));
        Some(AreaRun {
            commit: value.get("commit")?.as_str()?.to_owned(),
            tests: value.get("tests")?.as_u64()?,
            failing: value.get("failing")?.as_array()?.iter().map(text).collect::<Option<_>>()?,
            mutants: mutants.iter().map(mutant).collect::<Option<_>>()?,
        })
    }
}

fn path() -> std::path::PathBuf {
    build::folder().join("state.json")
}

/// Reads the last run of each area, by its name. There is none before the first run.
///
/// # Errors
/// The file does not parse.
pub(super) fn read() -> anyhow::Result<BTreeMap<String, AreaRun>> {
    let Ok(text) = std::fs::read_to_string(path()) else { return Ok(BTreeMap::new()) };
    let value: Value = serde_json::from_str(&text)?;
    let areas = value.as_object().context("state.json is not an object")?;
    let area = |(name, value): (&String, &Value)| {
        Ok((name.clone(), AreaRun::parse(value).with_context(|| format!("state.json: {name} does not parse"))?))
    };
    areas.iter().map(area).collect()
}

pub(super) fn write(areas: &BTreeMap<String, AreaRun>) -> anyhow::Result<()> {
    let value: BTreeMap<&String, Value> = areas.iter().map(|(name, area)| (name, area.write())).collect();
    std::fs::write(path(), format!("{:#}\n", json!(value))).context("cannot write state.json")
}

/// Reads the reasons: a reason for each survivor's key.
///
/// # Errors
/// The file does not parse, a mutant stands in it twice, or a reason is empty.
pub(super) fn reasons() -> anyhow::Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(shell::root().join(SURVIVORS)).context(SURVIVORS)?;
    parse_reasons(&text).context(SURVIVORS)
}

pub(super) fn parse_reasons(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let table: toml::Table = text.parse()?;
    let mut reasons = BTreeMap::new();
    let groups = table.get("survivors").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    for group in groups {
        let reason = group.get("reason").and_then(toml::Value::as_str).context("a group has no reason")?.trim();
        ensure!(!reason.is_empty(), "a reason is empty");
        let mutants = group.get("mutants").and_then(toml::Value::as_array).context("a group has no mutants")?;
        for mutant in mutants {
            let mutant = mutant.as_str().context("a mutant is not a string")?;
            ensure!(reasons.insert(mutant.to_owned(), reason.to_owned()).is_none(), "{mutant} stands twice");
        }
    }
    Ok(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_of_an_area_reads_back() {
        let mutants = Outcome::ALL.iter().map(|(outcome, name)| ((*name).to_owned(), *outcome)).collect();
        let run = AreaRun { commit: "0".repeat(12), tests: 3, failing: vec!["a b".into()], mutants };
        assert_eq!(AreaRun::parse(&run.write()).unwrap(), run);
    }

    #[test]
    fn the_share_is_of_mutants_that_ran_and_a_timeout_is_caught() {
        let mutants = Outcome::ALL.iter().map(|(outcome, name)| ((*name).to_owned(), *outcome)).collect();
        let run = AreaRun { mutants, ..AreaRun::default() };
        assert_eq!((run.viable(), run.caught_permille()), (3, 666));
    }

    #[test]
    fn a_mutant_has_one_reason() {
        let text = "[[survivors]]\nreason = \"same\"\nmutants = [\"a\", \"b\"]\n";
        assert_eq!(parse_reasons(text).unwrap().len(), 2);
        assert!(parse_reasons(&format!("{text}{text}")).unwrap_err().to_string().contains("a stands twice"));
        assert!(parse_reasons(&text.replace("same", " ")).is_err());
    }
}
