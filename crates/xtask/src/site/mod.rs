//! `cargo xtask site`: the docs site, by mdBook, in target/site; then a check of it in a browser. Nothing of it is committed.

mod api;
mod pages;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::shell;

/// Builds the site and checks it. `full` also installs what that needs, builds the API documents of the SDKs, and checks every page
/// for accessibility.
///
/// # Errors
/// If a page has no place in the sidebar, mdBook warns, or a check fails.
pub(crate) fn run(full: bool) -> anyhow::Result<()> {
    if full {
        shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    }
    let book = shell::root().join("target/site-book");
    let site = shell::root().join("target/site");
    for folder in [&book, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    shell::run(shell::command(shell::venv_required("python")?).args(["scripts/diagrams.py", "--check"]))?;
    let generated = if full { api::pages()? } else { BTreeMap::new() };
    let listed = shell::tracked_files()?;
    let pages = pages::collect(&listed, generated)?;
    for (path, text) in pages.in_book().chain([("SUMMARY.md".to_owned(), pages.summary(&listed)?.as_str())]) {
        write(&book.join("src").join(path), text.as_bytes())?;
    }
    for path in &pages.pictures {
        write(&book.join("src").join(path), &fs::read(shell::root().join(path)).with_context(|| path.clone())?)?;
    }
    for (file, more) in [("book.toml", pages.not_searched()), ("site.css", String::new()), ("site.js", String::new())] {
        let path = shell::root().join("docs/site").join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        write(&book.join(file), (text + &more).as_bytes())?;
    }
    build(&book, &site)?;
    if full {
        api::build(&site.join("api"))?;
    }
    println!("site: {} pages in target/site", pages.count());

    let check = serde_json::json!({ "folder": site, "all": full });
    let folder = shell::root().join("tests/dashboard");
    let packages = folder.join("node_modules/axe-core");
    ensure!(packages.is_dir(), "the packages of tests/dashboard are missing: run scripts/setup-tests.sh");
    shell::run(shell::command("node").arg("site.mjs").arg(check.to_string()).current_dir(folder))
}

/// Runs mdBook. It exits with 0 after warnings, such as of unbalanced HTML; here they fail.
fn build(book: &Path, site: &Path) -> anyhow::Result<()> {
    let mut mdbook = shell::command(shell::venv_required("mdbook")?);
    let output = mdbook.arg("build").arg("--dest-dir").arg(site).arg(book).output().context("mdbook does not start")?;
    let log = String::from_utf8_lossy(&output.stderr);
    let clean = output.status.success() && !log.lines().any(|line| line.trim_start().starts_with("WARN"));
    ensure!(clean, "mdbook found mistakes in the pages:\n{log}");
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().context("a path without a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
