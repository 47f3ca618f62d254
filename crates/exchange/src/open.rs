//! Body of a sealed request for its service: pieces are opened as they arrive.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::Error;
use sealway_proto::exchange::{BodyFault, Piece, Refusal, Stream};
use sealway_proto::one_shot::Prefix;

use crate::body::{BoxError, Incoming};

/// Reason that a stream broke off, for the answer to its request. The first fault counts.
pub(crate) type Fault = Arc<OnceLock<Refusal>>;

/// A sealed body that is being read.
pub(crate) struct Reader<B> {
    body: B,
    stream: Stream,
    /// Bytes that arrived and are not opened yet.
    input: Bytes,
    /// Number of bytes that may still arrive.
    left: u64,
    /// Number of arrived bytes that are held in memory.
    held: u64,
    fault: Fault,
}

impl<B: Incoming> Reader<B> {
    /// Creates a reader of at most `len_max` bytes of `body`, after the part of the stream in `there`.
    pub(crate) fn new(body: B, stream: Stream, len_max: u64, there: Option<Vec<u8>>) -> Self {
        let input = Bytes::from(there.unwrap_or_default());
        Reader { body, stream, input, left: len_max, held: 0, fault: Fault::default() }
    }

    /// Polls the prefix of a request on wire 4.
    pub(crate) fn poll_prefix(&mut self, cx: &mut Context<'_>) -> Poll<Result<Prefix, Refusal>> {
        loop {
            if let Some(prefix) = self.stream.take_prefix() {
                return Poll::Ready(Ok(prefix));
            }
            if !ready!(self.poll_input(cx))? {
                return Poll::Ready(Err(self.broken(Error::StreamTruncated)));
            }
            // A prefix is no piece.
            self.read_input()?;
        }
    }

    /// Returns the stream, which goes on to its frames once the prefix is read.
    pub(crate) fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Returns the place of the fault, which is set if the stream breaks off.
    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns the rest of the sealed body.
    pub(crate) fn into_body(self) -> B {
        self.body
    }

    /// Polls the next piece; `None` after the last one.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Piece>, Refusal>> {
        loop {
            if self.stream.is_done() {
                return Poll::Ready(Ok(None));
            }
            if !ready!(self.poll_input(cx))? {
                return Poll::Ready(self.stream.end().map_err(|err| self.broken(err)));
            }
            if let Some(piece) = self.read_input()? {
                return Poll::Ready(Ok(Some(piece)));
            }
        }
    }

    /// Reads the bytes that have arrived.
    fn read_input(&mut self) -> Result<Option<Piece>, Refusal> {
        let mut input: &[u8] = &self.input;
        let read = self.stream.read(&mut input);
        let used = self.input.len() - input.len();
        self.input.advance(used);
        read.map_err(|err| self.broken(err))
    }

    /// Polls until there are bytes that are not read yet; false at the end of the body.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Refusal>> {
        while self.input.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                // Trailers are outside the seal.
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    let len = data.len() as u64;
                    let Some(left) = self.left.checked_sub(len) else {
                        return Poll::Ready(Err(self.broken(BodyFault::TooLarge)));
                    };
                    (self.left, self.held, self.input) = (left, self.held + len, data);
                }
                Some(Err(err)) => return Poll::Ready(Err(self.broken(B::fault(&err)))),
                None => return Poll::Ready(Ok(false)),
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Releases the bytes that were opened.
    fn release(&mut self) {
        let unread = self.input.len() as u64;
        self.body.release(self.held.saturating_sub(unread));
        self.held = unread;
    }

    fn broken(&mut self, refusal: impl Into<Refusal>) -> Refusal {
        let refusal = refusal.into();
        let _ = self.fault.set(refusal.clone());
        refusal
    }
}

/// Plaintext of a request with several pieces: the rest of the first piece, then the others.
pub(crate) struct Plain<B> {
    first: Bytes,
    rest: Reader<B>,
    is_broken: bool,
}

impl<B: Incoming> Plain<B> {
    pub(crate) fn new(first: Bytes, mut rest: Reader<B>) -> Self {
        rest.release();
        Plain { first, rest, is_broken: false }
    }
}

impl<B: Incoming> HttpBody for Plain<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))));
        }
        // A reader that continues after an error must not take the following end for the end of the body.
        if self.is_broken {
            return Poll::Ready(Some(Err("the sealed stream broke off".into())));
        }
        loop {
            match ready!(self.rest.poll_piece(cx)) {
                Ok(Some(piece)) => {
                    self.rest.release();
                    if !piece.bytes.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(piece.bytes.into()))));
                    }
                }
                Ok(None) => return Poll::Ready(None),
                Err(refusal) => {
                    self.is_broken = true;
                    return Poll::Ready(Some(Err(refusal.into())));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.stream.is_done() && !self.is_broken
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
