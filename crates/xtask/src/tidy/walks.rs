//! Checks that the files that ARCHITECTURE.md names, by their path from the repository's root, exist; and that a walk, the table
//! of the files that one request touches, stays within its maximum.

use std::collections::BTreeSet;

use super::Finding;
use super::files::Source;

const PAGE: &str = "ARCHITECTURE.md";
/// The sections whose tables are walks, and the most files that each may name.
const WALKS: &[(&str, usize)] = &[("## The life of a request on wire 3", 25), ("## The life of a broker's hash", 12)];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else {
        return vec![Finding::new(PAGE, "is not there: it says how the code is laid out")];
    };
    let mut findings = Vec::new();
    let missing = page.lines().flat_map(|(line, text)| files(text).map(move |file| (line, file)));
    for (line, file) in missing.filter(|(_, file)| !sources.iter().any(|source| source.path == *file)) {
        let message = format!("names {file}, which does not exist: name the file of today");
        findings.push(Finding::at(page, line, message));
    }
    findings.extend(WALKS.iter().filter_map(|(heading, max)| walk(page, heading, *max)));
    findings
}

/// Counts the files in the tables of a section.
fn walk(page: &Source, heading: &str, max: usize) -> Option<Finding> {
    let mut section = page.lines().skip_while(|(_, text)| *text != heading);
    let Some((line, _)) = section.next() else {
        return Some(Finding::new(PAGE, format!("has no section \"{heading}\"")));
    };
    let section = section.take_while(|(_, text)| !text.starts_with("## "));
    let walked: BTreeSet<_> =
        section.filter(|(_, text)| text.starts_with('|')).flat_map(|(_, text)| files(text)).collect();
    let message = match walked.len() {
        0 => "has no table of files".to_owned(),
        count if count > max => format!("lists {count} files, of at most {max}: merge what only forwards"),
        _ => return None,
    };
    Some(Finding::at(page, line, message))
}

fn files(text: &str) -> impl Iterator<Item = &str> {
    // Every second part stands between two backticks.
    let named = text.split('`').skip(1).step_by(2);
    named.filter(|name| name.starts_with("crates/") && name.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page with both walks, the second of `count` files, and the files that it names.
    fn sources(text: &str, count: usize) -> Vec<Source> {
        let names: Vec<_> = (0..count).map(|number| format!("crates/a/src/f{number}.rs")).collect();
        let rows: Vec<_> = names.iter().map(|name| format!("| step | `{name}`, `{name}` |\n")).collect();
        let [(one, _), (two, _)] = WALKS else { panic!("two walks") };
        let page = format!("{text}{one}\n\n| step | `crates/a/src/b.rs` |\n\n{two}\n\n{}\n## Next\n", rows.concat());
        let there = names.iter().map(String::as_str).chain(["crates/a/src/b.rs"]);
        there.map(|name| Source::sample(name, "")).chain([Source::sample(PAGE, &page)]).collect()
    }

    #[test]
    fn a_file_that_is_named_and_missing_is_found() {
        let found = check(&sources("see `crates/a/src/b.rs`\nand `crates/a/src/c.rs`, `crates/a`\n", 1));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "ARCHITECTURE.md:2");
        assert_eq!(check(&[]).len(), 1, "without the page nothing is checked");
    }

    #[test]
    fn a_walk_has_no_more_files_than_it_may_and_is_not_left_out() {
        assert_eq!(check(&sources("", 12)), []);
        let found = check(&sources("", 13));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("lists 13 files, of at most 12"), "{}", found[0]);
        assert!(check(&sources("", 0))[0].message.contains("no table"));
        assert_eq!(check(&[Source::sample(PAGE, "# Empty\n")]).len(), WALKS.len());
    }
}
