//! HTTP/2 on a listener: hyper's, with the bounds of the configuration, and an end for connections that are idle or do not
//! read.
//!
//! Interim answers cannot be sent: hyper has no way to, so no [`Interim`](super::Interim) goes with these requests. Nor can
//! a connection be taken: extended CONNECT (RFC 8441) stays off.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http2::Builder;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior};

use super::h1::{Setup, is_host};
use super::meter::MeterStream;
use super::stream::{PrefixStream, Transport};
use super::{Body, BodyError, HttpLimits, RequestBody, UNREAD_TIME, full};

/// Largest amount of unread data of all request bodies of a connection, and of one, in bytes.
const WINDOW: u32 = 1024 * 1024;
/// Largest buffered part of one answer that the client has not read, in bytes.
const SEND_BUFFER_MAX: usize = 64 * 1024;
/// Most streams that a client reset before they were processed, and that this side reset for its faults: more are a flood, and
/// the connection ends.
const RESETS_PENDING_MAX: usize = 20;
const RESETS_FOR_FAULTS_MAX: usize = 256;
/// The shortest interval between two checks of a connection.
const LOOK_MIN: Duration = Duration::from_millis(50);

/// Serves until the connection ends. `prefix` was read from it already.
///
/// # Errors
/// The connection ended early.
pub(super) async fn serve<IO, S>(io: IO, prefix: Bytes, setup: &Setup, service: S) -> Result<(), BodyError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let streams = Arc::new(Streams::default());
    let (origin, entry, list, limits) = (setup.origin.clone(), setup.entry.clone(), setup.list.clone(), setup.limits);
    let opened = streams.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        entry.count_request();
        let stream = opened.open();
        let is_head = *request.method() == Method::HEAD;
        let checked = check(&request, &limits).map_err(|(status, why)| {
            list.note_refused_request(&entry.peer, status, why);
            status
        });
        let answer = checked.map(|()| {
            let mut request = request.map(RequestBody::from);
            request.extensions_mut().insert(origin.clone());
            canonical_length(request.headers_mut());
            join_cookies(request.headers_mut());
            service.call(request)
        });
        async move {
            let response = match answer {
                Ok(answer) => answer.await?,
                Err(status) => refusal(status),
            };
            let response = if is_head { without_body(response) } else { response };
            Ok::<_, Infallible>(response.map(|body| stream.watch(body)))
        }
    });
    let connection = builder(&limits).serve_connection(
        TokioIo::new(MeterStream::new(PrefixStream::new(prefix, io), setup.entry.peer, setup.list.clone())),
        service,
    );
    let mut connection = pin!(connection);
    let period = (limits.idle_timeout.min(UNREAD_TIME) / 4).max(LOOK_MIN);
    let mut looks = tokio::time::interval(period);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut idle_since = None;
    let mut told_at = None;
    loop {
        let tell = tokio::select! {
            served = connection.as_mut() => return Ok(served?),
            () = setup.entry.stop.cancelled(), if told_at.is_none() => true,
            _ = looks.tick() => {
                if streams.has_unread(period) {
                    return Err("the client does not read its answers".into());
                }
                let is_idle = streams.is_idle();
                let now = Instant::now();
                idle_since = is_idle.then(|| idle_since.unwrap_or(now));
                // The pending output of hyper is unread, or the client does not even answer a ping.
                if is_idle && told_at.is_some_and(|told| now - told > UNREAD_TIME) {
                    return Err("the client does not let go".into());
                }
                told_at.is_none() && idle_since.is_some_and(|since| now - since >= limits.idle_timeout)
            }
        };
        if tell {
            connection.as_mut().graceful_shutdown();
            told_at = Some(Instant::now());
        }
    }
}

fn builder(limits: &HttpLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(limits.header_timeout))
        .keep_alive_timeout(limits.header_timeout)
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .max_send_buf_size(SEND_BUFFER_MAX)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_local_error_reset_streams(RESETS_FOR_FAULTS_MAX);
    builder
}

/// Rejects requests that HTTP/1 rejects and hyper does not: too many fields, two lengths, a target that is neither a path nor
/// the `*` of OPTIONS (RFC 9113 section 8.3.1), one with bytes that must be percent-encoded, which a service may decode to
/// another one, and a `Host` that differs from `:authority`. hyper enforces the rest of that section.
///
/// A fragment cannot be rejected: the library below removes it before the request is seen here.
fn check(request: &Request<Incoming>, limits: &HttpLimits) -> Result<(), (StatusCode, &'static str)> {
    let refused = |why| Err((StatusCode::BAD_REQUEST, why));
    if request.headers().len() > limits.fields_max {
        return Err((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head is over its bound"));
    }
    if request.headers().get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return refused("Content-Length stands twice");
    }
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let is_form = match *request.method() {
        Method::CONNECT => true,
        Method::OPTIONS => target.starts_with('/') || target == "*",
        _ => target.starts_with('/'),
    };
    if !is_form || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("the request target is none");
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let mut hosts = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
    let (host, other) = (hosts.next(), hosts.next());
    let is_right = match (authority, host) {
        (Some(authority), Some(host)) => is_host(authority) && authority.eq_ignore_ascii_case(host),
        (Some(one), None) | (None, Some(one)) => is_host(one),
        (None, None) => false,
    };
    if is_right && other.is_none() { Ok(()) } else { refused("Host is no host, or another than :authority") }
}

/// Writes a length without leading zeros, as HTTP/1 does: not every reader parses `0005` as five, or `10` as ten.
fn canonical_length(headers: &mut HeaderMap) {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}

/// Joins the parts of `Cookie` into one (RFC 9113 section 8.2.3): of several fields HTTP/1 services read the first, or each
/// another.
fn join_cookies(headers: &mut HeaderMap) {
    let parts: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if parts.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&parts.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

fn refusal(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// Removes the body of the answer to a HEAD: hyper would send it.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(len) = body.size_hint().exact().filter(|len| *len > 0) {
        parts.headers.entry(CONTENT_LENGTH).or_insert_with(|| len.into());
    }
    Response::from_parts(parts, full(Bytes::new()))
}

/// The streams of a connection whose requests are in progress or whose answers are being sent.
#[derive(Debug, Default)]
struct Streams {
    /// For each stream the check at which it was last given data that it has not come back for; 0 once it has.
    open: Mutex<HashMap<u64, Arc<AtomicU32>>>,
    last_id: AtomicU64,
    looks: AtomicU32,
}

impl Streams {
    fn open(self: &Arc<Self>) -> OpenStream {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let handed_at = Arc::new(AtomicU32::new(0));
        self.open.lock().insert(id, handed_at.clone());
        OpenStream { streams: self.clone(), id, handed_at }
    }

    fn is_idle(&self) -> bool {
        self.open.lock().is_empty()
    }

    /// Returns whether the data of a stream has been unread for too long. Called every `period`.
    fn has_unread(&self, period: Duration) -> bool {
        let now = self.looks.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let open = self.open.lock();
        open.values().any(|handed_at| match handed_at.load(Ordering::Relaxed) {
            0 => false,
            at => period * now.saturating_sub(at) > UNREAD_TIME,
        })
    }
}

/// One open stream; it is closed when this is dropped.
#[derive(Debug)]
struct OpenStream {
    streams: Arc<Streams>,
    id: u64,
    handed_at: Arc<AtomicU32>,
}

impl OpenStream {
    fn watch(self, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        // Until the first poll, the client accepts no data.
        self.note(true);
        WatchedBody { body, stream: self }.boxed_unsync()
    }

    fn note(&self, is_handed: bool) {
        let at = if is_handed { self.streams.looks.load(Ordering::Relaxed).max(1) } else { 0 };
        self.handed_at.store(at, Ordering::Relaxed);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.open.lock().remove(&self.id);
    }
}

/// An answer's body that records whether it waits for its service or for its client.
struct WatchedBody {
    body: Body,
    stream: OpenStream,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.stream.note(polled.is_ready());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
