//! What became of the channels of a run. Every time is kept, so that percentiles are exact: eight bytes a stage and channel.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sealway_runtime::clock::{Clock, SystemClock};

use super::{Broke, Failing, Timed};

/// Codes of one stage that are told apart; what a relay says is a stranger's, and may be anything.
const CODES_MAX: usize = 64;
const TIMED: usize = Timed::ALL.len();
const FAILING: usize = Failing::ALL.len();

/// What became of the channels, counted by all threads.
#[derive(Debug, Default)]
pub struct Tally {
    inner: Mutex<Inner>,
    active: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    times: [Vec<u64>; TIMED],
    failures: [Failures; FAILING],
    attempted: u64,
    succeeded: u64,
    active_peak: u64,
    left: u64,
    /// The wall clock's second, and channels that came about in it.
    second: (u64, u64),
    second_peak: u64,
    /// Threads that have made all theirs.
    ready: usize,
    steady_since: Option<Instant>,
    steady_until: Option<Instant>,
}

/// Failures at one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    /// How many.
    pub(crate) count: u64,
    /// By code.
    pub(crate) codes: BTreeMap<String, u64>,
    /// The first one's words.
    pub(crate) first: Option<String>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Times by stage in nanoseconds, sorted; of channels that came about alone.
    pub(crate) times: [Vec<u64>; TIMED],
    /// Failures by stage.
    pub(crate) failures: [Failures; FAILING],
    /// Channels that were begun.
    pub(crate) attempted: u64,
    /// Channels that came about.
    pub(crate) succeeded: u64,
    /// Most channels that were open at once.
    pub(crate) active_peak: u64,
    /// Channels that stood until their other end, which is elsewhere, left them.
    pub(crate) left: u64,
    /// Most channels that came about within one second of the wall clock.
    pub(crate) peak_per_s: u64,
    /// How long all stayed open after the last one was made.
    pub(crate) steady: Duration,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Channels that were begun.
    pub(crate) attempted: u64,
    /// Channels that came about.
    pub(crate) succeeded: u64,
    /// Channels that failed.
    pub(crate) failed: u64,
    /// Channels that are open.
    pub(crate) active: u64,
    /// Whether no more are made.
    pub(crate) is_steady: bool,
    /// Whether those that stayed open are let go.
    pub(crate) is_over: bool,
}

impl Tally {
    /// A channel begins.
    pub(crate) fn begins(&self) {
        self.lock().attempted += 1;
    }

    /// A channel came about, in these times.
    pub(crate) fn succeeds(&self, times: &[(Timed, Duration)]) {
        let mut inner = self.lock();
        inner.succeeded += 1;
        for (timed, took) in times {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            inner.times[*timed as usize].push(ns);
        }
        let second = SystemClock.now_ms() / 1000;
        inner.second = if inner.second.0 == second { (second, inner.second.1 + 1) } else { (second, 1) };
        inner.second_peak = inner.second_peak.max(inner.second.1);
    }

    /// A channel failed.
    pub(crate) fn fails(&self, broke: &Broke) {
        let mut inner = self.lock();
        let seen = &mut inner.failures[broke.at as usize];
        seen.count += 1;
        let is_known = seen.codes.contains_key(&broke.code) || seen.codes.len() < CODES_MAX;
        *seen.codes.entry(if is_known { broke.code.clone() } else { "other".into() }).or_default() += 1;
        seen.first.get_or_insert_with(|| broke.words.clone());
    }

    /// A channel stays open.
    pub(crate) fn stays(&self) {
        let active = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        let mut inner = self.lock();
        inner.active_peak = inner.active_peak.max(active);
    }

    /// A channel that stayed open is let go.
    pub(crate) fn leaves(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// The other end of a channel, which is elsewhere, has left it.
    pub(crate) fn is_left(&self) {
        self.lock().left += 1;
    }

    /// One of so many threads has made all its channels.
    pub(crate) fn is_ready(&self, threads: usize) {
        let mut inner = self.lock();
        inner.ready += 1;
        if inner.ready >= threads {
            inner.steady_since.get_or_insert_with(Instant::now);
        }
    }

    /// Whether all threads were ready so long ago, or no channel is open, so that there is nothing to be idle.
    pub(crate) fn was_ready_for(&self, time: Duration) -> bool {
        let is_idle = self.active.load(Ordering::Relaxed) > 0;
        self.lock().steady_since.is_some_and(|since| !is_idle || since.elapsed() >= time)
    }

    /// The channels that stayed open are about to be let go.
    pub(crate) fn ends(&self) {
        self.lock().steady_until.get_or_insert_with(Instant::now);
    }

    /// Where it is.
    pub(crate) fn standing(&self) -> Standing {
        let inner = self.lock();
        Standing {
            attempted: inner.attempted,
            succeeded: inner.succeeded,
            failed: inner.failures.iter().map(|seen| seen.count).sum(),
            active: self.active.load(Ordering::Relaxed),
            is_steady: inner.steady_since.is_some() && inner.steady_until.is_none(),
            is_over: inner.steady_until.is_some(),
        }
    }

    /// Everything that was counted until now.
    pub(crate) fn counted(&self) -> Counted {
        let inner = self.lock();
        let mut times = inner.times.clone();
        times.iter_mut().for_each(|times| times.sort_unstable());
        let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_duration_since(from),
            _ => Duration::ZERO,
        };
        Counted {
            times,
            failures: inner.failures.clone(),
            attempted: inner.attempted,
            succeeded: inner.succeeded,
            active_peak: inner.active_peak,
            left: inner.left,
            peak_per_s: inner.second_peak,
            steady: between(inner.steady_since, inner.steady_until),
        }
    }

    /// A thread that panicked while it held this left nothing half done.
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Counted {
    /// Channels that failed, those that were lost later among them.
    pub(crate) fn failed(&self) -> u64 {
        self.failures.iter().map(|seen| seen.count).sum()
    }

    /// Failures at a stage.
    pub(crate) fn at(&self, failing: Failing) -> &Failures {
        &self.failures[failing as usize]
    }

    /// Failures of a code, at whatever stage.
    pub(crate) fn of_code(&self, code: &str) -> u64 {
        self.failures.iter().filter_map(|seen| seen.codes.get(code)).sum()
    }
}

/// The time of a share of them, by the rule `sorted[floor((n-1)p)]`; none of none.
pub(crate) fn percentile(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).floor() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times: Vec<u64> = (1..=10).collect();
        let told = [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| percentile(&times, share).unwrap());
        assert_eq!(told, [1, 5, 9, 9, 10]);
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[7], 0.99), Some(7));
    }

    #[test]
    fn failures_are_counted_by_stage_and_code_with_the_first_words_and_a_bound_on_codes() {
        let tally = Tally::default();
        for number in 0..200 {
            tally.begins();
            tally.fails(&Broke::new(Failing::ClientAttach, format!("code_{number}"), format!("number {number}")));
        }
        tally.fails(&Broke::new(Failing::RpcCall, "rpc_timeout", "late"));
        let counted = tally.counted();
        let seen = counted.at(Failing::ClientAttach);
        assert_eq!((seen.count, seen.codes.len(), seen.codes["other"]), (200, CODES_MAX + 1, 136));
        assert_eq!(seen.first.as_deref(), Some("number 0"));
        assert_eq!((counted.failed(), counted.of_code("rpc_timeout"), counted.attempted), (201, 1, 200));
    }

    #[test]
    fn times_are_of_what_came_about_and_sorted() {
        let tally = Tally::default();
        for ms in [3, 1, 2] {
            tally.begins();
            tally.succeeds(&[(Timed::WsOpen, Duration::from_millis(ms))]);
            tally.stays();
        }
        tally.leaves();
        let counted = tally.counted();
        assert_eq!(counted.times[0], [1_000_000, 2_000_000, 3_000_000]);
        assert_eq!((counted.succeeded, counted.active_peak, tally.standing().active), (3, 3, 2));
        assert!(counted.peak_per_s >= 1);
    }
}
