//! The files that ARCHITECTURE.md names, from the repository's root, exist.

use super::Finding;
use super::files::Source;

const PAGE: &str = "ARCHITECTURE.md";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else {
        return vec![Finding::new(PAGE, "is not there: it says how the code is laid out")];
    };
    let mut findings = Vec::new();
    for (line, text) in page.lines() {
        // Every second part stands between two backticks.
        let named = text.split('`').skip(1).step_by(2);
        for file in named.filter(|name| name.starts_with("crates/") && name.ends_with(".rs")) {
            if !sources.iter().any(|source| source.path == file) {
                findings.push(Finding::at(
                    page,
                    line,
                    format!("names {file}, which does not exist: name the file of today"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_and_missing_is_found() {
        let there = Source::sample("crates/a/src/b.rs", "");
        let page = |text: &str| Source::sample(PAGE, text);
        let found = check(&[page("see `crates/a/src/b.rs`\nand `crates/a/src/c.rs`, `crates/a`\n"), there]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "ARCHITECTURE.md:2");
        assert_eq!(check(&[]).len(), 1, "without the page nothing is checked");
    }
}
