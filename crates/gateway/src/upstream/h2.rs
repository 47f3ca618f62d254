//! HTTP/2 towards a server: a few connections that many requests share, and others that tunnels share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_LENGTH;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use sealway_exchange::headers;
use sealway_runtime::http::h2::{
    Config, Exchange, ExchangeError as H2Error, FieldLimits, RequestHead, ResponseHead, Sender, StreamError, connect,
};
use sealway_runtime::http::{Body, BodyError, BodyRefusal, Interim, full};
use tokio_rustls::rustls::ClientConfig;

use super::h1::{ExchangeError, response_of};
use super::io::Io;
use super::server::InFlight;
use super::tunnel::{Tunnel, UpstreamIo};
use crate::body::{StreamLimits, bounded, refusal_behind};

/// Concurrent requests on a connection from which another one is opened.
const STREAMS_MAX: usize = 100;
/// Maximum number of connections to a server.
const CONNECTIONS_MAX: usize = 64;
/// Bytes that a stream may send before they are read; a connection has four times that.
const WINDOW: u32 = 256 * 1024;
const CONFIG: Config = Config {
    streams_max: 0,
    stream_window: WINDOW,
    connection_window: 4 * WINDOW,
    fields: FieldLimits { bytes_max: 64 * 1024, fields_max: 256 },
    pending_max: 64 * 1024,
    connect_protocol: false,
};
/// Bytes that a tunnel's server may send before they are read. A connection has as many for each of its tunnels, and again as
/// many, since half of a window may wait to be given back: a client that reads nothing stalls no tunnel but its own.
const TUNNEL_WINDOW: u32 = 64 * 1024;
const TUNNEL_CONFIG: Config =
    Config { stream_window: TUNNEL_WINDOW, connection_window: 2 * STREAMS_MAX as u32 * TUNNEL_WINDOW, ..CONFIG };
/// Interval of pings, and the maximum time for their answer.
const PING: Duration = Duration::from_secs(20);

struct Link {
    sender: Sender,
    streams: Arc<AtomicUsize>,
    material: Option<Arc<ClientConfig>>,
    used: Instant,
}

/// The HTTP/2 connections to one server: those for requests, or those for tunnels. A tunnel lasts, so it shares a connection
/// with tunnels alone.
pub(super) struct Links {
    links: Mutex<Vec<Link>>,
    config: Config,
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
    sender: Sender,
    place: Place,
    /// True if the connection existed before: the server may have closed it meanwhile.
    pub(super) is_reused: bool,
}

/// Counts as a request on its connection until dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

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
    fn new(config: Config) -> Self {
        Links { links: Mutex::default(), config, making: tokio::sync::Mutex::default() }
    }

    /// Creates the list of connections for requests.
    pub(super) fn of_requests() -> Self {
        Self::new(CONFIG)
    }

    /// Creates the list of connections for tunnels.
    pub(super) fn of_tunnels() -> Self {
        Self::new(TUNNEL_CONFIG)
    }

    /// Picks a place on the connection with the fewest requests among those made under `material`.
    pub(super) fn pick(&self, material: Option<&Arc<ClientConfig>>, connections_max: usize) -> Pick {
        let mut links = self.links.lock();
        // A connection that is not picked again ends with its last request.
        links.retain(|link| !link.sender.is_closed() && is_same(link.material.as_ref(), material));
        let count = links.len();
        let Some(link) = links.iter_mut().min_by_key(|link| link.streams.load(Ordering::Relaxed)) else {
            return Pick::More;
        };
        // A request may wait for another one to end. A tunnel does not end soon.
        let streams_max =
            if self.config.stream_window == TUNNEL_WINDOW { link.sender.streams_max() } else { STREAMS_MAX };
        if link.streams.load(Ordering::Relaxed) >= STREAMS_MAX.min(streams_max) {
            return if count < CONNECTIONS_MAX.min(connections_max) { Pick::More } else { Pick::Full };
        }
        link.used = Instant::now();
        Pick::Stream(Stream { sender: link.sender.clone(), place: Place::on(&link.streams), is_reused: true })
    }

    /// Starts HTTP/2 on a connection, and takes the first place on it.
    pub(super) fn begin(&self, io: Io, material: Option<Arc<ClientConfig>>) -> Stream {
        let (sender, drive) = connect(io, self.config, Some(PING));
        tokio::spawn(async move {
            if let Err(err) = drive.await {
                tracing::debug!(%err, "HTTP/2 connection to an upstream ended");
            }
        });
        let streams = Arc::new(AtomicUsize::new(0));
        let place = Place::on(&streams);
        let link = Link { sender: sender.clone(), streams, material, used: Instant::now() };
        self.links.lock().push(link);
        Stream { sender, place, is_reused: false }
    }

    /// Removes the connection of a stream, which ends with its last request.
    pub(super) fn remove(&self, stream: &Stream) {
        self.links.lock().retain(|link| !Arc::ptr_eq(&link.streams, &stream.place.0));
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
}

impl Progress {
    fn new() -> Self {
        Progress { began: Instant::now(), moved_ms: AtomicU64::new(0), is_starved: AtomicBool::new(false) }
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

    /// Awaits an answer, at most `time` from the last progress.
    async fn within<T>(
        &self,
        time: Duration,
        answer: impl Future<Output = Result<T, (ExchangeError, Option<Option<Body>>)>>,
    ) -> Result<T, (ExchangeError, Option<Option<Body>>)> {
        let mut answer = std::pin::pin!(answer);
        let mut deadline = std::pin::pin!(tokio::time::sleep(time));
        std::future::poll_fn(|cx| {
            loop {
                if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                ready!(deadline.as_mut().poll(cx));
                let until = self.moved() + time;
                if until <= Instant::now() {
                    return Poll::Ready(Err((ExchangeError::TooSlow, None)));
                }
                deadline.as_mut().reset(until.into());
            }
        })
        .await
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
    exchange: Exchange<ProgressBody>,
    /// Number of bytes to come, if it was announced.
    left: Option<u64>,
    _place: Place,
    _in_flight: InFlight,
}

impl HttpBody for InFlightBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        // Converted to text: the client's stream must not repeat a server's reason, such as a refused stream.
        let frame = ready!(self.exchange.poll_piece(cx)).transpose().map_err(|err| err.to_string())?;
        if let (Some(left), Some(data)) = (&mut self.left, frame.as_ref().and_then(Frame::data_ref)) {
            *left = left.saturating_sub(data.len() as u64);
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.exchange.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Deadlines of one exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) response: Duration,
    pub(super) idle: Duration,
}

impl Stream {
    /// Waits for the server's settings, and returns whether it accepts extended CONNECT.
    pub(super) async fn accepts_connect(&self) -> Result<bool, StreamError> {
        self.sender.accepts_connect().await
    }

    /// Sends a request, and awaits the head of its answer; interim answers go to `interim`. If nothing of the request was
    /// sent, the second part of the error returns the body. The success of an extended CONNECT has an [`UpstreamIo`].
    pub(super) async fn exchange(
        self,
        request: RequestHead,
        body: Option<Body>,
        times: Times,
        in_flight: InFlight,
        interim: Option<&Interim>,
    ) -> Result<Response<Body>, (ExchangeError, Option<Option<Body>>)> {
        let is_connect = request.protocol.is_some();
        let progress = Arc::new(Progress::new());
        let body = body.map(|body| ProgressBody { body: Some(body), progress: progress.clone() });
        let answered = async {
            let mut exchange = match self.sender.send(request, body).await {
                Ok(exchange) => exchange,
                Err((err, body)) => return Err((failed(err), Some(body.and_then(|body| body.body)))),
            };
            loop {
                match std::future::poll_fn(|cx| exchange.poll_response(cx)).await {
                    Ok(head) if head.status.is_informational() => pass_interim(head, interim),
                    Ok(head) => return Ok((head, exchange)),
                    Err(H2Error::Body(err)) => {
                        let refusal = refusal_behind(&*err).unwrap_or(BodyRefusal::Broken);
                        return Err((ExchangeError::RequestBody(refusal), None));
                    }
                    Err(H2Error::Stream(err)) => return Err((failed(err), None)),
                }
            }
        };
        let (head, mut exchange) = progress.within(times.response, answered).await?;
        if is_connect && head.status.is_success() {
            let tunnel = Tunnel::of_stream(exchange.into_tunnel(), self.place, in_flight);
            let mut response = response_of(head.status, head.headers, full(Bytes::new()));
            response.extensions_mut().insert(UpstreamIo::new(tunnel));
            return Ok(response);
        }
        if is_connect {
            exchange.end_connect();
        }
        let limits = StreamLimits { len_max: u64::MAX, idle: times.idle, time: None, rate: None };
        let left = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = InFlightBody { exchange, left, _place: self.place, _in_flight: in_flight };
        Ok(response_of(head.status, head.headers, bounded(body, limits)))
    }
}

fn pass_interim(mut head: ResponseHead, interim: Option<&Interim>) {
    headers::remove_hop_by_hop(&mut head.headers);
    // The client's own 100 is sent when its body is first read.
    if let Some(interim) = interim
        && head.status != http::StatusCode::CONTINUE
    {
        interim.send(head.status, head.headers);
    }
}

/// Returns the reason for a missing answer: whether the server can have sent a byte of one. A connection may end before, and a
/// server may state that it did not process the request (RFC 9113 section 8.7). A request with a malformed answer is not retried.
fn failed(err: StreamError) -> ExchangeError {
    match err {
        StreamError::Unprocessed | StreamError::Closed => ExchangeError::Ended(err.to_string()),
        _ => ExchangeError::CutOff(err.to_string()),
    }
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}
