//! The tables of the reference. One stands between `<!-- settings of PATH -->` and `<!-- end -->`. A section within a section
//! has its rows in the same table, unless it has a table of its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Kind, Section, Setting};

const BEGIN: &str = "<!-- settings of ";
const BEGIN_ENDS: &str = " -->";
const END: &str = "<!-- end -->";

/// Generates the tables of the page anew.
pub(super) fn fill(root: &Section, page: &str) -> anyhow::Result<String> {
    let paths = page.lines().filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(BEGIN_ENDS));
    let sections = paths.map(|path| find(root, path)).collect::<anyhow::Result<Vec<_>>>()?;
    let with_table: BTreeSet<&str> = sections.iter().map(|section| section.id.as_str()).collect();
    for setting in &root.settings {
        let has_table = setting.kind.section().is_none_or(|section| with_table.contains(section.id.as_str()));
        ensure!(has_table, "expected a line `{BEGIN}{}{BEGIN_ENDS}`", setting.key);
    }
    let mut filled = String::new();
    let mut rest = page;
    for section in sections {
        let begin = rest.find(BEGIN).context("a table's begin")?;
        let begin_ends = begin + rest[begin..].find('\n').context("a table's begin without a line's end")?;
        let end = begin_ends + rest[begin_ends..].find(END).context("a table without its end")?;
        filled.push_str(&rest[..begin_ends]);
        filled.push_str("\n\n| key | type and bounds | default | meaning |\n| --- | --- | --- | --- |\n");
        rows(section, "", &with_table, &mut filled)?;
        filled.push('\n');
        rest = &rest[end..];
    }
    filled.push_str(rest);
    Ok(filled)
}

fn find<'a>(root: &'a Section, path: &str) -> anyhow::Result<&'a Section> {
    let mut section = root;
    for key in path.split('.') {
        let setting = section.settings.iter().find(|setting| setting.key == key);
        section = setting.and_then(|it| it.kind.section()).with_context(|| format!("there is no section {path}"))?;
    }
    Ok(section)
}

fn rows(section: &Section, prefix: &str, with_table: &BTreeSet<&str>, to: &mut String) -> anyhow::Result<()> {
    for setting in &section.settings {
        let key = format!("{prefix}{}", setting.key);
        let cells = [type_of(setting) + &bounds(&setting.kind), default_of(setting), setting.meaning.clone()];
        // Writing to a String cannot fail.
        let _ = writeln!(to, "| `{key}` | {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        if let Some(inner) = setting.kind.section().filter(|inner| !with_table.contains(inner.id.as_str())) {
            ensure!(matches!(setting.kind, Kind::Section(_)), "{key}: a list of sections needs a table of its own");
            rows(inner, &format!("{key}."), with_table, to)?;
        }
    }
    Ok(())
}

fn type_of(setting: &Setting) -> String {
    if let Some(text) = &setting.shown_type {
        return text.clone();
    }
    let text = match &setting.kind {
        Kind::Flag => "true, false",
        Kind::Number { .. } => unit(&setting.key),
        Kind::Text => "text",
        Kind::Path => "path",
        Kind::Words(words) => {
            return words.iter().map(|word| format!("`{}`", quoted(word))).collect::<Vec<_>>().join(", ");
        }
        Kind::TextOrList => "text or list",
        Kind::List(_) => "list",
        Kind::ByName(_) => "sections by name",
        Kind::Section(_) => "section",
    };
    text.to_owned()
}

/// Returns the word for YAML: one that would be a number needs quotes, and a list has spaces.
fn quoted(word: &str) -> String {
    if word.parse::<f64>().is_ok() { format!("\"{word}\"") } else { word.replace(',', ", ") }
}

/// Returns the unit of a number, which its name ends with.
fn unit(key: &str) -> &'static str {
    match key.rsplit('_').next() {
        Some("ms") => "ms",
        Some("us") => "µs",
        Some("sec") => "s",
        _ if key.contains("bytes") || key.ends_with("body_max") => "bytes",
        _ => "number",
    }
}

fn default_of(setting: &Setting) -> String {
    match (&setting.shown_default, &setting.default, &setting.kind) {
        (Some(text), ..) => text.clone(),
        (None, Some(Value::String(word)), _) => format!("`{}`", quoted(word)),
        (None, Some(value), _) => value.to_string(),
        (None, None, _) if setting.is_required => "required".to_owned(),
        (None, None, Kind::Section(section)) if section.settings.iter().all(|it| !it.is_required) => "–".to_owned(),
        (None, None, _) => "none".to_owned(),
    }
}

fn bounds(kind: &Kind) -> String {
    match kind {
        Kind::Number { min: 0, max } if [u32::MAX.into(), u64::MAX].contains(max) => String::new(),
        Kind::Number { min, max: u64::MAX } => format!(", at least {min}"),
        Kind::Number { min, max } => format!(", {min} to {max}"),
        _ => String::new(),
    }
}
