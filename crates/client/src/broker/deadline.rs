//! Deadline of a call, which bounds its wait for a turn and all its attempts.

use std::time::{Duration, Instant};

/// Longest deadline: one hour. gRPC's header has eight digits.
pub const DEADLINE_MAX: Duration = Duration::from_secs(3600);

/// Point in time by which a call ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    length: Duration,
}

impl Deadline {
    /// A deadline `length` from now, at most [`DEADLINE_MAX`].
    pub(crate) fn after(length: Duration) -> Self {
        let length = length.min(DEADLINE_MAX);
        Deadline { at: Instant::now() + length, length }
    }

    /// Remaining time; `None` once the deadline has passed.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Full duration of the deadline, from its creation.
    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// Runs a future until the deadline; `None` if it did not finish.
    pub(crate) async fn bound<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.at.into(), future).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_deadline_ends_only_calls_that_take_longer() {
        let deadline = Deadline::after(Duration::from_millis(30));
        assert_eq!(deadline.bound(async { 1 }).await, Some(1));
        assert!(deadline.left().is_some_and(|left| left <= deadline.length()));
        assert_eq!(deadline.bound(std::future::pending::<()>()).await, None);
        assert_eq!(deadline.left(), None);
    }

    #[test]
    fn no_deadline_is_longer_than_an_hour() {
        assert_eq!(Deadline::after(Duration::MAX).length(), DEADLINE_MAX);
    }
}
