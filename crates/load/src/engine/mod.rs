//! Generates the load of a plan from several threads and reports the measurements once a second.
//!
//! * Each thread, a *shard*, has its own event loop, connections and recorder. Shards share only the number of requests
//!   left, if the plan bounds it. A collector merges their measurements.
//! * A request belongs to the warm-up if it was *due* before the warm-up's end. If it ends later, no figure counts it.
//! * Requests under way when the time is over, or when the run is stopped, are cut and counted as unfinished. A run that
//!   ends by its number of requests, loops or bursts waits for the last answer, at most for the request timeout.
//! * A run that has never opened a connection is abandoned after two seconds, or after the first failure if that comes
//!   later: it ends as [`EndReason::Failed`]. A worker of a closed loop that cannot connect waits 100 ms before it retries,
//!   so that an unavailable target is not flooded.
//! * A pause starts no requests; requests that waited for a worker then count as unsent.

mod arrivals;
mod closed;
mod collect;
mod control;
mod deadline;
mod open;
mod run;
mod shard;
mod timer;
mod usage;
mod verdict;
mod worker;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::control::Control;
pub use self::run::Run;
use crate::plan::Plan;
use crate::record::{Second, Totals, serial};

/// Reason why a run cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The plan's target is unusable: files that do not load, or a host without an address.
    #[error("{0}")]
    Target(String),
    /// The system provides no thread, or no event loop for one.
    #[error("{0}")]
    Thread(String),
}

/// Report of one second of a run.
#[derive(Clone, Debug)]
pub struct Tick {
    /// Second that has just ended.
    pub second: Second,
    /// Totals of the run so far.
    pub totals: Totals,
}

/// Reason why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "why", rename_all = "snake_case")]
pub enum EndReason {
    /// The time was over, or all requests were made.
    Done,
    /// The run was stopped by [`Control::stop`].
    Stopped,
    /// The run could not go on: the reason, in one line.
    Failed(String),
}

impl EndReason {
    /// Returns its name in documents, and the reason of a failure.
    pub(crate) fn name_and_reason(&self) -> (&'static str, Option<&str>) {
        match self {
            EndReason::Done => ("done", None),
            EndReason::Stopped => ("stopped", None),
            EndReason::Failed(why) => ("failed", Some(why)),
        }
    }
}

/// Bottleneck that limited a run's rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", content = "why", rename_all = "snake_case")]
pub enum Limit {
    /// Target: the generator had time to spare and waited for answers.
    Target,
    /// None: the offered rate was met.
    Offered,
    /// Generator, with the reason. The figures say nothing about the target.
    Generator(String),
    /// Unknown because no request succeeded, with the reason and a remedy. The figures do not show the target's capacity.
    Unmeasured(String),
}

/// Resources that the generator itself used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Number of threads that generated the load.
    pub threads: usize,
    /// Number of cores this process may use.
    pub cores: usize,
    /// Processor time divided by measured time: 1.0 is one core.
    #[serde(rename = "cpu_cores", serialize_with = "serial::finite")]
    pub cpu: f64,
    /// Share of a core that the busiest thread used.
    #[serde(rename = "cpu_busiest_share", serialize_with = "serial::finite")]
    pub cpu_busiest: f64,
    /// 99th percentile of the delay of the generator's timers.
    #[serde(rename = "lag_p99_ns", with = "serial::nanoseconds")]
    pub lag_p99: Duration,
    /// Longest delay of a timer.
    #[serde(rename = "lag_max_ns", with = "serial::nanoseconds")]
    pub lag_max: Duration,
    /// Resident memory at the end, in bytes; 0 if unknown.
    pub memory_bytes: u64,
}

/// Results of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Plan that the run carried out.
    pub plan: Plan,
    /// Start of the run, in milliseconds since 1970.
    pub started_ms: u64,
    /// Time from the run's start to its end, warm-up included.
    pub elapsed: Duration,
    /// Totals of the measured time, without the warm-up.
    pub totals: Totals,
    /// Measurements second by second, warm-up included.
    pub seconds: Vec<Second>,
    /// Resources that the generator used.
    pub generator: Generator,
    /// Bottleneck that held the rate back.
    pub limit: Limit,
    /// Cautions for the reader of the figures, one sentence each.
    pub warnings: Vec<String>,
    /// Reason why the run ended.
    pub ended: EndReason,
}

impl Outcome {
    /// Returns the successful requests per second of measured time.
    pub fn rate(&self) -> f64 {
        let seconds = self.totals.measured.as_secs_f64();
        if seconds > 0.0 { self.totals.sum.counts.succeeded as f64 / seconds } else { 0.0 }
    }
}
