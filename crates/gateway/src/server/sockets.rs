//! Bound sockets, held apart from the tasks that accept on them, so that a reload can keep them and pass them from one
//! listener to another.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use sealway_runtime::listener::{self, BoundUnix, Socket};
#[cfg(target_os = "linux")]
use socket2::SockFilter;
use tokio::net::TcpListener;

use crate::config::{Listener, Place};

/// Filter that drops the first packet of a handshake (SYN without ACK) and passes all others. It sees the TCP header
/// first.
#[cfg(target_os = "linux")]
const NO_NEW_HANDSHAKE: [SockFilter; 5] = [
    // Loads the byte of flags; masks SYN and ACK; compares with SYN alone.
    SockFilter::new(0x30, 0, 0, 13),
    SockFilter::new(0x54, 0, 0, 0x12),
    SockFilter::new(0x15, 0, 1, 0x02),
    // Drops the packet, or passes it whole.
    SockFilter::new(0x06, 0, 0, 0),
    SockFilter::new(0x06, 0, 0, u32::MAX),
];

/// A configured address: its port may be 0.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    fn all(place: &Place) -> Vec<Self> {
        match place {
            Place::Tcp(addresses) => addresses.iter().copied().map(Address::Tcp).collect(),
            Place::Unix(path) => vec![Address::Unix(path.clone())],
        }
    }

    /// True if it names one address; false for a free port.
    fn is_fixed(&self) -> bool {
        !matches!(self, Address::Tcp(address) if address.port() == 0)
    }
}

/// A bound socket. Clones are the same socket; it closes with the last clone and the last task that accepts on it.
#[derive(Clone, Debug)]
pub(super) struct HeldSocket {
    wanted: Address,
    reuse_port: bool,
    socket: Arc<BoundSocket>,
}

#[derive(Debug)]
enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(BoundUnix),
}

impl HeldSocket {
    /// Returns the bound address; `None` for a Unix socket.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match &*self.socket {
            BoundSocket::Tcp(socket) => socket.local_addr().ok(),
            BoundSocket::Unix(_) => None,
        }
    }

    /// Returns the bound address in the form of the configuration.
    pub(super) fn place(&self) -> String {
        match &*self.socket {
            BoundSocket::Tcp(socket) => socket.local_addr().map(|address| address.to_string()).unwrap_or_default(),
            BoundSocket::Unix(socket) => format!("unix:{}", socket.path().display()),
        }
    }

    /// True if both are the same socket.
    pub(super) fn is(&self, other: &HeldSocket) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
    }

    /// Returns the socket in a form to accept on.
    ///
    /// # Errors
    /// The error of duplicating the descriptor, if the process has none left.
    pub(super) fn to_accept(&self) -> std::io::Result<Socket> {
        match &*self.socket {
            BoundSocket::Tcp(socket) => TcpListener::from_std(socket.try_clone()?).map(Socket::Tcp),
            BoundSocket::Unix(socket) => socket.to_accept().map(Socket::Unix),
        }
    }

    /// True if other processes may listen on the same address.
    pub(super) fn is_shared(&self) -> bool {
        self.reuse_port && matches!(&*self.socket, BoundSocket::Tcp(_))
    }

    /// Lets handshakes in progress end, and new ones fail: a client whose first packet is dropped retries after a
    /// second and reaches another process that listens on the same address. Otherwise connections between the last
    /// accept and the socket's close would be reset.
    pub(super) fn turn_away(&self) {
        #[cfg(target_os = "linux")]
        if let BoundSocket::Tcp(socket) = &*self.socket
            && let Err(err) = socket2::SockRef::from(socket).attach_filter(&NO_NEW_HANDSHAKE)
        {
            tracing::warn!(%err, "connections that arrive while the socket closes may be reset");
        }
    }

    /// Binds the `wanted` addresses of a listener.
    fn bind(listener: &Listener, wanted: &[Address]) -> Result<Vec<Self>, String> {
        let setting = &listener.setting;
        let mut addresses = Vec::new();
        let mut unix = Vec::new();
        for wanted in wanted {
            match wanted {
                Address::Tcp(address) => addresses.push(*address),
                Address::Unix(path) => {
                    let socket = listener::bind_unix(path, setting, None).map_err(|err| err.to_string())?;
                    let (wanted, socket) = (wanted.clone(), Arc::new(BoundSocket::Unix(socket)));
                    unix.push(HeldSocket { wanted, reuse_port: listener.reuse_port, socket });
                }
            }
        }
        let bound = listener::bind_shared(&addresses, setting, listener.reuse_port).map_err(|err| err.to_string())?;
        let hold = |socket: TcpListener| {
            let at = socket.local_addr()?;
            let fits = |wanted: &&SocketAddr| wanted.ip() == at.ip() && [0, at.port()].contains(&wanted.port());
            let wanted = Address::Tcp(addresses.iter().find(fits).copied().unwrap_or(at));
            Ok(HeldSocket {
                wanted,
                reuse_port: listener.reuse_port,
                socket: Arc::new(BoundSocket::Tcp(socket.into_std()?)),
            })
        };
        let held: std::io::Result<_> = bound.into_iter().map(hold).chain(unix.into_iter().map(Ok)).collect();
        held.map_err(|err| format!("{setting}: {err}"))
    }
}

/// Sockets that exist when listeners are planned.
#[derive(Debug, Default)]
pub(super) struct Pool<'a>(pub(super) Vec<(&'a Listener, &'a [HeldSocket])>);

impl Pool<'_> {
    /// Returns the sockets for `listener`: existing ones, from any listener, and newly bound ones for the rest.
    ///
    /// # Errors
    /// A sentence that names address and setting.
    pub(super) fn sockets(&self, listener: &Listener) -> Result<Vec<HeldSocket>, String> {
        let own = self.0.iter().find(|(other, held)| other.name == listener.name && !held.is_empty());
        let as_it_was = |other: &Listener| other.place == listener.place && other.reuse_port == listener.reuse_port;
        if let Some((_, held)) = own.filter(|(other, _)| as_it_was(other)) {
            return Ok(held.to_vec());
        }
        let wanted = Address::all(&listener.place);
        let there = |wanted: &Address| {
            let mut all = self.0.iter().flat_map(|(_, held)| *held);
            all.find(|held| wanted.is_fixed() && held.wanted == *wanted).cloned()
        };
        let found: Vec<HeldSocket> = wanted.iter().filter_map(there).collect();
        if found.iter().any(|held| held.reuse_port != listener.reuse_port) {
            return Err(format!("{}: reuse_port of an address in use is changed by a restart alone", listener.setting));
        }
        if found.is_empty() {
            return HeldSocket::bind(listener, &wanted);
        }
        let mut sockets = Vec::new();
        for wanted in wanted {
            match found.iter().find(|held| held.wanted == wanted) {
                Some(held) => sockets.push(held.clone()),
                None => sockets.extend(HeldSocket::bind(listener, &[wanted])?),
            }
        }
        Ok(sockets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, addresses: &[SocketAddr]) -> Listener {
        Listener {
            name: name.into(),
            setting: "listeners[0].address".into(),
            place: Place::Tcp(addresses.to_vec()),
            tls: None,
            trusted: Default::default(),
            reuse_port: false,
        }
    }

    fn port(held: &[HeldSocket]) -> u16 {
        held[0].address().unwrap().port()
    }

    #[tokio::test]
    async fn a_passed_socket_is_matched_by_address_and_not_bound_twice() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let first = listener("a", &[any]);
        let held = Pool::default().sockets(&first).unwrap();
        // A socket of port 0 is found by its listener's name only: another listener gets another socket.
        let pool = Pool(vec![(&first, &held)]);
        assert_eq!(port(&pool.sockets(&first).unwrap()), port(&held));
        assert_ne!(port(&pool.sockets(&listener("b", &[any])).unwrap()), port(&held));

        let free = port(&Pool::default().sockets(&listener("c", &[any])).unwrap());
        let fixed: SocketAddr = ([127, 0, 0, 1], free).into();
        let old = listener("old", &[fixed]);
        let held = Pool::default().sockets(&old).unwrap();
        let pool = Pool(vec![(&old, &held)]);
        let other: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let sockets = pool.sockets(&listener("new", &[fixed, other])).unwrap();
        assert_eq!(sockets[0].address(), Some(fixed));
        assert_eq!(sockets[1].address().unwrap().ip(), other.ip());
        assert!(Pool::default().sockets(&listener("new", &[fixed])).unwrap_err().contains("listeners[0].address"));
        let reusing = Listener { reuse_port: true, ..listener("new", &[fixed]) };
        assert!(pool.sockets(&reusing).unwrap_err().contains("restart"));
    }
}
