//! Accepting connections, even if the process has no descriptors left.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;

use crate::http::{Peer, Stream, UNREAD_TIME};

/// Pause if the system lacks a resource that this process cannot free.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Interval in which repeated errors are logged only once.
const WARNING_PAUSE: Duration = Duration::from_secs(1);
/// The errors of a process, and of a system, without descriptors.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// A bound socket to accept on.
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
                Ok((Stream::Tcp(stream), Peer::Ip(peer)))
            }
            Socket::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), Peer::Unix)),
        }
    }
}

/// A connection, and whether there is room for it.
#[derive(Debug)]
pub(crate) enum Admission {
    /// A connection to be served.
    Served(Stream, Peer),
    /// The process has no descriptors left: the connection must be closed at once, since it uses the spare one.
    Shed(Stream),
}

/// Accepts on a socket, and keeps a spare descriptor: without it, a client that is never accepted would hang until it gives up,
/// and the listener would be woken for it again and again.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: Socket,
    spare: Option<File>,
    warned_at: Option<Instant>,
}

impl Acceptor {
    /// Creates the acceptor of `socket`. Two options of a TCP socket pass on to the connections that arrive from now on (tcp(7)), so
    /// that none of them costs two system calls more: small writes leave at once, and the kernel closes a connection whose peer
    /// does not read its data for [`UNREAD_TIME`].
    pub(crate) fn new(socket: Socket) -> Self {
        if let Socket::Tcp(listener) = &socket {
            // Without them connections are slower, or closed later, but served.
            let socket = SockRef::from(listener);
            let _ = socket.set_tcp_nodelay(true);
            let _ = socket.set_tcp_user_timeout(Some(UNREAD_TIME));
        }
        Acceptor { socket, spare: spare(), warned_at: None }
    }

    /// Accepts the next connection. An error of one connection, or a lack of descriptors, does not end it: it logs the error
    /// and goes on.
    pub(crate) async fn accept(&mut self) -> Admission {
        loop {
            if self.spare.is_none() {
                self.spare = spare();
            }
            let err = match self.socket.accept().await {
                Ok((stream, peer)) => return Admission::Served(stream, peer),
                Err(err) => err,
            };
            match (err.kind(), err.raw_os_error()) {
                (io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset, _) => continue,
                (_, Some(EMFILE | ENFILE)) if self.spare.take().is_some() => {
                    self.warn(&err, "no descriptors left: connections are closed unserved");
                    // Another thread may have taken the descriptor: then there is no connection to shed.
                    if let Ok(Ok((stream, _))) = timeout(EXHAUSTED_PAUSE, self.socket.accept()).await {
                        return Admission::Shed(stream);
                    }
                }
                _ => self.warn(&err, "cannot accept; trying again"),
            }
            tokio::time::sleep(EXHAUSTED_PAUSE).await;
        }
    }
}

impl Acceptor {
    /// Logs an error, but not for each of the thousands of connections that may fail in the same way.
    fn warn(&mut self, err: &io::Error, what: &str) {
        if self.warned_at.is_none_or(|at| at.elapsed() > WARNING_PAUSE) {
            self.warned_at = Some(Instant::now());
            tracing::warn!(%err, "{what}");
        }
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connections_have_the_options_of_the_socket_that_they_are_accepted_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(Socket::Tcp(listener));
        let _client = TcpStream::connect(address).await.unwrap();
        let Admission::Served(Stream::Tcp(stream), _) = acceptor.accept().await else { panic!("no connection") };
        let socket = SockRef::from(&stream);
        assert_eq!((stream.nodelay().unwrap(), socket.tcp_user_timeout().unwrap()), (true, Some(UNREAD_TIME)));
    }
}
