//! Work under a session ends when the session does: revoked, or over. `spec/session-3.md#sealed-requests`.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::Error;
use sealway_proto::session::Session;

use super::unseal::Fault;
use crate::body::{Body, BoxError};
use crate::layer::Shared;

/// The outcome of work, or nothing if the session ended first: then the work is dropped.
pub(super) async fn unless_ended<T>(shared: &Shared, session: &Session, work: impl Future<Output = T>) -> Option<T> {
    let (mut ended, mut work) = (pin!(shared.ended(session)), pin!(work));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => ended.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// A body that breaks off when its session ends.
pub(super) struct Cut {
    body: Body,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Where it is noted that the session ended, for who answers the request.
    fault: Fault,
    is_cut: bool,
}

impl Cut {
    pub(super) fn new(body: Body, shared: Arc<Shared>, session: Arc<Session>, fault: Fault) -> Self {
        let ended = Box::pin(async move { shared.ended(&session).await });
        Cut { body, ended, fault, is_cut: false }
    }
}

impl HttpBody for Cut {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // First: a body that always has something to give is cut too.
        if !self.is_cut && self.ended.as_mut().poll(cx).is_pending() {
            return Pin::new(&mut self.body).poll_frame(cx);
        }
        self.is_cut = true;
        // The first fault counts.
        let _ = self.fault.set(Error::SessionExpired.into());
        Poll::Ready(Some(Err("the session has ended".into())))
    }

    fn is_end_stream(&self) -> bool {
        !self.is_cut && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
