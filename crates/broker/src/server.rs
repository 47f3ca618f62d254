//! The server: accepts the socket's connections, bounds each, passes requests to the wires, and drains them at the end.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use sealway_runtime::http::h2::PREFACE;
use sealway_runtime::shutdown::Shutdown;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::callers::{Peer, Share, Shares};
use crate::connection;
use crate::socket::BrokerSocket;
use crate::wire::Wires;

/// Pause after a failed accept, as when the process is out of file descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

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
async fn preface(stream: &mut UnixStream, within: Duration) -> std::io::Result<BytesMut> {
    let mut preface = BytesMut::zeroed(PREFACE.len());
    let read = tokio::time::timeout(within, stream.read_exact(&mut preface)).await;
    read.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?.map(|_| preface)
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
    if let Err(err) = connection::serve(stream, preface, peer, wires, limits, shutdown).await {
        tracing::debug!(%err, "a connection ended early");
    }
}
