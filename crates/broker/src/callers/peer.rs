//! Who is at the other end of a Unix socket, as the kernel says it.

use std::io;

use tokio::net::UnixStream;

/// A caller, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user. One of another user namespace that this one does not know is the overflow user, 65534.
    pub uid: u32,
    /// Its first group; further groups are not told by the kernel.
    pub gid: u32,
    /// Its process, for the log alone: the process may have gone and its number be another's by now, so nothing is decided by it.
    pub pid: Option<i32>,
}

impl Peer {
    /// Asks the kernel (SO_PEERCRED), once a connection.
    ///
    /// # Errors
    /// The kernel does not say: the connection is to be dropped.
    pub fn of(socket: &UnixStream) -> io::Result<Peer> {
        let known = socket.peer_cred()?;
        Ok(Peer { uid: known.uid(), gid: known.gid(), pid: known.pid() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_is_who_has_connected() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getgid().as_raw());
        assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
    }
}
