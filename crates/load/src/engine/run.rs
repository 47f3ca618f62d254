//! Life of a run from its start to its outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sealway_runtime::clock::{Clock, SystemClock};
use tokio::sync::{mpsc, oneshot};

use super::collect::Collector;
use super::shard::{self, Lines, RunState};
use super::{Control, EndReason, Generator, Limit, Outcome, StartError, Tick};
use crate::plan::{Arrival, Plan};
use crate::record::{Interval, Timeline, Totals};
use crate::target::TargetSetup;

/// Maximum number of pending ticks. Further ticks are dropped; [`Outcome::seconds`] has all seconds.
const TICKS_MAX: usize = 8;
/// Maximum number of empty intervals kept ready for one shard.
const SPARE_MAX: usize = 2;
/// Time from the moment all shards are ready to the start.
const LEAD: Duration = Duration::from_millis(5);

/// Run in progress. Dropping it ends the run.
#[derive(Debug)]
pub struct Run {
    plan: Arc<Plan>,
    control: Control,
    halt: Arc<AtomicBool>,
    ticks: mpsc::Receiver<Tick>,
    outcome: Option<oneshot::Receiver<Outcome>>,
    started_ms: u64,
}

/// Handles of one shard's thread.
struct Thread {
    handle: JoinHandle<()>,
    go: Sender<Timeline>,
    spare: std::sync::mpsc::SyncSender<Box<Interval>>,
}

impl Run {
    /// Starts the threads, and the load on all of them at the same moment. Blocks until they are ready, which includes
    /// resolving the target's host name.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the target cannot be prepared, or the system provides no thread.
    pub fn start(mut plan: Plan) -> Result<Run, StartError> {
        plan.threads = threads(&plan);
        let control = Control::default();
        let halt = Arc::new(AtomicBool::new(false));
        let setup = Arc::new(TargetSetup::new(&plan)?);
        let plan = Arc::new(plan);
        let budget = plan.stop.requests.map(|requests| Arc::new(AtomicU64::new(requests)));
        let shared = RunState { plan: plan.clone(), setup, control: control.clone(), halt: halt.clone(), budget };
        let (full, cuts) = channel();
        let (ready, readiness) = sync_channel(plan.threads);
        let mut threads = Vec::with_capacity(plan.threads);
        for index in 0..plan.threads {
            let (go, gone) = channel();
            let (spare, spares) = sync_channel(SPARE_MAX);
            let lines = Lines { ready: ready.clone(), go: gone, full: full.clone(), spare: spares };
            let shared = shared.clone();
            let handle = std::thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn(move || shard::run(index, shared, lines))
                .map_err(|error| StartError::Thread(format!("cannot start thread {index}: {error}")))?;
            threads.push(Thread { handle, go, spare });
        }
        drop(full);
        drop(ready);
        wait(&readiness, plan.threads)?;
        let start = Instant::now() + LEAD;
        let end = plan.stop.duration.and_then(|duration| start.checked_add(plan.warm_up)?.checked_add(duration));
        let timeline = Timeline { start, warm_up: plan.warm_up, end };
        let started_ms = SystemClock.now_ms();
        let mut handles = Vec::with_capacity(threads.len());
        let mut spares = Vec::with_capacity(threads.len());
        for thread in threads {
            // If the thread has ended by now, the collector reports it.
            let _ = thread.go.send(timeline);
            handles.push(thread.handle);
            spares.push(thread.spare);
        }
        let (tick, ticks) = mpsc::channel(TICKS_MAX);
        let (end, outcome) = oneshot::channel();
        let collector = Collector::new(shared, timeline, spares, tick);
        std::thread::Builder::new()
            .name("load-collect".into())
            .spawn(move || {
                let outcome = collector.run(&cuts, handles, started_ms);
                let _ = end.send(outcome);
            })
            .map_err(|error| StartError::Thread(format!("cannot start the collecting thread: {error}")))?;
        Ok(Run { plan, control, halt, ticks, outcome: Some(outcome), started_ms })
    }

    /// Returns a handle to pause, stop or scale the run.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits for the next second to end; `None` when the run is over. Seconds that are not read in time are left out.
    pub async fn tick(&mut self) -> Option<Tick> {
        self.ticks.recv().await
    }

    /// Waits for the run's end and returns its outcome.
    pub async fn outcome(mut self) -> Outcome {
        while self.tick().await.is_some() {}
        let outcome = match self.outcome.take() {
            Some(outcome) => outcome.await.ok(),
            None => None,
        };
        outcome.unwrap_or_else(|| self.lost())
    }

    /// Returns the outcome of a run whose collector has ended early, which only a bug can cause.
    fn lost(&self) -> Outcome {
        let reason = "the generator's collecting thread ended early; this is a defect of sealway load".to_string();
        Outcome {
            plan: (*self.plan).clone(),
            started_ms: self.started_ms,
            elapsed: Duration::ZERO,
            totals: Totals { measured: Duration::ZERO, sum: Interval::default() },
            seconds: Vec::new(),
            generator: Generator::default(),
            limit: Limit::Generator(reason.clone()),
            warnings: Vec::new(),
            ended: EndReason::Failed(reason),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.halt.store(true, Ordering::Relaxed);
    }
}

/// Returns the number of threads, at most the number of concurrent requests: each thread bounds its own part of them.
fn threads(plan: &Plan) -> usize {
    let useful = match plan.arrival {
        Arrival::Closed { .. } => usize::MAX,
        Arrival::Open { in_flight_max, .. } => in_flight_max,
        Arrival::Bursts { burst, .. } => burst,
    };
    plan.threads.min(useful).max(1)
}

/// Waits until all shards are ready.
fn wait(readiness: &Receiver<Result<(), StartError>>, threads: usize) -> Result<(), StartError> {
    for _ in 0..threads {
        readiness.recv().map_err(|_| {
            StartError::Thread("a thread of the generator ended early; this is a defect of sealway load".into())
        })??;
    }
    Ok(())
}
