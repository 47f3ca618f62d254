//! Bodies of wire 3 as they flow: a request's is sealed frame by frame, an answer's opened frame by frame.
//!
//! Neither holds more than one frame, beside what the connection does.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use sealway_proto::limits::FRAME_LEN_MAX;
use sealway_proto::session::three::{FrameOpener, FrameSealer, Read};
use tokio::time::{Sleep, sleep};

use super::session::outer_headers;
use crate::error::{Error, chain};
use crate::transport::BoxError;

/// What a frame has beside its plaintext, in bytes; the first one has more.
const FRAME_EXTRA: usize = 64;

/// How far a call is: when its body was last taken from, for whoever waits for an answer meanwhile, and what sealing it took.
#[derive(Debug)]
pub(super) struct Progress {
    start: Instant,
    last_ms: AtomicU64,
    sent: AtomicU64,
    sealing_ns: AtomicU64,
    /// Whether it is the body's source that is waited for.
    is_source_idle: AtomicBool,
}

impl Progress {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Progress {
            start: Instant::now(),
            last_ms: 0.into(),
            sent: 0.into(),
            sealing_ns: 0.into(),
            is_source_idle: false.into(),
        })
    }

    /// Notes sealed bytes and how long sealing them took.
    pub(super) fn sealed(&self, len: usize, took: Duration) {
        self.sent.fetch_add(len as u64, Ordering::Relaxed);
        self.sealing_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn note(&self, is_source_idle: bool) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
        self.is_source_idle.store(is_source_idle, Ordering::Relaxed);
    }

    /// Waits until nothing was taken for `after`, though the source had something.
    pub(super) async fn stalled(&self, after: Duration) {
        loop {
            let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let left = (last + after).saturating_sub(self.start.elapsed());
            if !left.is_zero() {
                sleep(left).await;
            } else if self.is_source_idle.load(Ordering::Relaxed) {
                sleep(after).await;
            } else {
                return;
            }
        }
    }
}

/// A request's body: a frame ends when it is full, or when the source has nothing more ready.
pub(super) struct Sealing<B> {
    source: Pin<Box<B>>,
    rest: Bytes,
    sealer: FrameSealer,
    /// The headers within, until the first frame.
    inner: Option<Vec<u8>>,
    len: Option<u64>,
    is_done: bool,
    progress: Arc<Progress>,
}

impl<B: Body> Sealing<B> {
    /// `is_whole` says that the source has everything ready, so that the stream's length is known.
    pub(super) fn new(source: B, sealer: FrameSealer, inner: Vec<u8>, is_whole: bool, progress: Arc<Progress>) -> Self {
        let exact = source.size_hint().exact().filter(|_| is_whole);
        let len = exact.map(|len| FrameSealer::stream_len(len + inner.len() as u64));
        let inner = Some(inner);
        Sealing { source: Box::pin(source), rest: Bytes::new(), sealer, inner, len, is_done: false, progress }
    }
}

impl<B> Body for Sealing<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.is_done {
            return Poll::Ready(None);
        }
        let mut out = Vec::with_capacity(this.rest.len().min(FRAME_LEN_MAX) + FRAME_EXTRA);
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
            match this.source.as_mut().poll_frame(cx) {
                Poll::Ready(None) => break true,
                // Trailers have no place in a stream.
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(mut data) = frame.into_data() {
                        this.rest = data.copy_to_bytes(data.remaining());
                    }
                }
                // The stream ends without its last frame: what was sent of it is no request.
                Poll::Ready(Some(Err(err))) => {
                    this.is_done = true;
                    return Poll::Ready(Some(Err(err.into())));
                }
                Poll::Pending if out.len() == start => {
                    this.progress.note(true);
                    return Poll::Pending;
                }
                Poll::Pending => break false,
            }
        };
        this.progress.note(false);
        this.is_done = is_last;
        let begun_at = Instant::now();
        let sealed = this.sealer.seal(&mut out, begun, is_last);
        this.progress.sealed(out.len(), begun_at.elapsed());
        Poll::Ready(Some(sealed.map(|()| Frame::data(out.into())).map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_done
    }

    fn size_hint(&self) -> SizeHint {
        self.len.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// An answer's body, opened as it comes: its bytes are the service's, each frame of them. One that breaks off is an error
/// and not an end.
pub struct SealedBody {
    opener: FrameOpener,
    source: Option<Incoming>,
    input: Bytes,
    frame: Vec<u8>,
    /// Of the first frame, behind the headers.
    first: Bytes,
    is_over: bool,
    received: u64,
    opening: Duration,
    call: Arc<Progress>,
    idle: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
    url: String,
}

impl SealedBody {
    /// Begins to open an answer: waits for its first frame, and takes the headers from it. The stream is `sealed` if it came
    /// in a header. No two of its frames may be further apart than `idle`.
    pub(super) async fn open(
        opener: FrameOpener,
        sealed: Option<Vec<u8>>,
        body: Incoming,
        idle: Duration,
        url: String,
        call: Arc<Progress>,
    ) -> Result<(HeaderMap, Self), Error> {
        let source = if sealed.is_some() { None } else { Some(body) };
        let input = sealed.map(Bytes::from).unwrap_or_default();
        let input_len = input.len() as u64;
        let mut body = SealedBody {
            opener,
            source,
            input,
            frame: Vec::new(),
            first: Bytes::new(),
            is_over: false,
            received: input_len,
            opening: Duration::ZERO,
            call,
            idle,
            deadline: None,
            url,
        };
        let first = std::future::poll_fn(|cx| body.poll_opened(cx)).await;
        let first = first.unwrap_or(Err(Error::Untrusted(sealway_proto::Error::StreamTruncated)))?;
        let (headers, len) = outer_headers(&first)?;
        body.first = Bytes::from(first).slice(len..);
        Ok((headers, body))
    }

    /// Sealed bytes of the answer that have come so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Sealed bytes of the request that were handed to the connection so far.
    pub fn sent(&self) -> u64 {
        self.call.sent.load(Ordering::Relaxed)
    }

    /// Time since the call began, and this side's sealing and opening, so far.
    pub fn times(&self) -> (Duration, Duration, Duration) {
        (self.call.start.elapsed(), Duration::from_nanos(self.call.sealing_ns.load(Ordering::Relaxed)), self.opening)
    }

    /// The next frame's plaintext.
    fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_frames(cx));
        self.is_over = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }

    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>> {
        loop {
            while !self.input.is_empty() {
                let (mut input, begun) = (&self.input[..], Instant::now());
                let read = self.opener.read(&mut input, &mut self.frame);
                self.opening += begun.elapsed();
                let used = self.input.len() - input.len();
                self.input.advance(used);
                match read {
                    Ok(Read::More) => {}
                    Ok(Read::Frame | Read::Last) => return Poll::Ready(Some(Ok(std::mem::take(&mut self.frame)))),
                    Err(err) => return Poll::Ready(Some(Err(Error::Untrusted(err)))),
                }
            }
            let Some(source) = &mut self.source else { return Poll::Ready(self.end()) };
            match Pin::new(source).poll_frame(cx) {
                Poll::Ready(None) => return Poll::Ready(self.end()),
                Poll::Ready(Some(Ok(frame))) => {
                    self.deadline = None;
                    self.input = frame.into_data().unwrap_or_default();
                    self.received += self.input.len() as u64;
                }
                Poll::Ready(Some(Err(err))) => {
                    let (url, reason) = (self.url.clone(), chain(&err));
                    return Poll::Ready(Some(Err(Error::Transport { url, reason })));
                }
                Poll::Pending => {
                    let idle = self.idle;
                    let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(idle)));
                    ready!(deadline.as_mut().poll(cx));
                    return Poll::Ready(Some(Err(Error::Timeout { url: self.url.clone(), after: idle })));
                }
            }
        }
    }

    fn end(&self) -> Option<Result<Vec<u8>, Error>> {
        self.opener.end().err().map(|err| Err(Error::Untrusted(err)))
    }
}

impl Body for SealedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        if !this.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.first)))));
        }
        loop {
            match ready!(this.poll_opened(cx)) {
                // The last frame may hold nothing.
                Some(Ok(data)) if data.is_empty() => {}
                next => return Poll::Ready(next.map(|next| next.map(|data| Frame::data(data.into())))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over && self.first.is_empty()
    }
}

impl std::fmt::Debug for SealedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedBody").field("url", &self.url).finish_non_exhaustive()
    }
}
