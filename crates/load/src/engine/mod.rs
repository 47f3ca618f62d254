//! Offers the load of a plan from several threads, and hands on what they saw, once a second.
//!
//! * Each thread, a *shard*, has an event loop, connections and a recorder of its own, and shares nothing with the others
//!   but the number of requests that are left, where that is bounded. A collector merges what they saw.
//! * A request belongs to the warm-up if it was *due* before the warm-up's end. If it ends later, it is in no figure.
//! * What is under way when the time is over, or when somebody stops the run, is cut and counted as unfinished. A run that
//!   ends by the number of its requests, loops or bursts waits for the last answer, no longer than the request timeout.
//! * A run of whose connections none ever stood is given up after two seconds, or after the first failure if that comes
//!   later: it ends as [`Ended::Failed`]. A worker of the closed model that cannot connect waits 100 ms before it tries
//!   again, so that a target that is gone is not stormed.
//! * A pause starts nothing; requests that waited for a worker are then counted as unsent.

mod arrivals;
mod closed;
mod collect;
mod control;
mod deadline;
mod open;
mod random;
mod run;
mod shard;
mod timer;
mod usage;
mod verdict;
mod worker;

use std::time::Duration;

pub use self::control::Control;
pub use self::run::Run;
use crate::plan::Plan;
use crate::record::{Second, Totals};

/// Why a load cannot be offered at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The plan asks for what cannot be done: files that do not load, a host without an address.
    #[error("{0}")]
    Target(String),
    /// The system gives no thread, or no event loop for one.
    #[error("{0}")]
    Thread(String),
}

/// What is told once a second.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The second that has ended.
    pub second: Second,
    /// The run until now.
    pub totals: Totals,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time was over, or all its requests were made.
    Done,
    /// Somebody stopped it.
    Stopped,
    /// It made no sense to go on: the reason, in one line.
    Failed(String),
}

/// What held the rate back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The target: the generator had time to spare, and waited for answers.
    Target,
    /// Nothing: the offered rate was met.
    Offered,
    /// The generator; why, in words. The figures say nothing of the target.
    Generator(String),
    /// Unknown, as no request succeeded; why, and what to do. The figures say nothing of what the target can do.
    Unmeasured(String),
}

/// What the run cost the generator itself.
#[derive(Clone, Debug, Default)]
pub struct Generator {
    /// Threads that offered the load.
    pub threads: usize,
    /// Processor time over measured time: 1.0 is one core.
    pub cpu: f64,
    /// The busiest thread's share of its core.
    pub cpu_busiest: f64,
    /// Cores this process may use.
    pub cores: usize,
    /// 99 % of its timers were no later.
    pub lag_p99: Duration,
    /// Its latest timer.
    pub lag_max: Duration,
    /// Resident memory at the end, in bytes.
    pub memory_bytes: u64,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked for.
    pub plan: Plan,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// From its start to its end, warm-up included.
    pub elapsed: Duration,
    /// Everything that was measured.
    pub totals: Totals,
    /// Second by second, warm-up included.
    pub seconds: Vec<Second>,
    /// What it cost the generator.
    pub generator: Generator,
    /// What held the rate back.
    pub limit: Limit,
    /// What a reader must know before believing the figures, each in one sentence.
    pub warnings: Vec<String>,
    /// Why it ended.
    pub ended: Ended,
}

impl Outcome {
    /// Requests that succeeded, a second of measured time.
    pub fn rate(&self) -> f64 {
        let seconds = self.totals.measured.as_secs_f64();
        if seconds > 0.0 { self.totals.sum.counts.succeeded as f64 / seconds } else { 0.0 }
    }
}
