//! Notes about unfinished work: each names its issue, and a test that is left out gives its reason.

use super::Finding;
use super::files::Source;

/// Concatenated so that this file does not contain them.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Extensions of prose, which may mention notes; code and settings may not leave one.
const PROSE: &[&str] = &["md", "txt", "json", "lock"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !PROSE.contains(&source.extension())) {
        for (line, text) in source.lines() {
            for note in NOTES.iter().filter(|note| is_open(text, note)) {
                let message = format!(
                    "{note} without an issue is work nobody will find: file an issue and write `{note}(#12)`, or do it now"
                );
                findings.push(Finding::at(source, line, message));
            }
            if source.extension() == "rs" && is_bare_ignore(text) {
                let message = "a test is left out without a reason: say in the attribute what it needs and who runs it, \
                               `#[ignore = \"needs PostgreSQL; run by ...\"]`";
                findings.push(Finding::at(source, line, message));
            }
        }
    }
    findings
}

/// Returns whether the word occurs anywhere without `(#number)` after it.
fn is_open(line: &str, note: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(note).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + note.len()..]);
        let is_word = !before.ends_with(in_word) && !after.starts_with(in_word);
        let number = after.strip_prefix("(#").and_then(|rest| rest.split_once(')')).map(|(number, _)| number);
        let has_issue = number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        is_word && !has_issue
    })
}

fn is_bare_ignore(line: &str) -> bool {
    let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    line.starts_with("#[ignore]") || line.starts_with("#[ignore=\"\"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> usize {
        check(&[Source::sample(path, text)]).len()
    }

    #[test]
    fn a_note_with_its_issue_passes() {
        for note in NOTES {
            assert_eq!(one("a.rs", &format!("// {note}(#12): later\n")), 0);
            assert_eq!(one("a.rs", &format!("let x{note} = MY_{note};\n")), 0);
            assert_eq!(one("CONTRIBUTING.md", &format!("A {note} needs an issue.\n")), 0);
        }
    }

    #[test]
    fn a_note_without_an_issue_is_found() {
        for note in NOTES {
            assert_eq!(one("a.rs", &format!("// {note}: later\n")), 1);
            assert_eq!(one("Makefile", &format!("# {note}\n")), 1);
            assert_eq!(one("a.py", &format!("# {note}(#): later\n")), 1);
            assert_eq!(one("a.py", &format!("# {note}(me): later\n")), 1);
        }
    }

    #[test]
    fn a_test_left_out_must_say_why() {
        assert_eq!(one("a.rs", "#[ignore = \"takes an hour; run by make soak\"]\n"), 0);
        assert_eq!(one("a.rs", "    #[ignore]\n"), 1);
        assert_eq!(one("a.rs", "#[ignore = \"\"]\n"), 1);
    }
}
