//! Defects of a store's files: all are collected, so that one start names every file, up to a readable number.

use std::fmt;

/// Most listed faults; the others are counted.
const TOLD_MAX: usize = 16;

/// Faults, each with its file or key.
#[derive(Debug, Default)]
pub(super) struct Faults {
    told: Vec<String>,
    more: usize,
}

impl Faults {
    /// Adds one fault to the list.
    pub(super) fn add(&mut self, fault: String) {
        if self.told.len() < TOLD_MAX {
            self.told.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// True if there are no faults.
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}

/// Formats one fault per line.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told.join("\n"))?;
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_beyond_the_bound_are_counted_and_not_listed() {
        let mut faults = Faults::default();
        assert!(faults.is_empty());
        for number in 0..TOLD_MAX {
            faults.add(format!("{number}: wrong"));
        }
        assert_eq!((faults.to_string().lines().count(), faults.to_string().contains("more")), (TOLD_MAX, false));
        for _ in 0..10_000 {
            faults.add("another".into());
        }
        assert!(faults.to_string().ends_with("15: wrong\nand 10000 more"), "{faults}");
    }
}
