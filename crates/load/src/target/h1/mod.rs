//! Minimal HTTP/1.1 client: it writes prepared bytes, parses the answer's head and framing, and keeps the body only for
//! assertions.
//!
//! A connection that the server closed between two requests is detected before anything is sent ([`Http1::is_open`]), and
//! the request opens another: this is no failure, for any method. A close that crosses the request is a failure of class
//! `Closed` or `Reset`, for any method, and nothing is retried: the client cannot know whether the server processed the
//! request.

mod answer;
mod chunks;
mod head;

use std::cell::{RefCell, RefMut};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use self::answer::Answer;
use super::stream::{OpenStream, Stream};
use super::{Sample, classify};
use crate::record::{Class, Failure, GaugeGuard};
use crate::request::CurrentRequest;

/// Size of the read buffer that all connections of a thread share, in bytes.
const READ_LEN: usize = 64 * 1024;

/// Read buffer shared by all connections of a thread, so that an idle connection holds no buffer.
#[derive(Clone)]
pub(crate) struct ReadBuffer(Rc<RefCell<Box<[u8]>>>);

impl Default for ReadBuffer {
    fn default() -> Self {
        ReadBuffer(Rc::new(RefCell::new(vec![0; READ_LEN].into_boxed_slice())))
    }
}

impl ReadBuffer {
    /// Borrows the buffer for one read.
    pub(super) fn borrow_mut(&self) -> RefMut<'_, Box<[u8]>> {
        self.0.borrow_mut()
    }
}

/// HTTP/1.1 connection that sends one request at a time.
pub(crate) struct Http1 {
    stream: Stream,
    to: SocketAddr,
    buffer: ReadBuffer,
    keeps: bool,
    _open: GaugeGuard,
}

impl Http1 {
    pub(crate) fn new(opened: OpenStream, buffer: ReadBuffer) -> Self {
        Http1 { stream: opened.stream, to: opened.to, buffer, keeps: true, _open: opened.open }
    }

    /// Returns whether the last answer allows another request.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Returns whether another request can be sent: the last answer allows it, and the server has not closed the connection
    /// since.
    ///
    /// # Errors
    ///
    /// A failure of class `Malformed` if the server sent bytes without a request.
    pub(crate) async fn is_open(&mut self) -> Result<bool, Failure> {
        if !self.keeps {
            return Ok(false);
        }
        poll_fn(|cx| {
            let Http1 { stream, buffer, .. } = self;
            let mut bytes = buffer.borrow_mut();
            let mut bytes = ReadBuf::new(&mut bytes);
            Poll::Ready(match Pin::new(stream).poll_read(cx, &mut bytes) {
                Poll::Pending => Ok(true),
                Poll::Ready(Ok(())) if !bytes.filled().is_empty() => {
                    Err(Failure::new(Class::Malformed, "unexpected bytes between two responses"))
                }
                Poll::Ready(_) => Ok(false),
            })
        })
        .await
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// # Errors
    ///
    /// A failure of the transport, or of the answer. The connection is unusable afterwards unless [`Http1::keeps`].
    pub(crate) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        let sending = if sample.connections_opened > 0 { Instant::now() } else { sample.started };
        self.keeps = false;
        let written = self.write(prepared.http1(), sample).await;
        let mut answer = Answer::of(prepared.is_head());
        answer.headers = prepared.answer_headers().map(|_| HeaderMap::new());
        // A server may answer and close before it has read the whole request: its answer tells more than a broken pipe.
        let read = poll_fn(|cx| self.poll_answer(cx, &mut answer, prepared, sample, sending)).await;
        match (written, read) {
            (Ok(()), read) => read?,
            // Input read after a failed write may give the reason: a server that rejects a client's certificate sends its
            // alert only then.
            (Err(_), Err(failure)) if failure.class == Class::TlsAlert => return Err(failure),
            (Err(error), Err(_)) => return Err(self.broken(&error)),
            (Err(_), Ok(())) => answer.keeps = false,
        }
        self.keeps = answer.keeps;
        if let (Some(wanted), Some(headers)) = (prepared.answer_headers(), answer.headers) {
            *wanted = headers;
        }
        sample.status = answer.status;
        sample.server = answer.server;
        prepared.check(answer.status)
    }

    fn broken(&self, error: &std::io::Error) -> Failure {
        classify::of(error, classify::At::Exchange, self.to)
    }

    async fn write(&mut self, bytes: &[u8], sample: &mut Sample) -> std::io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let written = poll_fn(|cx| Pin::new(&mut self.stream).poll_write(cx, left)).await?;
            if written == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            sample.bytes_sent += written as u64;
            left = &left[written..];
        }
        self.stream.flush().await
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Answer,
        prepared: &mut CurrentRequest,
        sample: &mut Sample,
        sending: Instant,
    ) -> Poll<Result<(), Failure>> {
        loop {
            let mut bytes = self.buffer.borrow_mut();
            let mut bytes = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut bytes));
            let now = Instant::now();
            let bytes = bytes.filled();
            if let Err(error) = read {
                return Poll::Ready(Err(self.broken(&error)));
            }
            sample.bytes_received += bytes.len() as u64;
            let is_whole = if bytes.is_empty() {
                answer.end()?;
                true
            } else {
                sample.first_byte.get_or_insert_with(|| now.saturating_duration_since(sending));
                answer.feed(bytes, prepared.body())?
            };
            if is_whole {
                sample.ended = Some(now);
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Closes the connection. With `wait`, reads until the server closes it, for at most that long, and so receives the data
    /// that the server still sends, such as TLS session tickets.
    pub(crate) async fn finish(mut self, wait: Option<Duration>) {
        if let Some(wait) = wait {
            let to_the_end = poll_fn(|cx| {
                loop {
                    let mut bytes = self.buffer.borrow_mut();
                    let mut bytes = ReadBuf::new(&mut bytes);
                    match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut bytes)) {
                        Ok(()) if !bytes.filled().is_empty() => {}
                        _ => return Poll::Ready(()),
                    }
                }
            });
            let _ = tokio::time::timeout(wait, to_the_end).await;
        }
    }
}
