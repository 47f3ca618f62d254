//! The open connections of a listener: for its bounds, for metrics and for the operator.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::StatusCode;
use metrics::{Counter, Gauge};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use super::notices::{Gate, Gates};
use super::{HttpLimits, Peer};
use crate::tls::AcceptError;

/// The protocol of a connection, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Unknown,
    Handshake,
    Http1,
    Http2,
    Http1Tls,
    Http2Tls,
}

impl Protocol {
    const ALL: [(Protocol, &str); 6] = [
        (Protocol::Unknown, "new"),
        (Protocol::Handshake, "handshake"),
        (Protocol::Http1, "h1"),
        (Protocol::Http2, "h2"),
        (Protocol::Http1Tls, "h1+tls"),
        (Protocol::Http2Tls, "h2+tls"),
    ];
}

/// An open connection, as an entry of the list.
#[derive(Debug)]
pub(super) struct Entry {
    id: u64,
    pub(super) peer: Peer,
    since: Instant,
    protocol: AtomicU8,
    requests: AtomicU64,
    subject: RwLock<Option<Arc<str>>>,
    /// Asks only this connection to finish.
    pub(super) stop: CancellationToken,
    /// The token of [`Entry::closed`], made when it is first needed: few connections are upgraded.
    closed: OnceLock<CancellationToken>,
}

impl Entry {
    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_protocol(&self, protocol: Protocol) {
        self.protocol.store(protocol as u8, Ordering::Relaxed);
    }

    /// Returns the token that asks only this connection to close: what an upgrade has made of it ends at once.
    pub(super) fn closed(&self) -> &CancellationToken {
        self.closed.get_or_init(CancellationToken::new)
    }

    pub(super) fn set_subject(&self, subject: &str) {
        *self.subject.write() = Some(subject.into());
    }

    fn info(&self) -> ConnectionInfo {
        let protocol = Protocol::ALL.get(usize::from(self.protocol.load(Ordering::Relaxed)));
        ConnectionInfo {
            id: self.id,
            peer: self.peer,
            open_for: self.since.elapsed(),
            protocol: protocol.map_or("", |(_, name)| name),
            requests: self.requests.load(Ordering::Relaxed),
            subject: self.subject.read().clone(),
        }
    }
}

/// Information about an open connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The connection's number on its listener, for [`Connections::close`].
    pub id: u64,
    /// The other end of the connection.
    pub peer: Peer,
    /// Time since the connection was accepted.
    pub open_for: Duration,
    /// `h1`, `h2`, `h1+tls` or `h2+tls`; `new` or `handshake` before the protocol is known.
    pub protocol: &'static str,
    /// Number of requests that began on the connection.
    pub requests: u64,
    /// The subject of the certificate that the client presented.
    pub subject: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<u64, Arc<Entry>>,
    /// Number of open connections by address.
    by_address: HashMap<IpAddr, usize>,
}

/// The open connections of a listener, and counts of all since its start.
pub struct Connections {
    open: Mutex<Open>,
    last_id: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    failed_handshakes: AtomicU64,
    listener: String,
    gates: Gates,
    open_gauge: Gauge,
    accepted_total: Counter,
    refused_total: Counter,
}

/// A connection's place in the list; released when dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) entry: Arc<Entry>,
    pub(super) list: Arc<Connections>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = &mut *self.list.open.lock();
        open.by_id.remove(&self.entry.id);
        if let Some(address) = self.entry.peer.ip()
            && let Some(count) = open.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
        self.list.open_gauge.decrement(1.0);
    }
}

impl Connections {
    /// Creates an empty list for a listener of this name.
    pub fn new(listener: &str) -> Self {
        let label = listener.to_owned();
        Connections {
            open: Mutex::default(),
            last_id: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed_handshakes: AtomicU64::new(0),
            open_gauge: metrics::gauge!("sealway_connections", "listener" => label.clone()),
            accepted_total: metrics::counter!("sealway_connections_total", "listener" => label.clone()),
            refused_total: metrics::counter!("sealway_connections_refused_total", "listener" => label.clone()),
            listener: label,
            gates: Gates::default(),
        }
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.open.lock().by_id.len()
    }

    /// Returns the number of connections that were accepted, and not rejected at a bound.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were rejected at a bound.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that failed in the TLS handshake.
    pub fn failed_handshakes(&self) -> u64 {
        self.failed_handshakes.load(Ordering::Relaxed)
    }

    /// Returns the oldest `max` of the open ones, the oldest first.
    pub fn list(&self, max: usize) -> Vec<ConnectionInfo> {
        let mut entries: Vec<_> = self.open.lock().by_id.values().cloned().collect();
        entries.sort_by_key(|entry| entry.id);
        entries.truncate(max);
        entries.iter().map(|entry| entry.info()).collect()
    }

    /// Asks a connection to finish its requests and close; one that was upgraded closes at once. Returns false if there is none
    /// of that number.
    pub fn close(&self, id: u64) -> bool {
        let Some(entry) = self.open.lock().by_id.get(&id).cloned() else { return false };
        entry.stop.cancel();
        entry.closed().cancel();
        true
    }

    /// Adds a connection; `None` if a bound is reached.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer, limits: &HttpLimits, stop: CancellationToken) -> Option<Place> {
        let entry = {
            let open = &mut *self.open.lock();
            if open.by_id.len() >= limits.connections_max {
                return None;
            }
            if let Some(address) = peer.ip() {
                let is_scarce = open.by_id.len() >= limits.connections_max - limits.connections_max / 4;
                let share = if is_scarce { limits.scarce_connections_per_address } else { 0 };
                let count = open.by_address.get(&address).copied().unwrap_or_default();
                if [limits.connections_per_address_max, share].iter().any(|max| *max != 0 && count >= *max) {
                    return None;
                }
                open.by_address.insert(address, count + 1);
            }
            let entry = Arc::new(Entry {
                id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
                peer,
                since: Instant::now(),
                protocol: AtomicU8::new(Protocol::Unknown as u8),
                requests: AtomicU64::new(0),
                subject: RwLock::new(None),
                stop,
                closed: OnceLock::new(),
            });
            open.by_id.insert(entry.id, entry.clone());
            entry
        };
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.accepted_total.increment(1);
        self.open_gauge.increment(1.0);
        Some(Place { entry, list: self.clone() })
    }

    /// Counts a connection that was rejected at a bound.
    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.refused_total.increment(1);
    }

    /// Counts a connection that failed in the handshake, with a reason of a few words from a short list.
    pub(super) fn count_failed_handshake(&self, reason: &str) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
        let listener = self.listener.clone();
        metrics::counter!("sealway_handshake_failures_total", "listener" => listener, "reason" => reason.to_owned())
            .increment(1);
    }

    /// Counts and logs a handshake that was rejected or abandoned. A rejected certificate is a warning: a client is locked out,
    /// or an attacker tries to get in.
    pub(super) fn note_failed_handshake(&self, peer: &Peer, err: &AcceptError) {
        self.count_failed_handshake(err.class());
        if matches!(err, AcceptError::Io(_)) {
            return;
        }
        let Some(kept_back) = self.kept_back(&self.gates.handshakes) else { return };
        let (listener, reason) = (&self.listener, err.class());
        match err {
            AcceptError::NoCertificate | AcceptError::Certificate(_) => {
                tracing::warn!(listener, %peer, reason, why = %err, kept_back, "client rejected in the TLS handshake");
            }
            AcceptError::Key(_) => {
                tracing::error!(listener, %peer, reason, why = %err, kept_back, "no handshake without the listener's key");
            }
            _ => tracing::info!(listener, %peer, reason, why = %err, kept_back, "a handshake failed"),
        }
    }

    /// Counts and logs a request that was rejected before any route saw it. `why` contains no input of the peer.
    pub(super) fn note_refused_request(&self, peer: &Peer, status: StatusCode, why: &str) {
        let (listener, status) = (&self.listener, status.as_u16());
        metrics::counter!(
            "sealway_refused_requests_total", "listener" => listener.clone(), "status" => status.to_string()
        )
        .increment(1);
        if let Some(kept_back) = self.kept_back(&self.gates.requests) {
            tracing::info!(listener, %peer, status, why, kept_back, "request rejected: malformed or over a bound");
        }
    }

    /// Counts and logs an HTTP/2 connection that is closed for a flood of frames.
    pub(super) fn note_flood(&self, peer: &Peer, frame: &'static str) {
        let listener = &self.listener;
        metrics::counter!("sealway_http2_floods_total", "listener" => listener.clone(), "frame" => frame).increment(1);
        if let Some(kept_back) = self.kept_back(&self.gates.floods) {
            tracing::warn!(listener, %peer, why = %format_args!("a flood of {frame} frames"), kept_back, "ended an HTTP/2 connection");
        }
    }

    fn kept_back(&self, gate: &Gate) -> Option<u64> {
        gate.pass(Instant::now())
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("open", &self.open()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_the_last_quarter_to_others() {
        let list = Arc::new(Connections::new("test"));
        let limits = HttpLimits { connections_max: 64, scarce_connections_per_address: 4, ..HttpLimits::default() };
        let enter = |address: &str| {
            let peer = Peer::Ip(format!("{address}:1").parse().unwrap());
            list.enter(peer, &limits, CancellationToken::new())
        };
        let greedy: Vec<_> = (0..64).map_while(|_| enter("10.0.0.1")).collect();
        assert_eq!(greedy.len(), 48);
        let honest: Vec<_> = (2..6).flat_map(|host| (0..5).map(move |_| format!("10.0.0.{host}"))).collect();
        let held: Vec<_> = honest.iter().filter_map(|address| enter(address)).collect();
        assert_eq!(held.len(), 16);
        assert!(enter("10.0.0.9").is_none());
        drop((greedy, held));
        // A rejected connection leaves no trace.
        assert!(list.open.lock().by_address.is_empty());
    }

    #[test]
    fn places_are_bounded_in_all_and_by_address_and_free_again() {
        let list = Arc::new(Connections::new("test"));
        let limits = HttpLimits { connections_max: 3, connections_per_address_max: 2, ..HttpLimits::default() };
        let peer = |text: &str| Peer::Ip(text.parse().unwrap());
        let enter = |text| list.enter(peer(text), &limits, CancellationToken::new());
        let held = [enter("10.0.0.1:1"), enter("[::ffff:10.0.0.1]:2")];
        assert!(held.iter().all(Option::is_some) && enter("10.0.0.1:3").is_none());
        let other = enter("10.0.0.2:1");
        assert!(other.is_some() && enter("10.0.0.3:1").is_none());
        assert_eq!((list.open(), list.accepted(), list.list(2).len()), (3, 3, 2));
        assert!(list.close(3) && !list.close(4) && other.unwrap().entry.stop.is_cancelled());
        drop(held);
        assert!(enter("10.0.0.1:3").is_some() && list.open() == 0);
        assert!(list.open.lock().by_address.is_empty());
    }
}
