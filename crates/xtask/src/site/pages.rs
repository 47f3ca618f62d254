//! Pages of the docs site: the repository's documents, what they link to, and a page for each error code. A page has the path of
//! its source, so that relative links hold.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};

use crate::{errors, shell};

/// The page whose tables list every page of the four kinds. Its order is that of the sidebar.
const INDEX: &str = "docs/README.md";
/// The page below which those of the error codes are.
const ERRORS: &str = "docs/reference/errors.md";
/// The page below which those of other files are.
const FILES: &str = "files.md";
const FILES_PAGE: &str =
    "# Files\n\nSources, tests and samples to which other pages link, as they are in the repository.\n";
/// The folders of the four kinds.
const KINDS: [&str; 4] = ["docs/tutorials/", "docs/guides/", "docs/reference/", "docs/explanation/"];

/// The parts of the sidebar with the paths of their pages. The first part that matches has the page.
const PARTS: [(&str, &[&str]); 11] = [
    ("Tutorials", &["docs/tutorials/"]),
    ("Guides", &["docs/guides/"]),
    ("Reference", &["docs/reference/"]),
    ("Explanation", &["docs/explanation/"]),
    ("Assurance", &["docs/assurance/"]),
    ("Specifications", &["spec/"]),
    ("API documents", &["api/"]),
    ("SDKs", &["sdk/", "crates/client/", "crates/tower/"]),
    ("Project", &["SECURITY", "CHANGELOG", "CONTRIBUTING", "ARCHITECTURE", "LICENSE", "apps/", "bench/"]),
    ("Decisions", &["docs/adr/"]),
    ("Files", &[FILES, ""]),
];

/// A page of the site.
pub(super) struct Page {
    title: String,
    text: String,
}

/// All pages, by the paths of their sources or of the folders that they list.
pub(super) struct Pages {
    pages: BTreeMap<String, Page>,
    /// Files that the site has as they are.
    pub(super) pictures: BTreeSet<String>,
}

/// Collects the documents and, from link to link, all files and folders that they name. `generated` are pages without a source.
///
/// # Errors
/// If a document has no title, or cannot be read.
pub(super) fn collect(listed: &BTreeSet<String>, generated: BTreeMap<String, String>) -> anyhow::Result<Pages> {
    let is_document = |path: &&String| {
        let path = path.as_str();
        path.ends_with(".md") && (path.starts_with("docs/") || path.starts_with("spec/") || !path.contains('/'))
    };
    let mut generated = errors::site()?.into_iter().chain(generated).collect::<BTreeMap<_, _>>();
    generated.insert(FILES.to_owned(), FILES_PAGE.to_owned());
    let mut queue: Vec<String> = generated.keys().chain(listed.iter().filter(is_document)).cloned().collect();
    let mut all = Pages { pages: BTreeMap::new(), pictures: BTreeSet::new() };
    while let Some(path) = queue.pop() {
        if all.pages.contains_key(&path) || all.pictures.contains(&path) {
            continue;
        }
        if [".svg", ".png"].iter().any(|ending| path.ends_with(ending)) {
            all.pictures.insert(path);
            continue;
        }
        let own = generated.remove(&path);
        let text = match (own, listed.contains(&path)) {
            (Some(text), _) => text,
            (None, false) => listing(&path, listed),
            (None, true) => {
                let text = std::fs::read_to_string(shell::root().join(&path))
                    .with_context(|| format!("cannot read {path}"))?;
                if path.ends_with(".md") { text } else { code(&path, &text) }
            }
        };
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("{path} has no heading of level 1: the sidebar needs a title"))?;
        let text = with_links(&text, |target| {
            let (target, anchor) =
                target.split_once('#').map_or((target, None), |(target, anchor)| (target, Some(anchor)));
            let found = resolve(&path, target, listed)?;
            let linked = match anchor {
                Some(anchor) => format!("{}#{anchor}", linked(target, &found)),
                None => linked(target, &found),
            };
            queue.push(found);
            Some(linked)
        });
        all.pages.insert(path, Page { title: title.replace('`', ""), text });
    }
    Ok(all)
}

/// Returns the file or folder of the repository to which a page links; a folder as the page that stands for it.
fn resolve(page: &str, target: &str, listed: &BTreeSet<String>) -> Option<String> {
    if target.is_empty() || target.contains(':') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !["", "."].contains(part)) {
        match part {
            ".." => parts.pop().map(drop)?,
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let readme = format!("{path}/README.md");
    let folder = format!("{path}/");
    match listed.range(folder.clone()..).next() {
        _ if listed.contains(&path) => Some(path),
        _ if listed.contains(&readme) => Some(readme),
        Some(first) if first.starts_with(&folder) => Some(folder),
        _ => None,
    }
}

/// Returns the target of a link as the book has it, from its form in the repository.
fn linked(target: &str, found: &str) -> String {
    let is_folder = found.ends_with('/') || found.ends_with("README.md") && !target.ends_with("README.md");
    if is_folder { format!("{}/index.md", target.trim_end_matches('/')) } else { in_book(target) }
}

/// Returns the path of a page in the book. mdBook makes `x.html` of `x.md`, and needs `index.md` for the page of a folder.
fn in_book(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None if path.ends_with('/') => format!("{path}index.md"),
        None if [".md", ".svg", ".png"].iter().any(|ending| path.ends_with(ending)) => path.to_owned(),
        None => format!("{path}.md"),
    }
}

/// Replaces the targets of links outside of fenced code by what `replace` returns for them.
fn with_links(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut replaced = String::new();
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        fenced ^= line.trim_start().starts_with("```");
        // `[text](target)` or, at the end of a page, `[text]: target`.
        let (mark, end) = if line.starts_with('[') && line.contains("]: ") { ("]: ", '\n') } else { ("](", ')') };
        let mut rest = line;
        while let Some((before, after)) = rest.split_once(mark).filter(|_| !fenced) {
            let (target, behind) = after.split_at(after.find(end).unwrap_or(0));
            replaced.extend([before, mark, &replace(target).unwrap_or_else(|| target.to_owned())]);
            rest = behind;
        }
        replaced.push_str(rest);
    }
    replaced
}

/// Returns the page of a folder: its documents as links, its other files by their names.
fn listing(folder: &str, listed: &BTreeSet<String>) -> String {
    let mut text = format!("# `{folder}`\n\n");
    for file in listed.range(folder.to_owned()..).map_while(|file| file.strip_prefix(folder)) {
        text += &if file.ends_with(".md") { format!("* [{file}]({file})\n") } else { format!("* `{file}`\n") };
    }
    text
}

/// Returns the page of a file that is not a document.
fn code(path: &str, text: &str) -> String {
    let language = match path.rsplit_once('.') {
        Some((_, "rs")) => "rust",
        Some((_, "mjs")) => "js",
        Some((_, other)) => other,
        None => "text",
    };
    format!("# `{path}`\n\n~~~~{language}\n{}\n~~~~\n", text.trim_end())
}

impl Pages {
    /// Returns each page with its path in the book.
    pub(super) fn in_book(&self) -> impl Iterator<Item = (String, &str)> {
        self.pages.iter().map(|(path, page)| (in_book(path), page.text.as_str()))
    }

    /// Returns the settings by which the search leaves out the pages of files.
    pub(super) fn not_searched(&self) -> String {
        let files = self.pages.keys().filter(|path| !path.ends_with(".md"));
        let settings = files.map(|path| format!("\"{}\" = {{ enable = false }}\n", in_book(path)));
        format!("\n[output.html.search.chapter]\n{}", settings.collect::<String>())
    }

    /// Returns the number of pages.
    pub(super) fn count(&self) -> usize {
        self.pages.len()
    }

    /// Returns mdBook's table of contents: every page, in its part of the sidebar.
    ///
    /// # Errors
    /// If a page of the four kinds is missing from the tables of docs/README.md.
    pub(super) fn summary(&self, listed: &BTreeSet<String>) -> anyhow::Result<String> {
        let [index, readme] = [INDEX, "README.md"].map(|page| std::fs::read_to_string(shell::root().join(page)));
        let (index, readme) = (index.context(INDEX)?, readme.context("README.md")?);
        let mut order = Vec::new();
        for (page, text) in [(INDEX, &index), ("README.md", &readme)] {
            with_links(text, |target| {
                order.extend(resolve(page, target.split('#').next()?, listed));
                None
            });
        }
        let place = |path: &str| order.iter().position(|linked| linked == path).unwrap_or(order.len());
        let lost =
            self.pages.keys().filter(|path| KINDS.iter().any(|kind| path.starts_with(kind)) && path.ends_with(".md"));
        let lost: Vec<_> = lost.filter(|path| place(path) == order.len()).map(String::as_str).collect();
        ensure!(lost.is_empty(), "{INDEX} has no link to {}: add a row to its table of that kind", lost.join(", "));

        let mut parts: [Vec<&String>; PARTS.len()] = Default::default();
        let mut codes = String::new();
        for (path, page) in &self.pages {
            if path.starts_with("errors/") {
                codes += &format!("  - [{}]({path})\n", page.title);
            } else if path != "README.md" && path != INDEX {
                let part = PARTS.iter().position(|(_, starts)| starts.iter().any(|start| path.starts_with(start)));
                parts[part.context("a page without a part")?].push(path);
            }
        }
        let mut summary = "# Summary\n\n[Sealway](index.md)\n[All pages](docs/index.md)\n".to_owned();
        for ((title, _), mut paths) in PARTS.iter().zip(parts) {
            if paths.is_empty() {
                continue;
            }
            summary += &format!("\n# {title}\n\n");
            paths.sort_by_key(|path| (*path != FILES, place(path), !path.ends_with(".md"), path.as_str()));
            for path in &paths {
                summary += if paths[0] == FILES && *path != FILES { "  " } else { "" };
                summary += &format!("- [{}]({})\n", self.pages[*path].title, in_book(path));
                summary += if *path == ERRORS { &codes } else { "" };
            }
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> BTreeSet<String> {
        ["README.md", "docs/a.md", "docs/b.md", "spec/c.toml", "spec/d.md", "vectors/README.md"]
            .map(str::to_owned)
            .into()
    }

    fn link(target: &str) -> Option<String> {
        let found = resolve("docs/a.md", target, &listed())?;
        Some(linked(target, &found))
    }

    #[test]
    fn links_into_the_repository_become_links_of_the_book() {
        let links = [
            ("b.md", "b.md"),
            ("../README.md", "../index.md"),
            ("../spec/c.toml", "../spec/c.toml.md"),
            ("../spec/", "../spec/index.md"),
            ("../spec", "../spec/index.md"),
            ("../vectors", "../vectors/index.md"),
        ];
        for (target, expected) in links {
            assert_eq!(link(target).as_deref(), Some(expected), "{target}");
        }
        for target in ["https://example.com/", "", "../none.md", "../../README.md"] {
            assert_eq!(link(target), None, "{target}");
        }
    }

    #[test]
    fn links_in_fenced_code_stay() {
        let text = "a [b](c) and [d](e)\n```\n[b](c)\n```\n[b](c)\n[b]: c\n";
        let replaced = with_links(text, |target| (target == "c").then(|| "x".to_owned()));
        assert_eq!(replaced, "a [b](x) and [d](e)\n```\n[b](c)\n```\n[b](x)\n[b]: x\n");
    }

    #[test]
    fn a_page_that_the_index_does_not_link_is_named() {
        let mut pages = Pages { pages: BTreeMap::new(), pictures: BTreeSet::new() };
        let page = || Page { title: "Title".to_owned(), text: String::new() };
        pages.pages.insert("spec/session.md".to_owned(), page());
        assert!(pages.summary(&listed()).unwrap().contains("# Specifications\n\n- [Title](spec/session.md)\n"));
        pages.pages.insert("docs/guides/lost.md".to_owned(), page());
        let error = pages.summary(&listed()).unwrap_err().to_string();
        assert!(error.starts_with("docs/README.md has no link to docs/guides/lost.md"), "{error}");
    }
}
