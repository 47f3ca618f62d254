//! The pages of `docs/assurance/`: an overview, and a page for each kind of evidence with the tables of its last run.

use std::fmt::Write as _;

use anyhow::{Context, ensure};

use super::record::{Record, Table};
use super::{KINDS, Kind, result_path};
use crate::shell;

const OVERVIEW: &str = "docs/assurance/README.md";

/// The text in place of figures that there are none of.
const NO_RUN: &str = "No run is recorded yet: the claim is not shown.";

/// Lines of a page between which the generated text stands.
const MARKS: [&str; 2] =
    ["<!-- Generated from docs/assurance/results by `cargo xtask codegen`. -->", "<!-- End of the generated part. -->"];

/// Returns the overview and the page of each kind, by their paths from the root.
///
/// # Errors
/// A record does not parse, or a page lacks the lines around its generated part.
pub(crate) fn generate() -> anyhow::Result<Vec<(String, String)>> {
    let mut records = Vec::new();
    for kind in KINDS {
        let path = result_path(kind.name);
        let record = match std::fs::read_to_string(shell::root().join(&path)) {
            Ok(text) => Some(Record::parse(&text).with_context(|| path.clone())?),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => None,
            Err(err) => return Err(err).with_context(|| path.clone()),
        };
        records.push((kind, record));
    }
    let mut pages = vec![filled(OVERVIEW, &overview(&records))?];
    for (kind, record) in &records {
        let text = record.as_ref().map_or_else(|| format!("{NO_RUN}\n"), |record| results(kind, record));
        pages.push(filled(&format!("docs/assurance/{}.md", kind.name), &text)?);
    }
    Ok(pages)
}

/// Returns a page with new text in its generated part.
fn filled(path: &str, text: &str) -> anyhow::Result<(String, String)> {
    let page = std::fs::read_to_string(shell::root().join(path)).with_context(|| format!("cannot read {path}"))?;
    let missing = || format!("{path} lacks the lines around its generated part");
    let (head, rest) = page.split_once(MARKS[0]).with_context(missing)?;
    let (_, tail) = rest.split_once(MARKS[1]).with_context(missing)?;
    ensure!(!tail.contains(MARKS[0]), "{path} has two generated parts");
    Ok((path.to_owned(), format!("{head}{}\n\n{text}\n{}{tail}", MARKS[0], MARKS[1])))
}

/// Formats one row for each kind: claim, evidence, command, last run.
fn overview(records: &[(&Kind, Option<Record>)]) -> String {
    let rows = records.iter().map(|(kind, record)| {
        let (figures, run) = record.as_ref().map_or_else(
            || (NO_RUN.to_owned(), String::new()),
            |Record { figures, date, commit, .. }| {
                let figures: Vec<String> = figures.iter().map(|[name, value]| format!("{name}: {value}")).collect();
                (figures.join("<br>"), format!("{date}, {commit}"))
            },
        );
        let page = format!("[{}]({}.md)", kind.title, kind.name);
        vec![kind.claim.to_owned(), page, figures, format!("`{}`", kind.command()), run]
    });
    let columns = ["claim", "evidence", "figures of the last run", "command", "last run"];
    table(&columns.map(str::to_owned), rows)
}

/// Formats the figures, the tables and the gaps of one kind.
fn results(kind: &Kind, record: &Record) -> String {
    let Record { date, commit, seconds, .. } = record;
    let mut text = format!("Last run: {date}, commit {commit}, {seconds} s, by `{}`.\n\n", kind.command());
    text.push_str(&table(&["figure", "value"].map(str::to_owned), record.figures.iter().map(|figure| figure.to_vec())));
    for Table { title, columns, rows } in &record.tables {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n## {title}\n\n{}", table(columns, rows.iter().cloned()));
    }
    if !record.missing.is_empty() {
        let columns = ["missing", "reason", "in its place"].map(str::to_owned);
        let rows = record.missing.iter().map(|gap| gap.to_vec());
        let _ = write!(text, "\n## Gaps\n\n{}", table(&columns, rows));
    }
    text
}

fn table(columns: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(columns);
    text.push_str(&line(&vec!["---".to_owned(); columns.len()]));
    rows.for_each(|row| text.push_str(&line(&row)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_end_its_column_or_line() {
        let rows = [vec!["a|b\nc".to_owned()]];
        assert_eq!(table(&["x".to_owned()], rows.into_iter()), "| x |\n| --- |\n| a\\|b c |\n");
    }
}
