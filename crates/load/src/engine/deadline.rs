//! Request timeout that does not arm a timer for each request.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use tokio::time::Sleep;

/// Timer that one worker uses for all its requests. It is armed for the first request and moved only when it fires: a
/// request's deadline is never before that of the previous request, so the timer never fires too late.
#[derive(Debug, Default)]
pub(super) struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Returns the future's output, or `None` once `at` has passed, within about a millisecond.
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
