//! The same cryptography in this process, with nothing around it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, SHA3_512, digest};

use super::cases::INPUT_LEN;
use crate::table::median;

/// How long one thing is done at a time.
const SLICE: Duration = Duration::from_millis(40);
const ROUNDS: usize = 15;

/// Nanoseconds of one call of `work`, the median of rounds.
pub(super) fn time(mut work: impl FnMut()) -> f64 {
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let (start, mut times) = (Instant::now(), 0_u32);
            while start.elapsed() < SLICE {
                // The clock is looked at rarely: it costs as much as a digest.
                for _ in 0..16 {
                    work();
                }
                times += 16;
            }
            start.elapsed().as_nanos() as f64 / f64::from(times)
        })
        .collect();
    median(&mut rounds)
}

/// SHA-256 and SHA3-512 of an input, in nanoseconds.
pub(super) fn hashes() -> (f64, f64) {
    let input = vec![7_u8; INPUT_LEN];
    let sha256 = time(|| drop(black_box(digest(&SHA256, black_box(&input)))));
    let sha3 = time(|| drop(black_box(digest(&SHA3_512, black_box(&input)))));
    (sha256, sha3)
}
