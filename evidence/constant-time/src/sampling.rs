//! Samples of the time of rejections: three classes of wrong input take turns at random. The third class has the bytes of the first,
//! so the difference of these two is that of the measurement alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use anyhow::{Context, ensure};

/// The number of classes: one, another, and the first again as the control.
pub(crate) const CLASSES: usize = 3;
/// Rejections between two looks at the scheduler. A block in which another thread had the core is discarded: half a millisecond
/// at most, which a time slice is long beside.
const BLOCK: usize = 256;
/// Counts the time slices of this thread: time on a core, time of waiting for one, slices.
const SCHEDULER: &str = "/proc/thread-self/schedstat";

/// Times of rejections in nanoseconds, in the order in which they were taken.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) nanos: [Vec<f64>; CLASSES],
    /// Rejections in blocks with a context switch.
    pub(crate) discarded: usize,
}

/// Times at least `samples` rejections of each class on average. `reject` returns whether it rejects its input.
///
/// # Errors
/// The classes differ in length, a wrong input is accepted, or the system does not count time slices.
pub(crate) fn take(
    samples: usize,
    classes: &[Vec<u8>; CLASSES],
    mut reject: impl FnMut(&[u8]) -> bool,
) -> anyhow::Result<Samples> {
    let scheduler = File::open(SCHEDULER).with_context(|| format!("cannot open {SCHEDULER}"))?;
    let mut is_wrong = false;
    let time = |input: &[u8]| {
        let start = Instant::now();
        let rejected = std::hint::black_box(reject(std::hint::black_box(input)));
        let nanos = start.elapsed().as_nanos() as f64;
        is_wrong |= !rejected;
        nanos
    };
    let taken = take_by(samples, classes, time, || slices(&scheduler))?;
    ensure!(!is_wrong, "a wrong input is accepted");
    Ok(taken)
}

/// Takes samples by a function that times one rejection, and one that counts the time slices so far.
fn take_by(
    samples: usize,
    classes: &[Vec<u8>; CLASSES],
    mut time: impl FnMut(&[u8]) -> f64,
    mut slices: impl FnMut() -> anyhow::Result<u64>,
) -> anyhow::Result<Samples> {
    let len = classes[0].len();
    ensure!(classes.iter().all(|class| class.len() == len), "the classes differ in length");
    // All classes use one buffer, so that none is closer in the caches.
    let mut input = vec![0; len];
    let mut taken = Samples::default();
    let mut block = Vec::with_capacity(BLOCK);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // The first rejections warm up.
    let (wanted, warm_up) = (CLASSES * samples, CLASSES * samples / 10);
    let (mut kept, mut seen) = (0, 0);
    while kept < wanted {
        block.clear();
        let before = slices()?;
        for _ in 0..BLOCK {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let class = (state >> 32) as usize % CLASSES;
            select(&mut input, classes, class);
            block.push((class, time(&input)));
        }
        seen += BLOCK;
        let is_whole = slices()? == before;
        if seen <= warm_up {
            continue;
        }
        if !is_whole {
            taken.discarded += BLOCK;
            ensure!(taken.discarded < 100 * wanted, "the core is never free for {BLOCK} rejections");
            continue;
        }
        kept += BLOCK;
        for (class, nanos) in &block {
            taken.nanos[*class].push(*nanos);
        }
    }
    Ok(taken)
}

/// Writes the input of a class. The bytes of all classes are read each time: a copy from the place of one class alone would leave
/// another state of the caches than a copy from that of another.
#[inline(never)]
fn select(input: &mut [u8], classes: &[Vec<u8>; CLASSES], chosen: usize) {
    input.fill(0);
    for (number, class) in classes.iter().enumerate() {
        let mask = std::hint::black_box(0_u8.wrapping_sub(u8::from(number == chosen)));
        input.iter_mut().zip(class).for_each(|(to, from)| *to |= from & mask);
    }
}

/// Returns the number of time slices that this thread had.
fn slices(scheduler: &File) -> anyhow::Result<u64> {
    let mut text = [0; 128];
    let len = scheduler.read_at(&mut text, 0)?;
    let text = std::str::from_utf8(text.get(..len).unwrap_or_default())?;
    let count = text.split_whitespace().nth(2).with_context(|| format!("{SCHEDULER}: expected three numbers"))?;
    Ok(count.parse()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    fn classes() -> [Vec<u8>; CLASSES] {
        [vec![1, 2], vec![0x80, 0xff], vec![1, 2]]
    }

    #[test]
    fn each_time_stands_under_the_class_of_its_input() {
        let time = |input: &[u8]| f64::from(input[0]) + f64::from(input[1]);
        let taken = take_by(1000, &classes(), time, || Ok(0)).unwrap();
        for (nanos, expected) in taken.nanos.iter().zip([3.0, 383.0, 3.0]) {
            assert!(nanos.len() > 800 && nanos.iter().all(|nanos| *nanos == expected), "{expected}: {}", nanos.len());
        }
        assert_eq!(taken.discarded, 0);
    }

    #[test]
    fn a_block_with_a_context_switch_is_discarded() {
        let (mut calls, mut looks) = (0_usize, 0_u64);
        // The second look of every third block sees another slice.
        let slices = || {
            looks += 1;
            Ok(u64::from(looks.is_multiple_of(6)))
        };
        let count = |_: &[u8]| {
            calls += 1;
            calls as f64
        };
        let taken = take_by(1000, &classes(), count, slices).unwrap();
        let kept: usize = taken.nanos.iter().map(Vec::len).sum();
        assert!(taken.discarded > 0 && taken.discarded < kept, "{} of {kept}", taken.discarded);
        // Blocks by the numbers of their calls: all calls of a block are kept, or none.
        let mut blocks = std::collections::BTreeMap::new();
        taken.nanos.iter().flatten().for_each(|call| *blocks.entry((*call as usize - 1) / BLOCK).or_insert(0) += 1);
        assert!(blocks.values().all(|count| *count == BLOCK), "{blocks:?}");
        assert!(blocks.keys().all(|block| block % 3 != 2), "{blocks:?}");
    }

    #[test]
    fn classes_of_different_lengths_are_rejected() {
        let classes = [vec![1], vec![1, 2], vec![1]];
        assert!(take_by(10, &classes, |_| 0.0, || Ok(0)).is_err());
    }

    #[test]
    fn the_system_counts_time_slices() {
        assert!(slices(&File::open(SCHEDULER).unwrap()).unwrap() > 0);
    }
}
