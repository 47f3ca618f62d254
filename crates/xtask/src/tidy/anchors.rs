//! A mark with a page and an anchor beside code must point at a heading of spec/, so that the code of a changed rule can be
//! found.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::files::Source;

/// Concatenated so that this file does not contain the mark.
const MARK: &str = concat!("SP", "EC ");

/// Extensions of files whose marks are checked. Prose may show what one looks like.
const CODE: &[&str] = &["rs", "py", "ts", "tsx", "js", "go", "java", "sh", "toml", "yaml", "yml", "proto"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let spec: BTreeMap<&str, BTreeSet<String>> = sources
        .iter()
        .filter_map(|source| Some((source.path.strip_prefix("spec/")?, source)))
        .map(|(name, source)| (name, slugs(&source.text)))
        .collect();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| CODE.contains(&source.extension())) {
        for (line, text) in source.lines() {
            for (file, anchor) in references(text) {
                let Some(slugs) = spec.get(file) else {
                    findings.push(Finding::at(source, line, format!("points at spec/{file}, which does not exist")));
                    continue;
                };
                if !slugs.contains(anchor) {
                    let message = format!(
                        "points at spec/{file}#{anchor}, but no heading there has that anchor. If the heading was renamed, \
                         rename it here; if the rule is gone, so is the reason for this code"
                    );
                    findings.push(Finding::at(source, line, message));
                }
            }
        }
    }
    findings
}

/// Iterates over the files and anchors of a line's marks.
fn references(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices(MARK).filter_map(|(at, _)| {
        let (file, rest) = line[at + MARK.len()..].split_once('#')?;
        let is_name = |c: char| c.is_alphanumeric() || "-_./".contains(c);
        if !file.ends_with(".md") || !file.chars().all(is_name) {
            return None;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').unwrap_or(rest.len());
        Some((file, &rest[..end]))
    })
}

/// Returns the anchors of a page as GitHub derives them from its headings.
pub(super) fn slugs(page: &str) -> BTreeSet<String> {
    let mut slugs = BTreeSet::new();
    let mut in_fence = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        if in_fence || !(1..=6).contains(&level) || !text.starts_with(' ') {
            continue;
        }
        let slug: String = text
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let again = (1..).map(|n| format!("{slug}-{n}")).find(|again| !slugs.contains(again));
        if slugs.contains(&slug) {
            slugs.extend(again);
        } else {
            slugs.insert(slug);
        }
    }
    slugs
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Sessions\n\n## 5.2 Nonce lifetime\n\n## The `init` (both)\n### Keys\n### Keys\n```\n# not-a-heading\n```\n";

    fn code(reference: &str) -> Vec<Finding> {
        let text = format!("// {MARK}{reference}\nfn open() {{}}\n");
        check(&[Source::sample("spec/session.md", PAGE), Source::sample("crates/proto/src/a.rs", &text)])
    }

    #[test]
    fn a_mark_that_points_at_a_heading_passes() {
        for anchor in ["sessions", "52-nonce-lifetime", "the-init-both", "keys", "keys-1"] {
            assert_eq!(code(&format!("session.md#{anchor}")), [], "{anchor}");
            assert_eq!(code(&format!("session.md#{anchor}: and why")), [], "{anchor}");
        }
    }

    #[test]
    fn a_mark_that_points_at_no_heading_is_found() {
        for anchor in ["open", "not-a-heading", "keys-2", ""] {
            let findings = code(&format!("session.md#{anchor}"));
            assert_eq!(findings.len(), 1, "{anchor}");
            assert_eq!(findings[0].place, "crates/proto/src/a.rs:1");
        }
    }

    #[test]
    fn a_mark_that_points_at_no_page_is_found() {
        assert!(code("sessoin.md#keys")[0].message.contains("which does not exist"));
    }

    #[test]
    fn the_second_mark_of_a_line_counts_too() {
        assert_eq!(code(&format!("session.md#keys, {MARK}session.md#gone")).len(), 1);
    }
}
