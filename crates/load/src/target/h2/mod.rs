//! HTTP/2 over the engine of `sealway-runtime`: each connection is shared by at most `streams` workers.
//!
//! A server may end a connection at any time with `GOAWAY`, which names the last request it processed. Requests after that
//! one are retried once over another connection; all others fail.
//!
//! One task drives a connection. It handles all answers of a read in one pass and wakes their workers, whose next requests it
//! then writes together.

mod exchange;
mod failure;
mod line;

use std::cell::OnceCell;
use std::rc::Rc;

use http::header::{CONTENT_LENGTH, TE};
use http::uri::Scheme;
use http::{HeaderValue, Method, Version};
use sealway_runtime::http::h2::RequestHead;

use self::exchange::Exchange;
use self::line::Line;
use super::connect::Opener;
use super::h1::ReadBuffer;
use super::multiplexed::{self, ExchangeError};
use super::pool::{Pool, Seat};
use super::{Sample, stream::OpenStream};
use crate::record::Failure;
use crate::request::CurrentRequest;

/// HTTP/2 connections of one shard.
pub(crate) struct Http2Lines {
    opener: Rc<Opener>,
    scheme: Scheme,
    pool: Pool<Line>,
    buffer: ReadBuffer,
    /// True if requests need all headers of their answers.
    keeps_headers: bool,
    /// Head of the plan's request, if it never changes.
    fixed: OnceCell<RequestHead>,
}

/// Seat of one worker on an HTTP/2 connection.
pub(crate) struct Http2 {
    lines: Rc<Http2Lines>,
    line: Line,
    /// True if the worker has sent no request over this connection.
    is_new: bool,
    _seat: Seat<Line>,
}

impl Http2Lines {
    /// Creates an empty pool of connections, each shared by at most `streams` workers. The headers of answers are kept if
    /// `keeps_headers` is set.
    pub(crate) fn new(
        opener: Rc<Opener>,
        scheme: Scheme,
        streams: usize,
        buffer: ReadBuffer,
        keeps_headers: bool,
    ) -> Rc<Self> {
        Rc::new(Http2Lines { opener, scheme, pool: Pool::new(streams), buffer, keeps_headers, fixed: OnceCell::new() })
    }

    /// Takes a seat on a connection with a free one, or opens a new connection.
    ///
    /// # Errors
    /// A failure that says why there is no connection.
    pub(crate) async fn open(self: &Rc<Self>, sample: &mut Sample) -> Result<Http2, Failure> {
        let (seat, line) = self.pool.seat(self.connect(sample)).await?;
        Ok(Http2 { lines: self.clone(), line, is_new: true, _seat: seat })
    }

    async fn connect(&self, sample: &mut Sample) -> Result<Line, Failure> {
        let OpenStream { stream, to, open } = self.opener.stream(sample).await?;
        let (line, drive) = Line::new(stream, to, self.buffer.clone(), self.keeps_headers);
        tokio::task::spawn_local(async move {
            drive.await;
            drop(open);
        });
        Ok(line)
    }

    /// Makes the head of a request, as it is sent.
    fn head(&self, prepared: &CurrentRequest, body_len: usize) -> Result<RequestHead, Failure> {
        let request = multiplexed::request(prepared, (Version::HTTP_2, self.scheme.clone()), &self.opener, ())?;
        let (mut parts, ()) = request.into_parts();
        if parts.headers.get(TE).is_some_and(|te| te != "trailers") {
            parts.headers.remove(TE);
        }
        // As over HTTP/1.1: a request of another method may lack a body without a word.
        let has_body = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH) || body_len > 0;
        if has_body && !parts.headers.contains_key(CONTENT_LENGTH) {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body_len));
        }
        Ok(RequestHead { method: parts.method, uri: parts.uri, headers: parts.headers, protocol: None })
    }
}

impl Http2 {
    /// Returns whether another request can be sent over this connection.
    pub(crate) fn is_open(&self) -> bool {
        self.line.is_open()
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// # Errors
    /// A failure of the transport, or of the answer.
    pub(crate) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        let mut answer = self.ask(prepared, sample).await;
        // Retries only on a connection that has served before: otherwise the failure to connect must be reported.
        if matches!(answer, Err(ExchangeError::Unseen(_))) && self.line.has_served() {
            self.line.add_bytes(sample);
            let lines = self.lines.clone();
            // Opening is rare and its future large.
            *self = Box::pin(lines.open(sample)).await?;
            sample.reconnected = true;
            answer = self.ask(prepared, sample).await;
        }
        self.line.add_bytes(sample);
        answer.map_err(ExchangeError::into_failure)?;
        prepared.check(sample.status)
    }

    async fn ask(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), ExchangeError> {
        let is_new = std::mem::take(&mut self.is_new);
        let body = prepared.sent();
        let varying;
        let head = match self.lines.fixed.get() {
            Some(head) if prepared.is_fixed() => head,
            _ => {
                let head = self.lines.head(prepared, body.len())?;
                if prepared.is_fixed() {
                    self.lines.fixed.get_or_init(|| head)
                } else {
                    varying = head;
                    &varying
                }
            }
        };
        let started = (!is_new).then_some(sample.started);
        let wants_body = prepared.body().is_some();
        let exchange = Exchange::open(&self.line, (head, body), wants_body, started).await?;
        exchange.read(prepared, sample).await
    }
}
