//! Request bodies on their way to a service. A bounded part of each is read before a connection to the service is
//! taken, so that most clients hold no connection while they send; the rest have a bounded share of the connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_runtime::http::share::{Share, Taker};
use sealway_runtime::http::{Body, BodyError, BodyRefusal, Origin};

use crate::body::refusal_behind;
use crate::route::Forward;
use crate::upstream::UpstreamError;

/// Time in which a body without a place among the uploads must arrive in full: then it needs no place.
const PLACE_TIME: Duration = Duration::from_secs(5);

/// A request with a body, and the limits for it.
pub(crate) struct Upload<'a> {
    pub(crate) forward: &'a Forward,
    pub(crate) origin: Option<&'a Origin>,
    /// Maximum number of bytes that are read ahead.
    pub(crate) ahead_max: u64,
    /// True if the client waits for the service's 100 before it sends anything.
    pub(crate) waits_for_100: bool,
}

/// Prepares a body for a connection to the service; `room` counts the bytes that are read ahead.
///
/// # Errors
/// Errors of the body itself, and [`UpstreamError::Crowded`].
pub(crate) async fn begin(body: Body, room: Share, upload: &Upload<'_>) -> Result<Body, UpstreamError> {
    if body.is_end_stream() {
        return Ok(body);
    }
    let mut body = Ahead::new(body, room);
    if !upload.waits_for_100 {
        // A body without a length may be half of a conversation: it is not awaited.
        body.read(upload.ahead_max, body.hint.exact().is_some()).await?;
    }
    if !body.is_whole && !body.take_place(upload) {
        if !upload.waits_for_100 {
            let _ = tokio::time::timeout(PLACE_TIME, body.read(upload.ahead_max, true)).await.unwrap_or(Ok(()));
        }
        if !body.is_whole && !body.take_place(upload) {
            return Err(UpstreamError::Crowded);
        }
    }
    Ok(body.boxed_unsync())
}

/// A body whose beginning was read ahead.
struct Ahead {
    rest: Body,
    /// Size of the whole body, until the service begins to read it.
    hint: SizeHint,
    /// Bytes read ahead, copied into one buffer: a chunk would keep the whole buffer that it was read into, and the
    /// client chooses the length of its chunks.
    data: BytesMut,
    /// Trailers that were read ahead.
    trailers: Option<Frame<Bytes>>,
    len: u64,
    room: Share,
    /// True if the whole body was read.
    is_whole: bool,
    has_begun: bool,
    /// Place among the uploads, until the body's end.
    place: Option<Share>,
}

impl Ahead {
    fn new(rest: Body, room: Share) -> Self {
        let hint = rest.size_hint();
        let (data, trailers) = (BytesMut::new(), None);
        Ahead { rest, hint, data, trailers, len: 0, room, is_whole: false, has_begun: false, place: None }
    }

    /// Reads up to `len_max` bytes, or as many as there is room for; if it `waits`, until they have arrived.
    async fn read(&mut self, len_max: u64, waits: bool) -> Result<(), UpstreamError> {
        poll_fn(|cx| {
            while !self.is_whole && self.len < len_max {
                match Pin::new(&mut self.rest).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        let len = frame.data_ref().map_or(0, |data| data.len() as u64);
                        match frame.into_data() {
                            Ok(data) => self.data.extend_from_slice(&data),
                            Err(trailers) => self.trailers = Some(trailers),
                        }
                        self.len += len;
                        self.is_whole = self.rest.is_end_stream();
                        if !self.room.grow(len) {
                            break;
                        }
                    }
                    Poll::Ready(Some(Err(err))) => {
                        let refusal = refusal_behind(&*err).unwrap_or(BodyRefusal::Broken);
                        return Poll::Ready(Err(UpstreamError::RequestBody(refusal)));
                    }
                    Poll::Ready(None) => self.is_whole = true,
                    Poll::Pending if waits => return Poll::Pending,
                    Poll::Pending => break,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Takes a place among the uploads of the service, of the route and of the client's network; returns false if one
    /// is full.
    fn take_place(&mut self, upload: &Upload<'_>) -> bool {
        let (policy, upstream) = (&upload.forward.policy, &upload.forward.upstream);
        let network = Taker::network(upload.origin).map(|taker| (taker, upstream.uploads_per_address_max()));
        let route_max = policy.uploads_max.unwrap_or_else(|| upstream.uploads_per_route_max());
        let route = Some((Taker::Route(policy.route), route_max));
        let mut place = upstream.uploads().share([network, route]);
        let is_taken = place.grow(1);
        self.place = is_taken.then_some(place);
        is_taken
    }
}

impl HttpBody for Ahead {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        this.has_begun = true;
        if !this.data.is_empty() {
            let data = std::mem::take(&mut this.data).freeze();
            this.room.shrink(data.len() as u64);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(trailers) = this.trailers.take() {
            return Poll::Ready(Some(Ok(trailers)));
        }
        if this.is_whole {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut this.rest).poll_frame(cx);
        if matches!(&polled, Poll::Ready(None | Some(Err(_)))) || this.rest.is_end_stream() {
            this.place = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self.has_begun {
            true => self.data.is_empty() && self.trailers.is_none() && (self.is_whole || self.rest.is_end_stream()),
            // A body without a length is framed the same way if it is empty.
            false => self.hint.exact() == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.has_begun { SizeHint::default() } else { self.hint }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::StreamBody;
    use sealway_runtime::http::share::SharedBudget;

    use super::*;

    /// Chunks share the buffers of some 8 KiB that a connection reads into, so a client that sends byte by byte would
    /// pin a buffer for each byte.
    #[tokio::test]
    async fn bytes_read_ahead_do_not_keep_the_buffers_that_they_were_read_into() {
        let chunks = (0..1000).map(|_| Ok::<_, BodyError>(Frame::data(Bytes::from(vec![7; 8192]).slice(..1))));
        let rest = StreamBody::new(stream::iter(chunks)).boxed_unsync();
        let mut ahead = Ahead::new(rest, SharedBudget::new(1 << 20).share([None, None]));
        ahead.read(64 * 1024, true).await.unwrap();
        assert!(ahead.data.capacity() <= 4096, "{}", ahead.data.capacity());
        let body = ahead.collect().await.unwrap().to_bytes();
        assert_eq!(body, vec![7; 1000]);
    }
}
