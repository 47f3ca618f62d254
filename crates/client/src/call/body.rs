//! Bodies of requests and responses, sealed or opened as they flow.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::transport::{BoxError, Outgoing};
use crate::error::{Error, ErrorKind, chain};
use crate::native::stream::Opening;

/// Body of a response, opened frame by frame, or of a request, held as a whole.
///
/// Each frame of an answer's body was authenticated before it is given. The end of the body is proven too: an answer that breaks
/// off ends in an error, never in a plain end. [`Builder::idle_timeout`] bounds the time between two parts, and
/// [`Builder::total_timeout`] the time from the call to the end of the body.
///
/// [`Builder::idle_timeout`]: crate::Builder::idle_timeout
/// [`Builder::total_timeout`]: crate::Builder::total_timeout
pub struct Body(Kind);

enum Kind {
    Whole(Full<Bytes>),
    Opening(Box<Opening>),
}

impl Body {
    /// Creates a body without bytes.
    pub fn empty() -> Self {
        Body::from(Bytes::new())
    }

    pub(crate) fn opening(opening: Opening) -> Self {
        Body(Kind::Opening(Box::new(opening)))
    }

    /// Reads the whole body, of at most [`Builder::answer_max_bytes`] bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Untrusted`], [`ErrorKind::Network`], [`ErrorKind::Timeout`], [`ErrorKind::TooLarge`].
    ///
    /// [`Builder::answer_max_bytes`]: crate::Builder::answer_max_bytes
    pub async fn bytes(self) -> Result<Bytes, Error> {
        match self.0 {
            Kind::Whole(body) => body.collect().await.map(|body| body.to_bytes()).map_err(|never| match never {}),
            Kind::Opening(body) => body.whole().await,
        }
    }

    /// Reads the whole body as [`Body::bytes`] does, of at most `len_max` bytes.
    pub(crate) async fn bytes_within(self, len_max: usize) -> Result<Bytes, Error> {
        match self.0 {
            Kind::Opening(body) => body.whole_within(len_max).await,
            Kind::Whole(_) => self.bytes().await,
        }
    }

    /// Reads the whole body, as [`Body::bytes`] does, and parses it as JSON.
    ///
    /// # Errors
    /// Errors of [`Body::bytes`]; [`ErrorKind::Json`] for a body that does not parse.
    #[cfg(feature = "json")]
    pub async fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.bytes().await?).map_err(|err| ErrorKind::Json(err.to_string()))?)
    }

    /// Serializes a value as JSON, for a request with `Content-Type: application/json`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a value without a form in JSON.
    #[cfg(feature = "json")]
    pub fn from_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(serde_json::to_vec(value).map(Body::from).map_err(|err| ErrorKind::Usage(format!("JSON: {err}")))?)
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body(Kind::Whole(Full::new(bytes.into())))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut self.0 {
            Kind::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Kind::Opening(body) => body.poll_data(cx).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(body) => body.is_end_stream(),
            Kind::Opening(body) => body.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(body) => body.size_hint(),
            Kind::Opening(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    /// Leaves out the bytes, which are plaintext.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("is_end_stream", &self.is_end_stream()).finish_non_exhaustive()
    }
}

/// Body of a request before it is sealed.
pub(crate) enum Payload {
    /// The whole body, so that the request can be retried.
    Whole(Bytes),
    /// A stream that is sealed as it comes, once.
    Flow(Outgoing),
}

impl Payload {
    /// Prepares a body: reads it whole if its exact length is known and at most `whole_max` bytes.
    pub(crate) async fn new<B>(body: B, whole_max: usize) -> Result<Self, Error>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let len = body.size_hint().exact();
        if len.is_some_and(|len| len <= whole_max as u64) || body.is_end_stream() {
            return read(body, whole_max).await.map(Payload::Whole);
        }
        let body = body.map_frame(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())));
        Ok(Payload::Flow(body.map_err(Into::into).boxed_unsync()))
    }
}

/// Reads a caller's body whole; longer than `len_max` bytes is an error.
pub(crate) async fn read<B>(body: B, len_max: usize) -> Result<Bytes, Error>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    let read = Limited::new(body, len_max).collect().await;
    let failed = |err: BoxError| {
        let reason = chain(err.as_ref());
        ErrorKind::Usage(format!("the request's body cannot be read (request_max_bytes: {len_max}): {reason}"))
    };
    Ok(read.map_err(failed)?.to_bytes())
}
