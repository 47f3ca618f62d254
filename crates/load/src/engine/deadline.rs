//! The end of a request's time, without arming a timer for each request.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use tokio::time::Sleep;

/// A timer that one worker uses for all its requests. It is armed for the first, and moved only when it goes off: a
/// request's end is never before that of the one before it, so that it never goes off too late.
#[derive(Debug, Default)]
pub(super) struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// What the future gives, or nothing if it is not there at that moment, which is told within about a millisecond.
    pub(super) async fn limit<F: Future>(&mut self, at: Instant, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            let timer = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
            while timer.as_mut().poll(cx).is_ready() {
                if Instant::now() >= at {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(at.into());
            }
            Poll::Pending
        })
        .await
    }
}
