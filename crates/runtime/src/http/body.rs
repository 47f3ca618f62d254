//! Bodies: the type in requests and answers, and reading a whole one within bounds.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;

use super::h1::Source;
use super::share::Share;

/// The cause for which a body ended early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body type of every answer.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Creates a body from complete bytes. An empty one takes no memory.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    let bytes = bytes.into();
    if bytes.is_empty() {
        return Empty::new().map_err(|never| match never {}).boxed_unsync();
    }
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The cause for which a request's body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyRefusal {
    /// The body is longer than its bound.
    #[error("body is over its bound")]
    TooLarge,
    /// The body did not arrive within its time.
    #[error("body came too slowly")]
    TooSlow,
    /// The connection failed, or the framing is wrong.
    #[error("body broke off")]
    Broken,
    /// The client's bodies hold as much memory as they may, or those of all clients together do.
    #[error("no room is left for the body")]
    NoRoom,
}

/// Largest part of a rejected body that is read and discarded, in bytes, so that the client, still sending, can read its
/// answer.
const DISCARD_MAX: u64 = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Reads a whole body of at most `len_max` bytes within `time`.
///
/// # Errors
/// [`BodyRefusal`]; a body that was too large, or found no room, has been discarded, within bounds.
pub async fn read_body<B>(mut body: B, len_max: usize, time: Duration) -> Result<Vec<u8>, BodyRefusal>
where
    B: HttpBody + Unpin + 'static,
{
    if body.size_hint().lower() > len_max as u64 {
        discard(body).await;
        return Err(BodyRefusal::TooLarge);
    }
    // It grows as bytes arrive: an announced length alone takes no memory.
    let mut bytes = Vec::new();
    let read = async {
        while let Some(frame) = body.frame().await {
            let Ok(mut data) = frame.map_err(|err| refusal_of(&err))?.into_data() else { continue };
            if bytes.len() + data.remaining() > len_max {
                return Err(BodyRefusal::TooLarge);
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                bytes.extend_from_slice(chunk);
                let len = chunk.len();
                data.advance(len);
            }
        }
        Ok(())
    };
    match tokio::time::timeout(time, read).await {
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(refusal @ (BodyRefusal::TooLarge | BodyRefusal::NoRoom))) => {
            discard(body).await;
            Err(refusal)
        }
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(BodyRefusal::TooSlow),
    }
}

/// Returns the refusal in a body's error.
pub fn refusal_of(err: &dyn Any) -> BodyRefusal {
    err.downcast_ref::<BodyRefusal>().copied().unwrap_or(BodyRefusal::Broken)
}

/// Reads and discards the bytes that a client still sends, within bounds.
pub async fn discard<B>(mut body: B)
where
    B: HttpBody + Unpin + 'static,
{
    let whole: &mut dyn Any = &mut body;
    if let Some(body) = whole.downcast_mut::<RequestBody>() {
        // HTTP/1 connections do that when the answer is written; and a client that waits for a 100 does not get it.
        if body.inner.as_ref().is_some_and(|body| !body.source.is_shared()) {
            return;
        }
        // Discarded bytes are not held.
        body.room = None;
    }
    if body.is_end_stream() || body.size_hint().lower() > DISCARD_MAX {
        return;
    }
    let read = async {
        let mut left = DISCARD_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let len = frame.data_ref().map_or(0, |data| data.remaining() as u64);
            let Some(rest) = left.checked_sub(len) else { return };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, read).await;
}

/// The body of a request as it arrives, whatever the protocol.
#[derive(Debug, Default)]
pub struct RequestBody {
    /// The body that a connection reads; `None` if the request has none.
    inner: Option<WireBody>,
    /// Counts the received bytes, if the whole body is held in memory.
    room: Option<Arc<Mutex<Share>>>,
}

/// The body of a request that a connection reads on demand.
struct WireBody {
    source: Arc<dyn Source>,
    number: u64,
    /// Number of bytes to come, if it was announced.
    left: Option<u64>,
    /// True once the end was read.
    is_over: bool,
}

impl fmt::Debug for WireBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireBody").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Drop for WireBody {
    fn drop(&mut self) {
        self.source.let_go(self.number);
    }
}

impl WireBody {
    /// Returns whether the end was read, or is known to come next.
    fn is_end(&self) -> bool {
        // Trailers may follow an announced length in HTTP/2.
        self.is_over || if self.source.is_shared() { self.source.is_read(self.number) } else { self.left == Some(0) }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        if self.is_end() {
            return Poll::Ready(None);
        }
        let frame = ready!(self.source.poll_body(self.number, cx));
        match &frame {
            Some(Ok(frame)) => match (frame.data_ref(), &mut self.left) {
                (Some(data), Some(left)) => *left = left.saturating_sub(data.len() as u64),
                (Some(_), None) => {}
                // Nothing follows trailers.
                (None, _) => self.is_over = true,
            },
            Some(Err(_)) => {}
            None => self.is_over = true,
        }
        Poll::Ready(frame)
    }
}

impl RequestBody {
    /// Creates the body that `source` reads as request `number`'s, of length `left` if it was announced.
    pub(in crate::http) fn from_wire(source: Arc<dyn Source>, number: u64, left: Option<u64>) -> Self {
        RequestBody { inner: Some(WireBody { source, number, left, is_over: false }), room: None }
    }

    /// Counts its bytes in `room` as they arrive, for a reader that holds all of them. If the room is full, the body ends with
    /// [`BodyRefusal::NoRoom`].
    #[must_use]
    pub fn held_in(self, room: Arc<Mutex<Share>>) -> Self {
        RequestBody { room: Some(room), ..self }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BodyRefusal;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        let Some(body) = &mut self.inner else { return Poll::Ready(None) };
        // The owner of a failed body must be known later: a client's failure is not the service's.
        let frame = ready!(body.poll_frame(cx));
        if let (Some(room), Some(Ok(frame))) = (&self.room, &frame) {
            let len = frame.data_ref().map_or(0, |data| data.len() as u64);
            if !room.lock().grow(len) {
                return Poll::Ready(Some(Err(BodyRefusal::NoRoom)));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(WireBody::is_end)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            None => SizeHint::with_exact(0),
            Some(body) if body.is_over => SizeHint::with_exact(0),
            Some(body) => body.left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
