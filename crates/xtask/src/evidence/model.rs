//! Symbolic models by two tools, and searches through the states of small systems: `spec/model/run.py --long`.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::record::Record;
use crate::shell;

const RUNNER: &str = "spec/model/run.py";

/// Runs every model and variant by both tools, and every search.
///
/// # Errors
/// A tool is missing, or a verdict is not the expected one: the run then prints it.
pub(super) fn run() -> anyhow::Result<Record> {
    let (python, verifpal) = (shell::venv_required("python")?, shell::venv_required("verifpal")?);
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    shell::run(
        shell::command(python).arg(RUNNER).arg("--long").arg("--record").arg(&report).env("VERIFPAL", verifpal),
    )?;
    let text = std::fs::read_to_string(&report).with_context(|| format!("{RUNNER} wrote no report"))?;
    recorded(&serde_json::from_str(&text)?)
}

/// Formats the runner's report as a record.
///
/// # Errors
/// A member is missing, or a model has no verdict of one of the tools.
fn recorded(report: &Value) -> anyhow::Result<Record> {
    let mut record = Record::default();
    let (mut models, mut queries, mut attacks, mut clauses) = (BTreeMap::<String, u64>::new(), 0, 0, 0);
    let mut rows = Vec::new();
    for verdict in array(report, "verdicts")? {
        let (model, variant) = (text(verdict, "model")?, text(verdict, "variant")?);
        let (first, second) = (text(verdict, "verifpal")?, text(verdict, "spass")?);
        ensure!(first == second, "{model}, {variant}: the tools disagree: {first} and {second}");
        let derived = number(verdict, "clauses")?;
        *models.entry(model.clone()).or_default() += 1;
        let (asked, broken) = letters(&first);
        queries += asked;
        attacks += broken;
        clauses += derived;
        rows.push(vec![model, variant, described(&first), described(&second), derived.to_string()]);
    }
    let mut searches = Vec::new();
    let mut states = 0;
    for search in array(report, "searches")? {
        let broken = text(search, "broken")?;
        let visited = number(search, "states")?;
        states += visited;
        let verdict = if broken.is_empty() { "holds".to_owned() } else { format!("fails: {broken}") };
        searches.push(vec![text(search, "model")?, text(search, "variant")?, verdict, visited.to_string()]);
    }
    ensure!(!rows.is_empty() && !searches.is_empty(), "the report has no verdict or no search");
    record.figure("symbolic models", models.len());
    record.figure("variants, each by two tools with one verdict", rows.len());
    record.figure("queries answered", queries);
    record.figure("queries that must fail, and whose attack both tools find", attacks);
    record.figure("clauses that SPASS derived", clauses);
    record.figure("variants of the searches", searches.len());
    record.figure("states visited", states);
    record.table("Symbolic models", &["model", "variant", "Verifpal", "SPASS", "clauses derived"], rows);
    record.table("Searches", &["model", "variant", "verdict", "states visited"], searches);
    record.missing(
        "ProVerif and Tamarin",
        "neither is in Debian, and the repository of opam cannot be reached",
        "SPASS from Debian, over Horn clauses that are made of the same models by the method of ProVerif",
    );
    record.missing(
        "TLA+ for the searches",
        "the package registry does not serve its tools",
        "the searches have one implementation each, and variants that must fail",
    );
    Ok(record)
}

/// Counts the queries of a verdict, and those that do not hold.
fn letters(verdict: &str) -> (usize, usize) {
    (verdict.len() / 2, verdict.matches('1').count())
}

/// Writes a verdict as words: the queries in their order.
fn described(verdict: &str) -> String {
    let mut words = Vec::new();
    let mut letters = verdict.chars();
    while let (Some(kind), Some(result)) = (letters.next(), letters.next()) {
        let kind = match kind {
            'c' => "secrecy",
            'a' => "authentication",
            _ => "agreement",
        };
        words.push(format!("{kind} {}", if result == '0' { "holds" } else { "**fails**" }));
    }
    words.join(", ")
}

fn array<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a Vec<Value>> {
    value.get(name).and_then(Value::as_array).with_context(|| format!("the report has no list {name}"))
}

fn text(value: &Value, name: &str) -> anyhow::Result<String> {
    let text = value.get(name).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("{value} has no text {name}"))
}

fn number(value: &Value, name: &str) -> anyhow::Result<u64> {
    value.get(name).and_then(Value::as_u64).with_context(|| format!("{value} has no number {name}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(spass: &str) -> Value {
        json!({
            "verdicts": [{ "model": "init", "variant": "without list", "expected": "c0a1", "verifpal": "c0a1",
                "spass": spass, "clauses": 7 }],
            "searches": [{ "model": "resend", "variant": "as designed", "expected": "", "broken": "", "states": 5 }],
        })
    }

    #[test]
    fn a_report_becomes_figures_and_tables() {
        let record = recorded(&report("c0a1")).unwrap();
        assert!(record.figures.contains(&["queries answered".to_owned(), "2".to_owned()]));
        assert_eq!(record.tables[0].rows[0][2], "secrecy holds, authentication **fails**");
        assert_eq!(record.tables[1].rows[0], ["resend", "as designed", "holds", "5"]);
    }

    #[test]
    fn tools_that_disagree_make_no_record() {
        assert!(recorded(&report("c0a0")).unwrap_err().to_string().contains("disagree"));
        assert!(recorded(&json!({ "verdicts": [], "searches": [] })).is_err());
    }
}
