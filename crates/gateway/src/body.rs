//! Streaming bodies: each chunk is passed on as it arrives, within bounds of length and idle time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::HeaderName;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use sealway_exchange::headers::{is_alike, remove_where};
use sealway_proto::exchange::Refusal;
use sealway_proto::wire::stripped::{is_of_origin, is_of_way};
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, BodyError, BodyRefusal};
use tokio::time::{Instant, Sleep};

/// Bounds of a streaming body.
#[derive(Clone, Debug)]
pub struct StreamLimits {
    /// Maximum length, in bytes.
    pub len_max: u64,
    /// Maximum time until the next chunk.
    pub idle: Duration,
    /// Maximum time of the whole body, from the first wait for it.
    pub time: Option<Duration>,
    /// Minimum rate of the body.
    pub rate: Option<RateMin>,
}

/// Minimum rate of a body, measured while it is awaited. The first `idle` of waiting is free.
#[derive(Clone, Debug)]
pub struct RateMin {
    /// Rate in bytes a second.
    pub bytes_per_sec: u64,
    /// Set when the rate no longer applies, because the service has answered and reads at its own pace.
    pub is_lifted: Arc<AtomicBool>,
}

/// A body within bounds. If a bound is exceeded, it ends with a [`BodyRefusal`] as its error, never short.
pub(crate) struct BoundedBody<B> {
    inner: B,
    left: u64,
    idle: Duration,
    time: Option<Duration>,
    rate: Option<RateMin>,
    /// Deadline of the whole body.
    end: Option<Instant>,
    /// Created at the first wait: most bodies never wait.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Start of the wait for a chunk that is requested and absent. Without a request for a chunk no time counts.
    waiting_since: Option<Instant>,
    /// Total time of waiting for chunks that arrived.
    waited: Duration,
    /// Number of bytes that arrived.
    came: u64,
    /// Names that its trailers may not have.
    barred: BarredNames,
}

/// Names that trailers may not have.
pub(crate) type BarredNames = Vec<HeaderName>;

/// Puts bounds on a body. If a bound is exceeded the body ends with a [`BodyRefusal`] as its error, never short.
pub fn bounded<B>(inner: B, limits: StreamLimits) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    barred(inner, limits, BarredNames::new())
}

/// Puts bounds on a body as [`bounded`] does, and removes the names of `barred` from its trailers.
pub(crate) fn barred<B>(inner: B, limits: StreamLimits, barred: BarredNames) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    BoundedBody::new(inner, limits, barred).boxed_unsync()
}

impl<B> BoundedBody<B> {
    /// Puts bounds on `inner`, and removes the names of `barred` from its trailers.
    pub(crate) fn new(inner: B, limits: StreamLimits, barred: BarredNames) -> Self {
        let StreamLimits { len_max, idle, time, rate } = limits;
        let (waited, waiting_since) = (Duration::ZERO, None);
        let (end, deadline, came) = (None, None, 0);
        BoundedBody { inner, left: len_max, idle, time, rate, end, deadline, waiting_since, waited, came, barred }
    }

    /// Returns the body without its bounds.
    pub(crate) fn into_inner(self) -> B {
        self.inner
    }

    /// Returns the deadline of the next chunk, for a wait that began at `since`.
    fn next_deadline(&self, since: Instant) -> Instant {
        let idle = since + self.idle;
        let rate = self.rate.as_ref().filter(|rate| !rate.is_lifted.load(Ordering::Relaxed));
        let rate = rate.map(|rate| {
            let earned = Duration::from_millis(self.came.saturating_mul(1000) / rate.bytes_per_sec.max(1));
            since + self.idle.saturating_add(earned).saturating_sub(self.waited)
        });
        [self.end, rate].into_iter().flatten().fold(idle, Instant::min)
    }
}

impl<B> HttpBody for BoundedBody<B>
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
                if let Some(since) = this.waiting_since.take() {
                    this.waited += since.elapsed();
                }
                if let Some(trailers) = frame.trailers_mut() {
                    remove_where(trailers, |name| {
                        is_of_origin(name.as_str())
                            || is_of_way(name.as_str())
                            || this.barred.iter().any(|barred| is_alike(barred, name))
                    });
                }
                let len = frame.data_ref().map_or(0, |data| data.remaining() as u64);
                match this.left.checked_sub(len) {
                    Some(left) => (this.left, this.came) = (left, this.came + len),
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
                let is_new = this.waiting_since.is_none();
                let since = *this.waiting_since.get_or_insert_with(Instant::now);
                let until = this.next_deadline(since);
                let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
                // The deadline may have moved too: a rate is lifted during a wait.
                if is_new || deadline.is_elapsed() {
                    deadline.as_mut().reset(until);
                }
                deadline.as_mut().poll(cx).map(|()| Some(Err(BodyRefusal::TooSlow.into())))
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

/// A body whose bytes take room as they arrive.
struct HeldBody {
    inner: Body,
    room: Arc<Mutex<Share>>,
}

/// Makes the bytes of a body take room as they arrive, for a reader that holds all of them. Without room the body ends with
/// [`BodyRefusal::NoRoom`].
pub(crate) fn held_in(
    inner: Body,
    room: Arc<Mutex<Share>>,
) -> impl HttpBody<Data = Bytes, Error = BodyRefusal> + Unpin {
    HeldBody { inner, room }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = BodyRefusal;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let frame = frame.map(|frame| frame.map_err(|err| refusal_behind(&*err).unwrap_or(BodyRefusal::Broken)));
        let len = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        if len > 0 && !self.room.lock().grow(len as u64) {
            return Poll::Ready(Some(Err(BodyRefusal::NoRoom)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Makes a body keep `room` until it is sent.
pub(crate) fn keeping(body: Body, room: Arc<Mutex<Share>>) -> Body {
    sealway_exchange::body::keeping(body.into(), room).into_boxed()
}

/// Finds the body bound behind an error, if one of ours ended the exchange.
pub fn refusal_behind(err: &(dyn std::error::Error + 'static)) -> Option<BodyRefusal> {
    let mut cause = Some(err);
    while let Some(err) = cause {
        if let Some(refusal) = err.downcast_ref::<BodyRefusal>() {
            return Some(*refusal);
        }
        // An error of a sealed stream: the code that opens it gives its client the details.
        if err.is::<Refusal>() {
            return Some(BodyRefusal::Broken);
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
        let mut body = bounded(Fed(receiver), StreamLimits { len_max: 9, idle, time: None, rate: None });
        let poll = |body: &mut Body| Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(poll(&mut body).is_pending());
        sender.send(Frame::data(Bytes::from_static(b"x"))).unwrap();
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Ok(_)))));
        // The receiver took its time.
        tokio::time::sleep(idle + idle / 2).await;
        assert!(poll(&mut body).is_pending(), "it is not late: it was not asked for");
        tokio::time::sleep(idle + idle / 2).await;
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Err(_)))), "it was asked for, and did not come");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_dribbles_is_late_however_regularly_until_its_service_has_answered() {
        let limits = |is_lifted: &Arc<AtomicBool>| StreamLimits {
            len_max: 1_000_000,
            idle: Duration::from_secs(10),
            time: None,
            rate: Some(RateMin { bytes_per_sec: 100, is_lifted: is_lifted.clone() }),
        };
        for (len, is_answered, is_late) in [(10, false, true), (10, true, false), (200, false, false)] {
            let (sender, receiver) = mpsc::unbounded_channel();
            let mut body = bounded(Fed(receiver), limits(&Arc::new(AtomicBool::new(is_answered))));
            tokio::spawn(async move {
                for _ in 0..60 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let _ = sender.send(Frame::data(vec![0; len].into()));
                }
            });
            let began = Instant::now();
            let ended = loop {
                match body.frame().await {
                    Some(Ok(_)) => {}
                    other => break other.map(|frame| refusal_behind(&*frame.unwrap_err())),
                }
            };
            assert_eq!(ended, is_late.then_some(Some(BodyRefusal::TooSlow)), "{len} bytes a second");
            // Ten seconds are free, and each ten bytes earn a tenth of a second.
            assert!(!is_late || began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn an_answer_keeps_its_room_until_it_is_sent() {
        let room = sealway_runtime::http::share::SharedBudget::new(3);
        let mut share = room.share([None, None]);
        assert!(share.grow(3));
        let body = keeping(sealway_runtime::http::full("x"), Arc::new(Mutex::new(share)));
        assert_eq!((room.taken(), body.size_hint().exact()), (3, Some(1)));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "x");
        assert_eq!(room.taken(), 0);
    }

    #[tokio::test]
    async fn trailers_carry_no_barred_field_in_any_spelling() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let limits = StreamLimits { len_max: 9, idle: Duration::from_secs(20), time: None, rate: None };
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
