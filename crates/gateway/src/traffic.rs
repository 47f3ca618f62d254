//! Counts of requests by class, and of their durations, in buckets narrow enough for percentiles of the last seconds;
//! shown for a running process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;

/// Buckets per doubling of time: a value is accurate to one part in eight.
const STEPS: u64 = 8;
/// Number of buckets, for durations from 1 µs to more than an hour.
const BUCKETS: usize = 33 * STEPS as usize;
/// Number of counters between which threads are spread, so that they do not contend.
const SHARDS: usize = 8;

/// Traffic counts since the start.
#[derive(Debug)]
pub struct Traffic {
    shards: Box<[Shard]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    /// Answers by the first digit of the status.
    classes: [AtomicU64; 5],
    buckets: Box<[AtomicU64]>,
}

/// Traffic counts at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Answers by the first digit of the status, 1xx first.
    pub classes: [u64; 5],
    buckets: Vec<u64>,
}

/// Percentiles of the durations of requests, in microseconds, accurate to one part in eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Latency {
    /// Half of the requests took no longer.
    pub p50: u64,
    /// Nine of ten requests took no longer.
    pub p90: u64,
    /// Ninety-nine of a hundred requests took no longer.
    pub p99: u64,
    /// No request took longer than this.
    pub max: u64,
}

impl Default for Traffic {
    fn default() -> Self {
        let counters = |len| (0..len).map(|_| AtomicU64::new(0)).collect();
        let shard = || Shard { classes: Default::default(), buckets: counters(BUCKETS) };
        Traffic { shards: (0..SHARDS).map(|_| shard()).collect() }
    }
}

impl Traffic {
    /// Counts an answer, whose head was ready after `took`.
    pub fn record(&self, status: StatusCode, took: Duration) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        let shard = &self.shards[SHARD.with(|shard| *shard)];
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
        shard.classes[class].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        shard.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current counts, summed over all shards.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { classes: [0; 5], buckets: vec![0; BUCKETS] };
        for shard in &self.shards {
            for (sum, count) in counts.classes.iter_mut().zip(&shard.classes) {
                *sum += count.load(Ordering::Relaxed);
            }
            for (sum, count) in counts.buckets.iter_mut().zip(&shard.buckets) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        counts
    }
}

/// Returns the bucket of a duration: up to 8 µs each value has its own; above, each doubling has eight.
fn bucket(us: u64) -> usize {
    let doublings = us.max(1).ilog2().saturating_sub(3);
    let index = u64::from(doublings) * STEPS + (us >> doublings);
    usize::try_from(index).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// Returns the largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    ((bucket - doublings * STEPS + 1) << doublings) - 1
}

impl Counts {
    /// Returns the number of all answers.
    pub fn total(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// Returns the percentiles of requests counted since `before`; `None` if there were none.
    pub fn latency_since(&self, before: &Counts) -> Option<Latency> {
        let older = before.buckets.iter().chain(std::iter::repeat(&0));
        let buckets: Vec<u64> = self.buckets.iter().zip(older).map(|(now, then)| now.saturating_sub(*then)).collect();
        let total: u64 = buckets.iter().sum();
        let at = |part: u64, of: u64| {
            let mut left = (total * part).div_ceil(of).max(1);
            let reached = buckets.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            upper(reached.unwrap_or(BUCKETS - 1))
        };
        (total > 0).then(|| Latency { p50: at(1, 2), p90: at(9, 10), p99: at(99, 100), max: at(1, 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_a_bucket_that_is_near_it() {
        let mut last = 0;
        for us in (0..10_000).chain([50_000, 1_000_000, 3_600_000_000]) {
            let bucket = bucket(us);
            assert!(bucket >= last && bucket < BUCKETS, "{us}");
            last = bucket;
            let upper = upper(bucket);
            assert!(upper >= us && upper <= us + us / 8, "{us} is taken for {upper}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_cover_only_the_time_since_the_last_reading() {
        let traffic = Traffic::default();
        traffic.record(StatusCode::OK, Duration::from_secs(9));
        let before = traffic.counts();
        assert_eq!(traffic.counts().latency_since(&before), None);
        for ms in 1..=100 {
            traffic.record(StatusCode::BAD_GATEWAY, Duration::from_millis(ms));
        }
        let now = traffic.counts();
        assert_eq!((now.classes, now.total()), ([0, 1, 0, 0, 100], 101));
        let latency = now.latency_since(&before).unwrap();
        for (got, want) in [(latency.p50, 50), (latency.p90, 90), (latency.p99, 99), (latency.max, 100)] {
            assert!(got >= want * 1000 && got <= want * 1125, "{got} for {want} ms");
        }
        assert!(now.latency_since(&Counts::default()).unwrap().max >= 9_000_000);
    }
}
