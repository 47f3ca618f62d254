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
    /// Begun when there was nothing to read.
    late: Option<Pin<Box<Sleep>>>,
}

impl<B> Arriving<B> {
    pub(super) fn new(body: B, call: Call) -> Arriving<B> {
        Arriving { body, call, len: 0, late: None }
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
                let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(ARRIVAL)));
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
