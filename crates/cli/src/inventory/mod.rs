//! `sealway inventory`: reads what services used, merges it, and prints a table, JSON or a CBOM; names what a standard would
//! break.

mod breaks;
mod cyclonedx;
mod fetch;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use sealway_runtime::inventory::{Ban, DOCUMENT_LEN_MAX, Document};
use sealway_runtime::output::out;

/// Most files of a folder that are read.
const FILES_MAX: usize = 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct Inventory {
    /// Files, folders of `broker serve --inventory` or `telemetry.inventory_folder`, or admin listeners as http://127.0.0.1:9901
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// File with the token of the admin listeners
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Form in which the inventory is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Name the callers, routes, certificates and peers that a standard would break, and exit with 1 if there are any
    #[arg(long, value_name = "STANDARD", value_parser = standard, conflicts_with = "format")]
    what_breaks: Option<Ban>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Lines in columns for a person
    Table,
    /// The merged document as JSON
    Json,
    /// A CBOM of CycloneDX 1.6
    Cyclonedx,
}

fn standard(text: &str) -> Result<Ban, String> {
    let names = Ban::NAMES.map(|(name, _)| name).join(", ");
    let found = Ban::NAMES.iter().find(|(name, _)| *name == text);
    found.map(|(_, ban)| *ban).ok_or_else(|| format!("expected one of {names}"))
}

/// Prints the merged inventory of all sources.
///
/// # Errors
/// A source that cannot be read, with its name.
pub(crate) fn run(command: &Inventory) -> anyhow::Result<ExitCode> {
    let mut documents = Vec::new();
    for source in &command.sources {
        documents.extend(read(source, command.token_file.as_deref()).with_context(|| shown(source))?);
    }
    let Some(merged) = Document::merge(documents) else { bail!("no inventory was found") };
    if let Some(ban) = command.what_breaks {
        let report = breaks::report(&merged, ban);
        out().write_all(report.text.as_bytes())?;
        return Ok(if report.is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let text = match command.format {
        Format::Table => table::text(&merged),
        Format::Json => serde_json::to_string_pretty(&merged)? + "\n",
        Format::Cyclonedx => serde_json::to_string_pretty(&cyclonedx::bom(&merged))? + "\n",
    };
    out().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn read(source: &str, token_file: Option<&Path>) -> anyhow::Result<Vec<Document>> {
    if source.starts_with("http://") {
        return Ok(vec![Document::parse(&fetch::inventory(source, token_file)?)?]);
    }
    let path = Path::new(source);
    if !path.is_dir() {
        return Ok(vec![file(path)?]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            bail!("more than {FILES_MAX} files");
        }
    }
    files.sort();
    files.iter().map(|path| file(path).with_context(|| shown(&path.display().to_string()))).collect()
}

fn file(path: &Path) -> anyhow::Result<Document> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(DOCUMENT_LEN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_LEN_MAX {
        bail!("longer than {DOCUMENT_LEN_MAX} bytes");
    }
    Ok(Document::parse(&bytes)?)
}

/// Escapes what could act on a terminal or feign another line: control characters, and those that change the direction of text.
fn shown(text: &str) -> String {
    let is_plain = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) { shown.push(c) } else { shown.extend(c.escape_unicode()) }
    }
    shown
}

/// The key's size or parameter set, as a part of a line; empty for neither.
fn size(size: u32) -> String {
    if size == 0 { String::new() } else { size.to_string() }
}

#[cfg(test)]
mod tests;
