//! Differential tests: the same random input to our code and to other implementations, whose readings are compared.
//!
//! `SEALWAY_DIFFERENTIAL_CASES` sets the number of cases of each test, `SEALWAY_DIFFERENTIAL_SEED` the seed. A failure shows the
//! input. `cargo xtask evidence fuzzing` runs the long form.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod hpke;
mod http1;
mod http1_input;
mod hyper;
mod json;
mod jwe;
mod peer;

/// Returns the number of cases of a test.
fn cases(default: usize) -> usize {
    setting("SEALWAY_DIFFERENTIAL_CASES").map_or(default, |cases| usize::try_from(cases).unwrap())
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// Prints what was compared, in the form that `cargo xtask evidence fuzzing` reads.
#[allow(clippy::print_stdout, reason = "the ledger reads it")]
fn report(ours: &str, other: &str, compared: usize, result: &str) {
    println!("differential: {ours} | {other} | {compared} | {result}");
}

/// A generator of random numbers, the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    /// Creates the generator of a test.
    fn new(test: u64) -> Self {
        Random(setting("SEALWAY_DIFFERENTIAL_SEED").unwrap_or(1).wrapping_mul(0x1_0001).wrapping_add(test))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns true once in `count` times.
    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Replaces, inserts or removes a byte, or repeats a part.
    fn mutate(&mut self, data: &mut Vec<u8>, interesting: &[u8]) {
        if data.is_empty() {
            return;
        }
        let at = self.below(data.len());
        let byte = if self.one_in(4) { self.next() as u8 } else { interesting[self.below(interesting.len())] };
        match self.below(5) {
            0 | 1 => data[at] = byte,
            2 => data.insert(at, byte),
            3 => {
                data.remove(at);
            }
            _ => {
                let end = (at + 1 + self.below(8)).min(data.len());
                let part = data[at..end].to_vec();
                data.splice(at..at, part);
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2) && text.is_ascii(), "{text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
