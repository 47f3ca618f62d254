//! Tickets of one server, for a shard. rustls' own store keeps eight TLS 1.3 tickets, each good for one handshake: with a
//! thousand concurrent connections all others would silently be full handshakes.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Maximum number of TLS 1.3 tickets kept, about 1 KiB each; a new ticket evicts the oldest.
const TICKETS_MAX: usize = 16_384;

/// Session data of the one server of a run.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<SessionData>);

#[derive(Default)]
struct SessionData {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl std::fmt::Debug for Tickets {
    /// Omits the tickets, which hold keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tickets").field("tls13", &self.0.lock().tls13.len()).finish_non_exhaustive()
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.0.lock().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.lock().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.lock().tls12 = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.lock().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.0.lock();
        if kept.tls13.len() >= TICKETS_MAX {
            kept.tls13.pop_front();
        }
        kept.tls13.push_back(value);
    }

    /// Takes the newest ticket: the server may have forgotten old ones.
    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().tls13.pop_back()
    }
}

/// Ticket store as one handshake sees it: records whether the handshake took a ticket. This approximates resumption where
/// the QUIC library does not report it: a server may still reject the ticket.
#[cfg(feature = "http3")]
#[derive(Debug)]
pub(crate) struct HandshakeTickets {
    tickets: std::sync::Arc<Tickets>,
    taken: std::sync::atomic::AtomicBool,
}

#[cfg(feature = "http3")]
impl HandshakeTickets {
    pub(crate) fn new(tickets: std::sync::Arc<Tickets>) -> Self {
        HandshakeTickets { tickets, taken: false.into() }
    }

    /// Returns whether a ticket was offered to the server.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(feature = "http3")]
impl ClientSessionStore for HandshakeTickets {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.tickets.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.tickets.kx_hint(name)
    }

    /// Ignores the session: QUIC has no TLS 1.2.
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.tickets.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let ticket = self.tickets.take_tls13_ticket(name);
        self.taken.store(ticket.is_some(), std::sync::atomic::Ordering::Relaxed);
        ticket
    }
}
