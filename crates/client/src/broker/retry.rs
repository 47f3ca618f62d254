//! When a call is made once more, and after which pause.
//!
//! The one code that is answered with a retry is UNAVAILABLE, the client's own where it has no connection included: with any
//! other the broker has looked at the call, and would say the same again, or has too much to do already. Every operation may
//! be repeated but those that change the key store: what is computed is computed anew and the earlier answer is lost to nobody
//! (a second encryption has a nonce of its own, a second certificate a serial number of its own). `Generate`, `Import` and
//! `Rotate` sent twice could make a key or a version that nobody knows of, so they are repeated only where the first attempt
//! surely was not sent.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How often and how fast calls are repeated, always within their deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// Attempts of one call, the first included; 1 never repeats. 5 unless said.
    pub attempts: u32,
    /// The longest pause before the second attempt; it doubles with each. 20 ms unless said.
    pub first: Duration,
    /// The longest pause at all. 500 ms unless said.
    pub longest: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        RetryOptions { attempts: 5, first: Duration::from_millis(20), longest: Duration::from_millis(500) }
    }
}

impl RetryOptions {
    /// Every call is made once.
    pub const NEVER: RetryOptions =
        RetryOptions { attempts: 1, first: Duration::from_millis(20), longest: Duration::from_millis(500) };

    /// The pause after this many attempts, 1 or more: anywhere between nothing and the bound, so that those who lost the
    /// broker together do not come back together.
    pub(crate) fn pause(&self, attempts: u32) -> Duration {
        self.pause_at(attempts, random_share())
    }

    fn pause_at(&self, attempts: u32, share: f64) -> Duration {
        let doublings = attempts.saturating_sub(1).min(20);
        self.first.saturating_mul(1 << doublings).min(self.longest).mul_f64(share)
    }
}

/// Whether a call may be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Twice is as good as once.
    Always,
    /// Only where the first was surely not sent.
    Unsent,
}

/// From 0 to 1. The standard library's keys of hash maps are random enough for a pause, and cost no dependency.
fn random_share() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_bound_and_lie_anywhere_below_it() {
        let retry = RetryOptions::default();
        let most: Vec<_> = (1..=7).map(|attempts| retry.pause_at(attempts, 1.0).as_millis()).collect();
        assert_eq!(most, [20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(retry.pause_at(3, 0.0), Duration::ZERO);
        assert_eq!(retry.pause_at(u32::MAX, 0.5), Duration::from_millis(250));
    }

    #[test]
    fn random_shares_differ_and_stay_below_one() {
        let shares: Vec<_> = (0..1000).map(|_| random_share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = shares.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }
}
