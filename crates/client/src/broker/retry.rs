//! Rules for retries: the calls that are retried, and the pauses between attempts.
//!
//! Only UNAVAILABLE leads to a retry, also the client's own for a missing connection. With any other code the broker
//! has examined the call and would answer the same, or is overloaded. Every operation may be repeated, except those
//! that change the key store: a repeated computation loses no state (a second encryption has a new nonce, a second
//! certificate a new serial number). `Generate`, `Import` and `Rotate` sent twice could create an unknown key or
//! version, so they are retried only if the first attempt was certainly not sent.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Number and pauses of attempts, always within the call's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// Attempts of one call, with the first; 1 disables retries. Default 5.
    pub attempts: u32,
    /// Longest pause before the second attempt; the bound doubles with each further attempt. Default 20 ms.
    pub first: Duration,
    /// Upper bound of all pauses. Default 500 ms.
    pub longest: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        RetryOptions { attempts: 5, first: Duration::from_millis(20), longest: Duration::from_millis(500) }
    }
}

impl RetryOptions {
    /// Options without retries: every call is made once.
    pub const NEVER: RetryOptions =
        RetryOptions { attempts: 1, first: Duration::from_millis(20), longest: Duration::from_millis(500) };

    /// The pause after this many attempts, 1 or more: a random share of the bound, so that clients that lost the broker
    /// together do not reconnect together.
    pub(crate) fn pause(&self, attempts: u32) -> Duration {
        self.pause_at(attempts, random_share())
    }

    fn pause_at(&self, attempts: u32, share: f64) -> Duration {
        let doublings = attempts.saturating_sub(1).min(20);
        self.first.saturating_mul(1 << doublings).min(self.longest).mul_f64(share)
    }
}

/// Conditions under which a call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A repetition does no harm.
    Always,
    /// Only if no earlier attempt was sent.
    Unsent,
}

/// A random number from 0 up to, not including, 1. The keys of the standard library's hash maps are random enough for a
/// pause, and cost no dependency.
fn random_share() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_bound_with_full_jitter() {
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
