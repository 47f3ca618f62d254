//! The server: connections of the socket, each bounded, to the wires; and an end that finishes what has begun.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use sealway_runtime::shutdown::Shutdown;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::callers::Peer;
use crate::socket::BrokerSocket;
use crate::wire::Wires;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// Those of one user; the others find room all the same.
const OF_ONE_USER_MAX: usize = CONNECTIONS_MAX - CONNECTIONS_MAX / 4;
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
    let users = Arc::new(Users::default());
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
                let Some((peer, place)) = peer_of(&stream, &users) else { continue };
                let serving = serve(stream, peer, wires.clone(), streams_max, shutdown.clone());
                shutdown.spawn(async move {
                    serving.await;
                    drop((place, permit));
                });
            }
            Err(err) => {
                tracing::warn!(%err, "a connection could not be accepted");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Connections of each user that has any.
#[derive(Debug, Default)]
struct Users(Mutex<HashMap<u32, usize>>);

/// A place among a user's connections.
#[derive(Debug)]
struct Place {
    users: Arc<Users>,
    uid: u32,
}

impl Users {
    fn place(self: &Arc<Self>, uid: u32) -> Option<Place> {
        let mut users = self.0.lock();
        let count = users.entry(uid).or_default();
        *count += 1;
        let place = Place { users: self.clone(), uid };
        let is_within = *count <= OF_ONE_USER_MAX;
        drop(users);
        is_within.then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.users.0.lock();
        if let Entry::Occupied(mut count) = users.entry(self.uid) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Whose a connection is, if it is anybody's that may have one more.
fn peer_of(stream: &UnixStream, users: &Arc<Users>) -> Option<(Peer, Place)> {
    let peer = Peer::of(stream)
        .inspect_err(|err| tracing::warn!(%err, "a connection is closed: the kernel does not tell whose it is"))
        .ok()?;
    let place = users.place(peer.uid);
    if place.is_none() {
        tracing::warn!(peer.uid, "a connection is closed: its user has {OF_ONE_USER_MAX} already");
    }
    Some((peer, place?))
}

async fn serve(stream: UnixStream, peer: Peer, wires: Arc<Wires>, streams_max: u32, shutdown: Shutdown) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_connections_and_others_have_theirs() {
        let users = Arc::new(Users::default());
        let mut own: Vec<_> = (0..OF_ONE_USER_MAX).map(|_| users.place(1).unwrap()).collect();
        assert!(users.place(1).is_none() && users.place(2).is_some());
        own.pop();
        assert!(users.place(1).is_some());
        drop(own);
        assert!(users.0.lock().is_empty(), "who has none is not remembered");
    }
}
