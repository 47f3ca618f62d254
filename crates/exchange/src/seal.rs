//! Body of a sealed answer: the service's bytes are sealed as they arrive. A frame ends when it is full, or when the
//! service has no more data at present.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::limits::FRAME_LEN_MAX;
use sealway_proto::session::native::{FrameSealer, InnerHeaders};

use crate::body::{Body, BoxError};

/// Initial capacity for a frame of unknown length, in bytes.
const ROOM: usize = 4 * 1024;
/// Size of a full frame in bytes, with its envelope.
const FULL: usize = FRAME_LEN_MAX + 64;

/// A body that is being sealed.
pub(crate) struct Sealing {
    body: Body,
    sealer: FrameSealer,
    /// Headers for the seal, until the first frame is written.
    headers: Option<InnerHeaders>,
    /// Bytes that arrived and are in no frame yet.
    input: Bytes,
    /// True if the last frame was more than half full: the next one may be full.
    is_flowing: bool,
    is_done: bool,
}

/// State of a frame that is being filled.
enum FrameState {
    /// The frame is full, or there is no more data at present.
    Enough,
    /// The frame is the last one.
    End,
}

impl Sealing {
    pub(crate) fn new(body: Body, sealer: FrameSealer, headers: InnerHeaders) -> Self {
        Sealing { body, sealer, headers: Some(headers), input: Bytes::new(), is_flowing: false, is_done: false }
    }

    /// Fills the frame that begins at `at` with available bytes of the service.
    fn gather(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>, at: usize) -> Poll<Result<FrameState, BoxError>> {
        loop {
            let room = FRAME_LEN_MAX.saturating_sub(out.len() - at);
            let len = self.input.len().min(room);
            out.extend_from_slice(&self.input[..len]);
            self.input.advance(len);
            if !self.input.is_empty() {
                return Poll::Ready(Ok(FrameState::Enough));
            }
            if self.body.is_end_stream() {
                return Poll::Ready(Ok(FrameState::End));
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers cannot be sealed.
                    if let Ok(data) = frame.into_data() {
                        self.input = data;
                    }
                }
                Poll::Ready(Some(Err(err))) => return Poll::Ready(Err(err)),
                Poll::Ready(None) => return Poll::Ready(Ok(FrameState::End)),
                Poll::Pending if out.len() > at => return Poll::Ready(Ok(FrameState::Enough)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl HttpBody for Sealing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.is_done {
            return Poll::Ready(None);
        }
        // Full capacity at once for a long answer: a buffer that grows ends up twice as large.
        let is_long = this.is_flowing || this.body.size_hint().lower() > ROOM as u64;
        let mut out = Vec::with_capacity(if is_long { FULL } else { ROOM });
        let begun = this.sealer.begin(&mut out);
        let at = out.len();
        if let Some(headers) = &this.headers {
            headers.encode(&mut out);
        }
        let gathered = match this.gather(cx, &mut out, at) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(gathered)) => gathered,
            Poll::Ready(Err(err)) => {
                // No last frame: the client must not take the received part for the whole answer.
                this.is_done = true;
                return Poll::Ready(Some(Err(err)));
            }
        };
        this.headers = None;
        this.is_flowing = out.len() - at > FRAME_LEN_MAX / 2;
        this.is_done = matches!(gathered, FrameState::End);
        let sealed = this.sealer.seal(&mut out, begun, this.is_done);
        if let Err(err) = sealed {
            this.is_done = true;
            return Poll::Ready(Some(Err(err.to_string().into())));
        }
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_done
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
