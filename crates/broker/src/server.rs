//! The server: connections of the socket, each bounded, to the wires; and an end that finishes what has begun.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sealway_runtime::shutdown::Shutdown;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::callers::Peer;
use crate::socket::BrokerSocket;
use crate::stream::QuietStream;
use crate::wire::Wires;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// What may lie unread of one request, and of all requests of a connection, in bytes.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// The longest list of headers, in bytes.
const HEADERS_MAX: u32 = 16 * 1024;
/// How long to wait when the process is out of descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// A server that serves.
#[derive(Debug)]
pub struct Server {
    /// Dropped last: the socket goes when nobody is answered any more.
    socket: BrokerSocket,
    wires: Arc<Wires>,
    shutdown: Shutdown,
}

impl Server {
    /// Serves from now on, with `streams_max` calls of one connection at a time.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn start(
        socket: BrokerSocket,
        wires: Arc<Wires>,
        streams_max: u32,
        shutdown: Shutdown,
    ) -> std::io::Result<Server> {
        let listener = socket.to_accept()?;
        let accepting = accept(listener, wires.clone(), streams_max, shutdown.clone());
        shutdown.spawn(accepting);
        Ok(Server { socket, wires, shutdown })
    }

    /// Tells that it stops, answers what is in flight for at most `drain`, and removes the socket. Returns how many tasks
    /// were dropped unfinished.
    pub async fn stop(self, drain: Duration) -> usize {
        self.wires.health().stop();
        let dropped = self.shutdown.drain(drain).await;
        drop(self.socket);
        dropped
    }
}

async fn accept(listener: UnixListener, wires: Arc<Wires>, streams_max: u32, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
                let serving = serve(stream, wires.clone(), streams_max, shutdown.clone(), permit);
                shutdown.spawn(serving);
            }
            Err(err) => {
                tracing::warn!(%err, "a connection could not be accepted");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

async fn serve(
    stream: UnixStream,
    wires: Arc<Wires>,
    streams_max: u32,
    shutdown: Shutdown,
    _permit: OwnedSemaphorePermit,
) {
    let peer = match Peer::of(&stream) {
        Ok(peer) => peer,
        Err(err) => {
            tracing::warn!(%err, "a connection is closed: the kernel does not tell whose it is");
            return;
        }
    };
    let stream = match QuietStream::new(stream) {
        Ok(stream) => stream,
        Err(err) => {
            tracing::warn!(%err, "a connection is closed: it cannot be watched");
            return;
        }
    };
    let service = service_fn(move |request| wires.clone().answer(request, peer));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.begun() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = shutdown.aborted() => return,
            }
        }
    };
    if let Err(err) = ended {
        tracing::debug!(%err, "a connection ended early");
    }
}
