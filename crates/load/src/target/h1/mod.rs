//! HTTP/1.1 as thin as it gets: prepared bytes out, the answer's head and framing in, the body handed to assertions where
//! there are any and counted otherwise.
//!
//! A connection that the server closed between two requests is told before anything is sent ([`Http1::is_open`]), and
//! another is opened for the request: no failure, for any method. A close that crosses the request on its way is a failure
//! of class `Closed` or `Reset`, for any method, and nothing is sent twice: what the server did with the request cannot be
//! known, and a load generator does not guess.

mod answer;
mod chunks;
mod head;

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use self::answer::Answer;
use super::stream::{Opened, Stream};
use super::{Sample, classify};
use crate::record::{Class, Entered, Fault};
use crate::request::Prepared;

/// How much is read at once, into a buffer that all connections of a thread share.
const READ_LEN: usize = 64 * 1024;

/// Where all connections of a thread read into, so that an idle one holds no memory for it.
#[derive(Clone, Debug)]
pub(crate) struct ReadBuffer(Rc<RefCell<Box<[u8]>>>);

impl Default for ReadBuffer {
    fn default() -> Self {
        ReadBuffer(Rc::new(RefCell::new(vec![0; READ_LEN].into_boxed_slice())))
    }
}

/// A connection that sends one request at a time.
#[derive(Debug)]
pub(crate) struct Http1 {
    stream: Stream,
    to: SocketAddr,
    buffer: ReadBuffer,
    keeps: bool,
    _open: Entered,
}

impl Http1 {
    pub(crate) fn new(opened: Opened, buffer: ReadBuffer) -> Self {
        Http1 { stream: opened.stream, to: opened.to, buffer, keeps: true, _open: opened.open }
    }

    /// Whether the last answer allows another request.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Whether another request can be sent: the last answer allows it, and the server has not closed since.
    ///
    /// # Errors
    ///
    /// A fault of class `Malformed` if the server sent something that no request asked for.
    pub(crate) async fn is_open(&mut self) -> Result<bool, Fault> {
        if !self.keeps {
            return Ok(false);
        }
        poll_fn(|cx| {
            let Http1 { stream, buffer, .. } = self;
            let mut bytes = buffer.0.borrow_mut();
            let mut bytes = ReadBuf::new(&mut bytes);
            Poll::Ready(match Pin::new(stream).poll_read(cx, &mut bytes) {
                Poll::Pending => Ok(true),
                Poll::Ready(Ok(())) if !bytes.filled().is_empty() => {
                    Err(Fault::new(Class::Malformed, "bytes between two answers that no request asked for"))
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
    /// What went wrong on the way, or with the answer. The connection is of no use afterwards.
    pub(crate) async fn exchange(&mut self, prepared: &mut Prepared, sample: &mut Sample) -> Result<(), Fault> {
        let sending = if sample.connections_opened > 0 { Instant::now() } else { sample.started };
        self.keeps = false;
        let written = self.write(prepared.http1(), sample).await;
        let mut answer = Answer::of(prepared.is_head());
        answer.headers = prepared.answer_headers().map(|_| HeaderMap::new());
        // A server may answer and close before it has read all of a request: its answer tells more than a broken pipe.
        let read = poll_fn(|cx| self.poll_answer(cx, &mut answer, prepared, sample, sending)).await;
        match (written, read) {
            (Ok(()), read) => read?,
            // What is read after a failed write may say why: a server that refuses a client's certificate says so only
            // then, by an alert.
            (Err(_), Err(fault)) if fault.class == Class::TlsAlert => return Err(fault),
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

    fn broken(&self, error: &std::io::Error) -> Fault {
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
        prepared: &mut Prepared,
        sample: &mut Sample,
        sending: Instant,
    ) -> Poll<Result<(), Fault>> {
        loop {
            let mut bytes = self.buffer.0.borrow_mut();
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

    /// Ends the connection; where the server was asked to close, waits so long for it to do so, and so takes what it still
    /// sends, such as tickets of TLS sessions.
    pub(crate) async fn finish(mut self, wait: Option<Duration>) {
        if let Some(wait) = wait {
            let to_the_end = poll_fn(|cx| {
                loop {
                    let mut bytes = self.buffer.0.borrow_mut();
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
