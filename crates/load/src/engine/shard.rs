//! One thread that generates its share of the load.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use super::timer::Timer;
use super::{Control, StartError, closed, open, usage};
use crate::plan::{Arrival, Plan, Resumption};
use crate::record::{Cut, Interval, Recorder, Timeline};
use crate::request::Random;
use crate::target::{Connector, TargetSetup};

/// Interval at which a shard checks whether the run is over.
const WATCH: Duration = Duration::from_millis(10);

/// State that all shards of a run share.
#[derive(Clone)]
pub(super) struct RunState {
    pub(super) plan: Arc<Plan>,
    pub(super) setup: Arc<TargetSetup>,
    pub(super) control: Control,
    /// True if the run is over for a reason other than [`Control::stop`].
    pub(super) halt: Arc<AtomicBool>,
    /// Number of measured requests that may still start, if the plan bounds it.
    pub(super) budget: Option<Arc<AtomicU64>>,
}

/// State of one shard's thread.
pub(super) struct Shard {
    pub(super) index: usize,
    pub(super) run: RunState,
    pub(super) connector: Connector,
    pub(super) recorder: RefCell<Recorder>,
    pub(super) timeline: Timeline,
    workers: Cell<u64>,
}

/// One shard's ends of the channels to the run and the collector.
pub(super) struct Lines {
    /// Reports once that the shard is ready, or its error.
    pub(super) ready: SyncSender<Result<(), StartError>>,
    /// Delivers the timeline at the start; closed if another shard cannot start.
    pub(super) go: Receiver<Timeline>,
    pub(super) full: Sender<Cut>,
    pub(super) spare: Receiver<Box<Interval>>,
}

/// Runs a shard's thread from its start to its end.
pub(super) fn run(index: usize, shared: RunState, lines: Lines) {
    let prepared = prepare(index, &shared);
    let (runtime, connector) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = lines.ready.send(Err(error));
            return;
        }
    };
    if lines.ready.send(Ok(())).is_err() {
        return;
    }
    let Ok(timeline) = lines.go.recv() else { return };
    let apart = shared.plan.target.tls.as_ref().is_some_and(|tls| tls.resumption == Resumption::Both);
    let recorder = Recorder::new(
        index,
        timeline,
        (connector.gauge(), apart),
        Box::new(usage::of_this_thread()),
        (lines.full, lines.spare),
    );
    let shard = Rc::new(Shard {
        index,
        run: shared,
        connector,
        recorder: RefCell::new(recorder),
        timeline,
        workers: Cell::new(0),
    });
    let tasks = LocalSet::new();
    runtime.block_on(tasks.run_until(shard.clone().offer()));
    shard.recorder.borrow_mut().before_cut(Instant::now());
    // Cuts the requests under way; dropping a request counts it as unfinished.
    drop(tasks);
    shard.recorder.borrow_mut().end(Instant::now());
    // The measured time is over: idle channels do not count towards it.
    if let Some(channels) = shard.connector.channels() {
        runtime.block_on(channels.hold(|| shard.is_halted()));
    }
}

fn prepare(index: usize, shared: &RunState) -> Result<(tokio::runtime::Runtime, Connector), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StartError::Thread(format!("cannot start a thread's event loop: {error}")))?;
    let entered = runtime.enter();
    let connector = Connector::new(&shared.plan, &shared.setup, index)?;
    drop(entered);
    Ok((runtime, connector))
}

impl Shard {
    /// Generates the load until the run is over.
    async fn offer(self: Rc<Self>) {
        tokio::time::sleep_until(self.timeline.start.into()).await;
        let offering = async {
            match &self.run.plan.arrival {
                Arrival::Closed { .. } => closed::offer(self.clone()).await,
                Arrival::Open { .. } | Arrival::Bursts { .. } => open::offer(self.clone()).await,
            }
        };
        tokio::select! {
            () = offering => {}
            () = self.watch() => {}
        }
    }

    /// Waits until the run is to end; meanwhile hands over ended seconds and records timer delays.
    async fn watch(&self) {
        let end = self.timeline.end;
        let mut timer = Timer::new();
        loop {
            let now = Instant::now();
            self.recorder.borrow_mut().roll(now);
            if end.is_some_and(|end| now >= end) || self.is_halted() {
                return;
            }
            let next = end.map_or(now + WATCH, |end| end.min(now + WATCH));
            timer.until(next).await;
            let now = Instant::now();
            self.recorder.borrow_mut().lag(now, now.saturating_duration_since(next));
        }
    }

    /// Returns whether the run was stopped or halted.
    fn is_halted(&self) -> bool {
        self.run.control.is_stopped() || self.run.halt.load(Ordering::Relaxed)
    }

    /// Returns whether one more request with this due time may start, and takes it from the budget. Warm-up requests are not
    /// counted.
    pub(super) fn claim(&self, due: Instant) -> bool {
        match &self.run.budget {
            Some(budget) if due >= self.timeline.measured_from() => {
                budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            }
            _ => true,
        }
    }

    /// Returns whether the budget of requests is spent.
    pub(super) fn is_spent(&self) -> bool {
        self.run.budget.as_ref().is_some_and(|budget| budget.load(Ordering::Relaxed) == 0)
    }

    /// Returns this shard's part of a whole number; the parts of all shards add up to the whole.
    pub(super) fn share(&self, whole: u64) -> u64 {
        let shards = self.run.plan.threads as u64;
        whole / shards + u64::from((self.index as u64) < whole % shards)
    }

    /// Returns a seed that no other worker of the run has.
    pub(super) fn worker_seed(&self) -> u64 {
        let number = self.workers.get();
        self.workers.set(number + 1);
        let unique = number * self.run.plan.threads as u64 + self.index as u64;
        Random::new(self.run.plan.seed ^ Random::new(unique).number()).number()
    }
}
