//! A body that ends when its session does: revoked, wherever that was, or expired.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::Error;
use sealway_proto::session::Session;
use sealway_runtime::http::{Body, BodyError, BodyRefusal};
use sealway_sessions::Authority;
use sealway_sessions::watch::LOOK_INTERVAL;
use tokio::time::Instant;

use super::unseal::Fault;

/// A body in flight under a session.
pub(super) struct Cut {
    body: Body,
    authority: Arc<Authority>,
    session: Arc<Session>,
    since: Instant,
    /// Made when the body has taken longer than a look: most do not.
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Notes that the session is over, for the answer to the request.
    fault: Fault,
    is_cut: bool,
}

impl Cut {
    pub(super) fn new(body: Body, authority: &Arc<Authority>, session: &Arc<Session>, fault: Fault) -> Self {
        let (authority, session) = (authority.clone(), session.clone());
        Cut { body, authority, session, since: Instant::now(), over: None, fault, is_cut: false }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (authority, session) = (&self.authority, &self.session);
        let over = self.over.get_or_insert_with(|| {
            let (authority, session) = (authority.clone(), session.clone());
            Box::pin(async move { authority.over(&session).await })
        });
        over.as_mut().poll(cx)
    }
}

impl HttpBody for Cut {
    type Data = Bytes;
    type Error = BodyError;

    // SPEC session-3.md#sealed-requests
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if this.is_cut {
            return Poll::Ready(None);
        }
        let is_due = this.over.is_some() || this.since.elapsed() >= LOOK_INTERVAL;
        let mut is_over = is_due && this.poll_over(cx).is_ready();
        if !is_over {
            let polled = Pin::new(&mut this.body).poll_frame(cx);
            if polled.is_ready() {
                return polled;
            }
            is_over = this.poll_over(cx).is_ready();
        }
        if !is_over {
            return Poll::Pending;
        }
        this.is_cut = true;
        tracing::info!(session = %this.session.id(), "a stream was cut: its session is over");
        // One fault is noted, and it is the first.
        let _ = this.fault.set(Error::SessionExpired);
        Poll::Ready(Some(Err(BodyRefusal::Broken.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
