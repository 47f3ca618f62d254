//! One request on a stream, and its answer.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use sealway_runtime::http::h2::{Reason, RequestHead};

use super::failure;
use super::line::Line;
use crate::record::Failure;
use crate::request::CurrentRequest;
use crate::target::multiplexed::{self, ExchangeError};
use crate::target::{Sample, keep};

/// Request in progress. Dropping it before the end of its answer resets its stream.
pub(super) struct Exchange<'a> {
    line: &'a Line,
    stream: u32,
    /// Time at which the request was sent.
    sent_at: Instant,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let connection = &mut *self.line.connection();
        connection.drop_reader(self.stream);
        connection.drop_writer(self.stream, Reason::Cancel);
    }
}

/// Wait for a place on a connection. The place of a waiter that gives up goes to the next one.
struct Waiting<'a> {
    line: &'a Line,
    waker: Option<Waker>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(waker) = &self.waker {
            self.line.connection().cancel_open(waker);
        }
    }
}

impl<'a> Exchange<'a> {
    /// Sends a request as soon as the server allows one more. Without `wants_body`, the body of the answer is dropped as it
    /// arrives. `started` is the time of the request if it need not wait; `None` takes the time of the moment.
    ///
    /// # Errors
    /// The connection takes no more requests.
    pub(super) async fn open(
        line: &'a Line,
        (head, mut body): (&RequestHead, Bytes),
        wants_body: bool,
        started: Option<Instant>,
    ) -> Result<Self, ExchangeError> {
        let mut waiting = Waiting { line, waker: None };
        poll_fn(|cx| {
            let connection = &mut *line.connection();
            match connection.poll_can_open(cx) {
                Poll::Pending => {
                    waiting.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(Err(err)) => {
                    waiting.waker = None;
                    return Poll::Ready(Err(ExchangeError::Unseen(failure::of(err, connection, line.seen()))));
                }
                Poll::Ready(Ok(())) => {}
            }
            let has_waited = waiting.waker.take().is_some();
            let sent_at = started.filter(|_| !has_waited).unwrap_or_else(Instant::now);
            let body = std::mem::take(&mut body);
            let stream = connection.open(head, body.is_empty());
            if !body.is_empty() {
                connection.send(stream, body, true);
                connection.drop_writer(stream, Reason::Cancel);
            }
            if !wants_body {
                connection.skip_data(stream);
            }
            Poll::Ready(Ok(Exchange { line, stream, sent_at }))
        })
        .await
    }

    /// Reads the answer to its end.
    ///
    /// # Errors
    /// There is no whole answer.
    pub(super) async fn read(self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), ExchangeError> {
        poll_fn(|cx| self.poll_head(cx, prepared, sample)).await?;
        Ok(poll_fn(|cx| self.poll_body(cx, prepared, sample)).await?)
    }

    fn poll_head(
        &self,
        cx: &mut Context<'_>,
        prepared: &mut CurrentRequest,
        sample: &mut Sample,
    ) -> Poll<Result<(), ExchangeError>> {
        let connection = &mut *self.line.connection();
        loop {
            match ready!(connection.poll_response(self.stream, cx)) {
                Ok(head) if head.status.is_informational() => {}
                Ok(head) => {
                    sample.first_byte = Some(self.line.heard_at().saturating_duration_since(self.sent_at));
                    self.line.set_served();
                    multiplexed::take_head(head.status, head.headers, prepared, sample);
                    return Poll::Ready(Ok(()));
                }
                Err(err) => {
                    let is_unseen = failure::is_unseen(err, connection);
                    let failure = failure::of(err, connection, self.line.seen());
                    let failed = if is_unseen { ExchangeError::Unseen } else { ExchangeError::Failed };
                    return Poll::Ready(Err(failed(failure)));
                }
            }
        }
    }

    fn poll_body(
        &self,
        cx: &mut Context<'_>,
        prepared: &mut CurrentRequest,
        sample: &mut Sample,
    ) -> Poll<Result<(), Failure>> {
        let connection = &mut *self.line.connection();
        loop {
            match ready!(connection.poll_piece(self.stream, cx)) {
                Some(Ok(piece)) => {
                    if let (Some(data), Some(kept)) = (piece.data_ref(), prepared.body()) {
                        keep(kept, data)?;
                    }
                }
                Some(Err(err)) => return Poll::Ready(Err(failure::of(err, connection, self.line.seen()))),
                None => {
                    sample.ended = Some(self.line.heard_at());
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}
