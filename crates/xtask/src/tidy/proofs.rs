//! A table in docs/reference/failures.md or docs/reference/broker.md that names a test as `FILE::TEST` promises that it proves
//! the row: the test must exist. A file of the end-to-end tests has its folders before it, as nextest prints it:
//! `stores::restart::TEST`.
//!
//! The tables of SECURITY.md are the threat model as data: a row is a threat, and its last column names the tests that hold it, in the form
//! of their language. Those tests must exist too. A row without one has to say so by a dash.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::files::Source;

const PAGES: [&str; 2] = ["docs/reference/failures.md", "docs/reference/broker.md"];

/// The page whose tables are the threat model.
const THREATS: &str = "SECURITY.md";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let tests = tests(sources);
    let mut findings: Vec<Finding> = threats(sources).into_iter().flat_map(|threat| threat.findings).collect();
    let is_page = |source: &&Source| PAGES.contains(&source.path.as_str());
    for source in sources.iter().filter(is_page) {
        for (line, text) in source.lines().filter(|(_, text)| text.starts_with('|')) {
            for (file, test) in references(text) {
                let message = match tests.get(file) {
                    Some(tests) if tests.contains(test) => continue,
                    Some(_) => format!(
                        "names {file}::{test}, but {file}.rs has no such test. If it was renamed, rename it here; if it \
                         is gone, so is the proof of this row"
                    ),
                    None => format!(
                        "names {file}::{test}, but there is no {}.rs in tests/, fips/tests/ or crates/*/tests/. Name the test \
                         that proves this row",
                        file.replace("::", "/")
                    ),
                };
                findings.push(Finding::at(source, line, message));
            }
        }
    }
    findings
}

/// A row of a table of the threat model.
#[derive(Debug)]
pub(super) struct Threat {
    /// The heading and the first cell.
    pub(super) name: String,
    /// The row names a test, by itself or by "the same" as the row before.
    pub(super) has_test: bool,
    findings: Vec<Finding>,
}

/// Returns the rows of all tables of the threat model whose last column is of tests.
pub(super) fn threats(sources: &[Source]) -> Vec<Threat> {
    let Some(page) = sources.iter().find(|source| source.path == THREATS) else { return Vec::new() };
    let known = named_tests(sources);
    let mut threats: Vec<Threat> = Vec::new();
    let (mut heading, mut is_of_tests, mut is_first) = ("", false, true);
    for (line, text) in page.lines() {
        if let Some(title) = text.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim();
        }
        if !text.starts_with('|') {
            is_first = true;
            continue;
        }
        let cells: Vec<&str> = text.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(name), Some(cell)) = (cells.first(), cells.last()) else { continue };
        if is_first {
            is_of_tests = cell.starts_with("test");
            is_first = false;
            continue;
        }
        if !is_of_tests || text.chars().all(|c| "|-: ".contains(c)) {
            continue;
        }
        let (mut has_test, mut findings) = (false, Vec::new());
        for (file, test) in spans(text).filter_map(of_a_test) {
            if known.get(test).is_some_and(|paths| paths.iter().any(|path| is_in(path, file))) {
                has_test = true;
            } else {
                let message = format!(
                    "names the test {file}{}{test}, and there is none. Name the test that holds this threat",
                    if file.is_empty() { "" } else { "::" }
                );
                findings.push(Finding::at(page, line, message));
            }
        }
        // Vectors, and tests of languages whose names are sentences, stand in quotes or as files.
        let has_other = spans(cell).any(|span| span.contains('.') || span.ends_with('3') || span.contains("::"))
            || cell.contains("vectors");
        let is_same = cell.starts_with("the same") && threats.last().is_some_and(|threat| threat.has_test);
        has_test = has_test || has_other || is_same;
        if !has_test && findings.is_empty() && *cell != "–" {
            findings.push(Finding::at(page, line, "names no test. Name one, or write a dash"));
        }
        threats.push(Threat { name: format!("{heading}: {name}"), has_test, findings });
    }
    threats
}

/// Returns the tests of all languages whose tests are functions, each with the files that have one of its name.
fn named_tests(sources: &[Source]) -> BTreeMap<&str, Vec<&str>> {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources {
        let names: Vec<&str> = match source.extension() {
            // The contract of stores is run by a macro, for each store.
            "rs" if source.path.ends_with("/store_contract.rs") => after(&source.text, "pub async fn ").collect(),
            "rs" => functions(&source.text).collect(),
            "go" => after(&source.text, "func ").filter(|name| name.starts_with("Test")).collect(),
            "py" => after(&source.text, "def ").filter(|name| name.starts_with("test_")).collect(),
            "java" if source.path.contains("/test/") => after(&source.text, "void ").collect(),
            _ => continue,
        };
        for name in names {
            tests.entry(name).or_default().push(&source.path);
        }
    }
    tests
}

/// Iterates over the names that follow a word, one for each line.
fn after<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| Some(name_of(line.split_once(word)?.1)))
}

/// Iterates over the code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns file and name of a test, if a code span is one: `FILE::TEST`, `Class.test`, or a sentence with underscores.
fn of_a_test(span: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| !name.is_empty() && name_of(name) == name;
    if let Some((file, test)) = span.rsplit_once("::") {
        // Fewer words are a module of tests.
        return (is_name(test) && (test.contains('_') || test.starts_with("Test")) && test != "http2_corpus")
            .then_some((file, test));
    }
    if let Some((class, test)) = span.split_once('.') {
        return (class.ends_with("Test") && is_name(class) && is_name(test)).then_some((class, test));
    }
    (is_name(span) && span.matches('_').count() >= 4).then_some(("", span))
}

/// Returns true if a path has the file that a test is named with: as its stem, or as a folder.
fn is_in(path: &str, file: &str) -> bool {
    let file = file.strip_suffix("::tests").unwrap_or(file);
    let file = file.rsplit("::").next().unwrap_or(file);
    let file = file.rsplit('/').next().unwrap_or(file);
    let file = file.split('.').next().unwrap_or(file);
    // `…::test` is of the file before.
    file.is_empty() || file == "…" || path.split('/').any(|part| part.split('.').next() == Some(file))
}

/// Returns the tests of each file, by its name or, in a folder of a crate that is one test binary, the folder's. Two crates may
/// each have one of a name.
fn tests(sources: &[Source]) -> BTreeMap<String, BTreeSet<&str>> {
    let mut tests: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let is_binary =
        |folder: &str| sources.iter().any(|source| source.path.ends_with(&format!("/tests/{folder}/main.rs")));
    for source in sources {
        let Some(name) = source.path.strip_suffix(".rs") else { continue };
        let file = match name.split('/').collect::<Vec<_>>().as_slice() {
            ["tests", folder, file] => format!("{folder}::{file}"),
            ["tests", folder, group, file] => format!("{folder}::{group}::{file}"),
            ["fips", "tests", file] | ["crates", _, "tests", file] => (*file).to_owned(),
            // A folder that is one test binary.
            ["crates", _, "tests", folder, _] if is_binary(folder) => (*folder).to_owned(),
            _ => continue,
        };
        tests.entry(file).or_default().extend(functions(&source.text));
    }
    tests
}

/// Iterates over the functions that are marked as tests, by any attribute.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let mut is_marked = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        let name = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")).map(name_of);
        match name {
            Some(name) => std::mem::take(&mut is_marked).then_some(name),
            None => {
                // Other attributes and comments may stand between the mark and the function.
                let is_between = line.starts_with('#') || line.starts_with("//");
                is_marked = is_between && (is_marked || line == "#[test]" || line.starts_with("#[tokio::test"));
                None
            }
        }
    })
}

/// Iterates over the `FILE::TEST` of a line's code spans, and no other spans.
fn references(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`').skip(1).step_by(2).filter_map(|span| {
        let (file, test) = span.rsplit_once("::")?;
        let is_name = |part: &str| !part.is_empty() && name_of(part) == part;
        (file.split("::").all(is_name) && name_of(test) == test).then_some((file, test))
    })
}

/// Returns the name that a text begins with.
fn name_of(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "
#[test]
fn plain() {}
#[tokio::test(flavor = \"multi_thread\")]
#[should_panic]
async fn marked_twice() {}
fn helper() {}
mod inner {
    #[tokio::test]
    // Why it is so.
    async fn indented() {}
}
";

    fn page(path: &str, text: &str) -> Vec<Finding> {
        check(&[
            Source::sample(path, text),
            Source::sample("tests/far/end.rs", TESTS),
            Source::sample("crates/sessions/tests/store.rs", TESTS),
            Source::sample("crates/sessions/tests/store/mod.rs", "#[test]\nfn elsewhere() {}"),
            Source::sample("crates/sessions/src/unit.rs", TESTS),
            Source::sample("crates/broker/tests/whole/main.rs", "mod part;"),
            Source::sample("crates/broker/tests/whole/part.rs", "#[test]\nfn in_a_part() {}"),
            Source::sample("fips/tests/module.rs", "#[test]\nfn closed() {}"),
        ])
    }

    fn row(proof: &str) -> Vec<Finding> {
        page(
            "docs/reference/failures.md",
            &format!("# Stores\n\n| fails | proved by |\n| --- | --- |\n| x | {proof} |\n"),
        )
    }

    #[test]
    fn a_test_that_is_there_passes() {
        for proof in [
            "`far::end::plain`",
            "`store::marked_twice`, `far::end::indented`",
            "no proof",
            "`replay.window_ms`",
            "`whole::in_a_part`",
            "`module::closed`",
        ] {
            assert_eq!(row(proof), [], "{proof}");
        }
    }

    #[test]
    fn a_test_that_is_not_there_is_found() {
        for proof in ["`far::end::plan`", "`store::helper`", "`store::elsewhere`", "`far::end::plain`, `far::end::`"] {
            let findings = row(proof);
            assert_eq!(findings.len(), 1, "{proof}");
            assert_eq!(findings[0].place, "docs/reference/failures.md:5");
            assert!(findings[0].message.contains("has no such test"), "{proof}");
        }
    }

    #[test]
    fn a_file_that_holds_no_end_to_end_tests_is_found() {
        for proof in ["`gone::plain`", "`unit::plain`", "`mod::elsewhere`", "`end::plain`", "`far::gone::plain`"] {
            assert!(row(proof)[0].message.contains("there is no"), "{proof}");
        }
    }

    /// Returns the findings of a threat with this last cell.
    fn threat(cell: &str) -> Vec<Finding> {
        page("SECURITY.md", &format!("## Writers\n\n| threat | test |\n| --- | --- |\n| x | {cell} |\n"))
    }

    #[test]
    fn a_threat_names_a_test_or_a_dash() {
        for cell in ["`store::plain`", "`far/end.rs::indented`", "–", "vectors `headers3`", "`whole::in_a_part`"] {
            assert_eq!(threat(cell), [], "{cell}");
        }
        for cell in [
            "`store::it_is_gone`",
            "`elsewhere::in_a_part`",
            "`a_test_that_nobody_has`",
            "`HeadTest.isGone`",
            "nothing",
        ] {
            let findings = threat(cell);
            assert_eq!(findings.len(), 1, "{cell}");
            assert_eq!(findings[0].place, "SECURITY.md:5");
        }
    }

    #[test]
    fn only_tables_of_the_two_pages_promise() {
        assert_eq!(page("docs/reference/failures.md", "such as `FILE::TEST` or `end::gone`\n"), []);
        assert_eq!(page("docs/reference/cli.md", "| `end::gone` |\n"), []);
        assert_eq!(page("docs/reference/broker.md", "| `end::gone` |\n").len(), 1);
    }
}
