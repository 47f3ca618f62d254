//! HTTP/2 over hyper: each connection is shared by at most `streams` workers.
//!
//! A server may end a connection at any time with `GOAWAY`, which names the last request it processed. Requests after that
//! one are retried once over another connection; all others fail.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::connect::Opener;
use super::multiplexed::{self, ExchangeError};
use super::observed::{ObservedStream, StreamRecord};
use super::pool::{Live, Pool, Seat};
use super::stream::OpenStream;
use super::{Sample, classify, keep};
use crate::record::{Class, Failure};
use crate::request::CurrentRequest;

/// Flow control windows of one stream and of a connection, in bytes.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Maximum size of an answer's headers, in bytes.
const HEADERS_LEN_MAX: u32 = 256 * 1024;

/// HTTP/2 connections of one shard.
pub(crate) struct Http2Lines {
    opener: Rc<Opener>,
    scheme: Scheme,
    pool: Pool<Line>,
}

#[derive(Clone)]
struct Line {
    sender: SendRequest<Full<Bytes>>,
    seen: Arc<StreamRecord>,
    /// True if this connection has received an answer.
    has_served: Rc<Cell<bool>>,
}

impl Live for Line {
    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// Seat of one worker on an HTTP/2 connection.
pub(crate) struct Http2 {
    lines: Rc<Http2Lines>,
    line: Line,
    _seat: Seat<Line>,
}

impl Http2Lines {
    /// Creates an empty pool of connections, each shared by at most `streams` workers.
    pub(crate) fn new(opener: Rc<Opener>, scheme: Scheme, streams: usize) -> Rc<Self> {
        Rc::new(Http2Lines { opener, scheme, pool: Pool::new(streams) })
    }

    /// Takes a seat on a connection with a free one, or opens a new connection.
    ///
    /// # Errors
    /// A failure that says why there is no connection.
    pub(crate) async fn open(self: &Rc<Self>, sample: &mut Sample) -> Result<Http2, Failure> {
        let (seat, line) = self.pool.seat(self.connect(sample)).await?;
        Ok(Http2 { lines: self.clone(), line, _seat: seat })
    }

    async fn connect(&self, sample: &mut Sample) -> Result<Line, Failure> {
        let OpenStream { stream, to, open } = self.opener.stream(sample).await?;
        let seen = StreamRecord::new(to.to_string());
        let io = TokioIo::new(ObservedStream::new(stream, seen.clone()));
        let handshake = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_LEN_MAX)
            .handshake(io);
        let (sender, connection) = handshake.await.map_err(|err| failure_of(&err, &seen))?;
        tokio::task::spawn_local(async move {
            // The stream has recorded the error, if there is one.
            let _ = connection.await;
            drop(open);
        });
        Ok(Line { sender, seen, has_served: Rc::default() })
    }
}

impl Http2 {
    /// Returns whether another request can be sent over this connection.
    pub(crate) fn is_open(&self) -> bool {
        !self.line.sender.is_closed()
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// # Errors
    /// A failure of the transport, or of the answer.
    pub(crate) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        let answer = match self.ask(prepared, sample).await {
            // Retries only on a connection that has served before: otherwise the failure to connect must be reported.
            Err(ExchangeError::Unseen(_)) if self.line.has_served.get() => {
                self.line.seen.add_bytes(sample);
                *self = self.lines.clone().open(sample).await?;
                sample.reconnected = true;
                self.ask(prepared, sample).await
            }
            answer => answer,
        };
        let read = match answer {
            Ok(answer) => self.read(answer, prepared, sample).await,
            Err(err) => Err(err.into_failure()),
        };
        self.line.seen.add_bytes(sample);
        read?;
        prepared.check(sample.status)
    }

    async fn ask(
        &mut self,
        prepared: &CurrentRequest,
        sample: &mut Sample,
    ) -> Result<Response<Incoming>, ExchangeError> {
        let scheme = self.lines.scheme.clone();
        let body = Full::new(prepared.sent());
        let request = multiplexed::request(prepared, (Version::HTTP_2, scheme), &self.lines.opener, body)?;
        if let Err(err) = self.line.sender.ready().await {
            return Err(ExchangeError::Unseen(self.failure(&err).await));
        }
        let sending = Instant::now();
        match self.line.sender.try_send_request(request).await {
            Ok(answer) => {
                sample.first_byte = Some(sending.elapsed());
                self.line.has_served.set(true);
                Ok(answer)
            }
            Err(mut err) => {
                let is_unsent = err.take_message().is_some();
                let err = err.into_error();
                let is_unseen = is_unsent || is_unseen(&err);
                let failure = self.failure(&err).await;
                Err(if is_unseen { ExchangeError::Unseen(failure) } else { ExchangeError::Failed(failure) })
            }
        }
    }

    async fn read(
        &mut self,
        answer: Response<Incoming>,
        prepared: &mut CurrentRequest,
        sample: &mut Sample,
    ) -> Result<(), Failure> {
        let (head, mut body) = answer.into_parts();
        multiplexed::take_head(head, prepared, sample);
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(err) => return Err(self.failure(&err).await),
            };
            if let (Some(data), Some(kept)) = (frame.data_ref(), prepared.body()) {
                keep(kept, data)?;
            }
        }
        sample.ended = Some(Instant::now());
        Ok(())
    }

    /// Returns the connection's error if there is one: it says more than the stream's. The connection's task must run first
    /// to see it.
    async fn failure(&self, err: &hyper::Error) -> Failure {
        tokio::task::yield_now().await;
        failure_of(err, &self.line.seen)
    }
}

/// Returns whether the server says that it did not process the request: a stream after the last one of its `GOAWAY`, or a
/// refused stream. hyper passes on only the text of h2's error.
fn is_unseen(err: &hyper::Error) -> bool {
    let words = classify::chain(err);
    words.contains("refused stream") || (words.contains("not a result of an error") && !words.contains("stream error"))
}

fn failure_of(err: &hyper::Error, seen: &StreamRecord) -> Failure {
    let (words, to) = (classify::chain(err), seen.to());
    if words.contains("stream error received") {
        let reason = words.rsplit(": ").next().unwrap_or_default();
        return Failure::new(Class::Reset, format!("{to} reset the stream: {reason}"));
    }
    if words.contains("error received") || words.contains("GOAWAY") {
        let reason = words.rsplit(": ").next().unwrap_or_default();
        return Failure::new(Class::Closed, format!("{to} closed the connection (GOAWAY): {reason}"));
    }
    if words.contains("error detected") {
        return Failure::new(Class::Malformed, format!("{to} violated HTTP/2: {words}"));
    }
    seen.failure().unwrap_or_else(|| classify::of(err, classify::At::Exchange, to))
}
