//! Accepting connections and telling protocols apart, with a bound on everything, and a graceful end.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{Body, BodyError, HttpLimits, Origin, Peer, RequestBody};
use crate::listener::accept;
use crate::shutdown::Shutdown;

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

/// Serves one listener until stopping begins. Each connection is a task that draining waits for.
pub async fn serve<S>(listener: TcpListener, name: Arc<str>, service: S, limits: HttpLimits, shutdown: Shutdown)
where
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
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
        let peer = Peer::Ip(peer);
        let origin = Origin { listener: name.clone(), peer, client: peer.ip(), is_tls: false, certificate: None };
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
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let is_h2 = tokio::select! {
        sniffed = tokio::time::timeout(limits.header_timeout, sniff_h2(&stream)) => sniffed??,
        // Nothing was sent yet: there is nothing to answer.
        () = idle_grace(shutdown) => return Ok(()),
    };
    let stop = shutdown.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(RequestBody::from);
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
