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
    /// Those that wait for this one's tasks too.
    above: Vec<TaskTracker>,
}

impl Shutdown {
    /// Not stopping yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that may stop alone, and stops with this one: its tasks are waited for by both.
    pub fn child(&self) -> Self {
        let mut above = self.above.clone();
        above.push(self.tasks.clone());
        Shutdown {
            stopping: self.stopping.child_token(),
            aborting: self.aborting.child_token(),
            tasks: TaskTracker::new(),
            above,
        }
    }

    /// Stops with this, and can be stopped alone: for what has no tasks of its own.
    #[cfg(feature = "http")]
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stopping.child_token()
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
        match self.above.as_slice() {
            [] => self.tasks.spawn(task),
            [above] => self.tasks.spawn(above.track_future(task)),
            several => {
                let tokens: Vec<_> = several.iter().map(TaskTracker::token).collect();
                self.tasks.spawn(async move {
                    task.await;
                    drop(tokens);
                })
            }
        };
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

/// SIGTERM, SIGINT and SIGHUP, listened for from the moment this is made.
#[derive(Debug)]
pub struct StopSignals {
    term: Signal,
    int: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// Installs the handlers. To be done before anything listens, so that no signal ends the process undrained.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn install() -> std::io::Result<Self> {
        Ok(StopSignals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves when one that stops came (`true`), or SIGHUP (`false`), with its name.
    pub async fn next(&mut self) -> (bool, &'static str) {
        tokio::select! {
            _ = self.term.recv() => (true, "SIGTERM"),
            _ = self.int.recv() => (true, "SIGINT"),
            _ = self.hangup.recv() => (false, "SIGHUP"),
        }
    }

    /// Resolves when one that stops came, with its name.
    pub async fn stopped(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_child_stops_alone_and_both_wait_for_its_tasks() {
        let whole = Shutdown::new();
        let (one, other) = (whole.child(), whole.child());
        for part in [&one, &other, &one.child()] {
            let waits = part.clone();
            part.spawn(async move { waits.aborted().await });
        }
        assert_eq!(one.drain(Duration::from_millis(5)).await, 2, "its own task and a grandchild's");
        assert!(!other.has_begun() && !whole.has_begun());
        assert_eq!(whole.drain(Duration::from_millis(5)).await, 1, "the other's task is left");
        assert!(other.has_begun());
    }
}
