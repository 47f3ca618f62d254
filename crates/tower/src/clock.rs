//! Access to the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// Returns milliseconds since the epoch.
    fn now_ms(&self) -> u64;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the layer's own door to the clock: it may not import the servers' shell"
    )]
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
