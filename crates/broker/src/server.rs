//! The server: accepts the socket's connections, bounds each, passes requests to the wires, and drains them at the end.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sealway_runtime::shutdown::Shutdown;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::callers::{Peer, Share, Shares};
use crate::socket::BrokerSocket;
use crate::wire::Wires;

/// Flow-control windows: unread bytes of one request, and of all requests of a connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Longest list of headers, in bytes.
const HEADERS_MAX: u32 = 16 * 1024;
/// Silence of a connection before the server sends a ping, and the time for the reply.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const PING_MAX: Duration = Duration::from_secs(20);
/// Time for a connection without a request to close after GOAWAY.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Pause after a failed accept, as when the process is out of file descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Length of the HTTP/2 connection preface (RFC 9113 section 3.4), in bytes.
const PREFACE_LEN: usize = 24;

/// Bounds on connections and their calls.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent calls of one connection.
    pub streams_max: u32,
    /// Concurrent connections; further ones wait to be accepted. One user has at most three quarters of them, one
    /// process a quarter.
    pub connections_max: usize,
    /// Time for a connection to send its first 24 bytes, before it is closed.
    pub preface_max: Duration,
    /// Time for a connection to make its first request, before it is closed. Afterwards it may be idle.
    pub request_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 1024,
            connections_max: 1024,
            preface_max: Duration::from_secs(5),
            request_max: Duration::from_secs(10),
        }
    }
}

/// A running server on its socket.
#[derive(Debug)]
pub struct Server {
    /// Dropped last: the socket is removed after the last answer.
    socket: BrokerSocket,
    wires: Arc<Wires>,
    shutdown: Shutdown,
}

impl Server {
    /// Starts to serve, within these limits.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn start(
        socket: BrokerSocket,
        wires: Arc<Wires>,
        limits: Limits,
        shutdown: Shutdown,
    ) -> std::io::Result<Server> {
        let listener = socket.to_accept()?;
        let accepting = accept(listener, wires.clone(), limits, shutdown.clone());
        shutdown.spawn(accepting);
        Ok(Server { socket, wires, shutdown })
    }

    /// Reports not serving, drains the calls in flight for at most `drain`, and removes the socket. Returns the number
    /// of unfinished tasks that were dropped.
    pub async fn stop(self, drain: Duration) -> usize {
        self.wires.health().stop();
        let dropped = self.shutdown.drain(drain).await;
        drop(self.socket);
        dropped
    }
}

async fn accept(listener: UnixListener, wires: Arc<Wires>, limits: Limits, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let shares = Shares::places(limits.connections_max);
    loop {
        let permit = tokio::select! {
            permit = room.clone().acquire_owned() => permit,
            () = shutdown.begun() => return,
        };
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.begun() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let Some((peer, place)) = peer_of(&stream, &shares) else { continue };
                let serving = serve(stream, peer, wires.clone(), limits, shutdown.clone());
                shutdown.spawn(async move {
                    serving.await;
                    drop((place, permit));
                });
            }
            Err(err) => {
                tracing::warn!(%err, "accepting a connection failed");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Identifies the peer of a connection and reserves its place. `None`: the connection is closed.
fn peer_of(stream: &UnixStream, shares: &Arc<Shares>) -> Option<(Peer, Share)> {
    let peer = Peer::of(stream)
        .inspect_err(|err| tracing::warn!(%err, "connection closed: the kernel does not report the peer's credentials"))
        .ok()?;
    match shares.take(&peer, 1) {
        Ok(place) => Some((peer, place)),
        Err(err) => {
            tracing::warn!(peer.uid, peer.pid, %err, "a connection is closed");
            None
        }
    }
}

/// Reads the connection preface: a silent connection holds its place for this time only.
async fn preface(stream: &mut UnixStream, within: Duration) -> std::io::Result<[u8; PREFACE_LEN]> {
    let mut preface = [0; PREFACE_LEN];
    let read = tokio::time::timeout(within, stream.read_exact(&mut preface)).await;
    read.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?.map(|_| preface)
}

/// Returns if the connection made no request within this time; never returns after a first request.
async fn requests_nothing(has_asked: &AtomicBool, within: Duration) {
    tokio::time::sleep(within).await;
    if has_asked.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}

async fn serve(mut stream: UnixStream, peer: Peer, wires: Arc<Wires>, limits: Limits, shutdown: Shutdown) {
    let begun = tokio::select! {
        begun = preface(&mut stream, limits.preface_max) => begun,
        () = shutdown.begun() => return,
    };
    let preface = match begun {
        Ok(preface) => preface,
        Err(err) => return tracing::debug!(%err, peer.uid, peer.pid, "a connection failed before its first request"),
    };
    let (input, output) = stream.into_split();
    let stream = tokio::io::join(Cursor::new(preface).chain(input), output);
    let has_asked = Arc::new(AtomicBool::new(false));
    let (asks, uid, pid) = (has_asked.clone(), peer.uid, peer.pid);
    let service = service_fn(move |request| {
        asks.store(true, Ordering::Relaxed);
        wires.clone().answer(request, peer.clone())
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS_MAX)
        .keep_alive_interval(SILENCE_MAX)
        .keep_alive_timeout(PING_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        why = async {
            tokio::select! {
                () = requests_nothing(&has_asked, limits.request_max) => "a connection made no request in time",
                () = shutdown.begun() => "the server stops",
            }
        } => {
            tracing::debug!(uid, pid, why, "closing a connection");
            // GOAWAY: a client that was about to make its first request makes it over a new connection.
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = requests_nothing(&has_asked, CLOSE_MAX) => return,
                () = shutdown.aborted() => return,
            }
        }
    };
    if let Err(err) = ended {
        tracing::debug!(%err, "a connection ended early");
    }
}
