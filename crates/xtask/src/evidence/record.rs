//! The record of one run: figures and tables, as `docs/assurance/results/NAME.json` keeps them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::{Value, json};

use crate::shell;

/// Measurements of one run of a kind of evidence.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Record {
    /// The day of the run, `YYYY-MM-DD` in UTC.
    pub(super) date: String,
    /// The commit that was checked out, 12 digits.
    pub(super) commit: String,
    /// The duration of the run in seconds.
    pub(super) seconds: u64,
    /// Figures of the overview, each a name and a value with its unit.
    pub(super) figures: Vec<[String; 2]>,
    pub(super) tables: Vec<Table>,
    /// Gaps: what could not be done, why, and what was done in its place.
    pub(super) missing: Vec<[String; 3]>,
    /// A run over a sample checks, and is not written.
    pub(super) is_sample: bool,
}

/// A table of a kind's page.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Record {
    /// Adds a figure: a name, and a value with its unit.
    pub(super) fn figure(&mut self, name: &str, value: impl ToString) {
        self.figures.push([name.to_owned(), value.to_string()]);
    }

    /// Adds a table of the kind's page.
    pub(super) fn table(&mut self, title: &str, columns: &[&str], rows: Vec<Vec<String>>) {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        self.tables.push(Table { title: title.to_owned(), columns, rows });
    }

    /// Adds a gap: what could not be done, why, and what was done in its place.
    pub(super) fn missing(&mut self, what: &str, why: &str, instead: &str) {
        self.missing.push([what, why, instead].map(str::to_owned));
    }

    /// Sets day, commit and duration.
    ///
    /// # Errors
    /// This is not a clone, or the clock is before 1970.
    pub(super) fn stamp(&mut self, took: Duration) -> anyhow::Result<()> {
        self.date = day(today()?);
        self.commit = shell::output(shell::command("git").args(["rev-parse", "--short=12", "HEAD"]))?.trim().to_owned();
        self.seconds = took.as_secs();
        Ok(())
    }

    /// Formats the record as its file.
    pub(super) fn write(&self) -> String {
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|table| json!({ "title": table.title, "columns": table.columns, "rows": table.rows }))
            .collect();
        let value = json!({
            "date": self.date, "commit": self.commit, "seconds": self.seconds,
            "figures": self.figures, "tables": tables, "missing": self.missing,
        });
        format!("{value:#}\n")
    }

    /// Parses the text of a record's file.
    ///
    /// # Errors
    /// A member is missing, is of another type, or a row has not as many cells as its table has columns.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let mut tables = Vec::new();
        for table in array(&value, "tables")? {
            let columns = strings(member(table, "columns")?)?;
            let rows = array(table, "rows")?.iter().map(strings).collect::<anyhow::Result<Vec<_>>>()?;
            let title = string(member(table, "title")?)?;
            let uneven = rows.iter().position(|row| row.len() != columns.len());
            anyhow::ensure!(uneven.is_none(), "{title}: row {uneven:?} has not {} cells", columns.len());
            tables.push(Table { title, columns, rows });
        }
        Ok(Record {
            date: string(member(&value, "date")?)?,
            commit: string(member(&value, "commit")?)?,
            seconds: member(&value, "seconds")?.as_u64().context("seconds: expected a number")?,
            figures: fixed(array(&value, "figures")?)?,
            tables,
            missing: fixed(array(&value, "missing")?)?,
            is_sample: false,
        })
    }
}

/// Returns the number of days since 1970-01-01.
///
/// # Errors
/// The clock is before 1970.
#[expect(clippy::disallowed_methods, reason = "a record has the day of its run")]
pub(super) fn today() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400)
}

/// Returns the date of a day after 1970-01-01, by the civil calendar.
fn day(days: u64) -> String {
    // Years begin in March here, so that the day of a leap year is the last of its year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", of_year - (153 * march_month + 2) / 5 + 1)
}

fn member<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a Value> {
    value.get(name).with_context(|| format!("{name} is missing"))
}

fn array<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a Vec<Value>> {
    member(value, name)?.as_array().with_context(|| format!("{name}: expected an array"))
}

fn string(value: &Value) -> anyhow::Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("expected a string: {value}"))
}

fn strings(value: &Value) -> anyhow::Result<Vec<String>> {
    value.as_array().with_context(|| format!("expected an array: {value}"))?.iter().map(string).collect()
}

fn fixed<const N: usize>(values: &[Value]) -> anyhow::Result<Vec<[String; N]>> {
    let entry =
        |value: &Value| strings(value)?.try_into().ok().with_context(|| format!("expected {N} strings: {value}"));
    values.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_from_its_file() {
        let mut record = Record { date: "2026-11-29".into(), commit: "0".repeat(12), seconds: 7, ..Record::default() };
        record.figure("mutants", 12);
        record.table("Survivors", &["place", "reason"], vec![vec!["a".into(), "b".into()]]);
        record.missing("Kani", "its toolchain is not in a registry", "exhaustive tests");
        assert_eq!(Record::parse(&record.write()).unwrap(), record);
    }

    #[test]
    fn a_record_with_a_short_row_is_rejected() {
        let mut record = Record::default();
        record.table("Survivors", &["place", "reason"], vec![vec!["a".into()]]);
        assert!(Record::parse(&record.write()).unwrap_err().to_string().contains("Survivors"));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, date) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_786, "2026-11-29"), (21_243, "2028-02-29")]
        {
            assert_eq!(day(days), date);
        }
    }
}
