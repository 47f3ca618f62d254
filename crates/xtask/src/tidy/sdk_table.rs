//! A cell of docs/reference/sdks.md promises a test: `[FILE]`, a link, followed by prefixes and parts of names in code spans,
//! with `…` for omitted parts. The file must exist, and contain a line with each.

use std::collections::BTreeMap;

use super::Finding;
use super::files::Source;

const PAGE: &str = "docs/reference/sdks.md";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else { return Vec::new() };
    let files: BTreeMap<&str, &Source> = sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let links: BTreeMap<&str, &str> = page.lines().filter_map(|(_, line)| link(line)).collect();
    let mut findings = Vec::new();
    for (line, text) in page.lines() {
        if let Some((name, path)) = link(text)
            && !is_there(&files, path)
        {
            findings.push(Finding::at(page, line, format!("[{name}] leads to {path}, which is not there")));
        }
        for (name, promised) in promises(text).filter(|_| text.starts_with('|')) {
            let message = match links.get(name).map(|path| (*path, files.get(path))) {
                Some((_, Some(file))) if file.text.lines().any(|line| has(line, promised)) => continue,
                Some((path, _)) => format!(
                    "promises `{promised}` in {path}, which has no such line. If it was renamed, rename it here"
                ),
                None => format!("[{name}] has no link at the end of the page"),
            };
            findings.push(Finding::at(page, line, message));
        }
    }
    findings
}

/// Parses a link definition, `[NAME]: ../../PATH`.
fn link(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ../../")
}

fn is_there(files: &BTreeMap<&str, &Source>, path: &str) -> bool {
    // Or a folder.
    files.range(path..).next().is_some_and(|(next, _)| *next == path || next.starts_with(&format!("{path}/")))
}

/// Iterates over the code spans that follow a `[FILE]` of a line, with nothing but commas and spaces between.
fn promises(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('[').skip(1).flat_map(|part| {
        let (name, mut rest) = part.split_once(']').unwrap_or((part, ""));
        std::iter::from_fn(move || {
            let (span, after) = rest.trim_start_matches([',', ' ']).strip_prefix('`')?.split_once('`')?;
            rest = after;
            Some((name, span))
        })
    })
}

/// Returns whether a line contains the parts of a name in their order.
fn has(line: &str, name: &str) -> bool {
    let mut rest = Some(line);
    for part in name.split('…') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(row: &str) -> Vec<String> {
        let text = format!("{row}\n\n[a.test.ts]: ../../sdk/a.test.ts\n[folder]: ../../sdk/folder\n");
        let sources = [
            Source::sample(PAGE, &text),
            Source::sample("sdk/a.test.ts", "it(\"seals a body piece by piece, both ways\", () => {});"),
            Source::sample("sdk/folder/b.go", "package b"),
        ];
        check(&sources).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn existing_references_pass() {
        for row in [
            "| x | [a.test.ts] `seals…ways`, `…piece by…` | `code` |",
            "| [folder] |",
            "[b] `in prose` is none",
            "| x |",
        ] {
            assert_eq!(page(row), Vec::<String>::new(), "{row}");
        }
    }

    #[test]
    fn missing_references_are_found() {
        for (row, said) in [
            ("| [a.test.ts] `seals…`, `ways…seals` |", "promises `ways…seals` in sdk/a.test.ts"),
            ("| [a.test.ts], [b.test.ts] `seals…` |", "[b.test.ts] has no link"),
            ("[gone]: ../../sdk/fold", "[gone] leads to sdk/fold"),
        ] {
            let findings = page(row);
            assert!(findings.len() == 1 && findings[0].contains(said), "{row}: {findings:?}");
        }
    }
}
