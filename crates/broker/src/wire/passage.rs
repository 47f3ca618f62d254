//! A request as it comes in, and an answer as it goes out: what they hold of the budget, and how long a request may take to
//! arrive. A peer that sends slowly, or nothing, or reads nothing, holds its own share and no more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::StdError;

use super::call::{Call, NO_ROOM};

/// How long a request may take to arrive, from when it is first waited for.
const ARRIVAL: Duration = Duration::from_secs(60);
/// The most bytes of a request: one message, what stands before it, and some frames that say nothing.
const LEN_MAX: usize = super::dispatch::REQUEST_MAX + 4 * 1024;

/// A request's body.
pub(super) struct Arriving<B> {
    body: B,
    call: Call,
    len: usize,
    arrival: Duration,
    /// Begun when there was nothing to read.
    late: Option<Pin<Box<Sleep>>>,
}

impl<B> Arriving<B> {
    pub(super) fn new(body: B, call: Call) -> Arriving<B> {
        Arriving { body, call, len: 0, arrival: ARRIVAL, late: None }
    }

    fn read(&mut self, len: usize) -> Result<(), Status> {
        self.len = self.len.saturating_add(len);
        if self.len > LEN_MAX {
            return Err(Status::out_of_range("a request of more than one message"));
        }
        if self.call.holds(len) { Ok(()) } else { Err(no_room()) }
    }
}

/// What a call is refused with that there is no room for.
pub(super) fn no_room() -> Status {
    Status::resource_exhausted(NO_ROOM)
}

impl<B: HttpBody + Unpin> HttpBody for Arriving<B>
where
    B::Error: Into<StdError>,
{
    type Data = B::Data;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, StdError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let read = self.read(frame.data_ref().map_or(0, Buf::remaining));
                Poll::Ready(Some(read.map(|()| frame).map_err(StdError::from)))
            }
            Poll::Ready(Some(Err(err))) => Poll::Ready(Some(Err(err.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let arrival = self.arrival;
                let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(arrival)));
                match late.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        let status = Status::deadline_exceeded("the request did not arrive in time");
                        Poll::Ready(Some(Err(status.into())))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body, which holds its call's share until it is gone.
#[derive(Debug)]
pub struct Answer {
    body: Body,
    _call: Call,
}

impl Answer {
    pub(super) fn new(body: Body, call: Call) -> Answer {
        Answer { body, _call: call }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use tokio_stream::StreamExt;

    use super::*;
    use crate::callers::Peer;
    use crate::wire::Method;
    use crate::wire::budget::Budget;

    fn call() -> Call {
        let peer = Peer { uid: 1, gid: 1, ..Peer::default() };
        Call::new(&Method::UNKNOWN, peer, 0, Budget::new(8 << 20).call(1), None)
    }

    fn code(err: &StdError) -> tonic::Code {
        err.downcast_ref::<Status>().unwrap().code()
    }

    #[tokio::test]
    async fn a_request_that_does_not_go_on_ends_in_time_and_one_that_goes_on_for_ever_at_its_bound() {
        let chunk = || Ok::<_, Status>(Frame::data(Bytes::from(vec![0; 256 * 1024])));
        let stalled = StreamBody::new(tokio_stream::once(chunk()).chain(tokio_stream::pending()));
        let mut arriving = Arriving { arrival: Duration::from_millis(20), ..Arriving::new(stalled, call()) };
        arriving.frame().await.unwrap().unwrap();
        let late = arriving.frame().await.unwrap().unwrap_err();
        assert_eq!(code(&late), tonic::Code::DeadlineExceeded);

        let endless = StreamBody::new(tokio_stream::iter(std::iter::repeat_with(chunk)));
        let mut arriving = Arriving::new(endless, call());
        let read = async {
            loop {
                if let Err(err) = arriving.frame().await.unwrap() {
                    break err;
                }
            }
        };
        assert_eq!(code(&read.await), tonic::Code::OutOfRange);
    }
}
