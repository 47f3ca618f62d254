//! A body that is cut when its session ends, by expiry or by a revocation in any process.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::Error;
use sealway_proto::exchange::Refusal;
use sealway_proto::session::Session;
use tokio::time::Instant;

use crate::body::{Body, BoxError};
use crate::open::Fault;
use crate::sessions::{LOOK_INTERVAL, Sessions, over};

/// A body in flight under a session.
pub(crate) struct Cut<S> {
    body: Body,
    sessions: Arc<S>,
    session: Arc<Session>,
    since: Instant,
    /// Created when the body has taken longer than [`LOOK_INTERVAL`]: most do not.
    over: Option<Pin<Box<dyn Future<Output = Error> + Send>>>,
    /// Set to the end of the session, for the answer to the request.
    fault: Fault,
    /// Error of the requests of the session, once it has ended.
    cut: Option<Error>,
}

impl<S: Sessions> Cut<S> {
    pub(crate) fn new(body: Body, sessions: &Arc<S>, session: &Arc<Session>, fault: Fault) -> Self {
        let (sessions, session) = (sessions.clone(), session.clone());
        Cut { body, sessions, session, since: Instant::now(), over: None, fault, cut: None }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let (sessions, session) = (&self.sessions, &self.session);
        let over = self.over.get_or_insert_with(|| {
            let (sessions, session) = (sessions.clone(), session.clone());
            Box::pin(async move { over(&*sessions, &session).await })
        });
        over.as_mut().poll(cx)
    }
}

impl<S: Sessions> HttpBody for Cut<S> {
    type Data = Bytes;
    type Error = BoxError;

    // SPEC session-3.md#sealed-requests
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let ended = match this.cut {
            Some(ended) => ended,
            None => {
                let is_due = this.over.is_some() || this.since.elapsed() >= LOOK_INTERVAL;
                // Checked first, so that a body that always has data is cut too.
                let mut over = if is_due { this.poll_over(cx) } else { Poll::Pending };
                if over.is_pending() {
                    let polled = Pin::new(&mut this.body).poll_frame(cx);
                    if polled.is_ready() {
                        return polled;
                    }
                    over = this.poll_over(cx);
                }
                let ended = ready!(over);
                tracing::info!(session = %this.session.id(), "a stream was closed: its session has ended");
                // The first fault counts.
                let _ = this.fault.set(ended.into());
                *this.cut.insert(ended)
            }
        };
        // A reader that continues after an error must not take the following end for the end of the body.
        Poll::Ready(Some(Err(Refusal::from(ended).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.cut.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
