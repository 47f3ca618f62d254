//! Shutdown: on SIGTERM or SIGINT the process accepts nothing new, answers the requests in flight, and ends after a bound.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The state of the shutdown, shared by all components that must stop.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    stopping: CancellationToken,
    aborting: CancellationToken,
    tasks: TaskTracker,
    /// The trackers of parents, which wait for this one's tasks too.
    above: Vec<TaskTracker>,
}

impl Shutdown {
    /// Creates a shutdown that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a shutdown that may begin separately, and begins with this one: both wait for its tasks.
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

    /// Returns a token that is cancelled with this shutdown, and can be cancelled separately: for components without tasks of
    /// their own.
    #[cfg(feature = "http")]
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stopping.child_token()
    }

    /// Resolves once shutdown has begun: accept nothing new, finish the work in progress.
    pub async fn begun(&self) {
        self.stopping.cancelled().await;
    }

    /// Returns whether shutdown has begun.
    pub fn has_begun(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Resolves when the bound on draining is over: drop the rest.
    pub async fn aborted(&self) {
        self.aborting.cancelled().await;
    }

    /// Spawns a task that draining waits for.
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

    /// Begins the shutdown; later calls do nothing.
    pub fn begin(&self) {
        self.stopping.cancel();
    }

    /// Waits for every task, at most `drain`; then drops the rest. Returns the number of dropped tasks.
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

/// SIGTERM, SIGINT and SIGHUP, received from the moment this is created.
#[derive(Debug)]
pub struct StopSignals {
    term: Signal,
    int: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// Installs the handlers. Call it before anything listens, so that no signal ends the process undrained.
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub fn install() -> std::io::Result<Self> {
        Ok(StopSignals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves when a signal has arrived, with its name: SIGTERM or SIGINT (`true`), or SIGHUP (`false`).
    pub async fn next(&mut self) -> (bool, &'static str) {
        tokio::select! {
            _ = self.term.recv() => (true, "SIGTERM"),
            _ = self.int.recv() => (true, "SIGINT"),
            _ = self.hangup.recv() => (false, "SIGHUP"),
        }
    }

    /// Resolves when SIGTERM or SIGINT has arrived, with its name.
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
