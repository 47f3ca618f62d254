//! Bodies: read whole or as they flow, within bounds in length and time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, Sleep};

/// What went wrong in a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body, of a request that a service is given and of an answer that goes back.
// A type of its own: an alias of boxes would show the compiler lifetimes that keep it from proving futures `Send`.
pub struct Body(UnsyncBoxBody<Bytes, BoxError>);

impl Body {
    /// Any body, as one of ours.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Body(body.map_err(Into::into).boxed_unsync())
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

/// How much of a refused request is read before its answer goes out, and how long: a client that is still sending would not
/// read it.
const DISCARD_MAX: u64 = 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(2);
/// Room that is made for an announced length at once.
const ANNOUNCED_MAX: u64 = 64 * 1024;

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyRefusal {
    #[error("body is over its bound")]
    TooLarge,
    #[error("body came too slowly")]
    TooSlow,
    #[error("body broke off")]
    Broken,
}

/// A body that is all there.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Body::new(Full::new(bytes.into()))
}

/// All of a body, up to `len_max` bytes, within `time`.
pub(crate) async fn read(mut body: Body, len_max: usize, time: Duration) -> Result<Vec<u8>, BodyRefusal> {
    if body.size_hint().lower() > len_max as u64 {
        discard(body).await;
        return Err(BodyRefusal::TooLarge);
    }
    let mut bytes = Vec::with_capacity(body.size_hint().lower().min(ANNOUNCED_MAX) as usize);
    let all = async {
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyRefusal::Broken)?.into_data() else { continue };
            if bytes.len() + data.len() > len_max {
                return Err(BodyRefusal::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    match tokio::time::timeout(time, all).await {
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(BodyRefusal::TooLarge)) => {
            discard(body).await;
            Err(BodyRefusal::TooLarge)
        }
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(BodyRefusal::TooSlow),
    }
}

/// Reads and throws away what a client still sends, within bounds.
pub(crate) async fn discard(mut body: Body) {
    if body.is_end_stream() || body.size_hint().lower() > DISCARD_MAX {
        return;
    }
    let rest = async {
        let mut left = DISCARD_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let len = frame.data_ref().map_or(0, |data| data.remaining() as u64);
            let Some(rest) = left.checked_sub(len) else { return };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, rest).await;
}

/// Bounds on a body that flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Its length, in bytes.
    pub(crate) len_max: u64,
    /// How far apart two parts may be.
    pub(crate) idle: Duration,
    /// How long all of it may take, from when it is first waited for.
    pub(crate) time: Duration,
}

/// A body within bounds: where one is passed, it ends with a [`BodyRefusal`], never short.
pub(crate) struct Bounded {
    inner: Body,
    left: u64,
    flow: Flow,
    end: Option<Instant>,
    /// When the part that is waited for has to be there.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Bounded {
    pub(crate) fn new(inner: Body, flow: Flow) -> Self {
        Bounded { inner, left: flow.len_max, flow, end: None, deadline: None }
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = BodyRefusal;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.deadline = None;
                let len = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(left) = this.left.checked_sub(len) else {
                    return Poll::Ready(Some(Err(BodyRefusal::TooLarge)));
                };
                this.left = left;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(BodyRefusal::Broken))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let now = Instant::now();
                let end = *this.end.get_or_insert(now + this.flow.time);
                let until = end.min(now + this.flow.idle);
                let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
                deadline.as_mut().poll(cx).map(|()| Some(Err(BodyRefusal::TooSlow)))
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
