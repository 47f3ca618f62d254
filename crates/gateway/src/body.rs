//! Bodies that stream through: a chunk in is a chunk out, within a bound in length and in idle time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::HeaderName;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_runtime::http::{Body, BodyError, BodyRefusal};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::headers::{is_alike, remove_where};

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
    /// Whether a chunk was asked for and is not there. Nobody is late with what nobody has asked for.
    is_waiting: bool,
    /// What its trailers may not say.
    barred: Barred,
}

/// Names that trailers may not have.
pub(crate) type Barred = Vec<HeaderName>;

/// Puts bounds on a body. When one is passed the body ends with a [`BodyRefusal`] as its error, never short.
pub fn bounded<B>(inner: B, limits: StreamLimits) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    barred(inner, limits, Barred::new())
}

/// The same, and leaves out of its trailers what is `barred`.
pub(crate) fn barred<B>(inner: B, limits: StreamLimits, barred: Barred) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    let StreamLimits { len_max, idle, time } = limits;
    Bounded { inner, left: len_max, idle, time, end: None, deadline: None, is_waiting: false, barred }.boxed_unsync()
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
            Poll::Ready(Some(Ok(mut frame))) => {
                this.is_waiting = false;
                if let Some(trailers) = frame.trailers_mut() {
                    remove_where(trailers, |name| this.barred.iter().any(|barred| is_alike(barred, name)));
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
                if this.deadline.is_none() {
                    this.end = this.time.map(|time| Instant::now() + time);
                }
                let until = this.next_deadline();
                let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
                if !std::mem::replace(&mut this.is_waiting, true) {
                    deadline.as_mut().reset(until);
                }
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

/// A body that keeps its room among those held whole until it is dropped.
struct Keeping {
    body: Body,
    _room: OwnedSemaphorePermit,
}

/// Has a body keep `room` until it is sent.
pub(crate) fn keeping(body: Body, room: OwnedSemaphorePermit) -> Body {
    Keeping { body, _room: room }.boxed_unsync()
}

impl HttpBody for Keeping {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use tokio::sync::mpsc;

    use super::*;

    struct Fed(mpsc::UnboundedReceiver<Frame<Bytes>>);

    impl HttpBody for Fed {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.0.poll_recv(cx).map(|frame| frame.map(Ok))
        }
    }

    #[tokio::test]
    async fn a_body_is_late_only_while_it_is_asked_for() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let idle = Duration::from_secs(1);
        let mut body = bounded(Fed(receiver), StreamLimits { len_max: 9, idle, time: None });
        let poll = |body: &mut Body| Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(poll(&mut body).is_pending());
        sender.send(Frame::data(Bytes::from_static(b"x"))).unwrap();
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Ok(_)))));
        // Whoever it goes to took its time.
        tokio::time::sleep(idle + idle / 2).await;
        assert!(poll(&mut body).is_pending(), "it is not late: it was not asked for");
        tokio::time::sleep(idle + idle / 2).await;
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Err(_)))), "it was asked for, and did not come");
    }

    #[tokio::test]
    async fn an_answer_keeps_its_room_until_it_is_sent() {
        let room = std::sync::Arc::new(tokio::sync::Semaphore::new(3));
        let body = keeping(sealway_runtime::http::full("x"), room.clone().try_acquire_many_owned(3).unwrap());
        assert_eq!((room.available_permits(), body.size_hint().exact()), (0, Some(1)));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "x");
        assert_eq!(room.available_permits(), 3);
    }

    #[tokio::test]
    async fn trailers_say_nothing_that_is_barred_in_any_spelling() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let limits = StreamLimits { len_max: 9, idle: Duration::from_secs(20), time: None };
        let body = barred(Fed(receiver), limits, vec![HeaderName::from_static("x-name")]);
        let mut trailers = HeaderMap::new();
        for name in ["x-name", "x_name", "x-sum"] {
            trailers.insert(name, http::HeaderValue::from_static("1"));
        }
        sender.send(Frame::trailers(trailers)).unwrap();
        drop(sender);
        let body = body.collect().await.unwrap();
        assert_eq!(body.trailers().unwrap().keys().collect::<Vec<_>>(), ["x-sum"]);
    }
}
