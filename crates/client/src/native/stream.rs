//! Streamed bodies of wire 3: a request's body is sealed frame by frame, an answer's is opened frame by frame.
//!
//! Each holds at most one frame, besides the connection's buffers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http::{HeaderMap, Uri};
use hyper::body::{Body, Frame, Incoming};
use sealway_proto::limits::FRAME_LEN_MAX;
use sealway_proto::session::Step;
use sealway_proto::session::native::{FrameOpener, FrameSealer, Read};
use sealway_proto::wire::header::X_SEALED;
use tokio::time::{Instant as Deadline, Sleep, sleep_until};

use super::session::outer_headers;
use crate::call::{BoxError, Meter, Outgoing, Settings};
use crate::error::{Error, ErrorKind, Stage, chain};

/// Bytes of a frame besides its plaintext; the first frame has more.
const FRAME_EXTRA: usize = 64;

/// A request's body under seal. A frame ends when it is full, or when the source has no more data ready.
pub(super) struct Sealing {
    source: Outgoing,
    rest: Bytes,
    /// Bytes of the stream before its frames, until the first frame is sealed.
    prefix: Vec<u8>,
    sealer: FrameSealer,
    /// The encoded inner headers, until the first frame is sealed.
    inner: Option<Vec<u8>>,
    is_done: bool,
    meter: Arc<Meter>,
}

impl Sealing {
    pub(super) fn new(
        source: Outgoing,
        prefix: Vec<u8>,
        sealer: FrameSealer,
        inner: Vec<u8>,
        meter: Arc<Meter>,
    ) -> Self {
        Sealing { source, rest: Bytes::new(), prefix, sealer, inner: Some(inner), is_done: false, meter }
    }
}

impl Body for Sealing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.is_done {
            return Poll::Ready(None);
        }
        let mut out = std::mem::take(&mut this.prefix);
        out.reserve(this.rest.len().min(FRAME_LEN_MAX) + FRAME_EXTRA);
        let begun = this.sealer.begin(&mut out);
        let start = out.len();
        if let Some(inner) = this.inner.take() {
            out.extend_from_slice(&inner);
        }
        let is_last = loop {
            let room = FRAME_LEN_MAX - (out.len() - start);
            let part = this.rest.split_to(room.min(this.rest.len()));
            out.extend_from_slice(&part);
            if !this.rest.is_empty() {
                break false;
            }
            if this.source.is_end_stream() {
                break true;
            }
            if out.len() - start == FRAME_LEN_MAX {
                break false;
            }
            match Pin::new(&mut this.source).poll_frame(cx) {
                Poll::Ready(None) => break true,
                // A stream has no place for trailers, which are dropped.
                Poll::Ready(Some(Ok(frame))) => {
                    this.rest = frame.into_data().unwrap_or_default();
                }
                // The stream ends without its last frame, so that the service rejects the part that was sent.
                Poll::Ready(Some(Err(err))) => {
                    this.is_done = true;
                    return Poll::Ready(Some(Err(err)));
                }
                Poll::Pending if out.len() == start => {
                    this.meter.taken(true);
                    return Poll::Pending;
                }
                Poll::Pending => break false,
            }
        };
        this.meter.taken(false);
        this.is_done = is_last;
        let at = Instant::now();
        let sealed = this.sealer.seal(&mut out, begun, is_last);
        this.meter.lap(Step::Encrypt.name(), at);
        this.meter.sent(out.len());
        Poll::Ready(Some(sealed.map(|()| Frame::data(out.into())).map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_done
    }
}

/// An answer's body, opened frame by frame. A truncated body is an error and not an end.
pub(crate) struct Opening {
    opener: FrameOpener,
    source: Option<Incoming>,
    input: Bytes,
    frame: Vec<u8>,
    /// Plaintext of the first frame, after the headers.
    first: Bytes,
    is_over: bool,
    meter: Arc<Meter>,
    settings: Arc<Settings>,
    /// End of the wait for the next part.
    idle: Option<Pin<Box<Sleep>>>,
    /// End of the whole call.
    deadline: Option<Deadline>,
    url: Uri,
}

impl Opening {
    /// Begins to open an answer: waits for its first frame, and takes the headers from it. `sealed` is the stream if it
    /// came in a header.
    pub(super) async fn begin(
        opener: FrameOpener,
        sealed: Option<Vec<u8>>,
        mut body: Incoming,
        settings: Arc<Settings>,
        deadline: Option<Deadline>,
        url: Uri,
        meter: Arc<Meter>,
    ) -> Result<(HeaderMap, Self), Error> {
        if sealed.is_some() && !is_empty(&mut body).await.map_err(|err| broken(&url, &err))? {
            return Err(ErrorKind::Untrusted(sealway_proto::Error::HeaderInvalid(X_SEALED)).into());
        }
        let source = if sealed.is_some() { None } else { Some(body) };
        let input = sealed.map(Bytes::from).unwrap_or_default();
        meter.received(input.len());
        let (frame, first) = (Vec::new(), Bytes::new());
        let mut body =
            Opening { opener, source, input, frame, first, is_over: false, meter, settings, idle: None, deadline, url };
        let first = std::future::poll_fn(|cx| body.poll_opened(cx)).await;
        let first = first.ok_or(ErrorKind::Untrusted(sealway_proto::Error::StreamTruncated))??;
        let (headers, len) = outer_headers(&first)?;
        body.first = Bytes::from(first).slice(len..);
        Ok((headers, body))
    }

    /// Reads the rest of the body, within the bounds of a whole one.
    pub(crate) async fn whole(self) -> Result<Bytes, Error> {
        let len_max = self.settings.answer_max_bytes;
        self.whole_within(len_max).await
    }

    /// Reads the rest of the body, of at most `len_max` bytes.
    pub(crate) async fn whole_within(mut self, len_max: usize) -> Result<Bytes, Error> {
        let mut all = Vec::new();
        while let Some(data) = std::future::poll_fn(|cx| self.poll_data(cx)).await {
            all.extend_from_slice(&data?);
            if all.len() > len_max {
                let err = Error::from(ErrorKind::TooLarge { url: self.url.to_string(), len_max });
                return Err(err.at(Stage::Call, &self.url));
            }
        }
        Ok(all.into())
    }

    /// Polls for the next plaintext that is not empty.
    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.first))));
        }
        loop {
            match ready!(self.poll_opened(cx)) {
                // The last frame may be empty.
                Some(Ok(data)) if data.is_empty() => {}
                next => return Poll::Ready(next.map(|next| next.map(Bytes::from))),
            }
        }
    }

    pub(crate) fn is_end(&self) -> bool {
        self.is_over && self.first.is_empty()
    }

    /// Polls for the plaintext of the next frame.
    fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_frames(cx)).map(|next| next.map_err(|err| err.at(Stage::Call, &self.url)));
        self.is_over = !matches!(next, Some(Ok(_)));
        if self.is_over {
            // After an error the connection ends here, and the request's body with it.
            self.source = None;
            self.meter.end();
        }
        Poll::Ready(next)
    }

    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>> {
        loop {
            while !self.input.is_empty() {
                let (mut input, at) = (&self.input[..], Instant::now());
                let read = self.opener.read(&mut input, &mut self.frame);
                self.meter.lap(Step::Decrypt.name(), at);
                let used = self.input.len() - input.len();
                self.input.advance(used);
                match read {
                    Ok(Read::More) => {}
                    Ok(Read::Frame | Read::Last) => return Poll::Ready(Some(Ok(std::mem::take(&mut self.frame)))),
                    Err(err) => return Poll::Ready(Some(Err(ErrorKind::Untrusted(err).into()))),
                }
            }
            let Some(source) = &mut self.source else { return Poll::Ready(self.end()) };
            let total = self.settings.total_timeout.filter(|_| self.deadline.is_some_and(|at| at <= Deadline::now()));
            if let Some(after) = total {
                return Poll::Ready(Some(Err(self.late(after, "total_timeout"))));
            }
            match Pin::new(source).poll_frame(cx) {
                Poll::Ready(None) => return Poll::Ready(self.end()),
                Poll::Ready(Some(Ok(frame))) => {
                    self.idle = None;
                    self.input = frame.into_data().unwrap_or_default();
                    self.meter.received(self.input.len());
                }
                Poll::Ready(Some(Err(err))) => {
                    return Poll::Ready(Some(Err(broken(&self.url, &err))));
                }
                Poll::Pending => {
                    let (after, deadline) = (self.settings.idle_timeout, self.deadline);
                    let idle = || Deadline::now() + after;
                    let wait = || Box::pin(sleep_until(deadline.map_or_else(idle, |at| at.min(idle()))));
                    ready!(self.idle.get_or_insert_with(wait).as_mut().poll(cx));
                    self.idle = None;
                    if deadline.is_none_or(|at| at > Deadline::now()) {
                        return Poll::Ready(Some(Err(self.late(after, "idle_timeout"))));
                    }
                }
            }
        }
    }

    fn late(&self, after: Duration, option: &'static str) -> Error {
        ErrorKind::Timeout { url: self.url.to_string(), after, option }.into()
    }

    fn end(&self) -> Option<Result<Vec<u8>, Error>> {
        self.opener.end().err().map(|err| Err(ErrorKind::Untrusted(err).into()))
    }
}

/// Reads a body to its first byte or its end, and returns true if it has no bytes.
async fn is_empty(body: &mut Incoming) -> Result<bool, hyper::Error> {
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        if frame?.data_ref().is_some_and(|data| !data.is_empty()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Converts a failure of the connection.
fn broken(url: &Uri, err: &hyper::Error) -> Error {
    ErrorKind::Network { url: url.to_string(), reason: chain(err) }.into()
}
