//! One thread that offers its share of the load.

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
use crate::target::{Connector, Ground};

/// How often a shard looks whether it is to end.
const WATCH: Duration = Duration::from_millis(10);

/// What all shards of a run share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) plan: Arc<Plan>,
    pub(super) ground: Arc<Ground>,
    pub(super) control: Control,
    /// The run is over for another reason than that somebody stopped it.
    pub(super) halt: Arc<AtomicBool>,
    /// Measured requests that may still start, where they are counted.
    pub(super) budget: Option<Arc<AtomicU64>>,
}

/// What one thread has.
pub(super) struct Shard {
    pub(super) index: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) ground: Arc<Ground>,
    pub(super) control: Control,
    pub(super) connector: Connector,
    pub(super) recorder: RefCell<Recorder>,
    pub(super) timeline: Timeline,
    halt: Arc<AtomicBool>,
    budget: Option<Arc<AtomicU64>>,
    workers: Cell<u64>,
}

/// The ends of the channels that one shard has.
pub(super) struct Lines {
    /// Says once that it is ready, or why it cannot be.
    pub(super) ready: SyncSender<Result<(), StartError>>,
    /// Tells when to start; nothing if another shard cannot.
    pub(super) go: Receiver<Timeline>,
    pub(super) full: Sender<Cut>,
    pub(super) spare: Receiver<Box<Interval>>,
}

/// The whole life of a shard's thread.
pub(super) fn run(index: usize, shared: Shared, lines: Lines) {
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
        plan: shared.plan,
        ground: shared.ground,
        control: shared.control,
        connector,
        recorder: RefCell::new(recorder),
        timeline,
        halt: shared.halt,
        budget: shared.budget,
        workers: Cell::new(0),
    });
    let tasks = LocalSet::new();
    runtime.block_on(tasks.run_until(shard.clone().offer()));
    shard.recorder.borrow_mut().before_cut(Instant::now());
    // What is under way is cut here, and counted by its drop.
    drop(tasks);
    shard.recorder.borrow_mut().end(Instant::now());
    // The measured time is over, and what channels cost while they are idle is not.
    if let Some(channels) = shard.connector.channels() {
        runtime.block_on(channels.hold(|| shard.is_halted()));
    }
}

fn prepare(index: usize, shared: &Shared) -> Result<(tokio::runtime::Runtime, Connector), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StartError::Thread(format!("cannot start a thread's event loop: {error}")))?;
    let entered = runtime.enter();
    let connector = Connector::new(&shared.plan, &shared.ground, index)?;
    drop(entered);
    Ok((runtime, connector))
}

impl Shard {
    /// Offers the load until the run is over.
    async fn offer(self: Rc<Self>) {
        tokio::time::sleep_until(self.timeline.start.into()).await;
        let offering = async {
            match &self.plan.arrival {
                Arrival::Closed { .. } => closed::offer(self.clone()).await,
                Arrival::Open { .. } | Arrival::Bursts { .. } => open::offer(self.clone()).await,
            }
        };
        tokio::select! {
            () = offering => {}
            () = self.watch() => {}
        }
    }

    /// Until the run is to end.
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

    /// Whether the run was told to end.
    fn is_halted(&self) -> bool {
        self.control.is_stopped() || self.halt.load(Ordering::Relaxed)
    }

    /// Whether one more request may start that is due then; takes it from the budget, which the warm-up has none of.
    pub(super) fn claim(&self, due: Instant) -> bool {
        match &self.budget {
            Some(budget) if due >= self.timeline.measured_from() => {
                budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            }
            _ => true,
        }
    }

    /// Whether no request may start any more.
    pub(super) fn is_spent(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.load(Ordering::Relaxed) == 0)
    }

    /// This shard's part of a whole number: the parts of all shards are the whole.
    pub(super) fn share(&self, whole: u64) -> u64 {
        let shards = self.plan.threads as u64;
        whole / shards + u64::from((self.index as u64) < whole % shards)
    }

    /// A seed that no other worker of the run has.
    pub(super) fn worker_seed(&self) -> u64 {
        let number = self.workers.get();
        self.workers.set(number + 1);
        let unique = number * self.plan.threads as u64 + self.index as u64;
        super::random::mix(self.plan.seed ^ super::random::mix(unique))
    }
}
