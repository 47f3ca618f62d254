//! Reconnection: new grants, and growing random waits between attempts.

use std::future::Future;
use std::time::Duration;

use sealway_proto::crypto::default_provider;
use tokio::time::Instant;

use super::error::Error;

/// Waits between attempts: each is random between zero and a bound that doubles, so that many clients of a lost relay
/// do not reconnect at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Bound of the first wait. Default 250 ms.
    pub first: Duration,
    /// Bound of every wait. Default 30 s.
    pub max: Duration,
    /// Duration of an attempt or a channel after which the next wait starts from the first again. Default 10 s.
    pub settled: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first: Duration::from_millis(250), max: Duration::from_secs(30), settled: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// Bound of the wait after `failures` in a row.
    fn bound(&self, failures: u32) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        doubled.min(self.max)
    }

    /// Random wait after `failures` in a row. `random` is any 32 bits.
    fn wait(&self, failures: u32, random: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        self.bound(failures).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// Counter of failed attempts, which waits between them.
#[derive(Debug)]
pub struct Attempts {
    backoff: Backoff,
    failures: u32,
    since: Option<Instant>,
}

impl Attempts {
    /// Creates a counter without any attempt.
    pub fn new(backoff: Backoff) -> Self {
        Attempts { backoff, failures: 0, since: None }
    }

    /// Repeats an attempt, with waits between, until one succeeds. `failed` is called with each failure and the longest
    /// wait before the next attempt.
    ///
    /// # Errors
    /// The first failure that is not passing ([`Error::is_passing`]).
    pub async fn until_one_succeeds<T, A>(
        &mut self,
        mut attempt: impl FnMut() -> A,
        mut failed: impl FnMut(&Error, Duration),
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Error>>,
    {
        if self.since.take().is_some_and(|since| since.elapsed() < self.backoff.settled) {
            // A channel that ends at once each time counts as a failure.
            self.failures = self.failures.saturating_add(1);
        } else {
            self.failures = 0;
        }
        loop {
            tokio::time::sleep(self.backoff.wait(self.failures, random())).await;
            let begun = Instant::now();
            match attempt().await {
                Ok(made) => {
                    self.since = Some(Instant::now());
                    if begun.elapsed() >= self.backoff.settled {
                        self.failures = 0;
                    }
                    return Ok(made);
                }
                Err(err) if err.is_passing() => {
                    let lasted = begun.elapsed() >= self.backoff.settled;
                    self.failures = if lasted { 0 } else { self.failures.saturating_add(1) };
                    failed(&err, self.backoff.bound(self.failures));
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// Counts one more failed attempt.
    ///
    /// Returns the wait before the next one, and its bound.
    pub(super) fn failed(&mut self) -> (Duration, Duration) {
        self.failures = self.failures.saturating_add(1);
        (self.backoff.wait(self.failures, random()), self.backoff.bound(self.failures))
    }

    /// Records that the last channel or grant has served its purpose: no wait precedes the next attempt.
    pub fn served(&mut self) {
        (self.failures, self.since) = (0, None);
    }
}

fn random() -> u32 {
    let mut bytes = [0xff; 4];
    // Without randomness the wait is the whole bound.
    let _ = default_provider().fill_random(&mut bytes);
    u32::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::error::Stage;

    #[test]
    fn reconnect_waits_double_to_their_bound_with_full_jitter() {
        let backoff = Backoff::default();
        assert_eq!(backoff.wait(0, u32::MAX), Duration::ZERO);
        assert_eq!(backoff.wait(1, u32::MAX), Duration::from_millis(250));
        assert_eq!(backoff.wait(3, u32::MAX), Duration::from_secs(1));
        assert_eq!(backoff.wait(4000, u32::MAX), Duration::from_secs(30));
        assert_eq!(backoff.wait(9, 0), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_stop_at_success_or_at_a_permanent_error() {
        let mut attempts = Attempts::new(Backoff::default());
        let mut left = 3;
        let mut told = 0;
        let made = attempts
            .until_one_succeeds(
                || {
                    left -= 1;
                    let result =
                        if left == 0 { Ok(7) } else { Err(Error::new(Stage::Connect, "connection_refused", "")) };
                    async move { result }
                },
                |_, _| told += 1,
            )
            .await;
        assert_eq!((made.unwrap(), told), (7, 2));
        let refused = || async { Err::<(), _>(Error::new(Stage::Grant, "unauthorized", "")) };
        assert_eq!(attempts.until_one_succeeds(refused, |_, _| {}).await.unwrap_err().code, "unauthorized");
        assert_eq!(attempts.failures, 3, "the channel before had not lasted");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_asks_for_the_next_channel_at_once_waits_only_if_the_last_one_failed_early() {
        // A listener accepts one peer after another; each connected after a while.
        let mut attempts = Attempts::new(Backoff::default());
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok::<_, Error>(())
        };
        for _ in 0..10 {
            attempts.until_one_succeeds(slow, |_, _| {}).await.unwrap();
            assert_eq!(attempts.failures, 0, "that it took long is no failure");
        }
        let begun = Instant::now();
        for _ in 0..10 {
            attempts.served();
            attempts.until_one_succeeds(|| async { Ok::<_, Error>(()) }, |_, _| {}).await.unwrap();
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "peers that come in a row are all taken at once");
    }
}
