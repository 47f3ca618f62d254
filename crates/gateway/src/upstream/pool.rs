//! The HTTP/1.1 connections to one server: the idle ones, the number in use, and the requests that wait for one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_runtime::http::share::{Share, SharedBudget, Taker};
use tokio::sync::oneshot;

use super::h1::Connection;

/// Bounds of a connection pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimits {
    pub(super) connections_max: usize,
    /// Maximum number of waiting requests. In its second half, a network of clients has at most a quarter of it.
    pub(super) queue_max: usize,
    pub(super) idle_max: usize,
    /// Maximum idle time of a connection.
    pub(super) idle: Duration,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

#[derive(Default)]
struct State {
    /// Idle connections, the one used last at the end: the others stay unused until they are closed.
    idle: Vec<Idle>,
    in_use: usize,
    waiting: VecDeque<oneshot::Sender<Lease>>,
}

/// The pool of connections to one server.
pub(super) struct Pool {
    limits: PoolLimits,
    state: Mutex<State>,
    /// Numbers of waiting requests, by the network of their clients.
    networks: Arc<SharedBudget>,
    /// Reference to itself, for the slots that it hands out.
    me: Weak<Pool>,
}

/// A place among the connections in use. When dropped, it goes to a waiting request.
pub(super) struct Slot(Option<Arc<Pool>>);

/// A slot, with an idle connection if there was one.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) slot: Slot,
    pub(super) connection: Option<Connection>,
}

/// Result of [`Pool::take`].
#[derive(Debug)]
pub(super) enum Acquisition {
    Now(Lease),
    /// All are in use: the receiver gets the next one that is released. The share is held while the request waits.
    Later(oneshot::Receiver<Lease>, Share),
    /// All are in use, and the queue is full, or the network's share of it.
    Full,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Arc<Self> {
        let networks = SharedBudget::new(u64::MAX);
        Arc::new_cyclic(|me| Pool { limits, state: Mutex::default(), networks, me: me.clone() })
    }

    /// Takes a slot, and the idle connection that was used last unless a `fresh` one is wanted: then idle connections
    /// stay, or one is closed if there would be more than `connections_max`. `network` is that of the request's client, if known.
    pub(super) fn take(&self, fresh: bool, network: Option<Taker>) -> Acquisition {
        let mut closed = None;
        let mut state = self.state.lock();
        if state.in_use < self.limits.connections_max {
            state.in_use += 1;
            let is_full = state.in_use + state.idle.len() > self.limits.connections_max;
            let mut connection = if !fresh || is_full { state.idle.pop() } else { None };
            drop(state);
            if fresh {
                closed = connection.take();
            }
            drop(closed);
            let connection = connection.filter(|idle| idle.since.elapsed() < self.limits.idle);
            let connection = connection.map(|idle| idle.connection);
            return Acquisition::Now(Lease { slot: Slot(self.me.upgrade()), connection });
        }
        if state.waiting.len() >= self.limits.queue_max {
            // Requests that gave up must not fill the queue.
            state.waiting.retain(|waiter| !waiter.is_closed());
        }
        if state.waiting.len() >= self.limits.queue_max {
            return Acquisition::Full;
        }
        let mut share =
            self.networks.share([network.map(|network| (network, self.share_max(state.waiting.len()))), None]);
        if !share.grow(1) {
            return Acquisition::Full;
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push_back(sender);
        Acquisition::Later(receiver, share)
    }

    /// Returns the number of requests of one network that may wait, when `waiting` do in all.
    fn share_max(&self, waiting: usize) -> u64 {
        let queue_max = self.limits.queue_max;
        if waiting < queue_max.div_ceil(2) { u64::MAX } else { (queue_max / 4).max(1) as u64 }
    }

    /// Another idle connection, for a slot whose first had been closed by the server.
    pub(super) fn another(&self) -> Option<Connection> {
        let idle = self.state.lock().idle.pop()?;
        (idle.since.elapsed() < self.limits.idle).then_some(idle.connection)
    }

    fn release(&self, mut connection: Option<Connection>) {
        loop {
            let mut state = self.state.lock();
            let Some(waiter) = state.waiting.pop_front() else {
                state.in_use -= 1;
                if state.idle.len() < self.limits.idle_max
                    && let Some(connection) = connection.take()
                {
                    state.idle.push(Idle { connection, since: Instant::now() });
                }
                // The remaining connection is closed without the lock.
                drop(state);
                return;
            };
            drop(state);
            let granted = Lease { slot: Slot(self.me.upgrade()), connection: connection.take() };
            match waiter.send(granted) {
                Ok(()) => return,
                Err(mut granted) => {
                    // The waiting request has given up: try the next one.
                    granted.slot.0 = None;
                    connection = granted.connection;
                }
            }
        }
    }

    /// Closes connections that were idle for too long, or are not fit.
    pub(super) fn sweep(&self, is_fit: impl Fn(&Connection) -> bool) {
        let mut state = self.state.lock();
        let is_over = |idle: &mut Idle| idle.since.elapsed() >= self.limits.idle || !is_fit(&idle.connection);
        let closed: Vec<Idle> = state.idle.extract_if(.., is_over).collect();
        drop(state);
        drop(closed);
    }

    /// Returns the number of idle connections.
    pub(super) fn idle(&self) -> usize {
        self.state.lock().idle.len()
    }
}

impl Slot {
    /// Returns the slot and a connection that is fit for another exchange.
    pub(super) fn give_back(mut self, connection: Connection) {
        if let Some(pool) = self.0.take() {
            pool.release(Some(connection));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(pool) = self.0.take() {
            pool.release(None);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn network(last: u8) -> Option<Taker> {
        Some(Taker::Network(IpAddr::from(Ipv4Addr::new(192, 0, 2, last))))
    }

    /// Creates a pool whose only connection is in use.
    fn busy(queue_max: usize) -> (Arc<Pool>, Acquisition) {
        let pool = Pool::new(PoolLimits { connections_max: 1, queue_max, idle_max: 1, idle: Duration::from_secs(1) });
        let lease = pool.take(false, network(1));
        assert!(matches!(lease, Acquisition::Now(_)));
        (pool, lease)
    }

    /// Lets `network` wait until it is refused, at most `queue_max` times.
    fn fill(pool: &Pool, network: Option<Taker>) -> Vec<Acquisition> {
        let one = |_| pool.take(false, network);
        (0..pool.limits.queue_max).map(one).take_while(|taken| matches!(taken, Acquisition::Later(..))).collect()
    }

    #[test]
    fn a_network_leaves_half_of_the_queue_to_others_and_they_have_a_quarter_each() {
        let (pool, _lease) = busy(16);
        let first = fill(&pool, network(1));
        let others: Vec<_> = (2..5).map(|last| fill(&pool, network(last))).collect();
        assert_eq!(first.len(), 8);
        assert_eq!(others.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 0], "the queue has 16 places");
    }

    #[test]
    fn requests_that_gave_up_are_no_part_of_their_networks_share() {
        let (pool, _lease) = busy(16);
        let first = fill(&pool, network(1));
        let second = fill(&pool, network(2));
        assert_eq!((first.len(), second.len()), (8, 4));
        drop(second);
        assert_eq!(fill(&pool, network(2)).len(), 4);
    }

    #[test]
    fn a_short_queue_and_clients_of_no_known_network_fill_every_place() {
        for (queue_max, client) in [(1, network(1)), (16, None)] {
            let (pool, _lease) = busy(queue_max);
            assert_eq!(fill(&pool, client).len(), queue_max);
        }
    }
}
