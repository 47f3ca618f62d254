//! HTTP/2 towards a server: a few connections that many requests share. hyper implements the protocol.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use sealway_proto::error::chain;
use sealway_runtime::http::{Body, BodyError, BodyRefusal, poll_whole};
use tokio_rustls::rustls::ClientConfig;

use super::h1::ExchangeError;
use super::io::Io;
use super::server::InFlight;
use crate::body::{StreamLimits, bounded, refusal_behind};

/// Concurrent requests on a connection from which another one is opened.
const STREAMS_MAX: usize = 100;
/// Maximum number of connections to a server.
const CONNECTIONS_MAX: usize = 64;
/// Bytes that a stream may send before they are read; a connection has four times that.
const WINDOW: u32 = 256 * 1024;
/// Maximum size of an answer's header list, in bytes.
const HEADERS_MAX: u32 = 64 * 1024;
/// Interval of pings, and the maximum time for their answer.
const PING: Duration = Duration::from_secs(20);

struct Link {
    sender: SendRequest<ProgressBody>,
    streams: Arc<AtomicUsize>,
    material: Option<Arc<ClientConfig>>,
    used: Instant,
}

/// The HTTP/2 connections to one server.
#[derive(Default)]
pub(super) struct Links {
    links: Mutex<Vec<Link>>,
    /// Held while a connection is opened: requests that arrive meanwhile may share it.
    pub(super) making: tokio::sync::Mutex<()>,
}

/// Result of [`Links::pick`].
pub(super) enum Pick {
    Stream(Stream),
    /// Another connection may be opened.
    More,
    Full,
}

/// A place for one request on a connection.
pub(super) struct Stream {
    sender: SendRequest<ProgressBody>,
    place: Place,
    /// True if the connection existed before: the server may have closed it meanwhile.
    pub(super) is_reused: bool,
}

/// Counts as a request on its connection until dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn on(streams: &Arc<AtomicUsize>) -> Self {
        streams.fetch_add(1, Ordering::Relaxed);
        Place(streams.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Links {
    /// Picks a place on the connection with the fewest requests among those made under `material`.
    pub(super) fn pick(&self, material: Option<&Arc<ClientConfig>>, connections_max: usize) -> Pick {
        let mut links = self.links.lock();
        // A connection that is not picked again ends with its last request.
        links.retain(|link| !link.sender.is_closed() && is_same(link.material.as_ref(), material));
        let count = links.len();
        let Some(link) = links.iter_mut().min_by_key(|link| link.streams.load(Ordering::Relaxed)) else {
            return Pick::More;
        };
        if link.streams.load(Ordering::Relaxed) >= STREAMS_MAX {
            return if count < CONNECTIONS_MAX.min(connections_max) { Pick::More } else { Pick::Full };
        }
        link.used = Instant::now();
        Pick::Stream(Stream { sender: link.sender.clone(), place: Place::on(&link.streams), is_reused: true })
    }

    /// Starts HTTP/2 on a connection, and takes the first place on it.
    pub(super) async fn begin(&self, io: Io, material: Option<Arc<ClientConfig>>) -> Result<Stream, hyper::Error> {
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(4 * WINDOW)
            .max_header_list_size(HEADERS_MAX)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .handshake(TokioIo::new(io))
            .await?;
        tokio::spawn(async move {
            if let Err(err) = connection.await {
                tracing::debug!(%err, "HTTP/2 connection to an upstream ended");
            }
        });
        let streams = Arc::new(AtomicUsize::new(0));
        let place = Place::on(&streams);
        let link = Link { sender: sender.clone(), streams, material, used: Instant::now() };
        self.links.lock().push(link);
        Ok(Stream { sender, place, is_reused: false })
    }

    /// Closes connections without a request for `idle`, and removes those that have ended.
    pub(super) fn sweep(&self, idle: Duration) {
        self.links.lock().retain(|link| {
            let is_used = link.streams.load(Ordering::Relaxed) > 0 || link.used.elapsed() < idle;
            is_used && !link.sender.is_closed()
        });
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.links.lock().len()
    }
}

/// True if a connection was made under the TLS settings in force.
pub(super) fn is_same(made: Option<&Arc<ClientConfig>>, now: Option<&Arc<ClientConfig>>) -> bool {
    match (made, now) {
        (None, None) => true,
        (Some(made), Some(now)) => Arc::ptr_eq(made, now),
        _ => false,
    }
}

/// Progress of a request's body, for the task that awaits the answer.
#[derive(Debug)]
struct Progress {
    began: Instant,
    /// Time of the last read from the body, in milliseconds since `began`.
    moved_ms: AtomicU64,
    is_starved: AtomicBool,
    /// 0, or the number of a [`BodyRefusal`] plus one.
    refusal: AtomicU8,
}

const REFUSALS: [BodyRefusal; 4] =
    [BodyRefusal::TooLarge, BodyRefusal::TooSlow, BodyRefusal::Broken, BodyRefusal::NoRoom];

impl Progress {
    fn new() -> Self {
        let (moved_ms, is_starved, refusal) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU8::new(0));
        Progress { began: Instant::now(), moved_ms, is_starved, refusal }
    }

    fn note(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(ms, Ordering::Relaxed);
    }

    /// Returns the time since which the server has made no progress; now, while the client's body is awaited.
    fn moved(&self) -> Instant {
        match self.is_starved.load(Ordering::Relaxed) {
            true => Instant::now(),
            false => self.began + Duration::from_millis(self.moved_ms.load(Ordering::Relaxed)),
        }
    }

    fn refusal(&self) -> Option<BodyRefusal> {
        let number = usize::from(self.refusal.load(Ordering::Relaxed));
        REFUSALS.get(number.checked_sub(1)?).copied()
    }
}

/// A request's body whose progress is recorded while it is sent.
#[derive(Debug)]
pub(super) struct ProgressBody {
    body: Option<Body>,
    progress: Arc<Progress>,
}

impl HttpBody for ProgressBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        this.progress.is_starved.store(polled.is_pending(), Ordering::Relaxed);
        let frame = ready!(polled);
        this.progress.note();
        if let Some(Err(err)) = &frame {
            let refusal = refusal_behind(&**err).unwrap_or(BodyRefusal::Broken);
            let number = REFUSALS.iter().position(|known| *known == refusal).unwrap_or_default() + 1;
            this.progress.refusal.store(u8::try_from(number).unwrap_or_default(), Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

/// Body of an answer, which counts as a request in flight until it is over.
struct InFlightBody {
    body: Incoming,
    _place: Place,
    _in_flight: InFlight,
}

impl HttpBody for InFlightBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        // Converted to text: the client's stream must not repeat a server's reason, such as a refused stream.
        poll_whole(&mut self.body, cx).map_err(|err| chain(&*err).into())
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Deadlines of one exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) response: Duration,
    pub(super) idle: Duration,
}

impl Stream {
    /// Sends a request, and awaits the head of its answer. If nothing of the request was sent, the second part of the
    /// error returns the body.
    pub(super) async fn exchange(
        mut self,
        request: Request<Option<Body>>,
        times: Times,
        in_flight: InFlight,
    ) -> Result<Response<Body>, (ExchangeError, Option<Option<Body>>)> {
        let progress = Arc::new(Progress::new());
        let request = request.map(|body| ProgressBody { body, progress: progress.clone() });
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        let mut deadline = std::pin::pin!(tokio::time::sleep(times.response));
        let response = std::future::poll_fn(|cx| {
            loop {
                if let Poll::Ready(response) = answer.as_mut().poll(cx) {
                    return Poll::Ready(Some(response));
                }
                ready!(deadline.as_mut().poll(cx));
                let until = progress.moved() + times.response;
                if until <= Instant::now() {
                    return Poll::Ready(None);
                }
                deadline.as_mut().reset(until.into());
            }
        });
        let Some(response) = response.await else { return Err((ExchangeError::TooSlow, None)) };
        match response {
            Ok(response) => {
                let limits = StreamLimits { len_max: u64::MAX, idle: times.idle, time: None, rate: None };
                let (place, in_flight) = (self.place, in_flight);
                Ok(response.map(|body| bounded(InFlightBody { body, _place: place, _in_flight: in_flight }, limits)))
            }
            Err(mut err) => {
                let unsent = err.take_message().map(|request| request.into_body().body);
                let failed = match (progress.refusal(), refusal_behind(err.error())) {
                    (Some(refusal), _) | (None, Some(refusal)) => ExchangeError::RequestBody(refusal),
                    (None, None) if is_unanswered(err.error()) => ExchangeError::Ended(chain(err.error())),
                    (None, None) => ExchangeError::CutOff(chain(err.error())),
                };
                Err((failed, unsent))
            }
        }
    }
}

/// True if the server can have sent no byte of an answer: the connection ended, or the server reports that it did not
/// process the request (RFC 9113 section 8.7). A request with a malformed answer is not retried.
fn is_unanswered(err: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(err);
    while let Some(err) = cause {
        if let Some(err) = err.downcast_ref::<h2::Error>() {
            let is_word = err.is_remote()
                && match err.reason() {
                    Some(h2::Reason::REFUSED_STREAM) => err.is_reset(),
                    Some(h2::Reason::NO_ERROR) => err.is_go_away(),
                    _ => false,
                };
            return err.is_io() || is_word;
        }
        cause = err.source();
    }
    true
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}
