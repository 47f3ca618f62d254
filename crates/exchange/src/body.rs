//! Bodies of requests and answers, and reading the rest of a rejected request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use sealway_proto::exchange::BodyFault;

/// The error of a body, of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body of a request to a service and of an answer to a client.
// A separate type: an alias of boxes would show the compiler lifetimes that keep it from proving futures `Send`.
pub struct Body(UnsyncBoxBody<Bytes, BoxError>);

impl Body {
    /// Wraps any body of bytes.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Body(body.map_err(Into::into).boxed_unsync())
    }

    /// Returns the box within.
    pub fn into_boxed(self) -> UnsyncBoxBody<Bytes, BoxError> {
        self.0
    }
}

impl From<UnsyncBoxBody<Bytes, BoxError>> for Body {
    fn from(body: UnsyncBoxBody<Bytes, BoxError>) -> Self {
        Body(body)
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

/// Creates a body from bytes that are all available.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Body::new(Full::new(bytes.into()))
}

/// Body of a sealed request from the connection. Its creator bounds its length, its pace and the memory that it takes.
pub trait Incoming: HttpBody<Data = Bytes> + Send + Unpin + Sized + 'static {
    /// Maps an error of the body to its wire fault.
    fn fault(error: &Self::Error) -> BodyFault;

    /// Reports that `bytes` more of the bytes that it gave are no longer held in memory.
    fn release(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Reads and drops the rest of the body, within bounds: a client that is still sending would not read its answer.
    fn discard(self) -> impl Future<Output = ()> + Send {
        discard(self)
    }
}

/// Maximum length and time of the rest of a rejected request that is read before its answer is sent.
const DISCARD_MAX: u64 = 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Reads and drops the rest of a body, at most 1 MiB and for at most two seconds.
pub async fn discard<B: HttpBody<Data = Bytes> + Send + Unpin>(mut body: B) {
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

/// A body that keeps a value until it is sent.
struct Keeping<T> {
    body: Body,
    _kept: T,
}

/// Makes a body keep `kept` until it is sent.
pub fn keeping<T: Send + Unpin + 'static>(body: Body, kept: T) -> Body {
    Body::new(Keeping { body, _kept: kept })
}

impl<T: Unpin> HttpBody for Keeping<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
