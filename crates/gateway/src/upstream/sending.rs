//! Sending of a request: its head, and its body as it arrives from the client.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use hyper::body::{Body as HttpBody, Frame};
use sealway_runtime::http::h1::{Framing, encode_chunk_head, encode_last_chunk};
use sealway_runtime::http::{Body, BodyRefusal};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::body::refusal_behind;

/// Length from which chunks are written without a copy; shorter ones are copied into the buffer.
const COPY_MAX: usize = 8 * 1024;
/// Bytes gathered before a write.
const GATHER_MAX: usize = 16 * 1024;

/// Reason that sending ended early.
#[derive(Debug)]
pub(super) enum SendFault {
    /// The connection takes no more; there may be an answer all the same.
    Connection,
    /// The client's body broke off, or does not have its announced length.
    Body(BodyRefusal),
}

/// State of sending a request.
#[derive(Debug)]
pub(super) struct Sending {
    /// The body; `None` once it is over.
    body: Option<Body>,
    /// Framing of the body; a length counts down to the rest.
    framing: Framing,
    /// Bytes that are next on the wire.
    out: BytesMut,
    /// Chunk after those bytes.
    chunk: Bytes,
    /// End of a chunk, after the chunk.
    tail: &'static [u8],
    needs_flush: bool,
    /// True while the body waits for a 100.
    is_held: bool,
    /// True if a part of the body was taken: it cannot be sent a second time.
    has_begun: bool,
    /// True if no part of the body is available: the client is awaited, not the server.
    is_starved: bool,
    /// Time of the last write.
    moved: Instant,
}

impl Sending {
    /// Starts with `head`, which announces `framing`. A body that `is_held` waits for [`Sending::release`].
    pub(super) fn new(head: BytesMut, framing: Framing, body: Option<Body>, is_held: bool) -> Self {
        Sending {
            is_held: is_held && body.is_some(),
            body,
            framing,
            out: head,
            chunk: Bytes::new(),
            tail: b"",
            needs_flush: false,
            has_begun: false,
            is_starved: false,
            moved: Instant::now(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Releases a body that is held.
    pub(super) fn release(&mut self) {
        self.is_held = false;
    }

    /// Returns the time since which the server has made no progress: the last write, or now while the client's body is
    /// awaited.
    pub(super) fn moved(&self) -> Instant {
        if self.is_starved { Instant::now() } else { self.moved }
    }

    /// Returns the body (`None` for a request without one) if nothing of it was taken yet; `None` if something was.
    pub(super) fn into_body(self) -> Option<Option<Body>> {
        (!self.has_begun).then_some(self.body)
    }

    /// Writes as much as possible; ready when everything is written.
    pub(super) fn poll<W: AsyncWrite + Unpin>(
        &mut self,
        io: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendFault>> {
        loop {
            self.fill(cx)?;
            if self.out.is_empty() && self.chunk.is_empty() && self.tail.is_empty() {
                if std::mem::take(&mut self.needs_flush) && Pin::new(&mut *io).poll_flush(cx)?.is_pending() {
                    self.needs_flush = true;
                    return Poll::Pending;
                }
                return if self.body.is_none() { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            let len = if self.chunk.is_empty() && self.tail.is_empty() {
                ready!(Pin::new(&mut *io).poll_write(cx, &self.out))?
            } else {
                let slices = [IoSlice::new(&self.out), IoSlice::new(&self.chunk), IoSlice::new(self.tail)];
                let from = usize::from(self.out.is_empty());
                ready!(Pin::new(&mut *io).poll_write_vectored(cx, &slices[from..]))?
            };
            if len == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
            }
            self.advance(len);
        }
    }

    fn advance(&mut self, len: usize) {
        self.moved = Instant::now();
        self.needs_flush = true;
        let of_out = len.min(self.out.len());
        if of_out == self.out.len() {
            self.out.clear();
        } else {
            self.out.advance(of_out);
        }
        let of_chunk = (len - of_out).min(self.chunk.len());
        self.chunk.advance(of_chunk);
        if self.chunk.is_empty() {
            // A written chunk is not kept in memory until the next one comes.
            self.chunk = Bytes::new();
        }
        self.tail = self.tail.get(len - of_out - of_chunk..).unwrap_or_default();
    }

    /// Takes available chunks of the body, up to one large chunk or enough small ones.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<(), SendFault> {
        self.is_starved = false;
        while !self.is_held && self.chunk.is_empty() && self.tail.is_empty() && self.out.len() < GATHER_MAX {
            let Some(body) = &mut self.body else { break };
            match Pin::new(body).poll_frame(cx) {
                Poll::Pending => {
                    self.is_starved = true;
                    break;
                }
                Poll::Ready(Some(Ok(frame))) => self.push(frame)?,
                Poll::Ready(Some(Err(err))) => {
                    self.has_begun = true;
                    return Err(SendFault::Body(refusal_behind(&*err).unwrap_or(BodyRefusal::Broken)));
                }
                Poll::Ready(None) => self.end(None)?,
            }
        }
        Ok(())
    }

    fn push(&mut self, frame: Frame<Bytes>) -> Result<(), SendFault> {
        self.has_begun = true;
        let data = match frame.into_data() {
            Ok(data) if data.is_empty() => return Ok(()),
            Ok(data) => data,
            Err(frame) => return self.end(frame.trailers_ref()),
        };
        match &mut self.framing {
            Framing::Length(left) => match left.checked_sub(data.len() as u64) {
                Some(rest) => *left = rest,
                None => return Err(SendFault::Body(BodyRefusal::Broken)),
            },
            _ => encode_chunk_head(&mut self.out, data.len()),
        }
        let tail: &[u8] = if self.framing == Framing::Chunked { b"\r\n" } else { b"" };
        if data.len() > COPY_MAX {
            self.chunk = data;
            self.tail = tail;
        } else {
            self.out.extend_from_slice(&data);
            self.out.extend_from_slice(tail);
        }
        if self.framing == Framing::Length(0) {
            self.body = None;
        }
        Ok(())
    }

    /// Ends the body. Trailers are sent only with chunked framing.
    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), SendFault> {
        self.has_begun = true;
        self.body = None;
        match self.framing {
            Framing::Chunked => encode_last_chunk(&mut self.out, trailers),
            Framing::Length(left) if left > 0 => return Err(SendFault::Body(BodyRefusal::Broken)),
            _ => {}
        }
        Ok(())
    }
}

impl From<io::Error> for SendFault {
    fn from(_: io::Error) -> Self {
        SendFault::Connection
    }
}
