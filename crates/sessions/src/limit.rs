//! Rate limits of inits a minute, by address or token; wire 1 has them by default.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

/// Maximum number of keys; while all are in use, every new request is rejected.
const KEYS_MAX: usize = 100_000;

/// A limiter for keys of one kind.
#[derive(Debug)]
pub struct PerMinute<K: Hash + Eq + Clone> {
    limiter: Option<DefaultKeyedRateLimiter<K>>,
}

impl<K: Hash + Eq + Clone> PerMinute<K> {
    /// Creates a limiter of `count` a minute, with a burst of the same size; 0 means no limit.
    pub fn new(count: u32) -> Self {
        PerMinute {
            limiter: NonZeroU32::new(count).map(|count| DefaultKeyedRateLimiter::keyed(Quota::per_minute(count))),
        }
    }

    /// Counts one use of `key`.
    ///
    /// # Errors
    /// Seconds after which to retry.
    pub fn take(&self, key: &K) -> Result<(), u64> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
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

    /// Forgets keys that are back at their full quota.
    pub fn sweep(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
        }
    }
}
