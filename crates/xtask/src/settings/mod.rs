//! The reference of the configuration and its JSON Schema, generated from the source of the `Raw…` types: a field's doc comment
//! is its description, its type has its default and bounds (`sealway_runtime::config::{Number, Within, Flag}`). Two items at
//! the end of a doc comment, `- type: …` and `- default: …`, state what a type cannot; `{default}` stands for the type's.
//!
//! The source is parsed, not built, so this runs when the product does not build.

mod numbers;
mod read;
mod schema;
mod tables;
#[cfg(test)]
mod tests;

use anyhow::Context;
use serde_json::Value;

use crate::shell;

/// The file whose struct [`ROOT`] has a field for each section.
const ROOT_FILE: &str = "crates/cli/src/config/mod.rs";
const ROOT: &str = "RawServe";
/// The page whose tables are generated; the text around them is not.
const REFERENCE: &str = "docs/reference/configuration.md";
const SCHEMA: &str = "docs/reference/configuration.schema.json";

/// A struct of settings, as a section.
#[derive(Debug)]
struct Section {
    /// File and name of the struct.
    id: String,
    settings: Vec<Setting>,
}

/// A field of a section.
#[derive(Debug)]
struct Setting {
    key: String,
    meaning: String,
    /// The type to show in the reference instead of that of the kind.
    shown_type: Option<String>,
    shown_default: Option<String>,
    kind: Kind,
    default: Option<Value>,
    is_required: bool,
}

/// The kind of a setting's value.
#[derive(Debug)]
enum Kind {
    Flag,
    Number { min: u64, max: u64 },
    Text,
    Path,
    Words(Vec<String>),
    TextOrList,
    List(Box<Kind>),
    ByName(Box<Kind>),
    Section(Section),
}

impl Kind {
    /// Returns the section that a value is, or is a list of.
    fn section(&self) -> Option<&Section> {
        match self {
            Kind::Section(section) => Some(section),
            Kind::List(kind) | Kind::ByName(kind) => kind.section(),
            _ => None,
        }
    }
}

/// Generates both files, with their paths from the root.
pub(crate) fn generate() -> anyhow::Result<Vec<(String, String)>> {
    let root = read::Sources::load(&shell::root())?.section(ROOT_FILE, ROOT)?;
    let page = std::fs::read_to_string(shell::root().join(REFERENCE)).context(REFERENCE)?;
    let page = tables::fill(&root, &page).context(REFERENCE)?;
    let schema = serde_json::to_string_pretty(&schema::of(&root))?;
    Ok(vec![(REFERENCE.to_owned(), page), (SCHEMA.to_owned(), schema + "\n")])
}
