//! Runs plans one after another, reports events to displays and exports, and stops on signals.

use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::shutdown::StopSignals;
use tokio::sync::{Notify, mpsc};

use crate::engine::{Control, EndReason, Outcome, Run, StartError};
use crate::plan::Plan;
use crate::progress::Event;
use crate::record::Totals;

/// Upper bound of the events that wait for a display.
pub(super) const NEWS_MAX: usize = 256;
/// Longest time that a display may delay an event that must not be lost. Figures of a second are dropped at once instead.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runner of plans, one after another.
pub(crate) struct Driver {
    watchers: Vec<mpsc::Sender<Event>>,
    signals: StopSignals,
    stop_request: Arc<Notify>,
    is_stopped: bool,
}

impl Driver {
    /// Creates a driver that reports to these displays and exports. SIGTERM, SIGINT and a notification of `stop_request` stop its run.
    ///
    /// # Errors
    /// If the handler of a signal cannot be installed.
    pub(crate) fn new(watchers: Vec<mpsc::Sender<Event>>, stop_request: Arc<Notify>) -> std::io::Result<Self> {
        Ok(Driver { watchers, signals: StopSignals::install()?, stop_request, is_stopped: false })
    }

    /// Returns whether a run was stopped: then the caller must not start another.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Sends an event to all displays and exports. One that does not take an event in time gets no more events, so that none of
    /// them delays the run for long.
    pub(crate) async fn publish(&mut self, event: Event) {
        let is_second = matches!(event, Event::Tick(_));
        let mut gone = Vec::new();
        for (index, watcher) in self.watchers.iter().enumerate() {
            let is_gone = match watcher.try_send(event.clone()) {
                Ok(()) => false,
                Err(mpsc::error::TrySendError::Closed(_)) => true,
                Err(mpsc::error::TrySendError::Full(_)) if is_second => false,
                Err(mpsc::error::TrySendError::Full(event)) => watcher.send_timeout(event, PATIENCE).await.is_err(),
            };
            if is_gone {
                gone.push(index);
            }
        }
        for index in gone.into_iter().rev() {
            self.watchers.remove(index);
        }
    }

    /// Runs a plan to its end. Returns its outcome, and the totals of the first second that ends at `mark` after the start or
    /// later.
    ///
    /// # Errors
    /// If the run cannot start.
    pub(crate) async fn run(&mut self, plan: Plan, mark: Duration) -> Result<(Outcome, Option<Totals>), StartError> {
        let shared = Arc::new(plan.clone());
        let started = tokio::task::spawn_blocking(move || Run::start(plan)).await;
        let mut run = started.map_err(|err| StartError::Thread(err.to_string()))??;
        let control = run.control();
        self.publish(Event::Run { plan: shared, control: control.clone() }).await;
        let mut marked = None;
        loop {
            let tick = tokio::select! {
                tick = run.tick() => tick,
                _ = self.signals.stopped(), if !self.is_stopped => {
                    self.stop(&control);
                    continue;
                }
                () = self.stop_request.notified(), if !self.is_stopped => {
                    self.stop(&control);
                    continue;
                }
            };
            let Some(tick) = tick else { break };
            if marked.is_none() && !mark.is_zero() && tick.second.at >= mark {
                marked = Some(tick.totals.clone());
            }
            self.publish(Event::Tick(Box::new(tick))).await;
        }
        let outcome = run.outcome().await;
        self.is_stopped |= outcome.ended == EndReason::Stopped;
        self.publish(Event::Outcome(Box::new(outcome.clone()))).await;
        Ok((outcome, marked))
    }

    fn stop(&mut self, control: &Control) {
        self.is_stopped = true;
        control.stop();
    }
}
