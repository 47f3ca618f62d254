//! Enumeration of all inputs within a bound.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Counterexample, Outcome};

/// Gives `check` every sequence of up to `len_max` symbols, the shortest first.
pub(crate) fn sequences<S>(symbols: &[S], len_max: usize, mut check: impl FnMut(&[&S]) -> Outcome) -> Outcome {
    let mut cases = 0;
    for len in 0..=len_max {
        let mut choice = Choice::new(vec![symbols.len(); len]);
        let mut sequence = Vec::with_capacity(len);
        while let Some(indices) = choice.next() {
            sequence.clear();
            sequence.extend(indices.iter().filter_map(|index| symbols.get(*index)));
            cases += guarded(|| check(&sequence), || format!("sequence {:?}", choice.current()))?;
        }
    }
    Ok(cases)
}

/// Gives `check` every text of up to `len_max` symbols.
pub(crate) fn texts(symbols: &[&[u8]], len_max: usize, mut check: impl FnMut(&[u8]) -> Outcome) -> Outcome {
    let mut text = Vec::new();
    sequences(symbols, len_max, |sequence| {
        text.clear();
        sequence.iter().for_each(|symbol| text.extend_from_slice(symbol));
        guarded(|| check(&text), || format!("input {}", text.escape_ascii()))
    })
}

/// Runs a check of one case. A panic is a counter-example that `name` describes.
pub(crate) fn guarded(check: impl FnOnce() -> Outcome, name: impl Fn() -> String) -> Outcome {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(outcome) => outcome,
        Err(_) => Err(Counterexample(format!("{}: the code panicked", name()))),
    }
}

/// All tuples of indices below their bounds, in order.
#[derive(Debug)]
pub(crate) struct Choice {
    bounds: Vec<usize>,
    indices: Vec<usize>,
    is_begun: bool,
}

impl Choice {
    /// Creates the enumeration. There is one empty tuple, and none if a bound is zero.
    pub(crate) fn new(bounds: Vec<usize>) -> Self {
        Choice { indices: vec![0; bounds.len()], bounds, is_begun: false }
    }

    /// Returns the tuple that [`Choice::next`] returned last.
    pub(crate) fn current(&self) -> &[usize] {
        &self.indices
    }

    pub(crate) fn next(&mut self) -> Option<&[usize]> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return (!self.bounds.contains(&0)).then_some(&self.indices[..]);
        }
        for (index, bound) in self.indices.iter_mut().zip(&self.bounds).rev() {
            *index += 1;
            if *index < *bound {
                return Some(&self.indices);
            }
            *index = 0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_comes_once() {
        let mut all = Vec::new();
        let cases = sequences(&["a", "b"], 2, |sequence| {
            all.push(sequence.iter().map(|symbol| **symbol).collect::<String>());
            Ok(1)
        });
        assert_eq!(cases, Ok(7));
        assert_eq!(all, ["", "a", "b", "aa", "ab", "ba", "bb"]);
    }

    #[test]
    fn a_panic_is_a_counterexample_with_its_input() {
        let found = texts(&[b"a", b"\xff"], 1, |text| {
            assert_ne!(text, b"\xff");
            Ok(1)
        });
        assert_eq!(found, Err(Counterexample("input \\xff: the code panicked".into())));
    }

    #[test]
    fn a_bound_of_zero_has_no_tuple() {
        assert_eq!(Choice::new(vec![2, 0]).next(), None);
    }
}
