//! The body of a sealed answer: what the service sends is sealed as it comes. A frame ends where it is full, and where the
//! service has nothing more to give for now.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame};
use sealway_proto::limits::FRAME_LEN_MAX;
use sealway_proto::session::three::{FrameSealer, InnerHeaders};

use crate::body::{Body, BoxError};

/// How much room a frame begins with, in bytes.
const ROOM: usize = 4 * 1024;

/// A body that is being sealed.
pub(super) struct Sealing {
    body: Body,
    sealer: FrameSealer,
    /// Until the first frame has gone.
    headers: Option<InnerHeaders>,
    /// What came and is in no frame yet.
    input: Bytes,
    is_done: bool,
}

impl Sealing {
    pub(super) fn new(body: Body, sealer: FrameSealer, headers: InnerHeaders) -> Self {
        Sealing { body, sealer, headers: Some(headers), input: Bytes::new(), is_done: false }
    }

    /// Fills a frame, whose plaintext begins at `at`; whether it is the last.
    fn gather(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>, at: usize) -> Poll<Result<bool, BoxError>> {
        loop {
            let len = self.input.len().min(FRAME_LEN_MAX.saturating_sub(out.len() - at));
            out.extend_from_slice(&self.input[..len]);
            self.input.advance(len);
            if !self.input.is_empty() {
                return Poll::Ready(Ok(false));
            }
            if self.body.is_end_stream() {
                return Poll::Ready(Ok(true));
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                // Trailers have no place in a seal.
                Poll::Ready(Some(Ok(frame))) => self.input = frame.into_data().unwrap_or_default(),
                Poll::Ready(Some(Err(err))) => return Poll::Ready(Err(err)),
                Poll::Ready(None) => return Poll::Ready(Ok(true)),
                Poll::Pending if out.len() > at => return Poll::Ready(Ok(false)),
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
        let mut out = Vec::with_capacity(ROOM);
        let begun = this.sealer.begin(&mut out);
        let at = out.len();
        if let Some(headers) = &this.headers {
            headers.encode(&mut out);
        }
        let is_last = match this.gather(cx, &mut out, at) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(is_last)) => is_last,
            Poll::Ready(Err(err)) => {
                // Without its last frame: what came is not to be taken for all of it.
                this.is_done = true;
                return Poll::Ready(Some(Err(err)));
            }
        };
        this.headers = None;
        this.is_done = is_last;
        Poll::Ready(Some(match this.sealer.seal(&mut out, begun, is_last) {
            Ok(()) => Ok(Frame::data(out.into())),
            Err(err) => {
                this.is_done = true;
                Err(err.into())
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_done
    }
}
