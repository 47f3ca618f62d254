//! A bounded resource that clients share: bytes of bodies in memory, connections to a service. Each taker has a share, so that
//! none takes all, and nothing is acquired before it is needed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Origin;

/// A taker of a part of a [`SharedBudget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Taker {
    /// A connection, by its other end.
    Connection(SocketAddr),
    /// A network of clients: an IPv4 address, or an IPv6 /64.
    Network(IpAddr),
    /// A route, by its number.
    Route(usize),
    /// The holder of a bearer token, by the token's number.
    Token(usize),
}

impl Taker {
    /// Returns the connection of a request; `None` over a Unix socket.
    pub fn connection(origin: Option<&Origin>) -> Option<Self> {
        match origin?.peer {
            super::Peer::Ip(address) => Some(Taker::Connection(address)),
            super::Peer::Unix => None,
        }
    }

    /// Returns the network of a request's client; `None` if it is unknown.
    pub fn network(origin: Option<&Origin>) -> Option<Self> {
        origin?.client.map(|client| Taker::Network(network(client)))
    }
}

/// Returns the network of a client's address: an IPv6 customer has a /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let mut octets = v6.octets();
            octets[8..].fill(0);
            Ipv6Addr::from(octets).into()
        }
        v4 => v4,
    }
}

/// A resource with a bound, in units of its own.
#[derive(Debug)]
pub struct SharedBudget {
    max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    by_taker: HashMap<Taker, u64>,
}

impl SharedBudget {
    /// Creates a resource of `max` units, none of them acquired.
    pub fn new(max: u64) -> Arc<Self> {
        Arc::new(SharedBudget { max, state: Mutex::default() })
    }

    /// Begins an empty share. Each of `takers` may have at most the bound beside it, over all its shares.
    pub fn share(self: &Arc<Self>, takers: Takers) -> Share {
        Share { of: self.clone(), takers, held: 0 }
    }

    /// Returns the number of acquired units.
    pub fn taken(&self) -> u64 {
        self.state.lock().taken
    }
}

/// The takers of a share, each with its bound.
pub type Takers = [Option<(Taker, u64)>; 2];

/// A part of a [`SharedBudget`], released when it is dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<SharedBudget>,
    takers: Takers,
    held: u64,
}

impl Share {
    /// Acquires `more` units. If a bound would be passed, it acquires nothing and returns false.
    #[must_use]
    pub fn grow(&mut self, more: u64) -> bool {
        let state = &mut *self.of.state.lock();
        let is_free = |taken: u64, max: u64| taken.checked_add(more).is_some_and(|sum| sum <= max);
        let by = |taker: &Taker| state.by_taker.get(taker).copied().unwrap_or_default();
        if !is_free(state.taken, self.of.max)
            || !self.takers.iter().flatten().all(|(taker, max)| is_free(by(taker), *max))
        {
            return false;
        }
        state.taken += more;
        for (taker, _) in self.takers.iter().flatten() {
            *state.by_taker.entry(*taker).or_default() += more;
        }
        self.held += more;
        true
    }

    /// Releases `less` of the units, or all if it has fewer.
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.held);
        if less == 0 {
            return;
        }
        self.held -= less;
        let state = &mut *self.of.state.lock();
        state.taken -= less;
        for (taker, _) in self.takers.iter().flatten() {
            if let Some(taken) = state.by_taker.get_mut(taker) {
                *taken -= less;
                if *taken == 0 {
                    state.by_taker.remove(taker);
                }
            }
        }
    }

    /// Returns another, empty share of the same takers.
    #[must_use]
    pub fn another(&self) -> Share {
        self.of.share(self.takers)
    }

    /// Returns the number of units that it has.
    pub fn held(&self) -> u64 {
        self.held
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_holder_exceeds_its_share_and_all_shares_are_released() {
        let shared = SharedBudget::new(100);
        let taker = |address: &str| Some((Taker::Network(network(address.parse().unwrap())), 60));
        let mut first = shared.share([taker("10.0.0.1"), None]);
        let mut second = shared.share([taker("10.0.0.1"), None]);
        assert!(first.grow(40) && second.grow(20) && !second.grow(1), "one network has 60");
        let mut third = shared.share([taker("2001:db8::1"), Some((Taker::Route(1), 90))]);
        let mut fourth = shared.share([taker("2001:db8::2"), None]);
        assert!(!third.grow(41) && third.grow(40) && !fourth.grow(1), "all together have 100");
        first.shrink(30);
        assert!(fourth.grow(20) && !fourth.grow(1), "one /64 is one network");
        assert_eq!((shared.taken(), third.held()), (90, 40));
        first.shrink(u64::MAX);
        drop((first, second, third, fourth));
        assert_eq!(shared.taken(), 0);
        assert!(shared.state.lock().by_taker.is_empty());
    }
}
