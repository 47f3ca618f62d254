//! Forms that a document can be written in, and the choice by a file's extension.

use std::path::Path;

use super::document::Report;
use super::file::{self, ReportError};
use super::tuned::{AutotuneReport, MatrixReport};
use super::{csv, hlog, html, junit, markdown, text, tuned_forms};
use crate::named::named;

named! {
    /// Form of a written document.
    pub(crate) enum Format {
        /// The whole document as JSON; `spec/load-report.schema.json`.
        Json = "json",
        /// CSV of a run's seconds, a search's points, or a matrix's cells.
        Csv = "csv",
        /// HdrHistogram interval log of the phases.
        Hlog = "hlog",
        /// JUnit XML with thresholds as test cases.
        Junit = "junit",
        /// Markdown for a pull request.
        Markdown = "markdown",
        /// HTML page that loads no other file.
        Html = "html",
        /// Text summary for a terminal.
        Text = "text",
    }
}

impl Format {
    /// Returns the form of a file's extension; `-` and a name without an extension mean JSON.
    ///
    /// # Errors
    /// [`ReportError::Content`] for an unknown extension; the message lists the known ones.
    pub(crate) fn of(path: &Path) -> Result<Format, ReportError> {
        let Some(extension) = path.extension() else { return Ok(Format::Json) };
        Ok(match extension.to_string_lossy().to_ascii_lowercase().as_str() {
            "json" => Format::Json,
            "csv" => Format::Csv,
            "hlog" => Format::Hlog,
            "xml" => Format::Junit,
            "md" | "markdown" => Format::Markdown,
            "html" | "htm" => Format::Html,
            "txt" => Format::Text,
            other => {
                let allowed = ".json, .csv, .hlog, .xml (JUnit), .md, .html or .txt";
                return Err(ReportError::Content(format!(
                    "cannot write {}: there is no report format .{other}; use {allowed}",
                    path.display()
                )));
            }
        })
    }
}

/// Document that can be written in several forms.
pub(crate) trait Document {
    /// Renders the document in this form.
    ///
    /// # Errors
    /// [`ReportError::Content`] if the document has no such form: a search or a matrix has neither an interval log nor JUnit
    /// XML.
    fn render(&self, format: Format) -> Result<String, ReportError>;
}

impl Document for Report {
    fn render(&self, format: Format) -> Result<String, ReportError> {
        Ok(match format {
            Format::Json => json(self)?,
            Format::Csv => csv::render(self),
            Format::Hlog => hlog::render(self),
            Format::Junit => junit::render(self),
            Format::Markdown => markdown::render(self),
            Format::Html => html::render(self),
            Format::Text => text::render(self),
        })
    }
}

impl Document for AutotuneReport {
    fn render(&self, format: Format) -> Result<String, ReportError> {
        if format == Format::Json { json(self) } else { tuned_forms::autotune(self, format) }
    }
}

impl Document for MatrixReport {
    fn render(&self, format: Format) -> Result<String, ReportError> {
        if format == Format::Json { json(self) } else { tuned_forms::matrix(self, format) }
    }
}

/// Writes the document to a file, whole or not at all, or to standard output for `-`.
///
/// # Errors
/// [`ReportError`] if the document has no such form, or the file cannot be written.
pub(crate) fn write(path: &Path, document: &impl Document, format: Format) -> Result<(), ReportError> {
    file::write(path, document.render(format)?.as_bytes())
}

fn json(document: &impl serde::Serialize) -> Result<String, ReportError> {
    let mut text = serde_json::to_string(document).map_err(|err| ReportError::Content(err.to_string()))?;
    text.push('\n');
    Ok(text)
}
