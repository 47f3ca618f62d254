//! The language of comments and documents, by counts that may only go down.
//!
//! Counted for each crate, SDK and folder of documents: doc comments that open with a question word, doc comments of four words
//! or fewer, types named by a participle, and phrases of the dialect that CONTRIBUTING replaces. The counts stand in `prose.txt`.
//! More of any is a finding; fewer is one too, until `prose.txt` says so: `cargo xtask tidy --write` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Finding;
use super::files::Source;

const QUESTION_WORDS: &[&str] = &[
    "how", "what", "whatever", "when", "where", "wherever", "whether", "which", "who", "whoever", "whom", "whose",
    "why",
];

/// The most words of a doc comment that counts as short.
const SHORT_WORDS_MAX: usize = 4;

/// Past participles that do not end in `ed`.
const PARTICIPLES: &[&str] = &[
    "Begun",
    "Bound",
    "Broken",
    "Built",
    "Chosen",
    "Come",
    "Cut",
    "Dealt",
    "Done",
    "Drawn",
    "Forgotten",
    "Found",
    "Given",
    "Gone",
    "Heard",
    "Held",
    "Hidden",
    "Kept",
    "Known",
    "Laid",
    "Left",
    "Lent",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Paid",
    "Read",
    "Run",
    "Said",
    "Seen",
    "Sent",
    "Set",
    "Shown",
    "Spent",
    "Spoken",
    "Split",
    "Sworn",
    "Taken",
    "Thought",
    "Told",
    "Torn",
    "Understood",
    "Won",
    "Written",
];

/// Words that end like a participle and are none, or are names of a kind, and verbs whose noun is the same word.
const NOUNS: &[&str] = &["Bound", "Cut", "Embedded", "Feed", "Need", "Read", "Run", "Seed", "Set", "Speed", "Split"];

/// Phrases to be replaced by the words of the glossary.
const PHRASES: &[&str] = &[
    "a browser's question",
    "is told",
    "not to be had",
    "somebody",
    "unless said",
    "unless told otherwise",
    "what came of",
    "whoever",
    "whose word",
];

/// The counts of one area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    questions: usize,
    short: usize,
    participles: usize,
    phrases: usize,
}

impl Counts {
    const NAMES: [&str; 4] = [
        "doc comments that open with a question word",
        "doc comments of four words or fewer",
        "types named by a participle",
        "phrases of the dialect",
    ];

    fn values(&self) -> [usize; 4] {
        [self.questions, self.short, self.participles, self.phrases]
    }
}

/// What was counted in all areas, for the report.
#[derive(Debug, Default)]
struct Measured {
    areas: BTreeMap<String, Counts>,
    doc_comments: usize,
}

/// Compares the sources with `ratchet`, the text of `prose.txt`.
pub(super) fn check(sources: &[Source], ratchet: &str) -> Vec<Finding> {
    let measured = measure(sources);
    let mut allowed = BTreeMap::new();
    let mut findings = Vec::new();
    for line in ratchet.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let area = words.next().unwrap_or_default();
        match words.map(str::parse).collect::<Result<Vec<usize>, _>>().ok().and_then(|counts| counts.try_into().ok()) {
            Some(counts) => {
                let counts: [usize; 4] = counts;
                allowed.insert(area, counts);
            }
            None => findings.push(Finding::new("prose.txt", format!("`{line}` is not an area and four numbers"))),
        }
    }
    for (area, counts) in &measured.areas {
        let allowed = allowed.remove(area.as_str()).unwrap_or_default();
        for ((name, count), allowed) in Counts::NAMES.iter().zip(counts.values()).zip(allowed) {
            if count > allowed {
                let message = format!("{name}: {count}, of at most {allowed}. CONTRIBUTING says how we write");
                findings.push(Finding::new(area, message));
            } else if count < allowed {
                let message = format!("{name}: down to {count} from {allowed}: run `cargo xtask tidy --write`");
                findings.push(Finding::new(area, message));
            }
        }
    }
    findings.extend(allowed.into_keys().map(|area| Finding::new("prose.txt", format!("{area} is gone"))));
    findings
}

/// The text of `prose.txt` for these sources.
pub(super) fn ratchet(sources: &[Source]) -> String {
    let measured = measure(sources);
    let mut text = String::from(
        "# Counts that may only go down, written by `cargo xtask tidy --write`: doc comments that open with a question word, doc\n\
         # comments of four words or fewer, types named by a participle, phrases of the dialect.\n",
    );
    for (area, counts) in &measured.areas {
        let [questions, short, participles, phrases] = counts.values();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{area} {questions} {short} {participles} {phrases}");
    }
    text
}

/// One line with the totals of all areas.
pub(super) fn summary(sources: &[Source]) -> String {
    let measured = measure(sources);
    let total = measured.areas.values().fold([0; 4], |mut total, counts| {
        total.iter_mut().zip(counts.values()).for_each(|(total, count)| *total += count);
        total
    });
    let percent = |count: usize| count as f64 * 100.0 / measured.doc_comments.max(1) as f64;
    let [questions, short, participles, phrases] = total;
    format!(
        "prose: {} doc comments, {questions} open with a question word ({:.1} %), {short} have four words or fewer ({:.1} %); \
         {participles} types are named by a participle; {phrases} phrases of the dialect",
        measured.doc_comments,
        percent(questions),
        percent(short)
    )
}

fn measure(sources: &[Source]) -> Measured {
    let mut measured = Measured::default();
    for source in sources {
        let Some(area) = area(source) else { continue };
        let counts = measured.areas.entry(area).or_default();
        let text = source.text.to_lowercase();
        counts.phrases += PHRASES.iter().map(|phrase| text.matches(phrase).count()).sum::<usize>();
        if source.extension() != "rs" {
            continue;
        }
        for comment in doc_comments(&source.text) {
            measured.doc_comments += 1;
            let mut words = comment.split_whitespace();
            let first = words.next().unwrap_or_default().trim_end_matches([',', ':', ';', '.']).to_lowercase();
            counts.questions += usize::from(QUESTION_WORDS.contains(&first.as_str()));
            counts.short += usize::from(words.count() < SHORT_WORDS_MAX);
        }
        counts.participles += source.text.lines().filter_map(type_name).filter(|name| is_participle(name)).count();
    }
    measured
}

/// The row in which a source counts; `None` for what is generated, this rule, and what nobody reads as prose.
fn area(source: &Source) -> Option<String> {
    let path = source.path.as_str();
    if source.text.starts_with("// @generated ") || path == "crates/xtask/src/tidy/prose.rs" || path == "CHANGELOG.md" {
        return None;
    }
    let mut parts = path.split('/');
    let (first, second) = (parts.next()?, parts.next());
    match (first, second, source.extension()) {
        ("crates" | "sdk", Some(second), "rs" | "ts" | "go" | "java" | "py" | "md") => {
            Some(format!("{first}/{second}"))
        }
        ("bench" | "evidence" | "fips" | "fuzz" | "tests", _, "rs") | ("docs" | "spec", _, "md") => {
            Some(first.to_owned())
        }
        (_, None, "md") => Some("/".to_owned()),
        _ => None,
    }
}

/// The doc comments of a Rust file, each as one text: the lines of an outer or inner comment up to its first empty line.
fn doc_comments(text: &str) -> Vec<String> {
    let mut comments = Vec::new();
    let mut open: Option<(&str, String)> = None;
    let mut is_past_summary = false;
    for line in text.lines().map(str::trim_start).chain([""]) {
        let kind = ["///", "//!"].into_iter().find(|kind| line.starts_with(kind) && !line.starts_with("////"));
        match (kind, &mut open) {
            (Some(kind), Some((of, summary))) if kind == *of => {
                let rest = line[kind.len()..].trim();
                is_past_summary |= rest.is_empty();
                if !is_past_summary {
                    summary.push(' ');
                    summary.push_str(rest);
                }
            }
            _ => {
                comments.extend(open.take().map(|(_, summary)| summary));
                is_past_summary = false;
                open = kind.map(|kind| (kind, line[kind.len()..].trim().to_owned()));
            }
        }
    }
    comments
}

/// The name that a line of Rust declares for a type.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
    ["struct", "enum", "trait", "type", "union"].contains(&words.next()?).then_some(())?;
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
    name.get(..end).filter(|name| !name.is_empty())
}

/// Whether the last word of a name in camel case is a past participle.
fn is_participle(name: &str) -> bool {
    let start = name.rfind(char::is_uppercase).unwrap_or(0);
    let last = &name[start..];
    !NOUNS.contains(&last) && (PARTICIPLES.contains(&last) || (last.len() > 3 && last.ends_with("ed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str, ratchet: &str) -> Vec<String> {
        let found = check(&[Source::sample(path, text)], ratchet);
        found.into_iter().map(|finding| format!("{}: {}", finding.place, finding.message)).collect()
    }

    const RUST: &str = "//! What a store holds.\n\n/// Returns the session of an id, in any order.\n///\n/// Who asks.\nfn a() {}\n\
                        /// Its time.\npub(crate) struct Told;\nstruct KeyAgreed<'a> {}\nenum Seed {}\n// whoever is told\n";

    #[test]
    fn each_measure_is_counted() {
        let rows = "crates/a 1 2 2 2\n";
        assert_eq!(findings("crates/a/src/lib.rs", RUST, rows), [""; 0]);
        assert!(summary(&[Source::sample("crates/a/src/lib.rs", RUST)]).starts_with("prose: 3 doc comments, 1 open"));
        assert!(ratchet(&[Source::sample("crates/a/src/lib.rs", RUST)]).ends_with(rows));
    }

    #[test]
    fn a_count_that_rises_is_found_with_its_area() {
        let found = findings("crates/a/src/lib.rs", RUST, "crates/a 0 2 2 2\n");
        assert!(
            found[0].starts_with("crates/a: doc comments that open with a question word: 1, of at most 0"),
            "{found:?}"
        );
        assert_eq!(findings("crates/a/src/lib.rs", RUST, "").len(), 4);
    }

    #[test]
    fn a_count_that_falls_is_to_be_written_down() {
        let found = findings("crates/a/src/lib.rs", RUST, "crates/a 1 2 3 2\n");
        assert!(found[0].contains("down to 2 from 3"), "{found:?}");
        assert_eq!(findings("docs/a.md", "plain", "docs 0 0 0 0\nspec 0 0 0 1\n"), ["prose.txt: spec is gone"]);
        assert!(findings("docs/a.md", "", "docs 0 0 0\n")[0].contains("is not an area and four numbers"));
    }

    #[test]
    fn documents_count_by_their_phrases() {
        assert!(findings("docs/a.md", "Whoever asks", "")[0].starts_with("docs: phrases of the dialect: 1"));
        assert!(findings("README.md", "not to be had", "")[0].starts_with("/: phrases"));
        assert_eq!(findings("crates/a/src/b.rs", "// @generated by x\n/// What it is\n", ""), [""; 0]);
    }

    #[test]
    fn the_last_word_of_a_name_decides() {
        for name in ["Told", "KeyAgreed", "Begun", "RequestSent"] {
            assert!(is_participle(name), "{name}");
        }
        for name in ["Seed", "SharedState", "Embedded", "Red", "CharSet", "NeedleFeed", "KeptAnswer"] {
            assert!(!is_participle(name), "{name}");
        }
    }
}
