//! HTTP/2 by hyper: one connection for one worker, or for as many as there are streams.
//!
//! A server may end a connection at any time by `GOAWAY`, and says with it which requests it never looked at. Those are
//! sent once more over another connection; all others fail.

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

/// What a server may send ahead on one stream, and on all streams of a connection, in bytes.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// All headers of an answer, in bytes.
const HEADERS_LEN_MAX: u32 = 256 * 1024;
/// A body that is looked at may be no longer, in bytes.
const BODY_LEN_MAX: usize = 64 * 1024 * 1024;

/// The connections of one shard.
pub(crate) struct Http2Lines {
    opener: Rc<Opener>,
    scheme: Scheme,
    pool: Pool<Line>,
}

#[derive(Clone)]
struct Line {
    sender: SendRequest<Full<Bytes>>,
    seen: Arc<Seen>,
    /// Whether an answer has come over it.
    has_served: Rc<Cell<bool>>,
}

impl Live for Line {
    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// A connection, or a share of one.
pub(crate) struct Http2 {
    lines: Rc<Http2Lines>,
    line: Line,
    _seat: Seat<Line>,
}

/// Why there is no answer.
enum Broken {
    /// The server never looked at the request.
    Unseen(Fault),
    Failed(Fault),
}

impl Http2Lines {
    /// Connections that are opened so, each for so many workers at a time.
    pub(crate) fn new(opener: Rc<Opener>, scheme: Scheme, streams: usize) -> Rc<Self> {
        Rc::new(Http2Lines { opener, scheme, pool: Pool::new(streams) })
    }

    /// Takes a place on a connection that has one, or opens another.
    ///
    /// # Errors
    /// Why there is no connection.
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
            // What it ends with was seen by the stream.
            let _ = connection.await;
            drop(open);
        });
        Ok(Line { sender, seen, has_served: Rc::default() })
    }
}

impl Http2 {
    /// Whether another request can be sent over it.
    pub(crate) fn is_open(&self) -> bool {
        !self.line.sender.is_closed()
    }

    /// Sends a request, and reads its answer to the end.
    ///
    /// # Errors
    /// What went wrong on the way, or with the answer.
    pub(crate) async fn exchange(&mut self, prepared: &mut Prepared, sample: &mut Sample) -> Result<(), Fault> {
        let asked = match self.ask(prepared, sample).await {
            // A connection that was of use once: others failed because there is none, and that is to be told.
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
        // The host that is asked for stands in `:authority` alone.
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

    /// What broke the connection says more than what became of a stream by that; it is seen by the task that drives it.
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

/// Keeps a piece of a body that is looked at.
pub(super) fn keep(kept: &mut Vec<u8>, data: &[u8]) -> Result<(), Fault> {
    if kept.len() + data.len() > BODY_LEN_MAX {
        return Err(Fault::new(Class::Assertion, "a body of more than 64 MiB, which is not looked at"));
    }
    kept.extend_from_slice(data);
    Ok(())
}

/// Whether the server says that it never looked at the request: a stream beyond the last one of its `GOAWAY`, or one that
/// it refused. hyper hands on the words of the protocol's library alone.
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
