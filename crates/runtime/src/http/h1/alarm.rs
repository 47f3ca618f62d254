//! A deadline that is cheap to move: one timer for a connection, which checks the deadline when it fires.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that may be set, moved and cleared. The timer behind is created when the deadline is first polled, and is reset
/// only when it fires too early, or would fire too late. It may wake a task that no longer waits: after a deadline was moved or cleared.
#[derive(Debug, Default)]
pub struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    at: Option<Instant>,
}

impl Alarm {
    /// Sets or moves the deadline.
    pub fn set(&mut self, at: Instant) {
        self.at = Some(at);
    }

    /// Sets the deadline, unless it is already set to an earlier time.
    pub(crate) fn set_earlier(&mut self, at: Instant) {
        self.at = Some(self.at.map_or(at, |known| known.min(at)));
    }

    /// Returns whether a deadline is set.
    pub(crate) fn is_set(&self) -> bool {
        self.at.is_some()
    }

    /// Clears the deadline, if it is set.
    pub(crate) fn clear(&mut self) {
        self.at = None;
    }

    /// Returns ready once the deadline has passed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_deadline_that_moves_is_kept_to_in_both_directions() {
        let start = Instant::now();
        let mut alarm = Alarm::default();
        alarm.set(start + Duration::from_millis(20));
        let first = poll_fn(|cx| Poll::Ready(alarm.poll(cx).is_ready())).await;
        alarm.set(start + Duration::from_millis(60));
        poll_fn(|cx| alarm.poll(cx)).await;
        assert!(!first && start.elapsed() >= Duration::from_millis(60));
        alarm.set(start + Duration::from_secs(600));
        let late = poll_fn(|cx| Poll::Ready(alarm.poll(cx).is_ready())).await;
        alarm.set_earlier(start + Duration::from_millis(80));
        poll_fn(|cx| alarm.poll(cx)).await;
        assert!(!late && start.elapsed() < Duration::from_secs(300));
    }
}
