//! Merging of the seconds that the shards hand over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::shard::RunState;
use super::verdict::Facts;
use super::{EndReason, Generator, Outcome, Tick, usage};
use crate::record::{Cut, Interval, Second, Seconds, Timeline, Totals, Usage};

/// Time after which a run without any connection is abandoned.
const HOPELESS_AFTER: Duration = Duration::from_secs(2);

/// Merges the shards' intervals and sends a tick once a second.
pub(super) struct Collector {
    shared: RunState,
    timeline: Timeline,
    spares: Vec<SyncSender<Box<Interval>>>,
    ticks: mpsc::Sender<Tick>,
    /// Seconds that some but not all shards have handed over, oldest first.
    open: VecDeque<Open>,
    /// Index of the oldest open second.
    next: u32,
    shards: Vec<State>,
    seconds: Seconds,
    totals: Totals,
    processor: (Instant, Duration),
    /// Processor time of all measured seconds.
    processor_sum: Duration,
    /// Number of measured requests that waited for another to end.
    waited: u64,
    /// Longest delay of a measured burst's last request.
    spread: Duration,
    /// True if any connection was established, warm-up included.
    has_connected: bool,
    failed: Option<String>,
}

#[derive(Default)]
struct Open {
    interval: Interval,
    cuts: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Index and end of the shard's last second, once the shard has ended.
    last: Option<(u32, Instant)>,
    /// Processor time of the measured seconds.
    usage: Usage,
}

impl Collector {
    pub(super) fn new(
        shared: RunState,
        timeline: Timeline,
        spares: Vec<SyncSender<Box<Interval>>>,
        ticks: mpsc::Sender<Tick>,
    ) -> Self {
        let shards = vec![State::default(); spares.len()];
        Collector {
            shared,
            timeline,
            spares,
            ticks,
            open: VecDeque::new(),
            next: 0,
            shards,
            seconds: Seconds::default(),
            totals: Totals { measured: Duration::ZERO, sum: Interval::default() },
            processor: (Instant::now(), usage::of_this_process()),
            processor_sum: Duration::ZERO,
            waited: 0,
            spread: Duration::ZERO,
            has_connected: false,
            failed: None,
        }
    }

    /// Collects until the last shard has ended, and returns the outcome.
    pub(super) fn run(mut self, cuts: &Receiver<Cut>, handles: Vec<JoinHandle<()>>, started_ms: u64) -> Outcome {
        while let Ok(cut) = cuts.recv() {
            self.take(cut);
            while self.is_complete() {
                self.close();
            }
            if self.ticks.is_closed() {
                self.shared.halt.store(true, Ordering::Relaxed);
            }
        }
        while !self.open.is_empty() {
            self.close();
        }
        let lost = handles.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        if lost > 0 {
            self.failed =
                Some(format!("{lost} threads of the generator ended early; this is a defect of sealway load"));
        }
        self.outcome(started_ms)
    }

    fn take(&mut self, mut cut: Cut) {
        let at = (cut.index - self.next) as usize;
        while self.open.len() <= at {
            self.open.push_back(Open::default());
        }
        self.open[at].interval.add(&cut.interval);
        self.open[at].cuts += 1;
        let state = &mut self.shards[cut.shard];
        if !self.timeline.is_warm_up(cut.index) {
            state.usage.ran += cut.usage.ran;
            state.usage.waited += cut.usage.waited;
            self.waited += cut.waited;
            self.spread = self.spread.max(cut.spread);
        }
        state.last = cut.last.map(|end| (cut.index, end));
        cut.interval.clear();
        // A shard with enough spare intervals, or one that has ended, needs no more.
        let _ = self.spares[cut.shard].try_send(cut.interval);
    }

    /// Returns whether every shard has handed over the oldest second, or ended before it.
    fn is_complete(&self) -> bool {
        let ended = self.shards.iter().filter(|shard| shard.last.is_some_and(|(index, _)| index < self.next)).count();
        self.open.front().is_some_and(|open| open.cuts + ended >= self.shards.len())
    }

    /// Closes the oldest second, which is complete.
    fn close(&mut self) {
        let Some(Open { interval, .. }) = self.open.pop_front() else { return };
        let index = self.next;
        self.next += 1;
        let (begin, end) = (self.timeline.begin(index), self.timeline.begin(index + 1));
        let end = self.ended().filter(|_| self.open.is_empty()).map_or(end, |ended| ended.min(end));
        let length = end.saturating_sub(begin);
        let warm_up = self.timeline.is_warm_up(index);
        let cpu = self.processor(warm_up);
        let second = Second { warm_up, cpu, ..interval.second(index, end, length) };
        self.has_connected |= interval.counts.connections_opened > 0;
        if !warm_up {
            self.totals.measured += length;
            self.totals.sum.in_flight = 0;
            self.totals.sum.connections = 0;
            self.totals.sum.add(&interval);
        }
        self.seconds.push(second.clone());
        self.give_up_if_hopeless(&interval, end);
        // A full or closed channel drops the tick: the outcome has all seconds.
        let _ = self.ticks.try_send(Tick { second, totals: self.totals.clone() });
    }

    /// Returns the end of the last shard, once all have ended.
    fn ended(&self) -> Option<Duration> {
        let ends = self.shards.iter().map(|shard| shard.last.map(|(_, end)| end));
        let last = ends.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(last.saturating_duration_since(self.timeline.start))
    }

    /// Returns the cores in use since the last call.
    fn processor(&mut self, warm_up: bool) -> f64 {
        let now = (Instant::now(), usage::of_this_process());
        let (passed, used) = (now.0 - self.processor.0, now.1.saturating_sub(self.processor.1));
        self.processor = now;
        if !warm_up {
            self.processor_sum += used;
        }
        if passed.is_zero() { 0.0 } else { used.as_secs_f64() / passed.as_secs_f64() }
    }

    /// Ends a run that has never opened a connection and whose requests all failed for that reason: it would measure
    /// nothing.
    fn give_up_if_hopeless(&mut self, interval: &Interval, time: Duration) {
        let is_over = self.ended().is_some();
        if self.has_connected || self.failed.is_some() || !(time >= HOPELESS_AFTER || is_over) {
            return;
        }
        let faults = interval.faults();
        let all_connecting = faults.iter().all(|failure| failure.class.is_connecting());
        if let (Some(first), true, 0) = (faults.first(), all_connecting, interval.counts.succeeded) {
            self.failed = Some(format!("no connection could be opened: {}", first.example));
            self.shared.halt.store(true, Ordering::Relaxed);
        }
    }

    fn outcome(mut self, started_ms: u64) -> Outcome {
        let elapsed = self.ended().unwrap_or_else(|| self.timeline.start.elapsed());
        let measured = self.totals.measured.as_secs_f64().max(1e-9);
        let busiest = self.shards.iter().map(|shard| shard.usage.ran).max().unwrap_or_default();
        let lag = &self.totals.sum.lag;
        let generator = Generator {
            threads: self.shards.len(),
            cpu: self.processor_sum.as_secs_f64() / measured,
            cpu_busiest: busiest.as_secs_f64() / measured,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            lag_p99: Duration::from_nanos(lag.quantile_ns(0.99)),
            lag_max: Duration::from_nanos(lag.quantile_ns(1.0)),
            memory_bytes: usage::memory(),
        };
        let wanted = self.shards.iter().map(|shard| shard.usage.ran + shard.usage.waited).max().unwrap_or_default();
        let seconds = self.seconds.into_all();
        let facts = Facts {
            plan: &self.shared.plan,
            totals: &self.totals,
            seconds: &seconds,
            generator: &generator,
            wanted_busiest: wanted.as_secs_f64() / measured,
            waited: self.waited,
            spread: self.spread,
        };
        let limit = facts.limit();
        let warnings = facts.warnings(&limit);
        let ended = match self.failed.take() {
            Some(reason) => EndReason::Failed(reason),
            None if self.shared.control.is_stopped() => EndReason::Stopped,
            None => EndReason::Done,
        };
        Outcome {
            plan: Arc::unwrap_or_clone(self.shared.plan),
            started_ms,
            elapsed,
            totals: self.totals,
            seconds,
            generator,
            limit,
            warnings,
            ended,
        }
    }
}
