//! The HTTP/1.1 connections to one server: the idle ones, the number in use, and the requests that wait for one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::h1::Connection;

/// Bounds of a connection pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimits {
    pub(super) connections_max: usize,
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
    /// All are in use: the receiver gets the next one that is released.
    Later(oneshot::Receiver<Lease>),
    /// All are in use, and the queue is full.
    Full,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Arc<Self> {
        Arc::new_cyclic(|me| Pool { limits, state: Mutex::default(), me: me.clone() })
    }

    /// Takes a slot, and the idle connection that was used last unless a `fresh` one is wanted: then idle connections
    /// stay, or one is closed if there would be more than `connections_max`.
    pub(super) fn take(&self, fresh: bool) -> Acquisition {
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
        let (sender, receiver) = oneshot::channel();
        state.waiting.push_back(sender);
        Acquisition::Later(receiver)
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
