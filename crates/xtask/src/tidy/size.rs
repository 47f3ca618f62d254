//! No file is longer than the bound. The rule is a ratchet: a listed file over the bound may not grow, and the list only
//! shrinks.

use std::collections::BTreeMap;

use super::Finding;
use super::files::Source;

const LINES_MAX: usize = 500;

/// Checks the sources. `list` has a line for each known long file: path, space, lines.
pub(super) fn check(sources: &[Source], list: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut giants = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.rsplit_once(' ').and_then(|(path, lines)| Some((path, lines.parse::<usize>().ok()?))) {
            Some((path, lines)) => {
                giants.insert(path, lines);
            }
            None => findings.push(Finding::new("giants.txt", format!("`{line}` is not a path, a space and a number"))),
        }
    }
    // Files that `cargo xtask codegen` writes are neither read nor split by people.
    let is_written = |source: &&Source| !source.text.starts_with("// @generated ");
    for source in sources.iter().filter(|source| ["rs", "py"].contains(&source.extension())).filter(is_written) {
        let lines = source.text.lines().count();
        let known = giants.remove(source.path.as_str());
        if lines > known.unwrap_or(LINES_MAX) {
            let message = format!(
                "has {lines} lines, of at most {}. Split it by state, by table or by job, a file each; 100 to 300 lines read well",
                known.unwrap_or(LINES_MAX)
            );
            findings.push(Finding::new(&source.path, message));
        } else if known.is_some_and(|known| lines < known) {
            let message = if lines > LINES_MAX {
                format!("has shrunk to {lines} lines: write that into giants.txt, so that it stays so")
            } else {
                format!("has shrunk to {lines} lines: take it off giants.txt")
            };
            findings.push(Finding::new(&source.path, message));
        }
    }
    findings.extend(giants.into_keys().map(|path| Finding::new(path, "is gone: take it off giants.txt")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_lines(path: &str, lines: usize, list: &str) -> Vec<String> {
        let sources = [Source::sample(path, &"x\n".repeat(lines))];
        check(&sources, list).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_file_at_the_bound_passes_and_one_line_more_is_found() {
        assert_eq!(with_lines("a.rs", 500, ""), [""; 0]);
        assert!(with_lines("a.rs", 501, "")[0].starts_with("has 501 lines, of at most 500"));
        assert!(with_lines("a.py", 501, "")[0].starts_with("has 501 lines"));
        assert_eq!(with_lines("a.json", 501, ""), [""; 0]);
    }

    #[test]
    fn generated_files_may_be_long() {
        let text = format!("// @generated from a.proto\n{}", "x\n".repeat(600));
        assert_eq!(check(&[Source::sample("a.rs", &text)], ""), []);
    }

    #[test]
    fn a_known_giant_may_stay_but_not_grow() {
        assert_eq!(with_lines("a.rs", 600, "# giants\na.rs 600\n"), [""; 0]);
        assert!(with_lines("a.rs", 601, "a.rs 600\n")[0].starts_with("has 601 lines, of at most 600"));
    }

    #[test]
    fn the_list_of_giants_only_shrinks() {
        assert!(with_lines("a.rs", 599, "a.rs 600\n")[0].contains("write that into giants.txt"));
        assert!(with_lines("a.rs", 400, "a.rs 600\n")[0].contains("take it off giants.txt"));
        assert_eq!(with_lines("a.rs", 1, "b.rs 600\n"), ["is gone: take it off giants.txt"]);
        assert!(with_lines("a.rs", 1, "b.rs\n")[0].contains("is not a path"));
    }
}
