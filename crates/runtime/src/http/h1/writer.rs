//! Writes an answer: its head with the first part of its body, then the body as it arrives, no faster than the client reads.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::response::Parts;
use http::{Method, Version};
use hyper::body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::alarm::Alarm;
use super::answer::{self, Plan};
use super::server::DISCARD_MAX;
use super::wire::Wire;
use super::{Framing, encode_chunk_head, encode_last_chunk};
use crate::http::h2::UNREAD_LEN;
use crate::http::stream::Transport;
use crate::http::{Body, BodyError, UNREAD_TIME};

/// The cause for which a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(in crate::http) enum WriteError {
    /// The connection failed, or the client left.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// An answer's body ended early: the client sees an incomplete answer.
    #[error("answer: {0}")]
    Body(BodyError),
    /// An answer's body is not as long as announced.
    #[error("an answer's body is not as long as announced")]
    Length,
    /// The client does not read its answer, or too slowly.
    #[error("the client does not read")]
    Unread,
}

/// The properties of a request on which the form of its answer depends.
#[derive(Debug)]
pub(super) struct RequestTraits {
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) keep_alive: bool,
}

/// The body of an answer that is being written.
struct Writing<'a, IO> {
    wire: &'a Mutex<Wire<IO>>,
    body: Body,
    framing: Framing,
    /// Number of bytes to come, if it was announced.
    left: Option<u64>,
    is_over: bool,
}

/// Writes an answer. Returns whether the connection can be used again.
pub(super) async fn write<IO: Transport>(
    wire: &Mutex<Wire<IO>>,
    stop: &CancellationToken,
    alarm: &mut Alarm,
    asked: &RequestTraits,
    mut parts: Parts,
    body: Body,
) -> Result<bool, WriteError> {
    let plan = Plan::new(&asked.method, asked.version, parts.status, &mut parts.headers, body.size_hint().exact());
    let left = if let Framing::Length(len) = plan.framing { Some(len) } else { None };
    let mut writing = Writing { wire, body, framing: plan.framing, left, is_over: !plan.has_body };
    // The first part of the body goes with the head. It is polled first: it may depend on the request's body, whose client
    // waits for a 100.
    let first = if plan.has_body { poll_fn(|cx| Poll::Ready(writing.poll_body(cx))).await } else { Poll::Pending };
    let keeps = {
        let wire = &mut *wire.lock();
        let can_be_read_on = wire.answer_begins() && wire.left() <= DISCARD_MAX;
        let keeps = asked.keep_alive && can_be_read_on && plan.framing != Framing::Close && !stop.is_cancelled();
        let out = wire.output.gathered();
        answer::encode(out, parts.status, &mut parts.headers, plan.framing, asked.version, keeps);
        keeps
    };
    if let Poll::Ready(frame) = first {
        writing.take(frame)?;
    }
    let written = poll_fn(|cx| writing.poll(cx, alarm)).await;
    alarm.clear();
    if written.is_err() && plan.framing == Framing::Close {
        wire.lock().reset();
    }
    written.map(|()| keeps)
}

type NextFrame = Option<Result<Frame<bytes::Bytes>, BodyError>>;

impl<IO: Transport> Writing<'_, IO> {
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<NextFrame> {
        // Not under the lock: it may be the request's own body.
        Pin::new(&mut self.body).poll_frame(cx)
    }

    /// Appends a frame of the body to the output.
    fn take(&mut self, frame: NextFrame) -> Result<(), WriteError> {
        let wire = &mut *self.wire.lock();
        let trailers = match frame.transpose().map_err(WriteError::Body)?.map(Frame::into_data) {
            Some(Ok(data)) if data.is_empty() => return Ok(()),
            Some(Ok(data)) => {
                if let Some(left) = &mut self.left {
                    *left = left.checked_sub(data.len() as u64).ok_or(WriteError::Length)?;
                    self.is_over = *left == 0 && self.body.is_end_stream();
                }
                let is_chunked = self.framing == Framing::Chunked;
                if is_chunked {
                    encode_chunk_head(wire.output.gathered(), data.len());
                }
                wire.output.push(data, if is_chunked { b"\r\n" } else { b"" });
                return Ok(());
            }
            Some(Err(frame)) => frame.into_trailers().ok(),
            None => None,
        };
        if self.left.is_some_and(|left| left > 0) {
            return Err(WriteError::Length);
        }
        if self.framing == Framing::Chunked {
            encode_last_chunk(wire.output.gathered(), trailers.as_ref());
        }
        self.is_over = true;
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<Result<(), WriteError>> {
        loop {
            let mut waits = false;
            while !self.is_over && !waits && self.wire.lock().output.takes_more() {
                match self.poll_body(cx) {
                    Poll::Ready(frame) => {
                        if let Err(err) = self.take(frame) {
                            // The complete part may still reach the client.
                            let _ = self.wire.lock().poll_flush(cx);
                            return Poll::Ready(Err(err));
                        }
                    }
                    Poll::Pending => waits = true,
                }
            }
            let wire = &mut *self.wire.lock();
            match poll_flush(wire, cx, alarm)? {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if self.is_over => return Poll::Ready(Ok(())),
                Poll::Ready(()) if waits => return wire.poll_gone(cx).map(|err| Err(err.into())),
                Poll::Ready(()) => {}
            }
        }
    }
}

/// Writes the output, as long as the client takes [`UNREAD_LEN`] bytes of it within [`UNREAD_TIME`].
fn poll_flush<IO: Transport>(
    wire: &mut Wire<IO>,
    cx: &mut Context<'_>,
    alarm: &mut Alarm,
) -> Poll<Result<(), WriteError>> {
    match wire.poll_flush(cx) {
        Poll::Ready(flushed) => {
            alarm.clear();
            Poll::Ready(flushed.map_err(WriteError::Io))
        }
        Poll::Pending => {
            if !alarm.is_set() || wire.written >= wire.marked + UNREAD_LEN as u64 {
                wire.marked = wire.written;
                alarm.set(Instant::now() + UNREAD_TIME);
            }
            alarm.poll(cx).map(|()| Err(WriteError::Unread))
        }
    }
}

/// Writes the output to its end.
pub(super) async fn flush<IO: Transport>(wire: &Mutex<Wire<IO>>, alarm: &mut Alarm) -> Result<(), WriteError> {
    alarm.clear();
    poll_fn(|cx| poll_flush(&mut wire.lock(), cx, alarm)).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::{Bytes, BytesMut};
    use tokio::io::AsyncReadExt;

    use super::*;

    const LARGE: usize = 64 * 1024;

    /// Writes a large output to a client that reads `len` bytes at a time. Returns the number of bytes it got, and the result.
    async fn written_to(len: usize) -> (usize, Result<(), WriteError>) {
        let (near, mut far) = tokio::io::duplex(1);
        let wire = Mutex::new(Wire::new(near, BytesMut::new()));
        wire.lock().output.push(Bytes::from(vec![b'x'; LARGE]), b"");
        let reading = tokio::spawn(async move {
            let (mut part, mut read) = (vec![0; len], 0);
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                match far.read_exact(&mut part).await {
                    Ok(len) => read += len,
                    Err(_) => return read,
                }
            }
        });
        let result = flush(&wire, &mut Alarm::default()).await;
        drop(wire);
        (reading.await.unwrap(), result)
    }

    #[tokio::test]
    async fn a_client_that_takes_a_byte_now_and_then_is_given_up_and_one_that_reads_to_the_end_is_not() {
        let (read, result) = written_to(1).await;
        assert!(matches!(result, Err(WriteError::Unread)) && read > 0 && read < UNREAD_LEN, "{read} bytes, {result:?}");
        let (read, result) = written_to(4096).await;
        assert!(result.is_ok() && read == LARGE, "{read} bytes, {result:?}");
    }
}
