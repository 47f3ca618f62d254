//! HTTP/1.1 and HTTP/2 with prior knowledge (h2c) on one listener, with a bound on everything, and a graceful end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::listener::accept;
use crate::shutdown::Shutdown;

/// Why a body broke off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of every answer.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body that is all there.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Why a request's body could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyRefusal {
    /// Longer than its bound.
    #[error("body is over its bound")]
    TooLarge,
    /// Not there within its time.
    #[error("body came too slowly")]
    TooSlow,
    /// The connection broke, or the framing is wrong.
    #[error("body broke off")]
    Broken,
}

/// How much memory is taken on the strength of an announced length alone.
const ANNOUNCED_MAX: usize = 128 * 1024;

/// How much of a refused body is read and thrown away, so that the client, still sending, gets to read its answer.
const DISCARD_MAX: u64 = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Reads a whole body of at most `len_max` bytes within `time`.
///
/// # Errors
/// [`BodyRefusal`]; what was too large has been thrown away, within bounds.
pub async fn read_body<B>(mut body: B, len_max: usize, time: Duration) -> Result<Vec<u8>, BodyRefusal>
where
    B: hyper::body::Body + Unpin,
{
    if body.size_hint().lower() > len_max as u64 {
        discard(body).await;
        return Err(BodyRefusal::TooLarge);
    }
    // A length that is only announced is not memory yet.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(announced.min(ANNOUNCED_MAX));
    let read = async {
        while let Some(frame) = body.frame().await {
            let Ok(mut data) = frame.map_err(|_| BodyRefusal::Broken)?.into_data() else { continue };
            if bytes.len() + data.remaining() > len_max {
                return Err(BodyRefusal::TooLarge);
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                bytes.extend_from_slice(chunk);
                let len = chunk.len();
                data.advance(len);
            }
        }
        Ok(())
    };
    match tokio::time::timeout(time, read).await {
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(BodyRefusal::TooLarge)) => {
            discard(body).await;
            Err(BodyRefusal::TooLarge)
        }
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(BodyRefusal::TooSlow),
    }
}

/// Reads and throws away what a client still sends, within bounds.
pub async fn discard<B>(mut body: B)
where
    B: hyper::body::Body + Unpin,
{
    if body.is_end_stream() || body.size_hint().lower() > DISCARD_MAX {
        return;
    }
    let read = async {
        let mut left = DISCARD_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let len = frame.data_ref().map_or(0, |data| data.remaining() as u64);
            let Some(rest) = left.checked_sub(len) else { return };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, read).await;
}

/// How a client begins HTTP/2 without being asked to (RFC 9113 section 3.3).
///
/// All of it is waited for under the header timeout: hyper itself has no bound on a preface that stops half-way.
const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long an answer may lie unread at a peer whose window stays shut.
const UNREAD_TIME: Duration = Duration::from_secs(60);
/// How long a connection without a request stays open after stopping began.
const IDLE_GRACE: Duration = Duration::from_millis(250);
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Bounds on connections.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Connections at once on a listener; over that a 503 is sent and the connection closed.
    pub connections_max: usize,
    /// The request line and headers together, in bytes.
    pub header_bytes_max: usize,
    /// How long a connection may take for the head of a request, and how long it may stay idle between two.
    pub header_timeout: Duration,
    /// HTTP/2 streams at once on a connection.
    pub streams_max: u32,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections_max: 10_000,
            header_bytes_max: 32 * 1024,
            header_timeout: Duration::from_secs(30),
            streams_max: 256,
        }
    }
}

/// Where a request came in, as a request extension.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The listener's name in the configuration.
    pub listener: Arc<str>,
    /// The other end.
    pub peer: SocketAddr,
}

/// Serves one listener until stopping begins. Each connection is a task that draining waits for.
pub async fn serve<S>(listener: TcpListener, name: Arc<str>, service: S, limits: HttpLimits, shutdown: Shutdown)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    let mut backlog_until = None;
    loop {
        // Whoever has connected before stopping began is still served: what waits in the backlog would be reset.
        let (stream, peer) = tokio::select! {
            biased;
            accepted = accept(&listener) => accepted,
            () = shutdown.begun() => return,
        };
        if shutdown.has_begun() && Instant::now() > *backlog_until.get_or_insert_with(|| Instant::now() + IDLE_GRACE) {
            return;
        }
        // Who does not read what was sent to it is cut off by the kernel.
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(UNREAD_TIME));
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            metrics::counter!("sealway_connections_refused_total", "listener" => name.to_string()).increment(1);
            shutdown.spawn(refuse(stream));
            continue;
        };
        let origin = Origin { listener: name.clone(), peer };
        let (service, stop) = (service.clone(), shutdown.clone());
        shutdown.spawn(async move {
            tokio::select! {
                served = connection(stream, origin, service, limits, &stop) => if let Err(err) = served {
                    tracing::debug!(%peer, err, "connection ended early");
                },
                () = stop.aborted() => {}
            }
            drop(permit);
        });
    }
}

async fn refuse(mut stream: TcpStream) {
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(OVERLOADED)).await;
}

async fn connection<S>(
    stream: TcpStream,
    origin: Origin,
    service: S,
    limits: HttpLimits,
    shutdown: &Shutdown,
) -> Result<(), BodyError>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let is_h2 = tokio::select! {
        sniffed = tokio::time::timeout(limits.header_timeout, sniff_h2(&stream)) => sniffed??,
        // Nothing was sent yet: there is nothing to answer.
        () = idle_grace(shutdown) => return Ok(()),
    };
    let stop = shutdown.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(origin.clone());
        let answer = service.call(request);
        let stop = stop.clone();
        async move {
            let mut response = answer.await?;
            if !is_h2 && stop.has_begun() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let io = TokioIo::new(stream);
    // Either protocol: serve, and when stopping begins tell the peer and finish what is in flight. HTTP/2 has a frame
    // for it. In HTTP/1 a request may be on its way down a connection that looks idle from here: the next answer says
    // close, and only who stays silent is closed on.
    macro_rules! drive {
        ($builder:expr, $time_to_tell:expr) => {{
            let mut connection = pin!($builder.serve_connection(io, service));
            tokio::select! {
                served = connection.as_mut() => served?,
                () = $time_to_tell => {
                    connection.as_mut().graceful_shutdown();
                    connection.await?;
                }
            }
        }};
    }
    if is_h2 {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(limits.header_timeout))
            .keep_alive_timeout(limits.header_timeout)
            .max_concurrent_streams(limits.streams_max)
            .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
        drive!(builder, shutdown.begun());
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_header_size(limits.header_bytes_max)
            .max_buf_size(limits.header_bytes_max.max(64 * 1024));
        drive!(builder, idle_grace(shutdown));
    }
    Ok(())
}

/// Resolves some time after stopping began.
async fn idle_grace(shutdown: &Shutdown) {
    shutdown.begun().await;
    tokio::time::sleep(IDLE_GRACE).await;
}

/// Whether the connection begins with HTTP/2's preface. Looks without taking.
async fn sniff_h2(stream: &TcpStream) -> io::Result<bool> {
    let mut seen = [0_u8; H2_PREFACE.len()];
    let mut pause = Duration::from_millis(1);
    loop {
        let len = stream.peek(&mut seen).await?;
        if len == 0 || seen[..len] != H2_PREFACE[..len] {
            return Ok(false);
        }
        if len == H2_PREFACE.len() {
            return Ok(true);
        }
        // A part of the preface: peek would return it at once again, and again.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}
