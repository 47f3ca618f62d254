//! Paths of values in a JSON text: `$`, then names, `$.a.b`, with at most one `[*]` for every element of an array. SPEC mle.md#paths

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Most steps of a path.
pub const STEPS_MAX: usize = 16;
/// Longest name in a path, in bytes.
pub const NAME_LEN_MAX: usize = 256;

/// The defect of a path, or of a pair of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path does not begin with `$`.
    #[error("a path begins with $")]
    Root,
    /// A name is empty, too long, or has a character with a meaning.
    #[error("a name in a path has 1 to {NAME_LEN_MAX} bytes, and none of . [ ] * ' \" or a control character")]
    Name,
    /// The path has more than [`STEPS_MAX`] steps.
    #[error("a path has at most {STEPS_MAX} steps")]
    Steps,
    /// The path has more than one `[*]`.
    #[error("a path has at most one [*]")]
    Each,
    /// Two paths of one rule do not have `[*]` at the same place.
    #[error("both paths of a rule have [*] at the same place, or neither has it")]
    EachApart,
    /// An element of an array cannot be moved away.
    #[error("a path that ends with [*] must be both source and target")]
    Element,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    Each,
}

/// A path of one value, or of one in each element of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub(super) Vec<Step>);

/// A step of a path with the element chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At<'a> {
    Name(&'a str),
    Index(usize),
}

impl Path {
    /// Parses the text of a path, such as `$.a.b`.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn parse(text: &str) -> Result<Path, PathError> {
        let mut rest = text.strip_prefix('$').ok_or(PathError::Root)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[*]") {
                if steps.contains(&Step::Each) {
                    return Err(PathError::Each);
                }
                steps.push(Step::Each);
                rest = after;
            } else {
                let after = rest.strip_prefix('.').ok_or(PathError::Name)?;
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (name, after) = after.split_at_checked(end).ok_or(PathError::Name)?;
                let is_plain = |c: char| !c.is_control() && !"]*'\"".contains(c);
                if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_plain) {
                    return Err(PathError::Name);
                }
                steps.push(Step::Name(name.to_string()));
                rest = after;
            }
            if steps.len() > STEPS_MAX {
                return Err(PathError::Steps);
            }
        }
        Ok(Path(steps))
    }

    /// Returns whether it is `$`, the whole text.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether it is the name of one member of the root.
    pub(super) fn is_name(&self) -> bool {
        matches!(self.0[..], [Step::Name(_)])
    }

    /// Returns the path of the array, if there is a `[*]`.
    pub(super) fn array(&self) -> Option<&[Step]> {
        let each = self.0.iter().position(|step| *step == Step::Each)?;
        self.0.get(..each)
    }

    /// Returns the steps with `index` in the place of `[*]`.
    pub(super) fn at(&self, index: usize) -> Vec<At<'_>> {
        steps(&self.0, index)
    }
}

pub(super) fn steps(steps: &[Step], index: usize) -> Vec<At<'_>> {
    steps
        .iter()
        .map(|step| match step {
            Step::Name(name) => At::Name(name),
            Step::Each => At::Index(index),
        })
        .collect()
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        self.0.iter().try_for_each(|step| match step {
            Step::Name(name) => write!(f, ".{name}"),
            Step::Each => f.write_str("[*]"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_back_as_they_are_written() {
        for text in ["$", "$.a", "$.a.b-c_d e", "$[*]", "$.a[*].b", "$.a[*]", "$.é"] {
            assert_eq!(Path::parse(text).map(|path| path.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn other_forms_are_rejected() {
        for (text, expected) in [
            ("", PathError::Root),
            ("a", PathError::Root),
            (".a", PathError::Root),
            ("$a", PathError::Name),
            ("$.", PathError::Name),
            ("$..a", PathError::Name),
            ("$.a.", PathError::Name),
            ("$.a[0]", PathError::Name),
            ("$['a']", PathError::Name),
            ("$.*", PathError::Name),
            ("$.a\n", PathError::Name),
            ("$.a[*].b[*]", PathError::Each),
        ] {
            assert_eq!(Path::parse(text), Err(expected), "{text:?}");
        }
        assert_eq!(Path::parse(&("$".to_string() + &".a".repeat(17))), Err(PathError::Steps));
        assert!(Path::parse(&("$".to_string() + &".a".repeat(16))).is_ok());
        assert_eq!(Path::parse(&("$.".to_string() + &"a".repeat(257))), Err(PathError::Name));
    }
}
