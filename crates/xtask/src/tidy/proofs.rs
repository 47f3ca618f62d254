//! A table in docs/reference/failures.md or docs/reference/broker.md that names a test as `FILE::TEST` promises that it proves
//! the row: the test must exist. A file of the end-to-end tests has its folders before it, as nextest prints it:
//! `stores::restart::TEST`.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::files::Source;

const PAGES: [&str; 2] = ["docs/reference/failures.md", "docs/reference/broker.md"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let tests = tests(sources);
    let mut findings = Vec::new();
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

    #[test]
    fn only_tables_of_the_two_pages_promise() {
        assert_eq!(page("docs/reference/failures.md", "such as `FILE::TEST` or `end::gone`\n"), []);
        assert_eq!(page("docs/reference/cli.md", "| `end::gone` |\n"), []);
        assert_eq!(page("docs/reference/broker.md", "| `end::gone` |\n").len(), 1);
    }
}
