//! Terms of the packages that are linked into a binary: their licences ask to go with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};

use super::binary::Binary;

/// Starts of the names of files with terms.
const NAMES: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];
/// Depth to which a package is searched: libraries in C lie below the crates that bind them.
const DEPTH_MAX: usize = 3;

/// Writes each text once, below the packages that have it.
pub(super) fn write(built: &Binary, to: &Path) -> anyhow::Result<()> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut bare = Vec::new();
    for package in built.linked.values().filter(|package| !package["source"].is_null()) {
        let field = |name: &str| package[name].as_str().unwrap_or_default();
        let title = format!("{} {} ({})", field("name"), field("version"), field("license"));
        let folder = Path::new(field("manifest_path")).parent().context("a manifest without a folder")?;
        let mut found = Vec::new();
        search(folder, 0, &mut found)?;
        if found.is_empty() {
            bare.push(title.clone());
        }
        for text in found {
            let titles = texts.entry(text).or_default();
            if !titles.contains(&title) {
                titles.push(title.clone());
            }
        }
    }
    ensure!(!texts.is_empty(), "no package has terms");
    let mut texts: Vec<_> = texts.into_iter().map(|(text, titles)| (titles, text)).collect();
    texts.sort();
    let mut page = String::from("Packages linked into sealway, with their terms.\n");
    for (titles, text) in texts {
        let _ = write!(page, "\n{}\n{}\n\n{}\n", "=".repeat(80), titles.join("\n"), text.trim());
    }
    if !bare.is_empty() {
        let _ = write!(
            page,
            "\n{}\nWithout a text of their own, by the terms that they name:\n{}\n",
            "=".repeat(80),
            bare.join("\n")
        );
    }
    std::fs::write(to, page)?;
    Ok(())
}

/// Collects the texts with terms below a folder.
fn search(folder: &Path, depth: usize, found: &mut Vec<String>) -> anyhow::Result<()> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_dir() && depth < DEPTH_MAX {
            search(&path, depth + 1, found)?;
        } else if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) && !name.ends_with(".rs") {
            found.extend(std::fs::read_to_string(&path));
        }
    }
    Ok(())
}
