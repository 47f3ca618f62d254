//! Counts and times of the channels of a run. Every time is kept, so that percentiles are exact: eight bytes for each stage and
//! channel.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_runtime::clock::{Clock, SystemClock};
use serde::Serialize;

use super::{ChannelFailure, FailureStage, TimedStage};

/// Upper bound of the codes of one stage that are counted separately: they come from the relay, and may be any text.
const CODES_MAX: usize = 64;
const TIMED: usize = TimedStage::ALL.len();
const FAILING: usize = FailureStage::ALL.len();

/// Counts and times of channels, updated by all threads.
#[derive(Debug, Default)]
pub struct Tally {
    inner: Mutex<Inner>,
    active: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    counted: ChannelCounts,
    /// Second of the wall clock, and the number of channels that succeeded in it.
    second: (u64, u64),
    /// Number of threads that have made all their channels.
    ready: usize,
    steady_since: Option<Instant>,
    steady_until: Option<Instant>,
}

/// Failures at one stage, by code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Failures {
    /// Number of failures at the stage.
    pub(crate) count: u64,
    /// Number of failures by code; from 64 codes on, new ones count as `other`.
    pub(crate) codes: BTreeMap<String, u64>,
    /// Description of the first failure.
    pub(crate) first: Option<String>,
}

/// Counts and times until a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelCounts {
    /// Times by stage, in nanoseconds, of successful channels alone; sorted in the result of [`Tally::counted`].
    pub(crate) times: [Vec<u64>; TIMED],
    /// Failures by stage, in the order of [`FailureStage`].
    pub(crate) failures: [Failures; FAILING],
    /// Number of channels that were begun.
    pub(crate) attempted: u64,
    /// Number of channels that succeeded.
    pub(crate) succeeded: u64,
    /// Highest number of channels that were open at once.
    pub(crate) active_peak: u64,
    /// Number of channels that were open until their peer, at another generator, left them.
    pub(crate) left: u64,
    /// Highest number of channels that succeeded within one second of the wall clock.
    pub(crate) peak_per_s: u64,
    /// Time for which all channels stayed open after the last one was made.
    pub(crate) steady: Duration,
}

/// State of a run, for progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelProgress {
    /// Number of channels that were begun.
    pub(crate) attempted: u64,
    /// Number of channels that succeeded.
    pub(crate) succeeded: u64,
    /// Number of channels that failed.
    pub(crate) failed: u64,
    /// Number of channels that are open.
    pub(crate) active: u64,
    /// True if all channels were made and none is being closed.
    pub(crate) is_steady: bool,
    /// True if the open channels are being closed.
    pub(crate) is_over: bool,
}

impl Tally {
    /// Counts a channel that begins.
    pub(crate) fn begins(&self) {
        self.inner.lock().counted.attempted += 1;
    }

    /// Counts a channel that succeeded, with its times.
    pub(crate) fn succeeds(&self, times: &[(TimedStage, Duration)]) {
        let mut inner = self.inner.lock();
        inner.counted.succeeded += 1;
        for (timed, took) in times {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            inner.counted.times[*timed as usize].push(ns);
        }
        let second = SystemClock.now_ms() / 1000;
        inner.second = if inner.second.0 == second { (second, inner.second.1 + 1) } else { (second, 1) };
        inner.counted.peak_per_s = inner.counted.peak_per_s.max(inner.second.1);
    }

    /// Counts a channel that failed.
    pub(crate) fn fails(&self, failure: &ChannelFailure) {
        let mut inner = self.inner.lock();
        let seen = &mut inner.counted.failures[failure.at as usize];
        seen.count += 1;
        let is_known = seen.codes.contains_key(&failure.code) || seen.codes.len() < CODES_MAX;
        *seen.codes.entry(if is_known { failure.code.clone() } else { "other".into() }).or_default() += 1;
        seen.first.get_or_insert_with(|| failure.words.clone());
    }

    /// Counts a channel that stays open.
    pub(crate) fn stays(&self) {
        let active = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        let peak = &mut self.inner.lock().counted.active_peak;
        *peak = active.max(*peak);
    }

    /// Counts down an open channel that is closed.
    pub(crate) fn leaves(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a channel that its peer, at another generator, has left.
    pub(crate) fn is_left(&self) {
        self.inner.lock().counted.left += 1;
    }

    /// Counts a thread that has made all its channels; after the last of `threads`, the steady time begins.
    pub(crate) fn is_ready(&self, threads: usize) {
        let mut inner = self.inner.lock();
        inner.ready += 1;
        if inner.ready >= threads {
            inner.steady_since.get_or_insert_with(Instant::now);
        }
    }

    /// Returns whether all threads have been ready for this time. If no channel is open, it suffices that they are ready.
    pub(crate) fn was_ready_for(&self, time: Duration) -> bool {
        let is_idle = self.active.load(Ordering::Relaxed) > 0;
        self.inner.lock().steady_since.is_some_and(|since| !is_idle || since.elapsed() >= time)
    }

    /// Ends the steady time: the open channels are about to be closed.
    pub(crate) fn ends(&self) {
        self.inner.lock().steady_until.get_or_insert_with(Instant::now);
    }

    /// Returns the state of the run.
    pub(crate) fn standing(&self) -> ChannelProgress {
        let inner = self.inner.lock();
        ChannelProgress {
            attempted: inner.counted.attempted,
            succeeded: inner.counted.succeeded,
            failed: inner.counted.failed(),
            active: self.active.load(Ordering::Relaxed),
            is_steady: inner.steady_since.is_some() && inner.steady_until.is_none(),
            is_over: inner.steady_until.is_some(),
        }
    }

    /// Returns the counts and times until now.
    pub(crate) fn counted(&self) -> ChannelCounts {
        let inner = self.inner.lock();
        let mut counted = inner.counted.clone();
        counted.times.iter_mut().for_each(|times| times.sort_unstable());
        if let (Some(from), Some(to)) = (inner.steady_since, inner.steady_until) {
            counted.steady = to.saturating_duration_since(from);
        }
        counted
    }
}

impl ChannelCounts {
    /// Returns the number of failures, those of channels that were lost later included.
    pub(crate) fn failed(&self) -> u64 {
        self.failures.iter().map(|seen| seen.count).sum()
    }

    /// Returns the failures at a stage.
    pub(crate) fn at(&self, failing: FailureStage) -> &Failures {
        &self.failures[failing as usize]
    }

    /// Returns the number of failures with a code, at all stages.
    pub(crate) fn of_code(&self, code: &str) -> u64 {
        self.failures.iter().filter_map(|seen| seen.codes.get(code)).sum()
    }
}

/// Returns the time at a share of a sorted list, by the rule `sorted[floor((n-1)p)]`; `None` for an empty list.
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
        let shown = [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| percentile(&times, share).unwrap());
        assert_eq!(shown, [1, 5, 9, 9, 10]);
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[7], 0.99), Some(7));
    }

    #[test]
    fn failures_are_counted_by_stage_and_code_with_the_first_words_and_a_bound_on_codes() {
        let tally = Tally::default();
        for number in 0..200 {
            tally.begins();
            tally.fails(&ChannelFailure::new(
                FailureStage::ClientAttach,
                format!("code_{number}"),
                format!("number {number}"),
            ));
        }
        tally.fails(&ChannelFailure::new(FailureStage::RpcCall, "rpc_timeout", "late"));
        let counted = tally.counted();
        let seen = counted.at(FailureStage::ClientAttach);
        assert_eq!((seen.count, seen.codes.len(), seen.codes["other"]), (200, CODES_MAX + 1, 136));
        assert_eq!(seen.first.as_deref(), Some("number 0"));
        assert_eq!((counted.failed(), counted.of_code("rpc_timeout"), counted.attempted), (201, 1, 200));
    }

    #[test]
    fn times_are_sorted_and_only_of_channels_that_succeeded() {
        let tally = Tally::default();
        for ms in [3, 1, 2] {
            tally.begins();
            tally.succeeds(&[(TimedStage::WsOpen, Duration::from_millis(ms))]);
            tally.stays();
        }
        tally.leaves();
        let counted = tally.counted();
        assert_eq!(counted.times[0], [1_000_000, 2_000_000, 3_000_000]);
        assert_eq!((counted.succeeded, counted.active_peak, tally.standing().active), (3, 3, 2));
        assert!(counted.peak_per_s >= 1);
    }
}
