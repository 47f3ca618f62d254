//! Bodies of sealed requests, within time limits.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use sealway_exchange::body::{Body, Incoming};
use sealway_proto::exchange::BodyFault;
use tokio::time::{Instant, Sleep};

/// Time limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Maximum time between two parts.
    pub(crate) idle: Duration,
    /// Maximum time of the whole body, from the first wait for it.
    pub(crate) time: Duration,
}

/// A body within time limits: if one is exceeded, it ends with a [`BodyFault`], never short. The reader bounds its
/// length.
pub(crate) struct TimedBody {
    inner: Body,
    flow: Flow,
    end: Option<Instant>,
    /// Deadline of the part that is awaited.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub(crate) fn new(inner: Body, flow: Flow) -> Self {
        TimedBody { inner, flow, end: None, deadline: None }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.deadline = None;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(BodyFault::Broken))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let now = Instant::now();
                let end = *this.end.get_or_insert(now + this.flow.time);
                let until = end.min(now + this.flow.idle);
                let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
                deadline.as_mut().poll(cx).map(|()| Some(Err(BodyFault::TooSlow)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Incoming for TimedBody {
    fn fault(error: &BodyFault) -> BodyFault {
        *error
    }
}
