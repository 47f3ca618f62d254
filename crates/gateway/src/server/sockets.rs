//! Bound sockets, held apart from who accepts on them, so that a reload can keep them and hand them from one listener to
//! another.

use std::net::SocketAddr;
use std::sync::Arc;

use sealway_runtime::listener;
use tokio::net::TcpListener;

use crate::config::Listener;

/// A socket that is bound. Clones are the same socket; it closes with the last, and the last who accepts on it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The address as configured: its port may be 0.
    wanted: SocketAddr,
    socket: Arc<std::net::TcpListener>,
}

impl Held {
    /// Where it is bound.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Whether it is the same socket.
    pub(super) fn is(&self, other: &Held) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
    }

    /// The socket, to accept on.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub(super) fn to_accept(&self) -> std::io::Result<TcpListener> {
        TcpListener::from_std(self.socket.try_clone()?)
    }

    fn bind(addresses: &[SocketAddr], setting: &str) -> Result<Vec<Self>, String> {
        let bound = listener::bind(addresses, setting).map_err(|err| err.to_string())?;
        bound
            .into_iter()
            .map(|socket| {
                let at = socket.local_addr().map_err(|err| format!("{setting}: {err}"))?;
                let same = |wanted: &&SocketAddr| wanted.ip() == at.ip() && [0, at.port()].contains(&wanted.port());
                let wanted = addresses.iter().find(same).copied().unwrap_or(at);
                let socket = socket.into_std().map_err(|err| format!("{setting}: {err}"))?;
                Ok(Held { wanted, socket: Arc::new(socket) })
            })
            .collect()
    }
}

/// The sockets that are there when listeners are planned.
#[derive(Debug, Default)]
pub(super) struct Pool<'a>(pub(super) Vec<(&'a Listener, &'a [Held])>);

impl Pool<'_> {
    /// The sockets for `listener`: those that are there, whoever has them now, and the rest bound.
    ///
    /// # Errors
    /// A sentence that names address and setting.
    pub(super) fn sockets(&self, listener: &Listener) -> Result<Vec<Held>, String> {
        let own = self.0.iter().find(|(other, held)| other.name == listener.name && !held.is_empty());
        if let Some((_, held)) = own.filter(|(other, _)| other.addresses == listener.addresses) {
            return Ok(held.to_vec());
        }
        let there = |wanted: &SocketAddr| {
            let mut all = self.0.iter().flat_map(|(_, held)| *held);
            all.find(|held| wanted.port() != 0 && held.wanted == *wanted).cloned()
        };
        let found: Vec<Held> = listener.addresses.iter().filter_map(there).collect();
        if found.is_empty() {
            return Held::bind(&listener.addresses, &listener.setting);
        }
        let mut sockets = Vec::new();
        for wanted in &listener.addresses {
            match found.iter().find(|held| held.wanted == *wanted) {
                Some(held) => sockets.push(held.clone()),
                None => sockets.extend(Held::bind(&[*wanted], &listener.setting)?),
            }
        }
        Ok(sockets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, addresses: &[SocketAddr]) -> Listener {
        Listener { name: name.into(), setting: "listeners[0].address".into(), addresses: addresses.to_vec() }
    }

    #[tokio::test]
    async fn a_socket_goes_to_who_wants_its_address_and_is_not_bound_twice() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let first = listener("a", &[any]);
        let held = Pool::default().sockets(&first).unwrap();
        let port = held[0].address().unwrap().port();
        // Port 0 is kept by name alone: another listener gets another.
        let pool = Pool(vec![(&first, &held)]);
        assert_eq!(pool.sockets(&first).unwrap()[0].address().unwrap().port(), port);
        assert_ne!(pool.sockets(&listener("b", &[any])).unwrap()[0].address().unwrap().port(), port);

        let fixed: SocketAddr = ([127, 0, 0, 1], Held::bind(&[any], "x").unwrap()[0].address().unwrap().port()).into();
        let old = listener("old", &[fixed]);
        let held = Pool::default().sockets(&old).unwrap();
        let pool = Pool(vec![(&old, &held)]);
        let other: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let sockets = pool.sockets(&listener("new", &[fixed, other])).unwrap();
        assert_eq!(sockets[0].address(), Some(fixed));
        assert_eq!(sockets[1].address().unwrap().ip(), other.ip());
        assert!(Pool::default().sockets(&listener("new", &[fixed])).unwrap_err().contains("listeners[0].address"));
    }
}
