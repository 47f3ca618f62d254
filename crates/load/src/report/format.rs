//! The forms a document can be written in, and which one a file's name asks for.

use std::path::Path;

use super::document::Report;
use super::file::{self, ReportError};
use super::tuned::{AutotuneReport, MatrixReport};
use super::{csv, hlog, html, junit, markdown, text, tuned_forms};

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The whole document; `spec/load-report.schema.json`.
    Json,
    /// The seconds of a run, the points of a search, or the cells of a matrix.
    Csv,
    /// An HdrHistogram interval log.
    Hlog,
    /// JUnit's XML: thresholds as test cases.
    Junit,
    /// For a pull request.
    Markdown,
    /// A page that needs nothing else.
    Html,
    /// What a terminal is shown.
    Text,
}

impl Format {
    /// All of them.
    pub(crate) const ALL: [Format; 7] =
        [Format::Json, Format::Csv, Format::Hlog, Format::Junit, Format::Markdown, Format::Html, Format::Text];

    /// Its name, as a flag has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Hlog => "hlog",
            Format::Junit => "junit",
            Format::Markdown => "markdown",
            Format::Html => "html",
            Format::Text => "text",
        }
    }

    /// The form that a file's extension asks for; `-` and a name without one are JSON.
    ///
    /// # Errors
    /// An extension that is none of ours, with those that are.
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
                    "cannot write {}: .{other} is no form of a report: {allowed}",
                    path.display()
                )));
            }
        })
    }
}

/// What is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Document<'a> {
    /// A run.
    Run(&'a Report),
    /// A search for the knee.
    Autotune(&'a AutotuneReport),
    /// A matrix.
    Matrix(&'a MatrixReport),
}

impl<'a> From<&'a Report> for Document<'a> {
    fn from(report: &'a Report) -> Self {
        Document::Run(report)
    }
}

impl<'a> From<&'a AutotuneReport> for Document<'a> {
    fn from(report: &'a AutotuneReport) -> Self {
        Document::Autotune(report)
    }
}

impl<'a> From<&'a MatrixReport> for Document<'a> {
    fn from(report: &'a MatrixReport) -> Self {
        Document::Matrix(report)
    }
}

/// The document in this form.
///
/// # Errors
/// When the document has no such form: a search or a matrix holds no histograms, so there is no log of them.
pub(crate) fn render<'a>(document: impl Into<Document<'a>>, format: Format) -> Result<String, ReportError> {
    match document.into() {
        Document::Run(report) => Ok(match format {
            Format::Json => json(report)?,
            Format::Csv => csv::render(report),
            Format::Hlog => hlog::render(report),
            Format::Junit => junit::render(report),
            Format::Markdown => markdown::render(report),
            Format::Html => html::render(report),
            Format::Text => text::render(report),
        }),
        Document::Autotune(report) => match format {
            Format::Json => json(report),
            format => tuned_forms::autotune(report, format),
        },
        Document::Matrix(report) => match format {
            Format::Json => json(report),
            format => tuned_forms::matrix(report, format),
        },
    }
}

/// Writes the document to a file, whole or not at all, or with `-` to standard output; in this form, or else in the one
/// that the file's extension asks for.
///
/// # Errors
/// An extension or a form that does not fit, or a file that cannot be written.
pub(crate) fn write<'a>(
    path: &Path,
    document: impl Into<Document<'a>>,
    format: Option<Format>,
) -> Result<(), ReportError> {
    let format = match format {
        Some(format) => format,
        None => Format::of(path)?,
    };
    file::write(path, render(document, format)?.as_bytes())
}

fn json(document: &impl serde::Serialize) -> Result<String, ReportError> {
    let mut text = serde_json::to_string(document).map_err(|err| ReportError::Content(err.to_string()))?;
    text.push('\n');
    Ok(text)
}
