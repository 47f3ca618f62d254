//! Tests whether the time of a rejection depends on its fault: Welch's t between kinds of faults that take turns at random.

use crate::table::median;

/// Bound of |t| below which no difference is seen.
pub(crate) const GOAL: f64 = 4.5;
/// The share of samples in the second figure. It leaves out the slowest ones, which other work of the machine delayed.
const KEPT: f64 = 0.95;

/// A kind of fault, inputs that have it, and the time of each rejection in nanoseconds.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Inputs of one length, which take turns.
    inputs: Vec<Vec<u8>>,
    nanos: Vec<f64>,
}

impl Kind {
    pub(crate) fn new(name: &'static str, inputs: Vec<Vec<u8>>) -> Kind {
        Kind { name, inputs, nanos: Vec::new() }
    }

    /// Returns the median time of a rejection, in nanoseconds.
    pub(crate) fn median(&mut self) -> f64 {
        median(&mut self.nanos)
    }
}

/// Prints the head of the table.
pub(crate) fn print_head() {
    println!("| wrong | median ns | of the first | t, all | t, without the slowest 5 % | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
}

/// Rejects `samples` inputs of each kind on average, in a random order. `reject` takes the input and returns the nanoseconds.
pub(crate) fn take_turns(samples: usize, kinds: &mut [&mut Kind], mut reject: impl FnMut(&[u8]) -> f64) {
    // All kinds use one buffer, so that none is closer in the caches.
    let mut input = Vec::new();
    kinds.iter_mut().for_each(|kind| kind.nanos.clear());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // The first rejections warm up.
    let (count, warm_up) = (kinds.len(), samples / 10);
    for number in 0..count * (samples + warm_up) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let kind = &mut *kinds[(state >> 32) as usize % count];
        input.clear();
        input.extend_from_slice(&kind.inputs[number % kind.inputs.len()]);
        let nanos = reject(&input);
        if number >= count * warm_up {
            kind.nanos.push(nanos);
        }
    }
}

/// Computes t of all samples, and of those that are no slower than each of these shares of them.
pub(crate) fn differences(first: &Kind, kind: &Kind, shares: &[f64]) -> (f64, Vec<f64>) {
    differences_of(&first.nanos, &kind.nanos, shares)
}

/// Computes what [`differences`] does, of times in nanoseconds.
pub(crate) fn differences_of(first: &[f64], other: &[f64], shares: &[f64]) -> (f64, Vec<f64>) {
    let mut all: Vec<f64> = first.iter().chain(other).copied().collect();
    all.sort_by(f64::total_cmp);
    let cropped = shares.iter().map(|share| {
        let bound = all[(all.len() as f64 * share) as usize];
        let kept = |nanos: &[f64]| nanos.iter().copied().filter(|nanos| *nanos <= bound).collect::<Vec<_>>();
        welch(&kept(first), &kept(other))
    });
    (welch(first, other), cropped.collect())
}

/// Prints the row of a kind beside the first.
pub(crate) fn print(first: &mut Kind, kind: &mut Kind) {
    let (whole, cropped) = differences(first, kind, &[KEPT]);
    let cropped = cropped[0];
    let met = if whole.abs().max(cropped.abs()) < GOAL { "met" } else { "missed" };
    let [of_first, of_kind] = [first, kind].map(|kind| (kind.name, kind.median()));
    println!("| {} | {:.0} | {:.0} | {whole:.2} | {cropped:.2} | {met} |", of_kind.0, of_kind.1, of_first.1);
}

/// Returns the mean of the values and the variance of that mean.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance / count)
}

fn welch(one: &[f64], other: &[f64]) -> f64 {
    let ((one, of_one), (other, of_other)) = (moments(one), moments(other));
    (other - one) / (of_one + of_other).sqrt()
}
