//! How many inits an address or a token may make in a minute: wire 1 asks for it.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

/// Most keys watched at once; when they are all in use, everybody waits.
const KEYS_MAX: usize = 100_000;

/// A limiter for keys of one kind.
#[derive(Debug)]
pub struct PerMinute<K: Hash + Eq + Clone> {
    limiter: Option<DefaultKeyedRateLimiter<K>>,
}

impl<K: Hash + Eq + Clone> PerMinute<K> {
    /// At most `count` a minute, all of them at once if need be; 0 is no limit.
    pub fn new(count: u32) -> Self {
        PerMinute {
            limiter: NonZeroU32::new(count).map(|count| DefaultKeyedRateLimiter::keyed(Quota::per_minute(count))),
        }
    }

    /// Takes one.
    ///
    /// # Errors
    /// After how many seconds to try again.
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

    /// Forgets keys that have been quiet.
    pub fn sweep(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
        }
    }
}
