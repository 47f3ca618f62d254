//! Comparison as text, Markdown and JSON.

use std::fmt::Write;

use super::super::escape::{line, markdown};
use super::super::file::ReportError;
use super::super::format::Format;
use super::super::units::{digits, in_unit};
use super::{Change, Comparison};

impl Comparison {
    /// Renders the comparison as text, Markdown or JSON. `more_than` is the share above which a significant change for the
    /// worse counts as a regression.
    ///
    /// # Errors
    /// [`ReportError::Content`] if a comparison has no such form.
    pub(crate) fn render(&self, format: Format, more_than: f64) -> Result<String, ReportError> {
        match format {
            Format::Text => Ok(self.text(more_than)),
            Format::Markdown => Ok(self.markdown(more_than)),
            Format::Json => {
                let text = serde_json::to_string(self).map_err(|err| ReportError::Content(err.to_string()))?;
                Ok(text + "\n")
            }
            other => {
                let name = other.name();
                Err(ReportError::Content(format!(
                    "a comparison cannot be written as {name}: use json, markdown or text"
                )))
            }
        }
    }

    /// Returns the verdict in one sentence.
    pub(crate) fn verdict(&self, more_than: f64) -> String {
        if let Some(why) = &self.refused {
            return format!("No verdict. {why}");
        }
        let bar = digits(more_than * 100.0);
        let worse: Vec<_> = self.regressions(more_than).iter().map(|change| change.figure.clone()).collect();
        if worse.is_empty() {
            format!("No figure is significantly worse by more than {bar} %.")
        } else {
            format!("Significantly worse by more than {bar} %: {}.", worse.join(", "))
        }
    }

    fn text(&self, more_than: f64) -> String {
        let side = |side: &super::Side| format!("{} ({})", line(&side.label), line(&side.started_at));
        let mut out = format!("old {}\nnew {}\n", side(&self.old), side(&self.new));
        self.differences.iter().for_each(|difference| _ = writeln!(out, " ! {}", line(difference)));
        let _ = writeln!(out, "\n  {:<18}{:>12}{:>12}{:>11}  ", "figure", "old", "new", "change");
        for change in &self.figures {
            let [old, new, by, word] = cells(change);
            let row = format!("  {:<18}{old:>12}{new:>12}{by:>11}  {word}", change.figure);
            let _ = writeln!(out, "{}", row.trim_end());
        }
        let _ = write!(out, "\n{}\n{}\n", line(&self.verdict(more_than)), self.method);
        out
    }

    fn markdown(&self, more_than: f64) -> String {
        let mut out = format!("## Load compared: {} and {}\n\n", markdown(&self.old.label), markdown(&self.new.label));
        let _ = writeln!(out, "**{}**\n", if self.refused.is_some() { "No verdict." } else { "Verdict." });
        let _ = writeln!(out, "{}\n", markdown(&self.verdict(more_than)));
        self.differences.iter().for_each(|difference| _ = writeln!(out, "> **Note:** {}\n", markdown(difference)));
        out.push_str("| figure | old | new | change | |\n| --- | ---: | ---: | ---: | --- |\n");
        for change in &self.figures {
            let [old, new, by, word] = cells(change).map(|cell| cell.replace('<', "\\<"));
            let _ = writeln!(out, "| {} | {old} | {new} | {by} | {word} |", change.figure);
        }
        let _ = writeln!(out, "\n{}", self.method.replace('<', "\\<"));
        out
    }
}

fn cells(change: &Change) -> [String; 4] {
    let shown = |value: Option<f64>| value.map_or("none".to_owned(), |value| in_unit(value, change.unit));
    let by = change.change.map_or(String::new(), |share| {
        let sign = if share < 0.0 { "-" } else { "+" };
        format!("{sign}{} %", digits(share.abs() * 100.0))
    });
    let word = match (change.significant, change.worse) {
        _ if change.old.is_some() && change.old == change.new => "equal",
        (None, _) => "not comparable",
        (Some(false), _) => "within noise",
        (Some(true), true) => "WORSE",
        (Some(true), false) => "better",
    };
    [shown(change.old), shown(change.new), by, word.to_owned()]
}
