//! Accepting connections, also when the process has no descriptors left.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;

use crate::http::{Peer, Stream};

/// How long to wait when the system is out of something that we cannot make room for.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// The errors of a process, and of a system, without descriptors.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// What is listened on.
#[derive(Debug)]
pub enum Socket {
    /// An address and a port.
    Tcp(TcpListener),
    /// A path in the file system.
    Unix(UnixListener),
}

impl Socket {
    async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // A failure here shows on the first read.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::Ip(peer)))
            }
            Socket::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), Peer::Unix)),
        }
    }
}

/// A connection, and whether there is room for it.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// To be served.
    Served(Stream, Peer),
    /// The process has no descriptors left: to be closed at once, for this one has taken the one that was kept.
    Shed(Stream),
}

/// Accepts on a socket, and keeps a descriptor for hard times: a client that nobody accepts would hang until it gives up,
/// and the listener would be asked again and again to accept it.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: Socket,
    spare: Option<File>,
}

impl Acceptor {
    /// Accepts on `socket`.
    pub(crate) fn new(socket: Socket) -> Self {
        Acceptor { socket, spare: spare() }
    }

    /// Accepts the next connection. An error of one connection, or of a process out of descriptors, ends nothing: it is
    /// logged, and accepting goes on.
    pub(crate) async fn accept(&mut self) -> Accepted {
        loop {
            if self.spare.is_none() {
                self.spare = spare();
            }
            let err = match self.socket.accept().await {
                Ok((stream, peer)) => return Accepted::Served(stream, peer),
                Err(err) => err,
            };
            match (err.kind(), err.raw_os_error()) {
                (io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset, _) => continue,
                (_, Some(EMFILE | ENFILE)) if self.spare.take().is_some() => {
                    tracing::warn!(%err, "no descriptors left: a connection is closed unserved");
                    // Another thread may have taken the descriptor: then there is none to shed.
                    if let Ok(Ok((stream, _))) = timeout(EXHAUSTED_PAUSE, self.socket.accept()).await {
                        return Accepted::Shed(stream);
                    }
                }
                _ => tracing::warn!(%err, "cannot accept; trying again"),
            }
            tokio::time::sleep(EXHAUSTED_PAUSE).await;
        }
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}
