//! Rate limits a minute: of inits by address or token, which wire 1 has by default, and of openings without a session by address.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use parking_lot::Mutex;

/// Maximum number of keys; while all are in use, every new request is rejected.
const KEYS_MAX: usize = 100_000;

/// A limiter for keys of one kind.
#[derive(Debug)]
pub struct PerMinute<K: Hash + Eq + Clone> {
    limiter: Option<DefaultKeyedRateLimiter<K>>,
    /// Uses that were counted and given back, by key.
    returned: Mutex<HashMap<K, u32>>,
}

impl<K: Hash + Eq + Clone> PerMinute<K> {
    /// Creates a limiter of `count` a minute, with a burst of the same size; 0 means no limit.
    pub fn new(count: u32) -> Self {
        PerMinute {
            limiter: NonZeroU32::new(count).map(|count| DefaultKeyedRateLimiter::keyed(Quota::per_minute(count))),
            returned: Mutex::default(),
        }
    }

    /// Counts one use of `key`.
    ///
    /// # Errors
    /// Seconds after which to retry.
    pub fn take(&self, key: &K) -> Result<(), u64> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if self.take_returned(key) {
            return Ok(());
        }
        if limiter.len() >= KEYS_MAX {
            limiter.retain_recent();
            if limiter.len() >= KEYS_MAX {
                return Err(60);
            }
        }
        limiter.check_key(key).map_err(|not_until| {
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            (wait + Duration::from_millis(999)).as_secs().max(1)
        })
    }

    /// Gives back one use of `key`, for a caller that learns after [`PerMinute::take`] that it does not count. At most as many are kept
    /// as `key` had at work at one time.
    pub fn give_back(&self, key: &K) {
        if self.limiter.is_some() {
            let mut returned = self.returned.lock();
            if returned.len() < KEYS_MAX || returned.contains_key(key) {
                let count = returned.entry(key.clone()).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    fn take_returned(&self, key: &K) -> bool {
        let mut returned = self.returned.lock();
        let Some(count) = returned.get_mut(key) else { return false };
        *count -= 1;
        if *count == 0 {
            returned.remove(key);
        }
        true
    }

    /// Forgets keys that are back at their full quota.
    pub fn sweep(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_that_is_given_back_can_be_taken_again_by_its_key_alone() {
        let limit = PerMinute::new(1);
        assert!(limit.take(&1).is_ok());
        assert!(limit.take(&1).is_err());
        limit.give_back(&1);
        assert!(limit.take(&2).is_ok());
        assert!(limit.take(&2).is_err());
        assert!(limit.take(&1).is_ok());
        assert!(limit.take(&1).is_err());
        let none = PerMinute::new(0);
        none.give_back(&1);
        assert!(none.returned.lock().is_empty());
    }
}
