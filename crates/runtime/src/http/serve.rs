//! Accepting connections, with bounds on their number, and a graceful end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::service::Service;
use hyper::{Request, Response};
use tokio::io::AsyncWriteExt;

use super::connections::Connections;
use super::stream::Stream;
use super::{Body, HttpLimits, IDLE_GRACE, RequestBody, connection};
use crate::listener::{Acceptor, Admission, Socket};
use crate::shutdown::Shutdown;
use crate::tls;

const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The configuration and state of a listener.
#[derive(Debug)]
pub struct Listening {
    /// The listener's name in the configuration.
    pub name: Arc<str>,
    /// Bounds on each of its connections, and on all of them.
    pub limits: HttpLimits,
    /// True if its service handles [`ExtendedConnect`](super::ExtendedConnect) over HTTP/2.
    pub takes_connect: bool,
    /// Its own certificate and the rules for those of clients; `None` for plain HTTP.
    pub tls: Option<Arc<tls::Server>>,
    /// Its open connections. Two listeners that share it share its bounds.
    pub connections: Arc<Connections>,
}

impl Listening {
    /// Creates a listener without TLS.
    pub fn plain(name: &str, limits: HttpLimits) -> Self {
        Listening {
            name: name.into(),
            limits,
            takes_connect: false,
            tls: None,
            connections: Arc::new(Connections::new(name)),
        }
    }
}

/// Serves one listener until shutdown begins. Each connection is a task that draining waits for.
pub async fn serve<S>(socket: Socket, listening: Arc<Listening>, service: S, shutdown: Shutdown)
where
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let mut acceptor = Acceptor::new(socket);
    let mut backlog_until = None;
    loop {
        // A client that connected before shutdown began is still served: connections in the backlog would be reset.
        let accepted = tokio::select! {
            biased;
            accepted = acceptor.accept() => accepted,
            () = shutdown.begun() => return,
        };
        if shutdown.has_begun() && Instant::now() > *backlog_until.get_or_insert_with(|| Instant::now() + IDLE_GRACE) {
            return;
        }
        let (stream, peer) = match accepted {
            Admission::Served(stream, peer) => (stream, peer),
            Admission::Shed(stream) => {
                listening.connections.count_refused();
                if listening.tls.is_none() {
                    stream.try_write(OVERLOADED);
                }
                continue;
            }
        };
        let Some(place) = listening.connections.enter(peer, &listening.limits, shutdown.stop_token()) else {
            listening.connections.count_refused();
            // Before a handshake no answer is possible.
            if listening.tls.is_none() {
                shutdown.spawn(refuse(stream));
            }
            continue;
        };
        let (listening, service, stop) = (listening.clone(), service.clone(), shutdown.clone());
        shutdown.spawn(async move {
            tokio::select! {
                served = connection::serve(stream, &listening, &place, service) => if let Err(err) = served {
                    tracing::debug!(%peer, err, "connection ended early");
                },
                () = stop.aborted() => {}
            }
            drop(place);
        });
    }
}

async fn refuse(mut stream: Stream) {
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(OVERLOADED)).await;
}
