//! HTTP/2 over hyper: each connection is shared by at most `streams` workers.
//!
//! A server may end a connection at any time with `GOAWAY`, which names the last request it processed. Requests after that
//! one are retried once over another connection; all others fail.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::uri::{Parts, Scheme};
use http::{Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::connect::Opener;
use super::pool::{Live, Pool, Seat};
use super::stream::Opened;
use super::watched::{Seen, Watched};
use super::{Sample, classify, server_timing};
use crate::record::{Class, Fault};
use crate::request::Prepared;

/// Flow control windows of one stream and of a connection, in bytes.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Maximum size of an answer's headers, in bytes.
const HEADERS_LEN_MAX: u32 = 256 * 1024;
/// Maximum size of a body kept for assertions, in bytes.
const BODY_LEN_MAX: usize = 64 * 1024 * 1024;

/// HTTP/2 connections of one shard.
pub(crate) struct Http2Lines {
    opener: Rc<Opener>,
    scheme: Scheme,
    pool: Pool<Line>,
}

#[derive(Clone)]
struct Line {
    sender: SendRequest<Full<Bytes>>,
    seen: Arc<Seen>,
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

/// Reason why there is no answer.
enum Broken {
    /// The server did not process the request.
    Unseen(Fault),
    Failed(Fault),
}

impl Http2Lines {
    /// Creates an empty pool of connections, each shared by at most `streams` workers.
    pub(crate) fn new(opener: Rc<Opener>, scheme: Scheme, streams: usize) -> Rc<Self> {
        Rc::new(Http2Lines { opener, scheme, pool: Pool::new(streams) })
    }

    /// Takes a seat on a connection with a free one, or opens a new connection.
    ///
    /// # Errors
    /// A fault that says why there is no connection.
    pub(crate) async fn open(self: &Rc<Self>, sample: &mut Sample) -> Result<Http2, Fault> {
        let (seat, line) = self.pool.seat(self.connect(sample)).await?;
        Ok(Http2 { lines: self.clone(), line, _seat: seat })
    }

    async fn connect(&self, sample: &mut Sample) -> Result<Line, Fault> {
        let Opened { stream, to, open } = self.opener.stream(sample).await?;
        let seen = Seen::new(to.to_string());
        let io = TokioIo::new(Watched::new(stream, seen.clone()));
        let handshake = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_LEN_MAX)
            .handshake(io);
        let (sender, connection) = handshake.await.map_err(|err| told(&err, &seen))?;
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
    /// A fault of the transport, or of the answer.
    pub(crate) async fn exchange(&mut self, prepared: &mut Prepared, sample: &mut Sample) -> Result<(), Fault> {
        let asked = match self.ask(prepared, sample).await {
            // Retries only on a connection that has served before: otherwise the failure to connect must be reported.
            Err(Broken::Unseen(_)) if self.line.has_served.get() => {
                self.line.seen.tell(sample);
                *self = self.lines.clone().open(sample).await?;
                sample.reconnected = true;
                self.ask(prepared, sample).await
            }
            asked => asked,
        };
        let read = match asked {
            Ok(answer) => self.read(answer, prepared, sample).await,
            Err(Broken::Unseen(fault) | Broken::Failed(fault)) => Err(fault),
        };
        self.line.seen.tell(sample);
        read?;
        prepared.check(sample.status)
    }

    async fn ask(&mut self, prepared: &Prepared, sample: &mut Sample) -> Result<Response<Incoming>, Broken> {
        let request = self.request(prepared).map_err(Broken::Failed)?;
        if let Err(err) = self.line.sender.ready().await {
            return Err(Broken::Unseen(self.fault(&err).await));
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
                let fault = self.fault(&err).await;
                Err(if is_unseen { Broken::Unseen(fault) } else { Broken::Failed(fault) })
            }
        }
    }

    fn request(&self, prepared: &Prepared) -> Result<Request<Full<Bytes>>, Fault> {
        let mut request = Request::new(Full::new(prepared.sent()));
        *request.method_mut() = prepared.method().clone();
        *request.headers_mut() = prepared.headers()?;
        *request.version_mut() = Version::HTTP_2;
        // The host goes into `:authority` only.
        let host = request.headers_mut().remove(http::header::HOST);
        request.headers_mut().remove(http::header::CONNECTION);
        let authority = host.and_then(|host| http::uri::Authority::from_maybe_shared(host).ok());
        let mut uri = Parts::default();
        uri.scheme = Some(self.lines.scheme.clone());
        uri.authority = authority.or_else(|| self.lines.opener.authority().cloned());
        uri.path_and_query = Some(prepared.path()?);
        *request.uri_mut() = Uri::from_parts(uri).map_err(|err| Fault::new(Class::Internal, err))?;
        Ok(request)
    }

    async fn read(
        &mut self,
        answer: Response<Incoming>,
        prepared: &mut Prepared,
        sample: &mut Sample,
    ) -> Result<(), Fault> {
        let (head, mut body) = answer.into_parts();
        sample.status = head.status.as_u16();
        for value in head.headers.get_all("server-timing") {
            sample.server = server_timing::add(sample.server, value.as_bytes());
        }
        if let Some(headers) = prepared.answer_headers() {
            *headers = head.headers;
        }
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(err) => return Err(self.fault(&err).await),
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
    async fn fault(&self, err: &hyper::Error) -> Fault {
        tokio::task::yield_now().await;
        told(err, &self.line.seen)
    }
}

impl std::fmt::Debug for Http2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2").field("to", &self.line.seen.to()).finish_non_exhaustive()
    }
}

/// Appends a piece of a body kept for assertions.
pub(super) fn keep(kept: &mut Vec<u8>, data: &[u8]) -> Result<(), Fault> {
    if kept.len() + data.len() > BODY_LEN_MAX {
        return Err(Fault::new(Class::Assertion, "a body of more than 64 MiB, which is not looked at"));
    }
    kept.extend_from_slice(data);
    Ok(())
}

/// Returns whether the server says that it did not process the request: a stream after the last one of its `GOAWAY`, or a
/// refused stream. hyper passes on only the text of h2's error.
fn is_unseen(err: &hyper::Error) -> bool {
    let words = classify::chain(err);
    words.contains("refused stream") || (words.contains("not a result of an error") && !words.contains("stream error"))
}

fn told(err: &hyper::Error, seen: &Seen) -> Fault {
    let (words, to) = (classify::chain(err), seen.to());
    if words.contains("stream error received") {
        let reason = words.rsplit(": ").next().unwrap_or_default();
        return Fault::new(Class::Reset, format!("{to} reset the stream: {reason}"));
    }
    if words.contains("error received") || words.contains("GOAWAY") {
        let reason = words.rsplit(": ").next().unwrap_or_default();
        return Fault::new(Class::Closed, format!("{to} ended the connection by GOAWAY: {reason}"));
    }
    if words.contains("error detected") {
        return Fault::new(Class::Malformed, format!("what {to} sent breaks the rules of HTTP/2: {words}"));
    }
    seen.fault().unwrap_or_else(|| classify::of(err, classify::At::Exchange, to))
}
