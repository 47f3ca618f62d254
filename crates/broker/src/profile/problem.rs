//! What is wrong with a file, every line of it at once, and what is only worth a word.

use std::fmt;

/// Most problems that are kept of a file; the rest is counted.
const PROBLEMS_MAX: usize = 1_000;

/// How strictly a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// What is not known, and what can never be met, is a problem.
    #[default]
    Strict,
    /// Such is a warning: for files that were written for the broker that ignores it.
    Lenient,
}

/// Something that is wrong with a file of profiles or of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1; 0 where it is of no line.
    pub line: u32,
    /// The profile's name; empty where it is of none.
    pub profile: String,
    /// The key's path, such as `API.HashData.HashAlg`; empty where it is of none.
    pub key: String,
    /// What is wrong.
    pub text: String,
}

impl Problem {
    /// One of the file as a whole.
    pub fn of_file(text: impl Into<String>) -> Problem {
        Problem { line: 0, profile: String::new(), key: String::new(), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.profile.is_empty() {
            write!(f, "profile {:?}: ", self.profile)?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// One line a problem.
pub fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Problems and warnings while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    leniency: Leniency,
    /// Of which profile it is now.
    pub(crate) profile: String,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    dropped: usize,
    /// Problems are warnings for now.
    demotes: bool,
}

impl Notes {
    pub(crate) fn new(leniency: Leniency) -> Notes {
        Notes { leniency, ..Notes::default() }
    }

    pub(crate) fn is_lenient(&self) -> bool {
        self.leniency == Leniency::Lenient
    }

    /// Reads a part that a lenient reading can leave out: what is wrong with it is a warning there.
    pub(crate) fn leaving_out<T>(&mut self, read: impl FnOnce(&mut Notes) -> T) -> T {
        self.demotes = self.is_lenient();
        let value = read(self);
        self.demotes = false;
        value
    }

    pub(crate) fn problem(&mut self, line: u32, key: impl Into<String>, text: impl Into<String>) {
        if self.demotes {
            return self.warn(line, key, text);
        }
        let problem = Problem { line, profile: self.profile.clone(), key: key.into(), text: text.into() };
        push(&mut self.problems, &mut self.dropped, problem);
    }

    /// Worth a word, and no more.
    pub(crate) fn warn(&mut self, line: u32, key: impl Into<String>, text: impl Into<String>) {
        let problem = Problem { line, profile: self.profile.clone(), key: key.into(), text: text.into() };
        push(&mut self.warnings, &mut self.dropped, problem);
    }

    /// A problem, or a warning when the file is read leniently.
    pub(crate) fn sloppy(&mut self, line: u32, key: impl Into<String>, text: impl Into<String>) {
        if self.is_lenient() { self.warn(line, key, text) } else { self.problem(line, key, text) }
    }

    /// The warnings, if there is no problem.
    pub(crate) fn into_result(mut self) -> Result<Vec<Problem>, Vec<Problem>> {
        let of_both = if self.problems.is_empty() { &mut self.warnings } else { &mut self.problems };
        if self.dropped > 0 {
            of_both.push(Problem::of_file(format!("and {} more", self.dropped)));
        }
        if self.problems.is_empty() { Ok(self.warnings) } else { Err(self.problems) }
    }
}

fn push(list: &mut Vec<Problem>, dropped: &mut usize, problem: Problem) {
    if list.len() < PROBLEMS_MAX {
        list.push(problem);
    } else {
        *dropped += 1;
    }
}
