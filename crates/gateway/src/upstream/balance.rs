//! Choice of the server for the next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::server::Server;

/// Maximum number of servers in an upstream.
pub const SERVERS_MAX: usize = 64;

/// Distribution of requests over the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Takes one server after the other.
    #[default]
    RoundRobin,
    /// Takes the server with the fewest requests in flight.
    LeastRequests,
}

/// Servers that a request has already tried, by index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts(u64);

impl Attempts {
    pub(super) fn add(&mut self, index: usize) {
        self.0 |= 1 << (index % SERVERS_MAX);
    }

    pub(super) fn has(self, index: usize) -> bool {
        self.0 & (1 << (index % SERVERS_MAX)) != 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Picks a server. Servers that are down are skipped; if all are down, one is tried all the same, because the status
/// may be out of date, and a refused connection is as fast as an error. `None` without servers.
pub(super) fn pick(servers: &[Arc<Server>], balance: Balance, turn: &AtomicUsize, tried: Attempts) -> Option<usize> {
    if servers.len() <= 1 {
        return (!servers.is_empty()).then_some(0);
    }
    let from = turn.fetch_add(1, Ordering::Relaxed);
    let now = std::time::Instant::now();
    let order = || (0..servers.len()).map(|step| from.wrapping_add(step) % servers.len());
    let untried = || order().filter(|index| !tried.has(*index));
    let up = untried().filter(|index| servers[*index].is_up(now));
    let found = match balance {
        Balance::RoundRobin => up.into_iter().next(),
        // Of equals the first; the start of the search rotates.
        Balance::LeastRequests => up.min_by_key(|index| servers[*index].in_flight()),
    };
    found.or_else(|| untried().next()).or_else(|| order().next())
}
