//! Bodies that stream through: a chunk in is a chunk out, within a bound in length and in idle time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_runtime::http::{Body, BodyError, BodyRefusal};
use tokio::time::{Instant, Sleep};

/// Bounds on a body that streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Its length, in bytes.
    pub len_max: u64,
    /// How long the next chunk may take.
    pub idle: Duration,
    /// How long the whole of it may take, from when it is first waited for.
    pub time: Option<Duration>,
}

struct Bounded<B> {
    inner: B,
    left: u64,
    idle: Duration,
    time: Option<Duration>,
    /// When the whole of it has to be there.
    end: Option<Instant>,
    /// Made when a chunk is first waited for: most bodies never wait.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Puts bounds on a body. When one is passed the body ends with a [`BodyRefusal`] as its error, never short.
pub fn bounded<B>(inner: B, limits: StreamLimits) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    let StreamLimits { len_max, idle, time } = limits;
    Bounded { inner, left: len_max, idle, time, end: None, deadline: None }.boxed_unsync()
}

impl<B> Bounded<B> {
    /// When the next chunk has to be there.
    fn next_deadline(&self) -> Instant {
        let idle = Instant::now() + self.idle;
        self.end.map_or(idle, |end| end.min(idle))
    }
}

impl<B> HttpBody for Bounded<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if this.deadline.is_some() {
                    let next = this.next_deadline();
                    this.deadline.iter_mut().for_each(|deadline| deadline.as_mut().reset(next));
                }
                let len = frame.data_ref().map_or(0, |data| data.remaining() as u64);
                match this.left.checked_sub(len) {
                    Some(left) => this.left = left,
                    None => return Poll::Ready(Some(Err(BodyRefusal::TooLarge.into()))),
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(err))) => Poll::Ready(Some(Err(err.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let deadline = match &mut this.deadline {
                    Some(deadline) => deadline,
                    None => {
                        this.end = this.time.map(|time| Instant::now() + time);
                        let until = this.next_deadline();
                        this.deadline.insert(Box::pin(tokio::time::sleep_until(until)))
                    }
                };
                match deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(BodyRefusal::TooSlow.into()))),
                    Poll::Pending => Poll::Pending,
                }
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

/// The refusal behind an error, if a bound of ours is what broke the exchange off.
pub fn refusal_behind(err: &(dyn std::error::Error + 'static)) -> Option<BodyRefusal> {
    let mut cause = Some(err);
    while let Some(err) = cause {
        if let Some(refusal) = err.downcast_ref::<BodyRefusal>() {
            return Some(*refusal);
        }
        cause = err.source();
    }
    None
}
