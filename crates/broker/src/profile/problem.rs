//! Problems and warnings of a file, all collected in one reading.

use std::fmt;

/// Most recorded problems of a file; further ones are counted.
const PROBLEMS_MAX: usize = 1_000;

/// Strictness of reading a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// Unknown keys and unsatisfiable values are problems.
    #[default]
    Strict,
    /// They are warnings, for files that were written for the broker that ignores them.
    Lenient,
}

/// A defect of a file of profiles or of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line from 1; 0 if it concerns no line.
    pub line: u32,
    /// Name of the profile; empty if it concerns none.
    pub profile: String,
    /// Path of the key, such as `API.HashData.HashAlg`; empty if it concerns none.
    pub key: String,
    /// Sentence that describes the defect, and names the allowed values if they are few.
    pub text: String,
}

impl Problem {
    /// Creates a problem of the file as a whole.
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

/// Formats problems, one per line.
pub fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Problems and warnings collected while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    leniency: Leniency,
    /// Name of the profile that is being read.
    pub(crate) profile: String,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    dropped: usize,
    /// True while problems are recorded as warnings.
    demotes: bool,
}

impl Notes {
    pub(crate) fn new(leniency: Leniency) -> Notes {
        Notes { leniency, ..Notes::default() }
    }

    pub(crate) fn is_lenient(&self) -> bool {
        self.leniency == Leniency::Lenient
    }

    /// Reads an optional part: its problems are warnings in a lenient reading.
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

    /// Records a defect that does not reject the file.
    pub(crate) fn warn(&mut self, line: u32, key: impl Into<String>, text: impl Into<String>) {
        let problem = Problem { line, profile: self.profile.clone(), key: key.into(), text: text.into() };
        push(&mut self.warnings, &mut self.dropped, problem);
    }

    /// Records a problem, or a warning in a lenient reading.
    pub(crate) fn sloppy(&mut self, line: u32, key: impl Into<String>, text: impl Into<String>) {
        if self.is_lenient() { self.warn(line, key, text) } else { self.problem(line, key, text) }
    }

    /// Returns the warnings, if there is no problem.
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
