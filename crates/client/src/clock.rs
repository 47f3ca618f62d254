//! The SDK's clocks: the wall clock, and the time since a request was sent.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "the SDK's own door to the clock: it may not import the servers' shell")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Time of sending by two clocks: the monotonic clock stops while a machine sleeps, and the wall clock may be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentAt {
    monotonic: Instant,
    wall_ms: u64,
}

impl SentAt {
    pub(crate) fn now() -> Self {
        SentAt { monotonic: Instant::now(), wall_ms: now_ms() }
    }

    /// Milliseconds since then by the clock that shows more, rounded up.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.longer(self.monotonic.elapsed(), now_ms())
    }

    #[cfg(test)]
    pub(crate) fn slept(&mut self, ms: u64) {
        self.wall_ms -= ms;
    }

    fn longer(&self, monotonic: Duration, wall_ms: u64) -> u64 {
        let monotonic = u64::try_from(monotonic.as_millis()).unwrap_or(u64::MAX);
        // Both readings are truncated to milliseconds: the wall clock's at its start and at its end.
        monotonic.max(wall_ms.saturating_sub(self.wall_ms)).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_is_the_longer_of_both_clocks() {
        let sent = SentAt { monotonic: Instant::now(), wall_ms: 1_000_000 };
        // Three cases: a machine that slept, a wall clock set back, and a start in the middle of a millisecond.
        assert_eq!(sent.longer(Duration::from_millis(5), 1_600_000), 600_001);
        assert_eq!(sent.longer(Duration::from_millis(5), 400_000), 6);
        assert_eq!(sent.longer(Duration::from_micros(1999), 1_000_001), 2);
    }
}
