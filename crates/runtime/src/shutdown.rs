//! Stopping: on SIGTERM or SIGINT nothing new is accepted, what is in flight is answered, and after a bound it ends.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Shared by everything that has to stop.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    stopping: CancellationToken,
    aborting: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    /// Not stopping yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Resolves once stopping has begun: accept nothing new, finish what is there.
    pub async fn begun(&self) {
        self.stopping.cancelled().await;
    }

    /// Whether stopping has begun.
    pub fn has_begun(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Resolves when the bound on draining is over: drop what is left.
    pub async fn aborted(&self) {
        self.aborting.cancelled().await;
    }

    /// Runs a task that draining waits for.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task);
    }

    /// Begins to stop.
    pub fn begin(&self) {
        self.stopping.cancel();
    }

    /// Waits for every task, at most `drain`; then drops what is left. Returns how many tasks were dropped.
    pub async fn drain(&self, drain: Duration) -> usize {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(drain, self.tasks.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tasks.len();
        self.aborting.cancel();
        // Dropping is prompt; the bound is for a task that ignores it.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.tasks.wait()).await;
        left
    }
}

/// SIGTERM and SIGINT, listened for from the moment this is made.
#[derive(Debug)]
pub struct StopSignals {
    term: Signal,
    int: Signal,
}

impl StopSignals {
    /// Installs the handlers. To be done before anything listens, so that no signal ends the process undrained.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn install() -> std::io::Result<Self> {
        Ok(StopSignals { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// Resolves when one came, with its name.
    pub async fn stopped(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}
